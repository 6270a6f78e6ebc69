//! The rules that keep the backups to which others refer forward. In each test, only one rule keeps
//! the backup.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::common::archival::{Base, NAME, hold, is_rewrite, optimize};
use crate::common::pruning::{everything, everything_at_once, forget, prune};
use crate::common::sleeper::Sleeper;
use crate::common::{
    Asked, How, Process, back_up_bytes, noise, snapshot, try_restores_bytes, try_snapshot, wait_until,
};
use format::names;
use onefold::{HoldEnd, OptimizeReport, OptimizeRequest, Optimized, PruneOptions, SessionId};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A rewrite has declared the next backup in its revision at that time. Before it commits, that
/// backup is rewritten and forgotten, and an epoch ends that the rewrite has answered. The rewrite
/// will refer forward to the backup's last revision, so that one is read.
#[test]
fn the_next_backup_that_a_rewrite_declared_is_kept_by_its_last_revision() {
    for forgotten in [&[1][..], &[1, 2]] {
        let base = Base::new(90, 0);
        let worker = base.machine.beside(3);
        let (other, pruner) = (base.machine.beside(4), base.machine.beside(5).striding());
        let ids = base.ids.clone();
        // Nodes have been put, so the shared chunks are known.
        let has_put = Arc::new(AtomicBool::new(false));
        let puts = Arc::clone(&has_put);
        worker.watched.set_before(move |asked, name| {
            let is_node = asked == Asked::Put && name.starts_with("recipe/");
            puts.fetch_or(is_node, Ordering::Relaxed);
        });
        let is_next = move |asked, name: &str| {
            has_put.load(Ordering::Relaxed) && asked != Asked::List && name.starts_with("data/")
        };
        worker.watched.set_once_at(is_next, move || {
            let store = other.open();
            hold(&store, ids[0], true);
            optimize(&store, 1);
            hold(&store, ids[0], false);
            let next = |id| snapshot(&store, id).backup.next;
            assert_eq!([next(ids[0]), next(ids[1])], [None, Some(ids[2])]);
            forgotten.iter().for_each(|place| forget(&store, ids[*place]));
            let report = prune(&pruner.open(), &everything(), "before the commit");
            assert!(
                report.epochs == 1 && report.sessions_expired.is_empty(),
                "{report:?}"
            );
        });
        let report = optimize(&worker.open(), 3);
        assert_eq!(report.backups.len(), 1, "{report:?}");
        let older = snapshot(&worker.open(), base.ids[0]);
        assert_eq!(
            older.backup.next,
            Some(base.ids[1]),
            "it refers forward to what was forgotten"
        );
        let gone: Vec<_> = forgotten.iter().map(|place| base.ids[*place]).collect();
        base.assert_settles(&gone, "at the end");
    }
}

/// A prune that has announced its epoch, and waits until the test lets it continue.
struct Announced {
    go_on: Sender<()>,
    thread: JoinHandle<()>,
}

impl Announced {
    fn begin(pruner: Process, options: PruneOptions) -> Self {
        let (go_on, told) = channel();
        let (machine, mut waits) = (pruner.clone(), true);
        pruner.watched.set_before(move |asked, _| {
            if waits && asked == Asked::Barrier && !machine.names("condemned").is_empty() {
                waits = false;
                told.recv().unwrap();
            }
        });
        let by = pruner.clone();
        let thread = std::thread::spawn(move || {
            prune(&by.open(), &options, "beside others");
        });
        wait_until("an epoch", || !pruner.names("condemned").is_empty());
        Self { go_on, thread }
    }

    fn end(self) {
        self.go_on.send(()).unwrap();
        self.thread.join().unwrap();
    }
}

/// Makes a backup archival, and forgets its next one when the rewrite is about to commit. A prune
/// has announced the next one's slots as dead.
fn commit_while_announced(base: &Base, live: u16, next: SessionId, options: &PruneOptions) -> Announced {
    let worker = base.machine.beside(3);
    let (other, pruner) = (base.machine.beside(4), base.machine.beside(5).striding());
    let (options, pruning) = (options.clone(), Arc::new(Mutex::new(None)));
    let begun = Arc::clone(&pruning);
    worker.watched.set_before(move |asked, name| {
        let mut pruning = begun.lock().unwrap();
        if is_rewrite(asked, name) && pruning.is_none() {
            forget(&other.open(), next);
            *pruning = Some(Announced::begin(pruner.clone(), options.clone()));
        }
    });
    let report = optimize(&worker.open(), live);
    assert_eq!(report.backups.len(), 1, "{report:?}");
    assert!(report.backups[0].1.is_done, "{report:?}");
    worker.watched.clear_before();
    pruning.lock().unwrap().take().unwrap()
}

/// Marks for the epoch have it as dead, and no session runs any more.
#[test]
fn a_manifest_stays_that_a_backup_has_come_to_name_while_an_epoch_waited() {
    let base = Base::new(92, 0);
    let (older, next) = (base.ids[0], base.ids[1]);
    let pruning = commit_while_announced(&base, 3, next, &everything_at_once());
    pruning.end();
    let manifests = base.machine.names("backups");
    let of_next = manifests.iter().filter(|name| is_of(name, next)).count();
    assert_eq!(of_next, 2, "{manifests:?}");
    assert_eq!(snapshot(&base.machine.open(), older).backup.next, Some(next));
    base.assert_settles(&[next], "at the end");
}

fn is_of(name: &str, id: SessionId) -> bool {
    let parsed = names::parse_manifest(&types::ObjectName::new(name).unwrap());
    parsed.is_some_and(|(_, of, _)| of == id)
}

/// A forgotten backup that a newer tombstone's backup names is deleted with that tombstone, and not
/// before.
#[test]
fn a_manifest_stays_as_long_as_one_that_names_it_though_both_are_forgotten() {
    let base = Base::timed(93, 2);
    let (first, second) = (base.ids[0], base.ids[1]);
    let left = || {
        prune(&base.machine.open(), &everything(), "in between");
        let manifests = base.machine.names("backups");
        [first, second].map(|id| manifests.iter().any(|name| is_of(name, id)))
    };
    forget(&base.machine.open(), second);
    assert_eq!(left(), [true, true]);
    base.machine.clock.advance(20 * DAY);
    forget(&base.machine.open(), first);
    // From now on both are dead.
    assert_eq!(left(), [true, true]);
    base.machine.clock.advance(15 * DAY);
    assert_eq!(left(), [true, true], "one of them is old");
    base.machine.clock.advance(20 * DAY);
    assert_eq!(left(), [false, false], "both are");
    base.assert_settles(&[first, second], "at the end");
}

/// While an epoch waits that has its next backup as dead, a backup is rewritten. The reader
/// answered when it began, and chose the backup before it was forgotten. It declares the backup
/// when the epoch is decided.
#[test]
fn a_backup_rewritten_and_forgotten_during_an_epoch_keeps_its_next_backup() {
    let base = Base::new(94, 0);
    let (middle, next) = (base.ids[1], base.ids[2]);
    hold(&base.machine.open(), base.ids[0], true);
    let pruning = commit_while_announced(&base, 2, next, &everything());
    let reader = base.machine.beside(6);
    let store = reader.open();
    let chosen = snapshot(&store, middle);
    assert_eq!(chosen.backup.next, Some(next));
    let (other, pruning) = (base.machine.beside(7), Mutex::new(Some(pruning)));
    reader.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.contains("/checkpoint.") {
            let Some(pruning) = pruning.lock().unwrap().take() else {
                return;
            };
            forget(&other.open(), middle);
            pruning.end();
        }
    });
    try_restores_bytes(&store, &chosen, NAME, &base.contents[&middle]).unwrap();
    reader.watched.clear_before();
    try_snapshot(&base.machine.open(), middle).unwrap_err();
    hold(&base.machine.open(), base.ids[0], false);
    base.assert_settles(&[middle, next], "at the end");
}

/// No session pins a backup that only shares chunks. When it is rewritten meanwhile and its nodes
/// are removed, a rewrite must not mistake that for a failing storage.
#[test]
fn nodes_of_a_backup_disappear_while_another_is_compared_with_it() {
    let base = Base::new(90, 0);
    let worker = base.machine.beside(3);
    let (other, pruner) = (base.machine.beside(4), base.machine.beside(5).striding());
    let (first, compared) = (base.ids[0], base.ids[2]);
    let is_node = |asked, name: &str| asked != Asked::List && name.starts_with("recipe/");
    worker.watched.set_once_at(is_node, move || {
        hold(&other.open(), first, true);
        optimize(&other.open(), 1);
        let report = prune(&pruner.open(), &everything(), "beside it");
        let left = other.names(&format!("recipe/{:013}", compared.get()));
        assert!(
            report.bytes_deleted > 0 && !left.is_empty(),
            "some of its nodes: {report:?}"
        );
        hold(&other.open(), first, false);
    });
    let report = optimize(&worker.open(), 3);
    assert_eq!((report.backups.len(), report.failed.len()), (1, 0), "{report:?}");
    base.assert_settles(&[], "at the end");
}

fn due(base: &Base) -> Vec<SessionId> {
    let request = OptimizeRequest::default().live(Some(1));
    let due = base.machine.open().preview_optimize(&request).unwrap();
    due.backups.into_iter().map(|due| due.id).collect()
}

#[test]
fn a_backup_becomes_archival_when_its_hold_is_over() {
    let base = Base::timed(98, 0);
    let store = base.machine.open();
    let [first, second, third, _] = base.ids[..] else {
        panic!()
    };
    hold(&store, first, true);
    let a_day = HoldEnd::After("1d".parse().unwrap());
    store.hold(&[second.to_string()], Some(a_day)).unwrap();
    assert_eq!(due(&base), [third]);
    let done = |report: OptimizeReport| {
        let done = report.backups.iter().filter(|(_, done)| done.is_done);
        done.map(|(id, _)| *id).collect::<Vec<_>>()
    };
    assert_eq!(done(optimize(&base.machine.open(), 1)), [third]);
    base.machine.clock.advance(DAY / 2);
    assert!(due(&base).is_empty() && done(optimize(&base.machine.open(), 1)).is_empty());
    base.machine.clock.advance(DAY);
    assert_eq!(due(&base), [second]);
    assert_eq!(done(optimize(&base.machine.open(), 1)), [second]);
    let next = |id| snapshot(&base.machine.open(), id).backup.next;
    assert_eq!([next(first), next(second)], [None, Some(third)]);
    base.assert_settles(&[], "with one that is held");
    assert_eq!(next(first), None);
}

/// A hold between the listing of due backups and the rewrite's own listing.
#[test]
fn a_backup_that_is_held_meanwhile_stays_as_it_is() {
    let base = Base::new(100, 0);
    let worker = base.machine.beside(3);
    let (other, first) = (base.machine.beside(4), base.ids[0]);
    let mut claims = 0;
    worker.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.ends_with("/claim") {
            claims += 1;
            // The first claim is of the session that publishes rewrites.
            if claims == 2 {
                hold(&other.open(), first, true);
            }
        }
    });
    let report = optimize(&worker.open(), 3);
    let [(id, done)] = report.backups[..] else {
        panic!("{report:?}")
    };
    assert_eq!((id, done), (first, Optimized::default()));
    assert_eq!(snapshot(&base.machine.open(), first).backup.next, None);
    base.assert_settles(&[], "held");
}

/// Marks cover it as referring forward. Since then it was rewritten to refer to none, and forgotten
/// before a prune marked that. An older backup refers to its last revision, not to the one that
/// marks cover.
#[test]
fn a_backup_rewritten_to_refer_to_none_and_forgotten_before_it_is_marked() {
    let base = Base::new(102, 3);
    let store = base.machine.open();
    let ids = &base.ids;
    ids[2..].iter().for_each(|id| forget(&store, *id));
    let report = optimize(&store, 1);
    assert_eq!(report.backups.len(), 1, "{report:?}");
    let next = |id| snapshot(&store, id).backup.next;
    assert_eq!([next(ids[0]), next(ids[1])], [Some(ids[1]), None]);
    forget(&store, ids[1]);
    let report = prune(&base.machine.open(), &everything(), "in between");
    assert_eq!(report.kept.get(&ids[1]), Some(&ids[0]));
    base.assert_settles(&ids[1..], "at the end");
}

/// A hold while its new nodes are put.
#[test]
fn a_backup_that_is_held_while_it_is_rewritten_stays_as_it_is() {
    let base = Base::new(101, 0);
    let worker = base.machine.beside(3);
    let (other, first) = (base.machine.beside(4), base.ids[0]);
    let mut is_held = false;
    worker.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.starts_with("recipe/") && !is_held {
            is_held = true;
            hold(&other.open(), first, true);
        }
    });
    let report = optimize(&worker.open(), 3);
    let [(id, done)] = report.backups[..] else {
        panic!("{report:?}")
    };
    assert_eq!((id, done), (first, Optimized::default()));
    let held = snapshot(&base.machine.open(), first);
    assert!(held.backup.next.is_none() && held.backup.hold_until.is_some());
    base.assert_settles(&[], "held");
    hold(&base.machine.open(), first, false);
    base.assert_settles(&[], "the hold is over");
    assert!(snapshot(&base.machine.open(), first).backup.next.is_some());
}

/// A backup that shares everything with another series, and nothing with the next backup, changes
/// only in which backup is next. A process that completes the rewrite sleeps until another backup
/// is the next, and does not mistake it for one that was never rewritten.
#[test]
fn a_rewritten_backup_always_has_another_root() {
    let machine = Process::new(97);
    machine.init();
    let back_up = |name, seed| {
        let bytes = noise(seed, 100 << 10);
        back_up_bytes(&machine.open(), name, &bytes, &How::plain())
            .unwrap()
            .id
    };
    let (older, shares) = (back_up(NAME, 1), back_up("/sharing", 1));
    let next = back_up(NAME, 2);
    let now = || snapshot(&machine.open(), older);
    let (maker, before) = (machine.beside(98), now());
    let of_other = snapshot(&machine.open(), shares).series;
    let sleeper = Sleeper::beside(&maker, machine.beside(99), before.series, of_other);
    let report = optimize(&maker.open(), 1);
    let done = report.backups[0].1;
    assert!(done.is_done && done.bytes_shared == done.bytes, "{report:?}");
    let after = now().backup;
    assert!(after.next == Some(next) && after.streams != before.backup.streams);
    let last = back_up(NAME, 3);
    forget(&machine.open(), next);
    optimize(&machine.open(), 1);
    prune(&machine.beside(100).striding().open(), &everything(), "asleep");
    sleeper.wake();
    assert_eq!(now().backup.next, Some(last));
    prune(&machine.open(), &everything(), "at the end");
    try_restores_bytes(&machine.open(), &now(), NAME, &noise(1, 100 << 10)).unwrap();
}
