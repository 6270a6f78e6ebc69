//! Leases.

use std::thread;

use env::Storage;
use env::fault::Fault;
use format::names::{self, LeaseRole};
use types::Revision;

use super::{Host, LONG, backup_of};
use crate::SessionError;

#[test]
fn one_session_holds_a_lease_until_it_is_released() {
    let host = Host::new();
    let (first, second) = (host.begin_read(), host.beside().begin_read());
    let held = first.acquire_lease(LeaseRole::Index).unwrap();
    assert!(held.is_held().unwrap());
    match second.acquire_lease(LeaseRole::Index) {
        Err(SessionError::LeaseTaken { holder, .. }) => assert_eq!(holder, first.id()),
        other => panic!("{other:?}"),
    }
    let other_role = second.acquire_lease(LeaseRole::Reclaim).unwrap();
    held.release().unwrap();
    let again = second.acquire_lease(LeaseRole::Index).unwrap();
    assert!(again.is_held().unwrap() && other_role.is_held().unwrap());
    host.storage.barrier().unwrap();
    again.drop_lower().unwrap();
    assert_eq!(
        host.names("lease"),
        ["lease/index.2", "lease/reclaim.0"],
        "the highest of each stays"
    );
}

#[test]
fn claiming_and_releasing_wait_for_no_barrier() {
    let host = Host::new();
    let session = host.begin_read();
    let before = host.storage.counters();
    session
        .acquire_lease(LeaseRole::Reclaim)
        .unwrap()
        .release()
        .unwrap();
    let cost = host.storage.counters().since(&before);
    assert_eq!((cost.puts, cost.barriers, cost.deletes), (2, 0, 0));
}

#[test]
fn finding_the_lease_holder_costs_the_same_after_any_number_of_sessions() {
    let cost = |ended: u64| {
        let host = Host::new();
        for _ in 0..ended {
            let session = host.begin(1);
            session.commit(backup_of(&session, 0)).unwrap();
        }
        let _held = host.begin_read().acquire_lease(LeaseRole::Reclaim).unwrap();
        let asking = host.beside().begin_read();
        let before = host.storage.counters();
        asking.acquire_lease(LeaseRole::Reclaim).unwrap_err();
        let cost = host.storage.counters().since(&before);
        (cost.lists, cost.listed, cost.gets)
    };
    assert_eq!(cost(1), cost(40));
}

#[test]
fn a_holder_that_finds_a_higher_claim_has_lost_the_lease() {
    let host = Host::new();
    let sleeper = host.beside();
    let first = sleeper.begin_read();
    let held = first.acquire_lease(LeaseRole::Index).unwrap();
    let second = host.elsewhere();
    let session = second.begin_read();
    assert!(session.acquire_lease(LeaseRole::Index).is_err());
    second.clock.advance(LONG);
    let taken = session.acquire_lease(LeaseRole::Index).unwrap();
    assert!(
        !held.is_held().unwrap(),
        "the sleeper wakes, asks, and gives its own up"
    );
    held.release().unwrap();
    assert!(
        taken.is_held().unwrap(),
        "which takes nothing from the new holder"
    );
}

#[test]
fn holders_that_ended_or_died_are_superseded() {
    let host = Host::new();
    let committed = host.begin(1);
    let lease = committed.acquire_lease(LeaseRole::Index).unwrap();
    committed.commit(backup_of(&committed, 0)).unwrap();
    assert!(matches!(lease.is_held(), Err(SessionError::Closed { .. })));
    let dying = host.beside();
    let second = dying.begin_read().acquire_lease(LeaseRole::Index).unwrap();
    assert!(second.is_held().unwrap());
    dying.storage.kill();
    let third = host.begin_read().acquire_lease(LeaseRole::Index).unwrap();
    assert!(third.is_held().unwrap());
}

#[test]
fn a_torn_claim_is_nobodys() {
    let host = Host::new();
    let held = host.begin_read().acquire_lease(LeaseRole::Index).unwrap();
    host.storage
        .damage(&names::lease(LeaseRole::Index, Revision::FIRST), |bytes| {
            bytes.truncate(3)
        });
    let session = host.beside().begin_read();
    let other = session.acquire_lease(LeaseRole::Index).unwrap();
    assert!(other.is_held().unwrap() && !held.is_held().unwrap());
}

#[test]
fn of_many_simultaneous_claims_one_gets_the_lease() {
    let host = Host::new();
    let sessions: Vec<_> = (0..8).map(|_| host.beside().begin_read()).collect();
    let threads: Vec<_> = sessions
        .iter()
        .cloned()
        .map(|session| thread::spawn(move || session.acquire_lease(LeaseRole::Reclaim).ok()))
        .collect();
    let held: Vec<_> = threads
        .into_iter()
        .filter_map(|thread| thread.join().unwrap())
        .collect();
    assert_eq!(held.len(), 1);
    assert!(held[0].is_held().unwrap());
}

#[test]
fn a_crash_at_every_operation_leaves_the_lease_to_be_had() {
    let scenario = |host: &Host| -> Result<(), SessionError> {
        let session = host.try_begin(1)?;
        session.acquire_lease(LeaseRole::Index)?.release()?;
        let again = session.acquire_lease(LeaseRole::Index)?;
        host.storage.barrier()?;
        again.drop_lower()?;
        again.release()
    };
    let quiet = Host::new();
    scenario(&quiet).unwrap();
    for n in 1..=quiet.storage.counters().mutating() {
        for fault in [Fault::stop(n), Fault::stop_after(n)] {
            let host = Host::new();
            host.storage.inject(fault);
            scenario(&host).unwrap_err();
            for policy in super::crashes::POLICIES {
                let host = Host::of(host.storage.crash(policy), host.clock.clone());
                let session = host.begin(1);
                drop(session.acquire_lease(LeaseRole::Index));
                host.clock.advance(LONG);
                let held = session.acquire_lease(LeaseRole::Index);
                let own =
                    matches!(&held, Err(SessionError::LeaseTaken { holder, .. }) if *holder == session.id());
                assert!(held.is_ok() || own, "operation {n}, {policy:?}: {held:?}");
            }
        }
    }
}
