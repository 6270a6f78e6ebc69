//! A crash, a kill or an error at every storage operation while a store is created and its
//! passwords are changed.

use env::Env;
use env::fault::{Counted, CrashPolicy, FailWith, Fault, FaultStorage};
use object::ObjectError;
use object::config;

use crate::support::{create, env_on, open, opens, slot};

const POLICIES: [CrashPolicy; 3] = [CrashPolicy::KeepAll, CrashPolicy::DropAll, CrashPolicy::TearAll];

fn policies() -> impl Iterator<Item = CrashPolicy> {
    POLICIES.into_iter().chain((0..12).map(CrashPolicy::Seeded))
}

/// Runs the scenario on machines that stop before, after or during each of its operations. `check`
/// sees the state after each policy, and whether the scenario had returned success.
fn at_every_operation(
    set_up: impl Fn(&Env),
    scenario: impl Fn(&Env) -> Result<(), ObjectError>,
    check: impl Fn(&Env, bool, &str),
) {
    let quiet = FaultStorage::new();
    let env = env_on(quiet.clone(), 1);
    set_up(&env);
    let before = quiet.counters();
    scenario(&env).unwrap();
    let did = quiet.counters().since(&before);
    let faults = (1..=did.mutating() + 1)
        .flat_map(|n| [Fault::stop(n), Fault::stop_after(n)])
        .chain((1..=did.puts).map(Fault::tear));
    for fault in faults {
        let storage = FaultStorage::new();
        let env = env_on(storage.clone(), 1);
        set_up(&env);
        storage.inject(fault);
        let succeeded = scenario(&env).is_ok();
        for policy in policies() {
            let after = env_on(storage.crash(policy), 2);
            check(&after, succeeded, &format!("{fault:?}, {policy:?}"));
        }
    }
    let faults = (1..=did.mutating())
        .flat_map(|n| {
            [
                Fault::kill(n),
                Fault::kill_after(n),
                Fault::fail(n, FailWith::NoSpace),
            ]
        })
        .chain((1..=did.all()).map(|n| Fault::fail(n, FailWith::Io).counting(Counted::All)))
        .chain((1..=did.all()).map(|n| Fault::fail_from(n, FailWith::Io).counting(Counted::All)));
    for fault in faults {
        let storage = FaultStorage::new();
        let other = storage.handle();
        let env = env_on(storage.clone(), 1);
        set_up(&env);
        storage.inject(fault);
        let succeeded = scenario(&env).is_ok();
        storage.clear_faults();
        check(&env_on(other, 2), succeeded, &format!("{fault:?}"));
    }
}

#[test]
fn an_interrupted_init_leaves_a_store_or_can_be_run_again() {
    at_every_operation(
        |_| {},
        |env| create(env, &["a"]).map(drop),
        |env, succeeded, at| {
            match open(env, "a") {
                Ok(store) => {
                    assert!(
                        matches!(create(env, &["b"]), Err(ObjectError::StoreExists { .. })),
                        "{at}"
                    );
                    config::repair(env, &store).unwrap();
                    let store = open(env, "a").unwrap();
                    assert!(store.damage.is_empty() && store.older.is_empty(), "{at}");
                    return;
                }
                Err(ObjectError::NotAStore | ObjectError::ConfigDamaged { .. }) => {}
                Err(other) => panic!("{at}: {other}"),
            }
            assert!(!succeeded, "{at}");
            create(env, &["b"]).unwrap_or_else(|e| panic!("{at}: {e}"));
            let store = open(env, "b").unwrap();
            assert!(store.damage.is_empty() && store.older.is_empty(), "{at}");
            assert!(!opens(env, "a"), "{at}");
        },
    );
}

#[test]
fn a_second_init_interrupted_after_a_first_one_too() {
    // The remains of two attempts.
    for first in 1..=4 {
        for second in 1..=6 {
            let storage = FaultStorage::new();
            storage.inject(Fault::stop_after(first));
            assert!(create(&env_on(storage.clone(), 1), &["a"]).is_err() || first > 3);
            let again = storage.crash(CrashPolicy::TearAll);
            again.inject(Fault::stop_after(second));
            let made = create(&env_on(again.clone(), 2), &["b"]);
            for policy in policies() {
                let env = env_on(again.crash(policy), 3);
                let opened = ["a", "b"].map(|password| open(&env, password).is_ok());
                if opened == [false, false] {
                    assert!(made.is_err());
                    create(&env, &["c"]).unwrap();
                    assert!(opens(&env, "c"));
                }
            }
        }
    }
}

/// After any interruption, the holder of a password can repair the store. Afterwards no earlier
/// copies are left.
fn mend(env: &Env, password: &str, at: &str) {
    let store = open(env, password).unwrap_or_else(|e| panic!("{at}: {e}"));
    config::repair(env, &store).unwrap_or_else(|e| panic!("{at}: {e}"));
    let store = open(env, password).unwrap();
    assert!(store.damage.is_empty() && store.older.is_empty(), "{at}");
}

#[test]
fn an_interrupted_addition_leaves_the_old_passwords_or_all() {
    at_every_operation(
        |env| drop(create(env, &["a"]).unwrap()),
        |env| config::add_slot(env, &open(env, "a")?, &slot("b")).map(drop),
        |env, succeeded, at| {
            assert!(opens(env, "a"), "{at}");
            let added = opens(env, "b");
            assert!(added || !succeeded, "{at}");
            mend(env, "a", at);
            assert_eq!(opens(env, "b"), added, "{at}");
        },
    );
}

#[test]
fn an_interrupted_removal_leaves_all_passwords_or_the_others() {
    at_every_operation(
        |env| drop(create(env, &["a", "b"]).unwrap()),
        |env| {
            let store = open(env, "a")?;
            let b = store.slots().nth(1).unwrap().id;
            config::remove_slot(env, &store, b).map(drop)
        },
        |env, succeeded, at| {
            assert!(opens(env, "a"), "{at}");
            let removed = !opens(env, "b");
            assert!(removed || !succeeded, "{at}");
            if succeeded {
                assert!(
                    open(env, "a").unwrap().older.is_empty(),
                    "{at}: the removed slot came back"
                );
            }
            mend(env, "a", at);
            assert_eq!(!opens(env, "b"), removed, "{at}");
        },
    );
}

#[test]
fn an_interrupted_change_leaves_the_old_password_or_the_new() {
    at_every_operation(
        |env| drop(create(env, &["a"]).unwrap()),
        |env| {
            let store = open(env, "a")?;
            config::change_slot(env, &store, store.slot, &slot("b")).map(drop)
        },
        |env, succeeded, at| {
            let (old, new) = (opens(env, "a"), opens(env, "b"));
            assert!(old != new, "{at}: old {old}, new {new}");
            assert!(new || !succeeded, "{at}");
            mend(env, if new { "b" } else { "a" }, at);
        },
    );
}

/// Several changes, each interrupted, over one storage that is never cleaned by hand.
#[test]
fn interruptions_pile_up_without_harm() {
    for seed in 0..30u64 {
        let mut storage = FaultStorage::new();
        create(&env_on(storage.clone(), seed), &["p"]).unwrap();
        for round in 0..6u64 {
            let env = env_on(storage.clone(), seed * 100 + round);
            let store = open(&env, "p").unwrap();
            storage.inject(Fault::stop_after(1 + (seed + round * 5) % 7));
            let password = format!("q{round}");
            let added = config::add_slot(&env, &store, &slot(&password)).is_ok();
            storage = storage.crash(CrashPolicy::Seeded(seed * 7 + round));
            let env = env_on(storage.clone(), 1);
            assert!(opens(&env, "p"), "seed {seed}, round {round}");
            assert!(!added || opens(&env, &password), "seed {seed}, round {round}");
        }
    }
}
