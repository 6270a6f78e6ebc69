//! Objects that sessions leave behind, and which session removes them.

use std::thread;
use std::time::Duration;

use env::fault::Fault;
use env::{Clock, Storage, SystemClock};
use format::manifest::Manifest;
use format::names;
use format::session::READ_SERIES;
use types::{ByteRange, Revision};

use super::{Host, LONG, backup_of, checkpoint, draft, id, series};
use crate::{CollectedSessions, DeathWatch, Life, Session, SessionPolicy, SessionTable};

#[test]
fn the_next_session_removes_leftovers_of_a_committed_one() {
    let host = Host::new();
    let dying = host.beside();
    let session = dying.begin(1);
    checkpoint(&session, draft(1));
    checkpoint(&session, draft(2));
    // Barrier, manifest, barrier; the process dies before the record.
    dying.storage.inject_here(Fault::kill(4));
    assert!(session.commit(backup_of(&session, 2)).unwrap().warnings.is_some());
    assert_eq!(host.names(&names::session_folder(session.id())).len(), 4);
    let next = host.begin(1);
    assert_eq!(
        next.gc_sessions().unwrap(),
        CollectedSessions {
            sessions: 1,
            objects: 3
        }
    );
    let (claim, record) = (names::claim(session.id()), names::committed(session.id()));
    assert_eq!(
        host.names(&names::session_folder(session.id())),
        [claim, record].map(|name| name.to_string())
    );
    assert_eq!(next.gc_sessions().unwrap(), CollectedSessions::default());
}

#[test]
fn an_ending_on_a_bad_sector_keeps_only_the_objects_of_its_session() {
    let host = Host::new();
    let left: Vec<_> = [(); 2]
        .map(|()| {
            let dying = host.beside();
            let session = dying.begin(1);
            checkpoint(&session, draft(1));
            dying.storage.inject_here(Fault::kill(4));
            session.commit(backup_of(&session, 1)).unwrap();
            session.id()
        })
        .into();
    let bad = names::manifest(series(1), left[0], Revision::FIRST);
    let sector = ByteRange { offset: 60, len: 1 };
    host.storage.make_unreadable(&bad, sector);
    let before = left
        .iter()
        .map(|id| host.names(&names::session_folder(*id)).len());
    let before: Vec<_> = before.collect();
    assert_eq!(host.begin(2).gc_sessions().unwrap().sessions, 1);
    assert_eq!(host.names(&names::session_folder(left[0])).len(), before[0]);
    assert_eq!(host.names(&names::session_folder(left[1])).len(), 2);
}

#[test]
fn running_and_dead_sessions_without_an_ending_keep_everything() {
    let host = Host::new();
    let dying = host.beside();
    let (dead, running) = (dying.begin(1), host.begin(2));
    checkpoint(&dead, draft(1));
    checkpoint(&running, draft(1));
    dying.storage.kill();
    let before = host.names("sessions");
    assert_eq!(running.gc_sessions().unwrap(), CollectedSessions::default());
    assert_eq!(host.names("sessions"), before);
}

/// A power cut may bring back objects of a reader whose claim is deleted. While its ending exists,
/// tidying looks for them.
#[test]
fn the_ending_of_a_reader_is_deleted_after_all_its_other_objects() {
    let host = Host::new();
    let reader = host.begin_read();
    checkpoint(&reader, draft(0));
    let traces: Vec<_> = host.storage.list(&names::session_folder(reader.id())).unwrap();
    let traces: Vec<_> = traces
        .into_iter()
        .filter(|meta| meta.name != names::claim(reader.id()))
        .map(|meta| (host.storage.get(&meta.name).unwrap(), meta.name))
        .collect();
    assert_eq!(traces.len(), 2);
    reader.end().unwrap();
    let next = host.begin(1);
    assert_eq!(next.gc_sessions().unwrap().objects, 3);
    let ending = names::manifest(READ_SERIES, reader.id(), Revision::FIRST);
    for (bytes, name) in &traces {
        host.storage.put(name, &[bytes]).unwrap();
        assert_eq!(next.gc_sessions().unwrap().objects, 1);
        assert!(
            host.storage.head(&ending).is_ok(),
            "{name} may come back once more"
        );
    }
    assert_eq!(next.gc_sessions().unwrap().objects, 1);
    assert!(host.storage.head(&ending).is_err());
    assert!(host.names(&names::session_folder(reader.id())).is_empty());
}

#[test]
fn the_checkpoint_that_an_adoption_names_stays() {
    let host = Host::new();
    let dying = host.beside();
    let old = dying.begin(1);
    checkpoint(&old, draft(1));
    checkpoint(&old, draft(2));
    dying.storage.kill();
    let new = host.begin(1);
    let dead = new.find_adoptable().unwrap().remove(0);
    new.adopt(&dead).unwrap();
    new.commit(backup_of(&new, 0)).unwrap();
    host.begin(1).gc_sessions().unwrap();
    let folder = host.names(&names::session_folder(old.id()));
    let kept = [names::checkpoint(old.id(), 1), names::claim(old.id())].map(|name| name.to_string());
    assert_eq!(folder, kept);
    assert!(
        SessionTable::adopted_checkpoint(&host.sealer, old.id(), 1)
            .unwrap()
            .is_some()
    );
}

/// Nobody would delete a heartbeat that arrived after tidying had looked.
#[test]
fn a_reader_that_ends_waits_for_the_heartbeat_that_is_on_its_way() {
    let host = Host::new();
    let reader = host.begin_read();
    let ending = names::manifest(READ_SERIES, reader.id(), Revision::FIRST);
    thread::scope(|scope| {
        let beating = crate::session::locked(&reader.inner.beat);
        let end = scope.spawn(|| reader.end());
        while !host.names(names::BACKUPS_FOLDER).contains(&ending.to_string()) {
            thread::yield_now();
        }
        SystemClock.sleep(Duration::from_millis(50));
        assert!(!end.is_finished(), "the heartbeat is still on its way");
        drop(beating);
        end.join().unwrap().unwrap();
    });
    assert!(reader.tick().is_err(), "and none comes after it");
}

/// Numbers of read sessions are given back. If another session ever gets one, the old ending does
/// not end it.
#[test]
fn an_ending_of_another_series_ends_nobody() {
    let host = Host::new();
    let running = host.begin(1);
    checkpoint(&running, draft(1));
    let read = host.begin_read();
    let next = host.begin(2);
    let foreign = Manifest::Expired { by: running.id() };
    let put = |series| {
        let name = names::manifest(series, running.id(), Revision::FIRST);
        host.objects().put_durably(&name, &foreign).unwrap();
    };
    put(READ_SERIES);
    let runs = || {
        let running: Vec<_> = SessionTable::list(&host.sealer).unwrap().running;
        running.into_iter().map(|info| info.id).collect::<Vec<_>>()
    };
    let all = [&running, &read, &next].map(Session::id);
    assert_eq!(runs(), all);
    assert_eq!(next.gc_sessions().unwrap(), CollectedSessions::default());
    // Of two endings under one number, either may be the session's own.
    put(series(3));
    assert_eq!(runs(), all);
    assert_eq!(next.gc_sessions().unwrap(), CollectedSessions::default());
    running.tick().unwrap();
    running.commit(backup_of(&running, 1)).unwrap();
    read.end().unwrap();
    assert_eq!(runs(), [next.id()]);
    // An unreadable claim of an ended session blocks nothing.
    host.storage
        .damage(&names::claim(read.id()), |bytes| bytes.truncate(10));
    let table = SessionTable::list(&host.sealer).unwrap();
    assert_eq!((table.running.len(), table.damaged.len()), (1, 0));
}

#[test]
fn read_sessions_that_ended_leave_nothing_but_the_highest_claim() {
    let host = Host::new();
    let (first, second) = (host.begin_read(), host.begin_read());
    let still_reading = host.begin_read();
    let last = host.begin_read();
    for session in [&first, &second, &last] {
        session.end().unwrap();
    }
    still_reading.gc_sessions().unwrap();
    assert_eq!(host.names("backups").len(), 3, "no claim is without its ending");
    still_reading.gc_sessions().unwrap();
    let claims = [still_reading.id(), last.id()].map(|id| names::claim(id).to_string());
    let left: Vec<_> = host
        .names("sessions")
        .into_iter()
        .filter(|name| name.ends_with("claim"))
        .collect();
    assert_eq!(left, claims);
    assert_eq!(
        host.names("backups").len(),
        1,
        "the ending of the highest stays with its claim"
    );
    assert_eq!(host.begin_read().id(), id(5), "no number is given out twice");
    let table = SessionTable::list(&host.sealer).unwrap();
    let running: Vec<_> = table.running.iter().map(|info| info.id).collect();
    assert_eq!(running, [still_reading.id(), id(5)]);
}

#[test]
fn a_read_session_that_another_expired_could_still_wake_and_so_stays() {
    let host = Host::new();
    let (reader, maintainer) = (host.begin_read(), host.begin_read());
    let info = SessionTable::list(&host.sealer)
        .unwrap()
        .get(reader.id())
        .unwrap()
        .clone();
    maintainer.expire(&info).unwrap();
    maintainer.gc_sessions().unwrap();
    assert_eq!(host.names("backups").len(), 1);
    assert_eq!(
        host.names(&names::session_folder(reader.id())),
        [names::claim(reader.id()).to_string()]
    );
}

#[test]
fn tidying_killed_at_every_operation_never_gives_a_number_out_twice() {
    let build = || {
        let host = Host::new();
        for _ in 0..2 {
            host.begin_read().end().unwrap();
        }
        let session = host.begin(1);
        session.commit(backup_of(&session, 0)).unwrap();
        host.begin_read().end().unwrap();
        // A read session's ending waits for no barrier.
        host.storage.barrier().unwrap();
        host
    };
    let quiet = build();
    let before = quiet.storage.counters();
    quiet.begin(1).gc_sessions().unwrap();
    let operations = quiet.storage.counters().since(&before).mutating();
    for n in 1..=operations {
        let host = build();
        host.storage.inject(Fault::stop(n));
        drop(host.try_begin(1).and_then(|session| session.gc_sessions()));
        for policy in super::crashes::POLICIES {
            let host = Host::of(host.storage.crash(policy), host.clock.clone());
            let session = host.begin(1);
            assert!(session.id() >= id(5), "operation {n}, {policy:?}");
            session.gc_sessions().unwrap();
            let table = SessionTable::list(&host.sealer).unwrap();
            assert!(
                table.running.iter().all(|info| info.id >= id(5)),
                "operation {n}, {policy:?}: {table:?}"
            );
        }
    }
}

#[test]
fn a_read_session_whose_ending_a_power_cut_undid_is_found_dead_and_ended() {
    for policy in super::crashes::POLICIES {
        let host = Host::new();
        let parent = host.begin(1);
        parent.commit(backup_of(&parent, 0)).unwrap();
        let reader = host.begin_read();
        reader.choose_parents(|_| vec![parent.id()]).unwrap();
        reader.end().unwrap();
        let host = Host::of(host.storage.crash(policy), host.clock.clone());
        let next = host.begin(1);
        let watch = DeathWatch::new(host.sealer.env().clone(), SessionPolicy::default());
        for _ in 0..2 {
            let table = SessionTable::list(&host.sealer).unwrap();
            if let Some(info) = table.get(reader.id())
                && matches!(watch.observe(info), Life::Dead(_))
            {
                next.expire(info).unwrap();
            }
            host.clock.advance(LONG);
        }
        next.gc_sessions().unwrap();
        let running = SessionTable::list(&host.sealer).unwrap().running;
        let running: Vec<_> = running.iter().map(|info| info.id).collect();
        assert_eq!(running, [next.id()], "{policy:?}");
    }
}
