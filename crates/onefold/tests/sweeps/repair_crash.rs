//! Power cuts at operations of layout repair, and of the prune after it. After each, everything
//! must hold that holds after a crash in a prune (`prune_crash.rs`). The next process that
//! optimizes completes the work.
//!
//! They are at a sample of the operations, the same one each time; with `ONEFOLD_TEST_LONG=1` at
//! every one. Kills before every change are in `optimize_kill.rs`.

use std::sync::Arc;

use crate::common::How;
use crate::common::play::{Play, every, everything, everything_at_once, policies};
use onefold::{Monitor, OptimizeReport, OptimizeRequest, SessionId, Store};

fn try_repair(store: &Store) -> Result<OptimizeReport, onefold::Error> {
    let request = OptimizeRequest::default().repair(Some(1000)).workers(1);
    store.optimize(&request, &Monitor::default())
}

/// Repairs the due backups, so many.
fn repair(store: &Store, due: usize) {
    let report = try_repair(store).unwrap();
    let done = report.repaired.iter().filter(|(_, done)| done.is_done);
    assert_eq!(done.count(), due, "{report:?}");
}

/// Two series that share content; the newest backups have a little of many others.
fn fill(play: &Play) -> Vec<SessionId> {
    let plain = How::plain();
    vec![
        play.back_up("/a", &[0, 1, 2, 3], &plain),
        play.back_up("/b", &[4, 0, 5], &plain),
        play.back_up("/a", &[2, 6, 0, 3], &plain),
        play.back_up("/b", &[5, 7, 0, 4], &plain),
        play.back_up("/a", &[3, 8, 5, 2], &plain),
    ]
}

#[test]
fn a_crash_in_layout_repair() {
    let play = Play::new(81);
    fill(&play);
    play.prune(&everything());
    play.record(policies(), every(3));
    repair(&play.process.open(), 2);
    play.verify_all();
}

/// Unused data is removed, and then backups that refer to the copies.
#[test]
fn a_crash_in_pruning_after_layout_repair() {
    let play = Play::new(82);
    let ids = fill(&play);
    repair(&play.process.open(), 2);
    play.record(policies(), every(17));
    play.prune(&everything());
    play.forget(&ids[..2]);
    play.prune(&everything_at_once());
    play.forget(&ids[4..]);
    play.prune(&everything_at_once());
    play.verify_all();
}

/// A process dies when its rewrite is committed, before any revision or between them. The next one
/// completes it, and so does a prune. Look-ups find the copies.
#[test]
fn a_committed_rewrite_is_completed_for_every_backup() {
    for (revisions, prunes) in [(0, false), (0, true), (1, false), (1, true), (2, true)] {
        let play = Play::new(83);
        let ids = fill(&play);
        let dying = play.process.beside(900);
        let storage = dying.storage.clone();
        let put = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let seen = Arc::clone(&put);
        dying.watched.set_before(move |asked, name| {
            let is_revision =
                asked == crate::common::Asked::Put && name.starts_with("backups/") && name.ends_with(".1");
            if is_revision && seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == revisions {
                storage.kill();
            }
        });
        try_repair(&dying.open()).unwrap_err();
        assert_eq!(put.load(std::sync::atomic::Ordering::Relaxed), revisions + 1);
        dying.watched.clear_before();
        if prunes {
            play.prune(&everything());
        } else {
            let report = try_repair(&play.process.open()).unwrap();
            assert!(report.completed > 0, "{report:?}");
        }
        let store = play.process.open();
        let list = store.snapshots().unwrap().snapshots;
        let rewritten = list.iter().filter(|snapshot| snapshot.backup.rewritten.is_some());
        assert!(rewritten.count() >= 3, "{list:?}");
        play.assert_kept(&store, &play.told().clone(), "completed");
        // The other series, if the process died before it repaired that.
        try_repair(&store).unwrap();
        repair(&store, 0);
        play.prune(&everything());
        play.assert_kept(&play.process.open(), &play.told().clone(), "at the end");
        // The copies are found.
        let bytes = play.bytes(&[3, 8, 5, 2]);
        let made =
            crate::common::back_up_bytes(&play.process.open(), "/next", &bytes, &How::plain()).unwrap();
        assert_eq!(made.totals.bytes_new, 0, "{:?} after {ids:?}", made.totals);
    }
}
