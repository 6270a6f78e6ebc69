//! Continuing from a dead session's checkpoint.

use std::sync::{Arc, Mutex};

use env::ManualClock;
use env::fault::FaultStorage;
use format::names;
use types::{ObjectName, Revision};

use super::silence::Wrapped;
use super::{
    Host, LONG, backup_of, begin, checkpoint, data, draft, epoch, id, range, sealer, slots, span, whole,
};
use crate::{Draft, EndedBy, Manifests, NamedContainers, Session, SessionError, SessionTable};

fn only<T>(mut all: Vec<T>) -> T {
    assert_eq!(all.len(), 1);
    all.remove(0)
}

#[test]
fn a_dead_session_is_adopted_at_its_newest_checkpoint() {
    let host = Host::new();
    let dying = host.beside();
    let old = dying.begin(1);
    checkpoint(&old, draft(1));
    checkpoint(
        &old,
        Draft {
            references: vec![(data(id(50), 0), range(0, 4))],
            ..draft(3)
        },
    );
    let new = host.begin(1);
    assert!(new.find_adoptable().unwrap().is_empty(), "its lock is held");
    dying.storage.kill();
    let dead = only(new.find_adoptable().unwrap());
    let adopted = new.adopt(&dead).unwrap();
    assert_eq!(adopted.sessions, [(old.id(), Some(1))]);
    assert_eq!(adopted.containers, [(old.id(), span(0, 3))]);
    assert_eq!(adopted.references, [(data(id(50), 0), range(0, 4))]);
    let ending = names::manifest(new.series(), old.id(), Revision::FIRST);
    assert!(host.storage.is_durable(&ending));

    let number = checkpoint(&new, draft(0));
    let info = SessionTable::list(&host.sealer)
        .unwrap()
        .get(new.id())
        .unwrap()
        .clone();
    let read = super::newest(&host, &info).unwrap();
    assert_eq!((read.number, read.adopted), (number, vec![(old.id(), Some(1))]));

    new.commit(backup_of(&new, 0)).unwrap();
    let manifests = Manifests::new(&host.sealer);
    let list = manifests.list().unwrap();
    assert_eq!(
        list.get(new.id()).unwrap().backup().unwrap().adopted,
        [(old.id(), Some(1))]
    );
    let named = NamedContainers::load(&manifests, &list).unwrap();
    assert!(named.contains(data(old.id(), 2)) && !named.contains(data(old.id(), 3)));
    manifests.forget(new.series(), new.id()).unwrap();
    let named = NamedContainers::load(&manifests, &manifests.list().unwrap()).unwrap();
    assert!(named.contains(data(old.id(), 2)), "forgotten or not");
}

#[test]
fn on_another_host_only_t_without_a_heartbeat_proves_death() {
    let host = Host::new();
    let far = host.elsewhere();
    let old = host.begin(1);
    checkpoint(&old, draft(1));
    let new = far.begin(1);
    assert!(new.find_adoptable().unwrap().is_empty());
    far.clock.advance(LONG / 2);
    assert!(new.find_adoptable().unwrap().is_empty());
    old.tick().unwrap();
    far.clock.advance(LONG / 2);
    assert!(new.find_adoptable().unwrap().is_empty(), "it spoke meanwhile");
    far.clock.advance(LONG);
    let dead = only(new.find_adoptable().unwrap());
    new.adopt(&dead).unwrap();

    match old.tick() {
        Err(SessionError::EndedElsewhere { how, .. }) => {
            assert_eq!(
                how,
                EndedBy::Adopted {
                    by: new.id(),
                    checkpoint: Some(0)
                }
            );
        }
        other => panic!("the sleeper wakes and finds its end: {other:?}"),
    }
    assert!(matches!(
        old.commit(backup_of(&old, 1)),
        Err(SessionError::EndedElsewhere { .. })
    ));
}

#[test]
fn only_dead_sessions_of_the_series_with_lower_numbers_are_adoptable() {
    let host = Host::new();
    let dying = host.beside();
    let (same, other) = (dying.begin(1), dying.begin(2));
    let reader = dying.begin_read();
    let new = host.begin(1);
    let later = dying.begin(1);
    dying.storage.kill();
    assert!(same.id() < new.id() && new.id() < later.id() && reader.id() < new.id() && other.id() < new.id());
    assert_eq!(only(new.find_adoptable().unwrap()).session(), same.id());
    assert!(host.begin_read().find_adoptable().unwrap().is_empty());
}

/// The clock of an object store shows that a session has put nothing for long. Files have the times
/// of several hosts, which are not compared.
#[test]
fn a_session_that_was_quiet_for_long_by_the_clock_of_an_object_store_is_dead_at_the_first_look() {
    for (is_far, waited, is_dead) in [(true, LONG, true), (true, LONG / 2, false), (false, LONG, false)] {
        let clock = ManualClock::default();
        let storage = FaultStorage::with_clock(Arc::new(clock.clone()));
        let wrap = |storage| {
            if is_far {
                Wrapped::far(storage)
            } else {
                Wrapped::without_locks(storage)
            }
        };
        let at = |handle: FaultStorage| sealer(Arc::new(wrap(handle)), &ManualClock::default());
        let old = Session::begin(&at(storage.clone()), begin(1)).unwrap();
        clock.advance(LONG);
        old.tick().unwrap();
        clock.advance(waited);
        let new_at = at(storage.handle());
        let since = new_at.env().storage.moment();
        let (new, listing) = Session::begin_listed(&new_at, begin(1), since).unwrap();
        let found = new.find_adoptable_by(&listing).unwrap();
        assert_eq!(found.len(), usize::from(is_dead), "{is_far} {waited:?}");
        assert_eq!(new.find_adoptable().unwrap(), found);
    }
}

#[test]
fn of_adoption_and_commit_one_wins() {
    for commit_first in [true, false] {
        let host = Host::new();
        let far = host.elsewhere();
        let old = host.begin(1);
        let new = far.begin(1);
        assert!(new.find_adoptable().unwrap().is_empty());
        far.clock.advance(LONG);
        let dead = only(new.find_adoptable().unwrap());
        if commit_first {
            old.commit(backup_of(&old, 0)).unwrap();
            let error = new.adopt(&dead).unwrap_err();
            assert!(error.to_string().contains("it is a backup already"), "{error}");
            assert!(new.adopted().is_empty());
        } else {
            assert_eq!(new.adopt(&dead).unwrap().sessions, [(old.id(), None)]);
            old.commit(backup_of(&old, 0)).unwrap_err();
        }
        let list = Manifests::new(&host.sealer).list().unwrap();
        assert_eq!(list.entries.len(), 1);
        assert_eq!(list.backups().count(), usize::from(commit_first));
    }
}

#[test]
fn of_two_adopters_one_wins_and_its_retry_wins_again() {
    let host = Host::new();
    let dying = host.beside();
    let old = dying.begin(1);
    let (first, second) = (host.begin(1), host.beside().begin(1));
    dying.storage.kill();
    let (seen_by_first, seen_by_second) = (
        only(first.find_adoptable().unwrap()),
        only(second.find_adoptable().unwrap()),
    );
    let adopted = first.adopt(&seen_by_first).unwrap();
    assert_eq!(first.adopt(&seen_by_first).unwrap(), adopted);
    assert_eq!(first.adopted(), [(old.id(), None)]);
    let error = second.adopt(&seen_by_second).unwrap_err();
    assert!(
        error.to_string().contains("another session was quicker"),
        "{error}"
    );
}

#[test]
fn an_unreadable_checkpoint_gives_way_to_the_one_before() {
    let host = Host::new();
    let dying = host.beside();
    let old = dying.begin(1);
    checkpoint(&old, draft(1));
    checkpoint(&old, draft(2));
    host.storage
        .damage(&names::checkpoint(old.id(), 1), |bytes| bytes.truncate(60));
    dying.storage.kill();
    let new = host.begin(1);
    let adopted = new.adopt(&only(new.find_adoptable().unwrap())).unwrap();
    assert_eq!(adopted.sessions, [(old.id(), Some(0))]);
    assert_eq!(adopted.containers, [(old.id(), span(0, 1))]);
}

#[test]
fn a_chain_of_adoptions_is_adopted_without_a_checkpoint_that_names_it() {
    let host = Host::new();
    let (first_host, second_host) = (host.beside(), host.beside());
    let first = first_host.begin(1);
    checkpoint(&first, draft(5));
    first_host.storage.kill();
    let second = second_host.begin(1);
    second.adopt(&only(second.find_adoptable().unwrap())).unwrap();
    second_host.storage.kill();

    let third = host.begin(1);
    let adopted = third.adopt(&only(third.find_adoptable().unwrap())).unwrap();
    assert_eq!(adopted.sessions, [(second.id(), None), (first.id(), Some(0))]);
    assert_eq!(adopted.containers, [(first.id(), span(0, 5))]);
    third.commit(backup_of(&third, 0)).unwrap();
    let manifests = Manifests::new(&host.sealer);
    let list = manifests.list().unwrap();
    assert_eq!(
        list.get(third.id()).unwrap().backup().unwrap().adopted,
        adopted.sessions
    );
    assert!(
        NamedContainers::load(&manifests, &list)
            .unwrap()
            .contains(data(first.id(), 4))
    );
}

/// It is not known what the dead session had adopted. So the adopter fails, and the containers keep
/// an owner.
#[test]
fn an_ending_on_a_bad_sector_may_be_one_of_the_chain() {
    for is_of_chain in [true, false] {
        let host = Host::new();
        let (first_host, second_host) = (host.beside(), host.beside());
        let first = first_host.begin(1);
        checkpoint(&first, draft(5));
        let backup = host.begin(1);
        backup.commit(backup_of(&backup, 0)).unwrap();
        first_host.storage.kill();
        let second = second_host.begin(1);
        second.adopt(&only(second.find_adoptable().unwrap())).unwrap();
        second_host.storage.kill();
        // The backup left no checkpoint, so it is no link.
        let bad = if is_of_chain { first.id() } else { backup.id() };
        let bad = names::manifest(super::series(1), bad, Revision::FIRST);
        host.storage
            .make_unreadable(&bad, types::ByteRange { offset: 60, len: 1 });

        let third = host.begin(1);
        let adopted = third.adopt(&only(third.find_adoptable().unwrap()));
        if is_of_chain {
            let refused = adopted.unwrap_err();
            assert!(
                matches!(&refused, SessionError::Damaged(object) if object.name == bad && object.is_unread),
                "{refused}"
            );
            assert!(third.adopted().is_empty());
        } else {
            assert_eq!(adopted.unwrap().containers, [(first.id(), span(0, 5))]);
        }
        third.commit(backup_of(&third, 0)).unwrap();
    }
}

#[test]
fn an_adopted_checkpoint_on_a_bad_sector_names_nothing_and_ends_nothing() {
    let host = Host::new();
    let dying = host.beside();
    let old = dying.begin(1);
    checkpoint(&old, draft(5));
    dying.storage.kill();
    let new = host.begin(1);
    new.adopt(&only(new.find_adoptable().unwrap())).unwrap();
    new.commit(backup_of(&new, 0)).unwrap();
    let sector = types::ByteRange { offset: 60, len: 1 };
    host.storage
        .make_unreadable(&names::checkpoint(old.id(), 0), sector);
    let manifests = Manifests::new(&host.sealer);
    let named = NamedContainers::load(&manifests, &manifests.list().unwrap()).unwrap();
    assert!(!named.contains(data(old.id(), 4)));
}

/// The adopter has read checkpoint 0, and sleeps before it wins the name. The old session wakes,
/// drops a reference, answers the epoch with checkpoint 1, and sleeps for good. A reclaimer that
/// keeps the slots of every checkpoint removes none of these. One that reads only the newest (as
/// here) removes the dropped slot, and even then checkpoint 0 does not bring it back.
#[test]
fn an_adopter_that_slept_takes_no_reference_that_was_let_go_and_removed() {
    let machine = FaultStorage::new();
    let host = Host::of(machine.clone(), ManualClock::default());
    let old = host.begin(1);
    let (gone, kept) = (data(id(40), 0), data(id(40), 1));
    let both = vec![(gone, range(2, 2)), (kept, range(0, 9))];
    checkpoint(
        &old,
        Draft {
            references: both,
            ..draft(1)
        },
    );

    type Meanwhile = Box<dyn FnOnce() + Send>;
    let meanwhile: Arc<Mutex<Option<Meanwhile>>> = Arc::default();
    let hook = Arc::clone(&meanwhile);
    let before_put = move |name: &ObjectName| {
        if name.as_str().starts_with("backups/")
            && let Some(act) = hook.lock().unwrap().take()
        {
            act();
        }
    };
    let clock = ManualClock::default();
    let wrapped = Wrapped::new(machine.handle_elsewhere(), Box::new(before_put));
    let sealer = sealer(Arc::new(wrapped), &clock);
    let new = Session::begin(&sealer, begin(1)).unwrap();
    assert!(new.find_adoptable().unwrap().is_empty());
    clock.advance(LONG);
    let dead = only(new.find_adoptable().unwrap());

    let (waking, reclaimer) = (old.clone(), host.clone());
    *meanwhile.lock().unwrap() = Some(Box::new(move || {
        reclaimer.condemn(1, vec![whole(gone), slots(kept, &[(20, 1)])]);
        assert!(waking.tick().unwrap().checkpoint_wanted);
        for n in 1..4 {
            checkpoint(
                &waking,
                Draft {
                    references: vec![(kept, range(0, 9))],
                    ..draft(n)
                },
            );
        }
        assert_eq!(reclaimer.names(&names::session_folder(waking.id())).len(), 4 + 3);
        let info = SessionTable::list(&reclaimer.sealer)
            .unwrap()
            .get(waking.id())
            .unwrap()
            .clone();
        assert!(info.has_answered(epoch(1)));
        reclaimer.remove(1, vec![whole(gone)]);
    }));
    let adopted = new.adopt(&dead).unwrap();
    assert!(meanwhile.lock().unwrap().is_none(), "the hook ran");
    assert_eq!(adopted.references, [(kept, range(0, 9))]);
    assert_eq!(adopted.sessions, [(old.id(), Some(0))]);
    assert_eq!(
        adopted.containers,
        [(old.id(), span(0, 1))],
        "0 and nothing later"
    );
    assert!(matches!(old.tick(), Err(SessionError::EndedElsewhere { .. })));
}

#[test]
fn references_that_an_open_epoch_condemns_are_left_out() {
    let host = Host::new();
    let dying = host.beside();
    let old = dying.begin(1);
    let (condemned, fine) = (data(id(40), 0), data(id(40), 1));
    let references = vec![
        (condemned, range(2, 2)),
        (condemned, range(6, 2)),
        (fine, range(0, 9)),
    ];
    checkpoint(
        &old,
        Draft {
            references,
            ..draft(1)
        },
    );
    dying.storage.kill();
    let new = host.begin(1);
    host.condemn(1, vec![slots(condemned, &[(3, 1)])]);
    let adopted = new.adopt(&only(new.find_adoptable().unwrap())).unwrap();
    assert_eq!(
        adopted.references,
        [(condemned, range(6, 2)), (fine, range(0, 9))]
    );
    assert_eq!(adopted.references_left_out, 1);
    assert!(
        new.checkpoint_wanted(),
        "the epoch seen on the way is to be answered"
    );
}

#[test]
fn an_ended_session_adopts_no_other() {
    let host = Host::new();
    let dying = host.beside();
    let old = dying.begin(1);
    let new = host.begin(1);
    dying.storage.kill();
    let dead = only(new.find_adoptable().unwrap());
    let info = SessionTable::list(&host.sealer)
        .unwrap()
        .get(new.id())
        .unwrap()
        .clone();
    host.begin_read().expire(&info).unwrap();
    assert!(matches!(
        new.adopt(&dead),
        Err(SessionError::EndedElsewhere { .. })
    ));
    assert!(
        Manifests::new(&host.sealer)
            .list()
            .unwrap()
            .get(old.id())
            .is_none(),
        "it can still be adopted"
    );
}
