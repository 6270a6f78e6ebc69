//! Several processes at once: one creator wins, and no password change is lost.

use std::sync::{Arc, Barrier};

use env::fault::{Counted, CrashPolicy, Fault, FaultStorage, OpKind};
use env::{Env, MemoryStorage};
use object::ObjectError;
use object::config::{self, OpenConfig};

use crate::support::{Interrupted, create, env_on, open, opens, slot};

#[test]
fn of_many_creators_one_wins() {
    for round in 0..20 {
        let storage = FaultStorage::new();
        let start = Barrier::new(8);
        let results: Vec<(u64, Result<OpenConfig, ObjectError>)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8u64)
                .map(|n| {
                    let (env, start) = (env_on(storage.handle(), round * 8 + n), &start);
                    scope.spawn(move || {
                        start.wait();
                        (n, create(&env, &[&format!("password {n}")]))
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let winners: Vec<u64> = results
            .iter()
            .filter(|(_, r)| r.is_ok())
            .map(|(n, _)| *n)
            .collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        assert!(
            results
                .iter()
                .all(|(_, r)| matches!(r, Ok(_) | Err(ObjectError::StoreExists { .. })))
        );
        let env = env_on(storage.crash(CrashPolicy::DropAll), 1);
        for n in 0..8 {
            assert_eq!(opens(&env, &format!("password {n}")), winners == [n]);
        }
    }
}

#[test]
fn passwords_added_at_once_are_all_there() {
    let storage = FaultStorage::new();
    let made = create(&env_on(storage.handle(), 1), &["first"]).unwrap();
    std::thread::scope(|scope| {
        for n in 0..6u64 {
            let (env, made) = (env_on(storage.handle(), 10 + n), made.clone());
            scope.spawn(move || {
                config::add_slot(&env, &made, &slot(&format!("password {n}"))).unwrap();
            });
        }
    });
    let env = env_on(storage.crash(CrashPolicy::DropAll), 1);
    assert!((0..6).all(|n| opens(&env, &format!("password {n}"))));
    assert!(opens(&env, "first"));
    assert_eq!(open(&env, "first").unwrap().slots().count(), 7);
}

#[test]
fn of_the_last_two_passwords_only_one_can_be_removed_by_two_at_once() {
    for round in 0..20 {
        let storage = FaultStorage::new();
        let made = create(&env_on(storage.handle(), round), &["a", "b"]).unwrap();
        let slots: Vec<_> = made.slots().map(|s| s.id).collect();
        let start = Barrier::new(2);
        let results: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = slots
                .iter()
                .map(|&slot| {
                    let (env, made, start) = (env_on(storage.handle(), 50 + round), made.clone(), &start);
                    scope.spawn(move || {
                        start.wait();
                        config::remove_slot(&env, &made, slot)
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 1);
        assert!(
            results
                .iter()
                .any(|r| matches!(r, Err(ObjectError::LastSlot { .. })))
        );
        let env = env_on(storage, 1);
        assert_eq!(u8::from(opens(&env, "a")) + u8::from(opens(&env, "b")), 1);
    }
}

fn slow_process(shared: &Arc<MemoryStorage>, seed: u64) -> (Arc<Interrupted>, Env) {
    let slow = Interrupted::new(shared.clone());
    let (env, _) = Env::simulated(slow.clone(), seed);
    (slow, env)
}

/// A slow process takes a number that was used and deleted meanwhile. Its revision is void, and
/// must not count as the change.
#[test]
fn a_slow_change_is_not_lost_under_a_number_that_was_used_and_deleted() {
    for before in 1..=2 {
        let shared = Arc::new(MemoryStorage::new());
        let (slow, env) = slow_process(&shared, 1);
        let made = create(&env, &["a", "b"]).unwrap();
        let (rival_env, rival_store) = (Env::simulated(shared.clone(), 2).0, made.clone());
        slow.before_put(before, move || {
            let (store, _) = config::add_slot(&rival_env, &rival_store, &slot("c")).unwrap();
            config::add_slot(&rival_env, &store, &slot("d")).unwrap();
        });
        let b = made.slots().nth(1).unwrap().id;
        config::remove_slot(&env, &made, b).unwrap();
        assert!(!opens(&env, "b"), "the removal was lost (before put {before})");
        assert!(opens(&env, "a") && opens(&env, "c") && opens(&env, "d"));
        let opened = open(&env, "a").unwrap();
        assert!(opened.damage.is_empty() && opened.older.is_empty());
    }
}

#[test]
fn a_slow_creator_does_not_take_a_number_that_was_used_and_deleted() {
    let shared = Arc::new(MemoryStorage::new());
    let (slow, env) = slow_process(&shared, 1);
    let rival_env = Env::simulated(shared.clone(), 2).0;
    slow.before_put(1, move || {
        let store = create(&rival_env, &["rival"]).unwrap();
        config::add_slot(&rival_env, &store, &slot("rival too")).unwrap();
    });
    let refused = create(&env, &["slow"]);
    assert!(matches!(refused, Err(ObjectError::StoreExists { .. })));
    assert!(opens(&env, "rival") && opens(&env, "rival too") && !opens(&env, "slow"));
}

#[test]
fn a_creator_overtaken_by_a_password_change_has_still_made_the_store() {
    let shared = Arc::new(MemoryStorage::new());
    let (slow, env) = slow_process(&shared, 1);
    let rival_env = Env::simulated(shared.clone(), 2).0;
    slow.before_put(2, move || {
        let store = open(&rival_env, "slow").unwrap();
        config::add_slot(&rival_env, &store, &slot("rival")).unwrap();
    });
    let made = create(&env, &["slow"]).unwrap();
    assert_eq!(made.revision.get(), 1);
    assert!(opens(&env, "slow") && opens(&env, "rival"));
    assert!(open(&env, "slow").unwrap().older.is_empty());
}

#[test]
fn an_overtaken_change_counts_if_the_overtaking_revision_contains_it() {
    let shared = Arc::new(MemoryStorage::new());
    let (slow, env) = slow_process(&shared, 1);
    let made = create(&env, &["a"]).unwrap();
    let (rival_env, rival_store) = (Env::simulated(shared.clone(), 2).0, made.clone());
    // Between the slow process's two copies: its change is visible, and the rival continues from
    // it.
    slow.before_put(2, move || {
        config::add_slot(&rival_env, &rival_store, &slot("c")).unwrap();
    });
    config::add_slot(&env, &made, &slot("b")).unwrap();
    let opened = open(&env, "a").unwrap();
    assert!(opens(&env, "b") && opens(&env, "c"));
    assert_eq!(opened.slots().count(), 3, "not added twice");
}

/// A rival that continued from our change dies before its barrier. Our success and our deletions
/// rely on its revision, so our own barrier must make that durable.
#[test]
fn a_revision_that_overtook_a_change_is_durable_before_the_change_counts() {
    for n in 1..=14 {
        let storage = FaultStorage::new();
        create(&env_on(storage.clone(), 1), &["a"]).unwrap();
        let (own, rival) = (storage.handle(), storage.handle());
        let slow = Interrupted::new(Arc::new(own.clone()));
        let (env, _) = Env::simulated(slow.clone(), 2);
        let made = open(&env, "a").unwrap();
        own.inject_here(Fault::stop_after(n));
        let (rival_env, rival_store) = (env_on(rival.clone(), 3), made.clone());
        slow.before_put(2, move || {
            rival.inject_here(Fault::kill(1).counting(Counted::Only(OpKind::Barrier)));
            config::add_slot(&rival_env, &rival_store, &slot("c")).unwrap_err();
        });
        let added = config::add_slot(&env, &made, &slot("b")).is_ok();
        for policy in [CrashPolicy::DropAll, CrashPolicy::KeepAll, CrashPolicy::TearAll]
            .into_iter()
            .chain((0..60).map(CrashPolicy::Seeded))
        {
            let after = env_on(storage.crash(policy), 4);
            assert!(opens(&after, "a"), "stopped after {n}, {policy:?}");
            assert!(!added || opens(&after, "b"), "stopped after {n}, {policy:?}");
        }
    }
}
