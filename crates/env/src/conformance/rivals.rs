//! Many callers at once: one wins.

use std::sync::Barrier;
use std::thread;

use super::{assert_exists, bytes, get, name, put};
use crate::{LockState, Storage, StorageError};

const CREATORS: u8 = 32;

pub(super) fn one_of_many_creators_wins(storage: &dyn Storage, folder: &str) {
    for round in 0..8 {
        let name = name(folder, &format!("deep/er/{round}"));
        let start = Barrier::new(usize::from(CREATORS));
        let winners: Vec<u8> = thread::scope(|scope| {
            let creator = |creator: u8| {
                let (name, start) = (&name, &start);
                scope.spawn(move || {
                    let own = vec![creator; 1000 + usize::from(creator)];
                    start.wait();
                    match storage.put(name, &[&own[..500], &own[500..]]) {
                        Ok(()) => {
                            assert_eq!(get(storage, name), own, "the winner reads its own bytes at once");
                            Some(creator)
                        }
                        outcome => {
                            assert_exists(outcome, name);
                            None
                        }
                    }
                })
            };
            let threads: Vec<_> = (0..CREATORS).map(creator).collect();
            threads
                .into_iter()
                .filter_map(|thread| thread.join().expect("no creator panics"))
                .collect()
        });
        let [winner] = winners[..] else {
            panic!("{} of {CREATORS} creators won {name}", winners.len())
        };
        assert_eq!(get(storage, &name), vec![winner; 1000 + usize::from(winner)]);
    }
}

pub(super) fn barriers_and_puts_at_once(storage: &dyn Storage, folder: &str) {
    storage.barrier().expect("a barrier over nothing");
    thread::scope(|scope| {
        for writer in 0..4 {
            scope.spawn(move || {
                for object in 0..16 {
                    put(
                        storage,
                        &name(folder, &format!("{writer}/{object}")),
                        &bytes(object),
                    );
                    if object % 5 == writer {
                        storage.barrier().expect("barrier");
                    }
                }
            });
        }
    });
    storage.barrier().expect("barrier");
    assert_eq!(storage.list(folder).expect("list").len(), 64);
}

pub(super) fn a_lock_has_one_holder(storage: &dyn Storage, folder: &str) {
    let (lock, other) = (name(folder, "1/lock"), name(folder, "2/lock"));
    let absent = storage.lock_state(&lock).expect("state");
    storage
        .drop_lock(&lock)
        .expect("dropping what is not there does nothing");
    let Some(held) = storage.lock(&lock).expect("lock") else {
        assert_eq!(absent, LockState::Unknown, "there are no locks");
        assert_eq!(storage.lock_state(&lock).expect("state"), LockState::Unknown);
        return;
    };
    assert_eq!(absent, LockState::Missing, "there was no such lock");
    assert_eq!(storage.lock_state(&lock).expect("state"), LockState::Held);
    assert!(matches!(storage.lock(&lock), Err(StorageError::Locked { name }) if name == lock));
    let second = storage
        .lock(&other)
        .expect("locks do not meddle with one another");
    drop(held);
    assert_eq!(storage.lock_state(&lock).expect("state"), LockState::Free);
    assert_eq!(storage.lock_state(&other).expect("state"), LockState::Held);
    let held = storage.lock(&lock).expect("what was freed can be taken");
    assert_eq!(storage.lock_state(&lock).expect("state"), LockState::Held);
    drop((held, second));
    storage.drop_lock(&lock).expect("drop");
    assert_eq!(storage.lock_state(&lock).expect("state"), LockState::Missing);
    assert_eq!(storage.list(folder).expect("list"), [], "locks are no objects");

    let start = Barrier::new(usize::from(CREATORS));
    let winners = thread::scope(|scope| {
        let (start, lock) = (&start, &lock);
        let take = || {
            start.wait();
            let taken = storage.lock(lock);
            start.wait();
            taken.is_ok()
        };
        let threads: Vec<_> = (0..CREATORS).map(|_| scope.spawn(take)).collect();
        threads
            .into_iter()
            .map(|t| t.join().expect("no taker panics"))
            .filter(|won| *won)
            .count()
    });
    assert_eq!(winners, 1, "of {CREATORS} takers of a lock");
    assert_eq!(storage.lock_state(&lock).expect("state"), LockState::Free);
}
