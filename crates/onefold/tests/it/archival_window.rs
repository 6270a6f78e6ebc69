//! `optimize` forgets backups that leave the retention window of their series: this many live and
//! archival backups stay.

use std::num::NonZeroU16;
use std::time::Duration;

use crate::common::archival::{Base, NAME, hold};
use crate::common::play::{Play, every, policies};
use crate::common::pruning::{everything, prune};
use crate::common::{Asked, How, Process, assert_sound, back_up_bytes, snapshot, try_snapshot};
use env::Storage;
use format::names;
use onefold::{
    ArchivalWindow, HeldBackup, HoldEnd, Layout, Monitor, OptimizePreview, OptimizeReport, OptimizeRequest,
    SeriesName, SessionId, SettingsChange, Store, UnixNanos,
};
use types::Revision;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn name(path: &str) -> SeriesName {
    SeriesName {
        host: b"host".to_vec(),
        paths: vec![path.as_bytes().to_vec()],
    }
}

/// Layout hybrid, with this many live and archival backups.
fn windows(live: u16, archival: u16) -> SettingsChange {
    SettingsChange::default()
        .layout(Some(Layout::Hybrid))
        .live_window(Some(live))
        .archival_window(Some(archival_window(archival)))
        .segment_bytes(Some(64 << 10))
}

fn archival_window(count: u16) -> ArchivalWindow {
    NonZeroU16::new(count).map_or(ArchivalWindow::All, ArchivalWindow::Newest)
}

fn set(store: &Store, live: u16, archival: u16) {
    store
        .set_series_settings(&name(NAME), &windows(live, archival))
        .unwrap();
}

fn optimize(store: &Store) -> OptimizeReport {
    store
        .optimize(&OptimizeRequest::default(), &Monitor::default())
        .unwrap()
}

fn preview(store: &Store) -> OptimizePreview {
    store.preview_optimize(&OptimizeRequest::default()).unwrap()
}

fn expired(all: &[onefold::Expired]) -> Vec<SessionId> {
    all.iter().map(|one| one.id).collect()
}

fn done(report: &OptimizeReport) -> Vec<SessionId> {
    let done = report.backups.iter().filter(|(_, done)| done.is_done);
    done.map(|(id, _)| *id).collect()
}

fn left(store: &Store) -> Vec<SessionId> {
    store
        .snapshots()
        .unwrap()
        .snapshots
        .iter()
        .map(|one| one.id)
        .collect()
}

#[test]
fn backups_beyond_both_windows_are_forgotten_unrewritten_and_the_rest_restores() {
    let base = Base::new(200, 0);
    let store = base.machine.open();
    let other = back_up_bytes(&store, "/other", b"of another series", &How::plain()).unwrap();
    set(&store, 1, 2);
    let ids = &base.ids;
    let would = preview(&store);
    let of_first = would.expiring[0];
    assert_eq!(would.expiring.len(), 1);
    assert_eq!(of_first.id, ids[0]);
    assert_eq!((of_first.live_window, of_first.archival_window), (1, 2));
    let due: Vec<_> = would.backups.iter().map(|due| (due.id, due.onto)).collect();
    assert_eq!(due, [(ids[1], Some(ids[2])), (ids[2], Some(ids[3]))]);
    assert_eq!(left(&store).len(), 5, "saying so forgets nothing");

    let report = optimize(&store);
    assert_eq!((&report.expired, report.held.len()), (&vec![of_first], 0));
    let tried: Vec<_> = report.backups.iter().map(|(id, _)| *id).collect();
    assert_eq!(tried, ids[1..3], "what goes is not rewritten first: {report:?}");
    assert_eq!(done(&report), tried);
    assert_eq!(left(&store), [ids[1], ids[2], ids[3], other.id]);
    let again = optimize(&store);
    assert_eq!(again, OptimizeReport::default());
    base.assert_settles(&ids[..1], "at the end");
    assert_eq!(
        left(&base.machine.open()).len(),
        4,
        "two windows, and a series without any"
    );
}

#[test]
fn each_backup_expires_the_oldest_archival_one_without_a_copy() {
    let mut base = Base::empty(Process::new(201).striding());
    set(&base.machine.open(), 1, 2);
    for n in 0..5 {
        base.back_up(201, n);
        let report = optimize(&base.machine.open());
        let ids = &base.ids;
        let gone = ids.len().saturating_sub(3);
        assert_eq!(expired(&report.expired), ids[..gone][gone.saturating_sub(1)..]);
        assert_eq!(report.backups.len(), usize::from(n > 0), "{report:?}");
        let freed = prune(&base.machine.open(), &everything(), "after it");
        // The backup that became archival has parts of others' segments. The containers that were
        // removed with its archive were whole.
        assert_eq!(left(&base.machine.open()), ids[gone..]);
        base.assert_all(&ids[..gone], "after it");
        let archives = base.machine.storage.list("archive").unwrap();
        let of_gone = archives
            .iter()
            .filter(|object| names::parse_container(&object.name).is_some())
            .count();
        assert!(of_gone <= 2, "{n}: {archives:?} {freed:?}");
        assert_sound(&base.machine.open(), "after it");
    }
}

#[test]
fn nothing_expires_without_a_window_or_by_another_layout_or_window() {
    let base = Base::new(202, 0);
    let store = base.machine.open();
    set(&store, 1, 0);
    assert!(preview(&store).expiring.is_empty() && optimize(&store).expired.is_empty());
    set(&store, 1, 1);
    let inline = SettingsChange::default().layout(Some(Layout::Inline));
    store.set_series_settings(&name(NAME), &inline).unwrap();
    assert!(
        optimize(&store).expired.is_empty(),
        "it is kept for layout hybrid"
    );
    set(&store, 1, 1);
    for request in [
        OptimizeRequest::default().live(Some(1)),
        OptimizeRequest::default().series(Some(store.series_id(&name("/other")))),
    ] {
        let report = store.optimize(&request, &Monitor::default()).unwrap();
        assert!(report.expired.is_empty(), "{request:?}");
    }
    assert_eq!(left(&store), base.ids);
    set(&store, 3, 1);
    assert!(optimize(&store).expired.is_empty(), "both windows count");
    set(&store, 1, 1);
    assert_eq!(expired(&optimize(&store).expired), base.ids[..2]);
}

/// A held backup that has left the window stays, takes no other backup's place, and is forgotten
/// when the hold ends by the storage's clock.
#[test]
fn a_held_backup_expires_after_its_hold() {
    let base = Base::timed(203, 0);
    let store = base.machine.open();
    set(&store, 1, 1);
    let ids = &base.ids;
    let a_day = HoldEnd::After("1d".parse().unwrap());
    store.hold(&[ids[0].to_string()], Some(a_day)).unwrap();
    let held = |report: &[HeldBackup]| -> Vec<_> {
        let each = report.iter();
        each.map(|one| (one.id, one.is_expired, one.is_due, one.keeps))
            .collect()
    };
    let expected = [(ids[0], true, true, None)];
    assert_eq!(held(&preview(&store).held), expected);
    let report = optimize(&store);
    assert_eq!(held(&report.held), expected);
    assert!(report.held[0].until > UnixNanos::new(0));
    assert_eq!(
        (expired(&report.expired), done(&report)),
        (vec![ids[1]], vec![ids[2]])
    );
    assert_eq!(left(&store), [ids[0], ids[2], ids[3]]);
    // This host's clock does not matter.
    base.machine.clock.move_wall(3 * 24 * 60 * 60);
    assert!(optimize(&base.machine.open()).expired.is_empty());
    base.machine.clock.advance(2 * DAY);
    assert_eq!(expired(&optimize(&base.machine.open()).expired), ids[..1]);
    base.assert_settles(&ids[..2], "at the end");
}

/// The next backup of a held archival one is forgotten. The held one keeps referring to it, and is
/// reported.
#[test]
fn a_held_backup_that_keeps_a_forgotten_one_is_reported() {
    let base = Base::new(204, 3);
    let store = base.machine.open();
    let ids = &base.ids;
    hold(&store, ids[0], true);
    assert_eq!(preview(&store).held, [], "it is archival, and as it should be");
    crate::common::pruning::forget(&store, ids[1]);
    let held = &preview(&store).held[..];
    assert!(
        matches!(held, [one] if one.id == ids[0] && one.keeps == Some(ids[1]) && !one.is_due && !one.is_expired),
        "{held:?}"
    );
    assert_eq!(optimize(&store).held, held);
    hold(&store, ids[0], false);
    let report = optimize(&store);
    assert_eq!((done(&report), report.held.len()), (vec![ids[0]], 0));
    assert_eq!(report.backups[0].1.onto, Some(ids[2]));
}

/// The newest settings may have widened the window. If they cannot be read, older settings forget
/// nothing.
#[test]
fn settings_that_may_be_outdated_expire_nothing() {
    let base = Base::new(205, 0);
    let store = base.machine.open();
    set(&store, 1, 1);
    set(&store, 1, 3);
    // settings with a window are put twice: the newer ones are revisions 2 and 3
    let damage = |base: &Base, series| {
        for revision in [2, 3] {
            let name = names::settings(series, Revision::new(revision).unwrap());
            assert!(base.machine.storage.damage(&name, |bytes| bytes[60] ^= 1));
        }
    };
    let own = store.series_id(&name(NAME));
    damage(&base, Some(own));
    let report = optimize(&store);
    assert!(
        report.expired.is_empty() && !report.warnings.is_empty(),
        "{report:?}"
    );
    assert!(preview(&store).expiring.is_empty());
    set(&store, 1, 2);
    assert_eq!(
        expired(&optimize(&store).expired),
        base.ids[..1],
        "it is set again"
    );

    // The same for the default settings, in a series that uses them.
    let base = Base::new(206, 0);
    let store = base.machine.open();
    store.set_default_series_settings(&windows(1, 1)).unwrap();
    store.set_default_series_settings(&windows(1, 3)).unwrap();
    damage(&base, None);
    assert!(optimize(&store).expired.is_empty());
    set(&store, 1, 1);
    assert_eq!(
        expired(&optimize(&store).expired),
        base.ids[..2],
        "it has its own"
    );
}

/// A hold between the listing on which the decision is based and the tombstone.
#[test]
fn a_backup_that_is_held_meanwhile_stays() {
    let base = Base::new(207, 0);
    set(&base.machine.open(), 1, 1);
    let worker = base.machine.beside(3);
    let (other, first) = (base.machine.beside(4), base.ids[0]);
    let mut is_held = false;
    worker.watched.set_before(move |asked, name| {
        let is_tombstone = asked == Asked::Put && name.starts_with("backups/") && name.ends_with(".1");
        if is_tombstone && !is_held {
            is_held = true;
            hold(&other.open(), first, true);
        }
    });
    let report = optimize(&worker.open());
    assert_eq!(expired(&report.expired), base.ids[1..2]);
    assert!(
        report
            .warnings
            .iter()
            .any(|said| said.to_string().contains("somebody held or tagged backup")),
        "{report:?}"
    );
    snapshot(&base.machine.open(), first);
    try_snapshot(&base.machine.open(), base.ids[1]).unwrap_err();
}

#[test]
fn a_crash_in_forgetting_backups_that_left_their_window() {
    let play = Play::new(208);
    let plain = How::plain();
    for parts in [[0, 1, 2], [4, 1, 2], [4, 5, 2], [4, 5, 6], [7, 5, 6]] {
        play.back_up("/a", &parts, &plain);
    }
    play.process
        .open()
        .set_default_series_settings(&windows(1, 2))
        .unwrap();
    let ids = left(&play.process.open());
    play.record(policies(), every(7));
    let (gone, told) = (&ids[..2], || play.told());
    for id in gone {
        let content = told().kept.remove(id).unwrap();
        told().in_doubt.insert(*id, content);
    }
    let report = optimize(&play.process.open());
    assert_eq!((&expired(&report.expired)[..], report.backups.len()), (gone, 2));
    told().in_doubt.clear();
    play.prune(&everything());
    play.verify_all();
}
