//! Passwords that were removed: no older config opens with them, or somebody is told.

use env::fault::{Counted, FailWith, Fault, OpKind};

use onefold::{Argon2Cost, Credential, Damage, Error, InitOptions, Monitor, OpenOptions, ReadData, Store};

use crate::common::{Process, tiny};

/// A store with two passwords, and the slot of the first.
fn with_two() -> (Process, Store, String) {
    let machine = Process::new(301);
    let options: InitOptions = tiny();
    let first = Credential::password("first");
    Store::init(&machine.env, &first, &options, None).unwrap();
    let store = Store::open(&machine.env, &first, &OpenOptions::default()).unwrap();
    let slot = store.keys().unwrap()[0].id.clone();
    store.add_key(&Credential::password("second"), "test").unwrap();
    let store = open(&machine, "second").unwrap();
    (machine, store, slot)
}

fn open(machine: &Process, password: &str) -> Result<Store, Error> {
    Store::open(
        &machine.env,
        &Credential::password(password),
        &OpenOptions::default(),
    )
}

#[test]
fn configs_that_cannot_be_deleted_are_named_and_deleted_later() {
    for with in [FailWith::Denied, FailWith::Io] {
        let (machine, store, slot) = with_two();
        let old = machine.names("config");
        let fault = Fault::fail_from(1, with).counting(Counted::Only(OpKind::Delete));
        machine.storage.inject(fault);
        let removed = store.remove_key(&slot);
        assert_eq!(removed.is_ok(), with == FailWith::Denied, "{removed:?}");
        if with == FailWith::Denied {
            let left = store.delete_old_configs().unwrap();
            let left: Vec<String> = left.iter().map(ToString::to_string).collect();
            assert_eq!(left, old, "{with:?}");
        }
        machine.storage.clear_faults();
        // A later command knows that the slot is gone, and ends the work.
        let store = open(&machine, "second").unwrap();
        assert!(store.remove_key(&slot).is_err());
        assert!(store.delete_old_configs().unwrap().is_empty());
        let now = machine.names("config");
        assert!(
            now.len() == 2 && !now.iter().any(|name| old.contains(name)),
            "{now:?}"
        );
        assert!(open(&machine, "first").is_err());
        open(&machine, "second").unwrap();
    }
}

/// A removed password still opens what the change has left. A check says so, and a repair ends it.
#[test]
fn an_old_config_is_found_and_deleted() {
    let (machine, store, slot) = with_two();
    let old = machine.names("config");
    let fault = Fault::fail_from(1, FailWith::Denied).counting(Counted::Only(OpKind::Delete));
    machine.storage.inject(fault);
    store.remove_key(&slot).unwrap();
    let store = open(&machine, "second").unwrap();
    let leftovers = |store: &Store| -> Vec<String> {
        let report = store.check(ReadData::None, &Monitor::default()).unwrap();
        assert!(report.is_sound());
        let old = report
            .leftovers
            .into_iter()
            .filter(|left| left.what == Damage::ConfigOld);
        old.map(|left| left.object).collect()
    };
    assert_eq!(leftovers(&store), old);
    let repair = |store: &Store| store.repair(None, &Monitor::default(), &mut |_| ()).unwrap();
    let report = repair(&store);
    assert_eq!(
        (report.configs_deleted, report.after.leftovers.len()),
        (0, 2),
        "the storage refuses"
    );
    machine.storage.clear_faults();
    let report = repair(&store);
    assert_eq!((report.configs_deleted, report.after.leftovers.len()), (2, 0));
    assert_eq!(leftovers(&store), Vec::<String>::new());
    assert_eq!(repair(&store).configs_deleted, 0);
    assert_eq!(machine.names("config").len(), 2);
}

/// Who made guesses dear does not want a later password to make them cheap.
#[test]
fn a_new_password_costs_no_less_than_the_present_one() {
    let machine = Process::new(303);
    let usual = Argon2Cost::default();
    let dear = Argon2Cost {
        passes: usual.passes + 1,
        memory_kib: 8 << 10,
        ..usual
    };
    let first = Credential::password("first");
    Store::init(&machine.env, &first, &tiny().cost(dear), None).unwrap();
    let store = open(&machine, "first").unwrap();
    store.change_key(&Credential::password("second"), "test").unwrap();
    let store = open(&machine, "second").unwrap();
    store.add_key(&Credential::password("third"), "test").unwrap();
    let config = object::config::open(&machine.env, crypto::Credential::Password(b"third")).unwrap();
    assert_eq!(config.slots().count(), 2);
    for slot in config.slots() {
        let cost = slot.cost.unwrap();
        assert_eq!((cost.passes, cost.memory_kib), (dear.passes, usual.memory_kib));
    }
}
