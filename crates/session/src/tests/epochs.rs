//! Epochs: which slots are absent when, draining, answering.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use env::Storage;
use format::names;
use format::reclaim::Damaged;

use super::{Host, at, checkpoint, data, draft, epoch, id, range, slots, whole};
use crate::{Draft, Session, SessionTable};

fn info(host: &Host, session: &Session) -> crate::SessionInfo {
    SessionTable::list(&host.sealer)
        .unwrap()
        .get(session.id())
        .expect("it runs")
        .clone()
}

#[test]
fn condemned_slots_are_absent_until_the_removed_list_says_which_stay() {
    let host = Host::new();
    let (old, other) = (data(id(1), 0), data(id(1), 1));
    host.condemn(1, vec![slots(old, &[(2, 3)]), whole(other)]);
    let session = host.begin(1);
    let view = session.view();
    assert!(view.is_absent(at(old, 2)) && view.is_absent(at(old, 4)) && !view.is_absent(at(old, 5)));
    assert!(view.is_absent_container(other));
    assert_eq!(view.newest_epoch(), Some(epoch(1)));
    assert!(!session.checkpoint_wanted(), "the first heartbeat has answered");

    host.remove(1, vec![slots(old, &[(4, 1)])]);
    let tick = session.tick().unwrap();
    assert_eq!(
        (tick.new_epoch, tick.checkpoint_wanted),
        (None, false),
        "no new epoch: the same one's end"
    );
    let view = session.view();
    assert!(view.is_absent(at(old, 4)) && !view.is_absent(at(old, 2)) && !view.is_absent_container(other));
}

#[test]
fn removed_lists_of_all_epochs_count_together() {
    let host = Host::new();
    let old = data(id(1), 0);
    host.remove(1, vec![slots(old, &[(0, 2)])]);
    host.remove(2, vec![slots(old, &[(2, 1)]), whole(data(id(1), 7))]);
    host.condemn(3, vec![slots(old, &[(9, 1)])]);
    let view = host.begin(1).view();
    for (slot, absent) in [(0, true), (1, true), (2, true), (3, false), (9, true)] {
        assert_eq!(view.is_absent(at(old, slot)), absent, "slot {slot}");
    }
    assert!(view.is_absent(at(data(id(1), 7), 500)));
    assert_eq!(view.newest_epoch(), Some(epoch(3)));
}

#[test]
fn an_unreadable_list_blinds_until_its_epoch_is_closed() {
    let host = Host::new();
    let (old, dead) = (data(id(90), 0), data(id(90), 1));
    host.condemn(1, vec![whole(dead)]);
    host.storage
        .damage(&names::condemned(epoch(1)), |bytes| bytes.truncate(70));
    let session = host.begin(1);
    assert!(session.view().is_blind() && session.view().is_absent(at(old, 0)));
    assert_eq!(session.view().unreadable()[0].name, names::condemned(epoch(1)));
    host.remove(1, Vec::new());
    session.tick().unwrap();
    assert!(!session.view().is_blind() && !session.view().is_absent(at(old, 0)));
}

/// One list on a bad sector must not end every session.
#[test]
fn a_list_on_a_bad_sector_counts_as_unreadable() {
    let host = Host::new();
    let dead = data(id(90), 1);
    host.condemn(1, vec![whole(dead)]);
    let sector = types::ByteRange { offset: 60, len: 1 };
    host.storage.make_unreadable(&names::condemned(epoch(1)), sector);
    let session = host.begin(1);
    assert!(session.view().is_blind() && session.view().is_absent(at(dead, 0)));
    assert!(session.view().unreadable()[0].is_unread);
}

#[test]
fn a_condemned_list_replaces_an_unreadable_removed_list() {
    let host = Host::new();
    let (stays, dead) = (data(id(1), 0), data(id(1), 1));
    host.condemn(1, vec![whole(stays), whole(dead)]);
    host.remove(1, vec![whole(dead)]);
    host.storage
        .damage(&names::removed(epoch(1)), |bytes| bytes[60] ^= 1);
    let view = host.begin(1).view();
    assert!(!view.is_blind());
    assert!(view.is_absent_container(stays) && view.is_absent_container(dead));
}

#[test]
fn damaged_slots_are_absent_and_so_is_a_container_whose_list_is_damaged_itself() {
    let host = Host::new();
    let (bad, worse) = (data(id(1), 0), data(id(1), 1));
    for (container, ranges) in [(bad, (3, 2)), (worse, (0, 1))] {
        let list = Damaged {
            slots: slots(container, &[ranges]),
        };
        host.objects()
            .put_durably(&names::damaged(container, 0), &list)
            .unwrap();
    }
    host.storage
        .damage(&names::damaged(worse, 0), |bytes| bytes.clear());
    let view = host.begin(1).view();
    assert!(view.is_absent(at(bad, 4)) && !view.is_absent(at(bad, 5)) && !view.is_blind());
    assert!(view.is_absent_container(worse));
}

#[test]
fn an_answer_waits_for_look_ups_begun_before_and_not_for_later_ones() {
    let host = Host::new();
    let session = host.begin(1);
    let old = data(id(1), 0);
    let before = session.look_up();
    host.condemn(1, vec![whole(old)]);
    let tick = session.tick().unwrap();
    assert_eq!((tick.new_epoch, tick.checkpoint_wanted), (Some(epoch(1)), true));
    let after = session.look_up();
    assert!(
        !before.view().is_absent_container(old),
        "it looks up by the view it entered with"
    );
    assert!(
        after.view().is_absent_container(old),
        "new look-ups honour the epoch before it is answered"
    );
    assert!(!info(&host, &session).has_answered(epoch(1)));
    assert!(!session.is_drained());

    let (told, heard) = mpsc::channel();
    let waiting = session.clone();
    let answer = thread::spawn(move || {
        let turn = waiting.begin_checkpoint().unwrap();
        told.send(()).unwrap();
        turn.write(draft(1)).unwrap()
    });
    assert!(
        heard.recv_timeout(Duration::from_millis(50)).is_err(),
        "a look-up from before is under way"
    );
    drop(before);
    let number = answer.join().unwrap();
    let answered = info(&host, &session);
    assert!(answered.has_answered(epoch(1)));
    assert_eq!(answered.heartbeat.unwrap().checkpoint, Some(number));
    assert!(!session.checkpoint_wanted());
    drop(after);
}

#[test]
fn an_epoch_that_appears_while_a_checkpoint_is_collected_is_not_answered_by_it() {
    let host = Host::new();
    let session = host.begin(1);
    host.condemn(1, Vec::new());
    session.tick().unwrap();
    let turn = session.begin_checkpoint().unwrap();
    assert_eq!(turn.answers(), Some(epoch(1)));
    host.condemn(2, Vec::new());
    assert_eq!(session.tick().unwrap().new_epoch, Some(epoch(2)));
    turn.write(draft(0)).unwrap();
    let info = info(&host, &session);
    assert!(info.has_answered(epoch(1)) && !info.has_answered(epoch(2)));
    assert!(session.checkpoint_wanted());
}

#[test]
fn an_answer_whose_heartbeat_failed_is_given_by_the_next() {
    use env::fault::{Counted, FailWith, Fault, OpKind};
    let host = Host::new();
    let session = host.begin(1);
    host.condemn(1, Vec::new());
    session.tick().unwrap();
    host.storage
        .inject(Fault::fail(2, FailWith::Io).counting(Counted::Only(OpKind::Put)));
    session.begin_checkpoint().unwrap().write(draft(0)).unwrap_err();
    assert!(!info(&host, &session).has_answered(epoch(1)));
    session.tick().unwrap();
    assert!(info(&host, &session).has_answered(epoch(1)));
}

/// Where sessions may not delete, old heartbeats stay. What was put counts all the same.
#[test]
fn sessions_that_may_not_delete_answer_too() {
    use env::fault::{Counted, FailWith, Fault, OpKind};
    let host = Host::new();
    let (session, reading) = (host.begin(1), host.begin_read());
    let denied = Fault::fail_from(1, FailWith::Denied).counting(Counted::Only(OpKind::Delete));
    host.storage.inject(denied);
    for _ in 0..4 {
        session.tick().unwrap();
        reading.tick().unwrap();
    }
    host.condemn(1, Vec::new());
    session.tick().unwrap();
    reading.tick().unwrap();
    session.begin_checkpoint().unwrap().write(draft(0)).unwrap();
    for one in [&session, &reading] {
        assert!(info(&host, one).has_answered(epoch(1)));
    }
    // Those that stayed are deleted once they can be.
    host.storage.clear_faults();
    session.tick().unwrap();
    let own = names::heartbeat(session.id(), 0).to_string();
    let beats = host.names(own.trim_end_matches("/heartbeat.0"));
    let beats: Vec<_> = beats.iter().filter(|name| name.contains("heartbeat")).collect();
    assert_eq!(beats.len(), 2, "{beats:?}");
}

/// A prune that began before the session deletes lists under it. Catalogs that the process has in
/// its caches may be older than those lists.
#[test]
fn what_a_session_saw_removed_stays_removed_for_it() {
    let host = Host::new();
    let (old, other) = (data(id(1), 0), data(id(1), 1));
    host.remove(1, vec![slots(old, &[(2, 3)])]);
    host.remove(2, vec![whole(other)]);
    let session = host.begin(1);
    let deleted = |number| host.storage.delete(&names::removed(epoch(number))).unwrap();
    host.remove(3, vec![slots(old, &[(9, 1)])]);
    deleted(1);
    deleted(2);
    session.tick().unwrap();
    let assert_absent = |session: &Session| {
        let view = session.view();
        assert!(view.is_absent(at(old, 2)) && view.is_absent(at(old, 4)) && view.is_absent(at(old, 9)));
        assert!(view.is_absent_container(other) && !view.is_absent(at(old, 5)));
    };
    assert_absent(&session);
    // Later lists change nothing of it.
    host.condemn(4, vec![slots(old, &[(20, 1)])]);
    session.tick().unwrap();
    assert_absent(&session);
    assert!(session.view().is_absent(at(old, 20)));
    // A later session uses no older catalogs: a backup drops them when it begins.
    assert!(!host.begin(2).view().is_absent(at(old, 2)));
}

#[test]
fn checkpoints_count_up_and_all_stay_with_their_declarations() {
    let host = Host::new();
    let session = host.begin(1);
    let other = data(id(77), 3);
    for n in 0..4u32 {
        let references = vec![(other, range(n, 2))];
        // Only new containers are in the draft. Containers of earlier checkpoints stay named.
        let containers = if n == 0 {
            Vec::new()
        } else {
            vec![super::span(n - 1, 1)]
        };
        assert_eq!(
            checkpoint(
                &session,
                Draft {
                    containers,
                    references,
                    streams: Vec::new(),
                }
            ),
            n
        );
        let info = info(&host, &session);
        assert_eq!(
            info.checkpoints,
            (0..=n).collect::<Vec<_>>(),
            "an adopter may name any"
        );
        let read = super::newest(&host, &info).unwrap();
        let expected = (n, draft(n).containers, vec![(other, range(n, 2))]);
        assert_eq!((read.number, read.containers, read.references), expected);
        assert!(host.storage.is_durable(&names::checkpoint(session.id(), n)));
    }
    let all = SessionTable::checkpoints(&host.sealer, &info(&host, &session)).unwrap();
    let references: Vec<_> = all.iter().flat_map(|read| &read.references).collect();
    assert_eq!(references.len(), 4, "reclamation keeps what any of them names");
}

#[test]
fn a_reader_never_takes_an_older_checkpoint_for_the_answering_one() {
    let host = Host::new();
    let session = host.begin(1);
    checkpoint(&session, draft(1));
    host.condemn(1, Vec::new());
    session.tick().unwrap();
    checkpoint(&session, draft(2));
    let info = info(&host, &session);
    host.storage
        .damage(&names::checkpoint(session.id(), 1), |bytes| bytes.truncate(9));
    SessionTable::checkpoints(&host.sealer, &info).unwrap_err();
    assert!(
        host.storage.get(&names::checkpoint(session.id(), 0)).is_ok(),
        "there is an older one"
    );
}

#[test]
fn a_session_table_from_before_an_answer_still_finds_the_answering_checkpoint() {
    let host = Host::new();
    let session = host.begin(1);
    let early = info(&host, &session);
    host.condemn(1, Vec::new());
    session.tick().unwrap();
    for n in 1..5 {
        checkpoint(&session, draft(n));
    }
    let mut stale = info(&host, &session);
    stale.checkpoints = early.checkpoints;
    let read = super::newest(&host, &stale).unwrap();
    assert_eq!(read.containers, draft(4).containers);
}

#[test]
fn a_session_that_ends_while_its_checkpoint_is_sought_needs_none() {
    let host = Host::new();
    let session = host.begin(1);
    host.condemn(1, Vec::new());
    session.tick().unwrap();
    checkpoint(&session, draft(1));
    let info = info(&host, &session);
    assert!(info.has_answered(epoch(1)));
    session.commit(super::backup_of(&session, 1)).unwrap();
    assert_eq!(super::newest(&host, &info), None, "its manifest tells");
}
