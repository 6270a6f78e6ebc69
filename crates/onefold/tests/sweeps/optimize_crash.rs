//! Power cuts at operations of making backups archival, of forgetting and pruning them, and of
//! making them archival again. After each, everything must hold that holds after a crash in a prune
//! (`prune_crash.rs`). The next process that optimizes completes the work.
//!
//! They are at a sample of the operations, the same one each time; with `ONEFOLD_TEST_LONG=1` at
//! every one. Kills before every change are in `optimize_kill.rs`.

use std::sync::Arc;

use crate::common::How;
use crate::common::archival::hold;
use crate::common::play::{Play, every, everything, everything_at_once, policies};
use crate::common::pruning::{Stage, try_forget};
use format::names;
use onefold::{
    Layout, Monitor, OptimizeReport, OptimizeRequest, Optimized, SessionId, SettingsChange, Store,
};
use types::ObjectName;

/// Optimizes every series with this live window.
fn try_optimize(store: &Store, live: u16) -> Result<OptimizeReport, onefold::Error> {
    let request = OptimizeRequest::default().live(Some(live)).workers(1);
    store.optimize(&request, &Monitor::default())
}

fn optimize(store: &Store, live: u16) -> OptimizeReport {
    try_optimize(store, live).unwrap()
}

/// Two series that share content. Each backup has some data of its own.
fn fill(play: &Play) -> Vec<SessionId> {
    let plain = How::plain();
    vec![
        play.back_up("/a", &[0, 1, 2], &plain),
        play.back_up("/b", &[0, 1, 3], &plain),
        play.back_up("/a", &[4, 1, 2], &plain),
        play.back_up("/b", &[0, 5, 3], &plain),
        play.back_up("/a", &[4, 6, 2, 7], &plain),
    ]
}

/// Two series of layout hybrid with common segments, and some that only one has.
fn fill_hybrid(play: &Play) -> Vec<SessionId> {
    let hybrid = SettingsChange::default()
        .layout(Some(Layout::Hybrid))
        .segment_bytes(Some(64 << 10));
    let store = play.process.open();
    store.set_default_series_settings(&hybrid).unwrap();
    let plain = How::plain();
    vec![
        play.back_up("/a", &[0, 1, 2, 3, 4, 5, 6, 7], &plain),
        play.back_up("/b", &[8, 1, 2, 3, 4, 5, 6, 9], &plain),
        play.back_up("/a", &[9, 1, 2, 3, 4, 5, 6, 7, 0], &plain),
        play.back_up("/b", &[8, 1, 2, 3, 4, 5, 6, 0], &plain),
        play.back_up("/a", &[1, 2, 3, 4, 5, 6, 7, 8], &plain),
    ]
}

/// Their unused data is moved and removed. Then a backup in the middle is removed, to which a held
/// one refers forward, and the oldest of the other series.
#[test]
fn a_crash_in_forget_optimize_and_prune_on_a_hybrid_store() {
    let play = Play::new(75);
    let ids = fill_hybrid(&play);
    play.record(policies(), every(31));
    let report = optimize(&play.process.open(), 1);
    let is_whole = |done: &Optimized| done.is_done && done.segments > 1;
    assert!(
        report.backups.len() == 3 && report.backups.iter().all(|(_, done)| is_whole(done)),
        "{report:?}"
    );
    play.prune_by(&[Stage::Removes, Stage::Compacts], &everything());
    hold(&play.process.open(), ids[0], true);
    play.forget(&ids[1..3]);
    play.prune(&everything_at_once());
    hold(&play.process.open(), ids[0], false);
    let report = optimize(&play.process.open(), 1);
    assert_eq!(report.backups.len(), 1, "{report:?}");
    play.prune(&everything_at_once());
    play.verify_all();
}

#[test]
fn a_crash_in_making_backups_archival() {
    let play = Play::new(71);
    fill(&play);
    play.prune(&everything());
    play.record(policies(), every(9));
    let report = optimize(&play.process.open(), 1);
    assert_eq!(report.backups.len(), 3);
    assert!(report.backups.iter().all(|(_, done)| done.is_done), "{report:?}");
    play.verify_all();
}

/// Their unused data is removed, then the oldest backup, then one in the middle, to whose chunks
/// others refer forward.
#[test]
fn a_crash_in_pruning_archival_backups() {
    let play = Play::new(72);
    let ids = fill(&play);
    optimize(&play.process.open(), 1);
    play.record(policies(), every(17));
    play.prune(&everything());
    play.forget(&ids[..1]);
    play.prune(&everything_at_once());
    play.forget(&ids[3..4]);
    play.prune(&everything_at_once());
    play.verify_all();
}

/// A backup whose next one was forgotten refers forward to the one after that.
#[test]
fn a_crash_in_making_a_backup_archival_anew() {
    let play = Play::new(73);
    let ids = fill(&play);
    optimize(&play.process.open(), 1);
    play.prune(&everything());
    play.record(policies(), every(11));
    play.forget(&ids[2..3]);
    let report = optimize(&play.process.open(), 1);
    assert_eq!(report.backups.len(), 1, "{report:?}");
    play.prune(&everything_at_once());
    play.verify_all();
}

/// A process dies when its rewrite is committed. The next one completes it, and so does a prune.
#[test]
fn a_committed_rewrite_without_new_revisions_is_completed() {
    for prunes in [false, true] {
        let play = Play::new(74);
        fill(&play);
        let dying = play.process.beside(900);
        let storage = dying.storage.clone();
        let committed = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let seen = Arc::clone(&committed);
        dying.watched.set_before(move |asked, name| {
            // The first revision that is put is the rewritten backup's.
            if asked == crate::common::Asked::Put && name.starts_with("backups/") && name.ends_with(".1") {
                seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                storage.kill();
            }
        });
        let store = dying.open();
        try_optimize(&store, 1).unwrap_err();
        assert_eq!(committed.load(std::sync::atomic::Ordering::Relaxed), 1);
        dying.watched.clear_before();
        let store = play.process.open();
        // No backup may refer to it.
        let rewrites = format!("backups/{}1", "0".repeat(31));
        let pending = play.process.names(&rewrites);
        let pending = ObjectName::new(pending[0].clone()).unwrap();
        let (_, rewrite, _) = names::parse_manifest(&pending).unwrap();
        try_forget(&store, rewrite).unwrap_err();
        assert!(
            store
                .find(&rewrite.to_string(), &onefold::Filter::default())
                .is_err()
        );
        assert_eq!(play.process.names(&rewrites).len(), 1);
        if prunes {
            play.prune(&everything());
        } else {
            let report = optimize(&store, 10);
            assert_eq!((report.completed, report.backups.len()), (1, 0), "{report:?}");
        }
        let report = optimize(&store, 1);
        assert_eq!((report.completed, report.backups.len()), (0, 2), "{report:?}");
        play.assert_kept(&play.process.open(), &play.told().clone(), "at the end");
    }
}
