//! Creating and opening stores, and their passwords, without faults.

use std::collections::BTreeSet;

use env::fault::{FailWith, Fault, FaultStorage, OpKind};
use env::{MemoryStorage, Storage};
use format::config::{KEY_SLOTS_MAX, Settings};
use format::frame::ObjectKind;
use format::names::{self, ConfigCopy};
use object::ObjectError;
use object::config::{self, Argon2Cost, Credential, NewSlot, SlotId};
use proptest::prelude::*;
use types::ObjectName;

use crate::support::{SETTINGS, copy, create, env_on, open, opens, revision, slot};

#[test]
fn a_store_opens_with_its_passwords_and_no_other() {
    let env = env_on(MemoryStorage::new(), 1);
    assert!(matches!(open(&env, "a"), Err(ObjectError::NotAStore)));
    let made = create(&env, &["a", "b"]).unwrap();
    assert_eq!(made.revision, revision(0));
    for password in ["a", "b"] {
        let opened = open(&env, password).unwrap();
        assert_eq!(opened.store(), made.store());
        assert_eq!(opened.settings, SETTINGS);
        assert_eq!(opened.keys.domain.as_bytes(), made.keys.domain.as_bytes());
        assert_eq!(opened.keys.encryption.as_bytes(), made.keys.encryption.as_bytes());
        assert_eq!(
            (opened.damage.len(), opened.older.len(), opened.unknown_to_write()),
            (0, 0, 0)
        );
    }
    assert!(matches!(open(&env, "c"), Err(ObjectError::WrongPassword)));
    assert!(matches!(
        config::open(&env, Credential::NoPassword),
        Err(ObjectError::PasswordNeeded)
    ));
    let opened = open(&env, "b").unwrap();
    let shown: Vec<_> = opened
        .slots()
        .map(|s| (s.label, s.is_current, s.cost.map(|c| c.memory_kib)))
        .collect();
    assert_eq!(shown, [("me@here", false, Some(8)), ("me@here", true, Some(8))]);
    let name = ObjectName::new("lease/x.0").unwrap();
    made.sealer(&env).put(&name, ObjectKind::Lease, b"x").unwrap();
    assert_eq!(opened.sealer(&env).get(&name, ObjectKind::Lease).unwrap(), b"x");
}

#[test]
fn two_stores_share_nothing_unless_they_share_a_domain() {
    let (here, there, third) = (
        env_on(MemoryStorage::new(), 1),
        env_on(MemoryStorage::new(), 2),
        env_on(MemoryStorage::new(), 3),
    );
    let first = create(&here, &["a"]).unwrap();
    let other = create(&there, &["a"]).unwrap();
    let shared = Some(first.keys.domain.clone());
    config::create(&third, &SETTINGS, &[slot("a")], shared).unwrap();
    let sharing = open(&third, "a").unwrap();
    assert_ne!(first.store(), other.store());
    assert_ne!(first.keys.domain.as_bytes(), other.keys.domain.as_bytes());
    assert_eq!(first.keys.domain.as_bytes(), sharing.keys.domain.as_bytes());
    assert_ne!(
        first.keys.encryption.as_bytes(),
        sharing.keys.encryption.as_bytes()
    );
    assert_ne!(first.store(), sharing.store());
}

#[test]
fn init_over_a_store_or_its_remains_changes_nothing() {
    let storage = FaultStorage::new();
    let env = env_on(storage.clone(), 1);
    create(&env, &["a"]).unwrap();
    let puts = storage.counters().puts;
    assert!(matches!(
        create(&env, &["b"]),
        Err(ObjectError::StoreExists { .. })
    ));
    assert_eq!(storage.counters().puts, puts);
    storage
        .put(
            &ObjectName::new("data/0000000000001/00000000.0").unwrap(),
            &[b"x"],
        )
        .unwrap();
    for which in ConfigCopy::ALL {
        storage.damage(&copy(0, which), |bytes| bytes.truncate(30));
    }
    assert!(matches!(
        create(&env, &["b"]),
        Err(ObjectError::ConfigDamaged { .. })
    ));
    assert!(matches!(open(&env, "a"), Err(ObjectError::ConfigDamaged { .. })));
    for which in ConfigCopy::ALL {
        storage.lose(&copy(0, which));
    }
    assert!(matches!(create(&env, &["b"]), Err(ObjectError::ConfigMissing { folder }) if folder == "data"));
    assert!(matches!(open(&env, "a"), Err(ObjectError::ConfigMissing { .. })));
    assert!(storage.list("config").unwrap().is_empty());
}

#[test]
fn foreign_files_are_no_store_and_no_hindrance() {
    let storage = MemoryStorage::new();
    for foreign in ["photos/1.jpg", "config/readme", "config/0.2", "config/00.0"] {
        storage.put(&ObjectName::new(foreign).unwrap(), &[b"x"]).unwrap();
    }
    let env = env_on(storage, 1);
    assert!(matches!(open(&env, "a"), Err(ObjectError::NotAStore)));
    create(&env, &["a"]).unwrap();
    assert!(opens(&env, "a"));
}

#[test]
fn an_invalid_config_is_refused_before_any_write() {
    let storage = FaultStorage::new();
    let env = env_on(storage.clone(), 1);
    assert!(matches!(create(&env, &[]), Err(ObjectError::InvalidConfig(_))));
    let odd = Settings {
        chunk_avg_bytes: 5000,
        ..SETTINGS
    };
    assert!(matches!(
        config::create(&env, &odd, &[slot("a")], None),
        Err(ObjectError::InvalidConfig(_))
    ));
    let long = "x".repeat(2000);
    let labelled = NewSlot {
        label: &long,
        ..slot("a")
    };
    assert!(matches!(
        config::create(&env, &SETTINGS, &[labelled], None),
        Err(ObjectError::InvalidConfig(_))
    ));
    let cost = Argon2Cost {
        memory_kib: 8,
        passes: 0,
        lanes: 1,
    };
    let costly = NewSlot { cost, ..slot("a") };
    assert!(matches!(
        config::create(&env, &SETTINGS, &[costly], None),
        Err(ObjectError::Credential(_))
    ));
    assert_eq!(storage.counters().puts, 0);
}

#[test]
fn passwords_are_added_changed_and_removed() {
    let storage = FaultStorage::new();
    let env = env_on(storage.clone(), 1);
    let store = create(&env, &["a"]).unwrap();
    let (store, b) = config::add_slot(&env, &store, &slot("b")).unwrap();
    assert!(opens(&env, "a") && opens(&env, "b"));
    let a = store.slot;
    let (store, c) = config::change_slot(&env, &store, a, &slot("c")).unwrap();
    assert_eq!(store.slot, c);
    assert!(!opens(&env, "a") && opens(&env, "b") && opens(&env, "c"));
    assert!(matches!(
        config::remove_slot(&env, &store, a),
        Err(ObjectError::NoSuchSlot { .. })
    ));
    assert!(matches!(
        config::change_slot(&env, &store, a, &slot("d")),
        Err(ObjectError::NoSuchSlot { slot }) if slot == a
    ));
    let store = config::remove_slot(&env, &store, b).unwrap();
    assert!(!opens(&env, "b") && opens(&env, "c"));
    assert!(matches!(
        config::remove_slot(&env, &store, c),
        Err(ObjectError::LastSlot { .. })
    ));
    // A change is no removal: even the only password can be changed.
    let (store, _) = config::change_slot(&env, &store, c, &slot("d")).unwrap();
    assert!(!opens(&env, "c") && opens(&env, "d"));
    assert_eq!(store.revision, revision(4));
    let left: Vec<String> = storage
        .list("config")
        .unwrap()
        .iter()
        .map(|m| m.name.to_string())
        .collect();
    assert_eq!(left, ["config/4.0", "config/4.1"]);
    for which in ConfigCopy::ALL {
        assert!(storage.is_durable(&copy(4, which)));
    }
    let unknown = SlotId::from_bytes([0; 8]);
    assert!(matches!(
        config::remove_slot(&env, &store, unknown),
        Err(ObjectError::NoSuchSlot { .. })
    ));
}

#[test]
fn there_are_only_so_many_slots() {
    let env = env_on(MemoryStorage::new(), 1);
    let all = vec!["p"; KEY_SLOTS_MAX];
    let store = create(&env, &all).unwrap();
    assert!(matches!(
        config::add_slot(&env, &store, &slot("q")),
        Err(ObjectError::InvalidConfig(_))
    ));
    assert!(opens(&env, "p"));
}

#[test]
fn a_store_without_a_password_opens_only_when_that_is_said() {
    let env = env_on(MemoryStorage::new(), 1);
    let open_slot = NewSlot {
        credential: Credential::NoPassword,
        ..slot("")
    };
    let store = config::create(&env, &SETTINGS, &[open_slot], None).unwrap();
    assert!(config::open(&env, Credential::NoPassword).is_ok());
    assert!(matches!(open(&env, ""), Err(ObjectError::PasswordNotTaken)));
    assert!(store.slots().all(|s| s.cost.is_none()));
    let (store, _) = config::add_slot(&env, &store, &slot("a")).unwrap();
    let unprotected = store.slot;
    let store = config::remove_slot(&env, &store, unprotected).unwrap();
    assert!(opens(&env, "a"));
    assert!(matches!(
        config::open(&env, Credential::NoPassword),
        Err(ObjectError::PasswordNeeded)
    ));
    drop(store);
}

#[test]
fn a_storage_that_denies_deletion_keeps_older_revisions_and_says_so() {
    let storage = FaultStorage::new();
    let env = env_on(storage.clone(), 1);
    let store = create(&env, &["a"]).unwrap();
    storage.inject(Fault::fail_from(1, FailWith::Denied).counting(env::fault::Counted::Only(OpKind::Delete)));
    let (store, _) = config::add_slot(&env, &store, &slot("b")).unwrap();
    assert_eq!(
        store.older,
        [copy(0, ConfigCopy::First), copy(0, ConfigCopy::Second)]
    );
    assert_eq!(open(&env, "b").unwrap().older, store.older);
    storage.clear_faults();
    let store = config::repair(&env, &store).unwrap();
    assert!(store.older.is_empty());
    assert_eq!(storage.list("config").unwrap().len(), 2);
}

#[test]
fn opening_writes_nothing_and_reads_little() {
    let storage = FaultStorage::new();
    let env = env_on(storage.clone(), 1);
    create(&env, &["a"]).unwrap();
    let before = storage.counters();
    open(&env, "a").unwrap();
    let did = storage.counters().since(&before);
    assert_eq!((did.mutating(), did.gets, did.lists), (0, 2, 1));
    assert!(names::parse_config(&copy(0, ConfigCopy::First)).is_some());
}

#[derive(Debug, Clone)]
enum Change {
    Add(u8),
    Remove(u8),
    Swap(u8, u8),
    Repair,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (0..6u8).prop_map(Change::Add),
        (0..6u8).prop_map(Change::Remove),
        (0..6u8, 0..6u8).prop_map(|(a, b)| Change::Swap(a, b)),
        Just(Change::Repair),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(6)))]

    /// The model is a plain list of (slot, password).
    #[test]
    fn slots_are_a_list_of_passwords(changes in proptest::collection::vec(change(), 1..12), seed in any::<u64>()) {
        let env = env_on(MemoryStorage::new(), seed);
        let password = |n: u8| format!("password {n}");
        let mut store = create(&env, &[&password(0)]).unwrap();
        let keys = *store.keys.encryption.as_bytes();
        let mut model = vec![(store.slot, 0u8)];
        for change in changes {
            match change {
                Change::Add(n) => {
                    let (next, id) = config::add_slot(&env, &store, &slot(&password(n))).unwrap();
                    store = next;
                    model.push((id, n));
                }
                Change::Remove(n) => {
                    let Some(&(id, _)) = model.iter().find(|(_, p)| *p == n) else { continue };
                    match config::remove_slot(&env, &store, id) {
                        Ok(next) => store = next,
                        Err(ObjectError::LastSlot { .. }) if model.len() == 1 => continue,
                        Err(other) => panic!("{other}"),
                    }
                    model.retain(|(slot, _)| *slot != id);
                }
                Change::Swap(from, to) => {
                    let Some(&(old, _)) = model.iter().find(|(_, p)| *p == from) else { continue };
                    let (next, id) = config::change_slot(&env, &store, old, &slot(&password(to))).unwrap();
                    store = next;
                    model.retain(|(slot, _)| *slot != old);
                    model.push((id, to));
                }
                Change::Repair => store = config::repair(&env, &store).unwrap(),
            }
            let known: BTreeSet<u8> = model.iter().map(|(_, p)| *p).collect();
            for n in 0..6 {
                prop_assert_eq!(opens(&env, &password(n)), known.contains(&n));
            }
            let listed: Vec<SlotId> = store.slots().map(|s| s.id).collect();
            let modelled: Vec<SlotId> = model.iter().map(|(id, _)| *id).collect();
            prop_assert_eq!(listed, modelled);
            prop_assert_eq!(store.keys.encryption.as_bytes(), &keys);
        }
    }
}
