//! Rot and tampering: one damaged copy does no harm, two give an error, and no forged change is
//! accepted.

use env::Env;
use env::fault::{Counted, FailWith, Fault, FaultStorage, OpKind};
use format::config::{Config, Features};
use format::frame::{DIGEST_BYTES, append_digest};
use format::names::ConfigCopy;
use object::ObjectError;
use object::config::{self, CopyFault, OpenConfig};

use crate::support::{copy, create, env_on, open, opens, slot};

fn store() -> (FaultStorage, Env, OpenConfig) {
    let storage = FaultStorage::new();
    let env = env_on(storage.clone(), 1);
    let made = create(&env, &["a"]).unwrap();
    (storage, env, made)
}

/// Changes a copy like somebody who knows the format but does not have the keys.
fn tamper(storage: &FaultStorage, which: ConfigCopy, change: impl FnOnce(&mut Config)) {
    assert!(storage.damage(&copy(0, which), |bytes| {
        let mut config = Config::decode(bytes).unwrap();
        change(&mut config);
        *bytes = config.to_bytes();
    }));
}

#[test]
fn any_damage_of_one_copy_is_survived_reported_and_repaired() {
    let (storage, env, made) = store();
    let mut len = 0;
    storage.damage(&copy(0, ConfigCopy::First), |bytes| len = bytes.len());
    for which in ConfigCopy::ALL {
        for byte in (0..len).step_by(3) {
            let flip = |bytes: &mut Vec<u8>| bytes[byte] ^= 0x10;
            storage.damage(&copy(0, which), flip);
            let opened = open(&env, "a").unwrap();
            assert_eq!(opened.damage.len(), 1);
            assert_eq!(opened.damage[0].name, copy(0, which));
            assert!(matches!(opened.damage[0].fault, CopyFault::Undecodable(_)));
            storage.damage(&copy(0, which), flip);
        }
    }
    assert!(open(&env, "a").unwrap().damage.is_empty());
    storage.damage(&copy(0, ConfigCopy::First), Vec::clear);
    config::repair(&env, &made).unwrap();
    let opened = open(&env, "a").unwrap();
    assert!(opened.damage.is_empty() && opened.older.is_empty());
}

#[test]
fn a_missing_or_unreadable_copy_is_survived_and_reported() {
    let (storage, env, _) = store();
    let failing = Fault::fail(1, FailWith::Io).counting(Counted::Only(OpKind::Get));
    storage.inject(failing);
    let opened = open(&env, "a").unwrap();
    assert!(matches!(opened.damage[0].fault, CopyFault::Unreadable(_)));
    storage.lose(&copy(0, ConfigCopy::First));
    let opened = open(&env, "a").unwrap();
    assert_eq!(opened.damage[0].fault, CopyFault::Missing);
    assert!(opened.damage[0].to_string().contains("config/0.0"));
    let (_, _) = config::add_slot(&env, &opened, &slot("b")).unwrap();
    assert!(open(&env, "b").unwrap().damage.is_empty());
}

#[test]
fn a_passing_error_does_not_bring_an_older_revision_back() {
    let (storage, env, made) = store();
    storage.inject(Fault::fail_from(1, FailWith::Denied).counting(Counted::Only(OpKind::Delete)));
    let old = made.slot;
    config::change_slot(&env, &made, old, &slot("b")).unwrap();
    storage.clear_faults();
    assert!(opens(&env, "b") && !opens(&env, "a"));
    storage.inject(Fault::fail_from(1, FailWith::Io).counting(Counted::Only(OpKind::Get)));
    assert!(matches!(open(&env, "a"), Err(ObjectError::Storage(_))));
}

#[test]
fn a_whole_revision_lost_to_rot_falls_back_and_says_so() {
    let (storage, env, made) = store();
    storage.inject(Fault::fail_from(1, FailWith::Denied).counting(Counted::Only(OpKind::Delete)));
    let (made, _) = config::add_slot(&env, &made, &slot("b")).unwrap();
    storage.clear_faults();
    for which in ConfigCopy::ALL {
        storage.damage(&copy(1, which), |bytes| bytes.truncate(40));
    }
    let opened = open(&env, "a").unwrap();
    assert_eq!(opened.damage.len(), 2);
    let repaired = config::repair(&env, &made).unwrap();
    assert_eq!(repaired.revision.get(), 2, "the damaged number is not used again");
    assert!(open(&env, "a").unwrap().damage.is_empty());
}

#[test]
fn both_copies_damaged_is_an_error_that_names_one() {
    let (storage, env, made) = store();
    for which in ConfigCopy::ALL {
        storage.damage(&copy(0, which), |bytes| bytes[50] ^= 1);
    }
    let found = open(&env, "a").unwrap_err();
    assert!(matches!(found, ObjectError::ConfigDamaged { .. }));
    assert!(found.to_string().contains("config/0.0"));
    assert!(matches!(
        config::repair(&env, &made),
        Err(ObjectError::ConfigDamaged { .. })
    ));
    for which in ConfigCopy::ALL {
        storage.damage(&copy(0, which), |bytes| bytes.fill(0));
    }
    assert!(matches!(open(&env, "a"), Err(ObjectError::NotAStore)));
}

#[test]
fn a_change_without_the_keys_does_not_pass() {
    type Tamper = fn(&mut Config);
    let changes: [(&str, Tamper); 6] = [
        ("label", |c| c.key_slots[0].label.push('!')),
        ("slot added", |c| {
            let mut planted = c.key_slots[0].clone();
            planted.id = [9; 8];
            c.key_slots.push(planted);
        }),
        ("settings", |c| c.sealed_settings[0] ^= 1),
        ("salt", |c| c.settings_salt[0] ^= 1),
        ("features", |c| c.features.required_to_write = 1),
        ("settings cut", |c| c.sealed_settings.truncate(20)),
    ];
    for (what, change) in changes {
        let (storage, env, made) = store();
        tamper(&storage, ConfigCopy::First, change);
        let opened = open(&env, "a").unwrap();
        assert_eq!(opened.damage.len(), 1, "{what}");
        assert_eq!(opened.damage[0].fault, CopyFault::Forged, "{what}");
        assert_eq!(opened.config, made.config);
        tamper(&storage, ConfigCopy::Second, change);
        assert!(
            matches!(open(&env, "a"), Err(ObjectError::ConfigForged { .. })),
            "{what}"
        );
        assert!(
            matches!(config::repair(&env, &made), Err(ObjectError::ConfigForged { .. })),
            "{what}"
        );
    }
}

#[test]
fn a_slot_or_store_id_exchanged_does_not_open() {
    type Tamper = fn(&mut Config);
    let changes: [Tamper; 3] = [
        |c| c.store = types::StoreId::from_bytes([3; 16]),
        |c| c.key_slots[0].id = [3; 8],
        |c| c.key_slots[0].wrapped[5] ^= 1,
    ];
    for change in changes {
        let (storage, env, _) = store();
        ConfigCopy::ALL
            .into_iter()
            .for_each(|which| tamper(&storage, which, change));
        assert!(matches!(open(&env, "a"), Err(ObjectError::WrongPassword)));
    }
}

#[test]
fn an_open_store_notices_another_store_in_its_place() {
    let (storage, env, made) = store();
    for which in ConfigCopy::ALL {
        storage.lose(&copy(0, which));
    }
    assert!(matches!(config::repair(&env, &made), Err(ObjectError::NotAStore)));
    let other = create(&env, &["x"]).unwrap();
    let found = config::add_slot(&env, &made, &slot("b")).unwrap_err();
    assert!(matches!(found, ObjectError::OtherStore { expected, found }
        if expected == made.store() && found == other.store()));
}

/// The newest revision has version 2, and this program could read an older revision.
#[test]
fn a_newer_store_is_refused_even_if_an_older_revision_is_left() {
    let (storage, env, made) = store();
    storage.inject(Fault::fail_from(1, FailWith::Denied).counting(Counted::Only(OpKind::Delete)));
    config::add_slot(&env, &made, &slot("b")).unwrap();
    storage.clear_faults();
    let patch = |at: usize, value: u8| {
        for which in ConfigCopy::ALL {
            storage.damage(&copy(1, which), |bytes| {
                bytes[at] = value;
                bytes.truncate(bytes.len() - DIGEST_BYTES);
                append_digest(bytes);
            });
        }
    };
    patch(8, 2);
    assert!(matches!(
        open(&env, "a"),
        Err(ObjectError::NewerFormat { found: 2, known: 1 })
    ));
    assert!(matches!(
        config::repair(&env, &made),
        Err(ObjectError::NewerFormat { .. })
    ));
    let init = create(&env, &["c"]);
    assert!(matches!(
        init,
        Err(ObjectError::StoreExists { .. } | ObjectError::NewerFormat { .. })
    ));
    patch(8, 1);
    patch(12, 4);
    assert!(matches!(
        open(&env, "a"),
        Err(ObjectError::UnknownFeatures { unknown: 4 })
    ));
    assert!(matches!(
        create(&env, &["c"]),
        Err(ObjectError::UnknownFeatures { .. })
    ));
}

/// A store of a later program, sealed with its keys. An older program may read it but not change
/// it.
#[test]
fn features_required_to_write_open_for_reading_only() {
    let (storage, env, made) = store();
    let mut config = made.config.clone();
    config.features = Features {
        required_to_read: 0,
        required_to_write: 0b10,
    };
    let mut sealed = made.settings.to_bytes();
    made.keys
        .encryption
        .seal_key(format::config::SETTINGS_SEAL_PURPOSE, &config.settings_salt)
        .seal(0, &config.aad(), &mut sealed, 0);
    config.sealed_settings = sealed;
    for which in ConfigCopy::ALL {
        storage.damage(&copy(0, which), |bytes| *bytes = config.to_bytes());
    }
    let opened = open(&env, "a").unwrap();
    assert_eq!(opened.unknown_to_write(), 0b10);
    let found = config::add_slot(&env, &opened, &slot("b"));
    assert!(matches!(found, Err(ObjectError::ReadOnly { unknown: 0b10 })));
}
