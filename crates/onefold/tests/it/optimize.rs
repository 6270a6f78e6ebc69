//! Reverse deduplication: older backups refer forward to later ones, and their own data is stored
//! apart (R2, R3, R4).

use std::collections::BTreeSet;

use crate::common::{How, Process, assert_restores_bytes, back_up_bytes, noise, snapshot};
use env::Storage;
use format::names;
use onefold::{
    Layout, Monitor, OptimizeReport, OptimizeRequest, PruneLimits, PruneOptions, PruneReport, PruneUnused,
    ReadData, SessionId, SettingsChange, Store,
};

fn everything() -> PruneOptions {
    PruneOptions::default().limits(PruneLimits::default().unused_max(PruneUnused::Bytes(0)))
}

fn prune(store: &Store) -> PruneReport {
    let (report, warnings) = store.prune(&everything(), &Monitor::default()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    report
}

/// Optimizes every series with this live window.
fn optimize(store: &Store, live: u16) -> OptimizeReport {
    let request = OptimizeRequest::default().live(Some(live)).workers(2);
    store.optimize(&request, &Monitor::default()).unwrap()
}

fn forget(machine: &Process, id: SessionId) {
    crate::common::reclaimer::Reclaimer::new(machine.beside(id.get() + 500)).forget(id);
}

fn assert_sound(machine: &Process) {
    crate::common::assert_sound(&machine.open(), "after it");
}

fn stored(machine: &Process) -> u64 {
    ["data", "archive", "recipe", "small", "catalog"]
        .iter()
        .flat_map(|folder| machine.storage.list(folder).unwrap())
        .map(|object| object.len)
        .sum()
}

/// A series in which each backup has most of the one before, some of it moved, and some bytes of
/// its own.
struct Series {
    name: &'static str,
    contents: Vec<Vec<u8>>,
    ids: Vec<SessionId>,
}

impl Series {
    fn back_up(machine: &Process, name: &'static str, seed: u64, count: u64) -> Self {
        let mut series = Self {
            name,
            contents: Vec::new(),
            ids: Vec::new(),
        };
        let mut bytes = noise(seed, 300 << 10);
        for n in 0..count {
            series.contents.push(bytes.clone());
            series.ids.push(
                back_up_bytes(&machine.open(), name, &bytes, &How::plain())
                    .unwrap()
                    .id,
            );
            let at = usize::try_from((n * 37 + 11) % 250).unwrap() << 10;
            bytes.splice(at..at + (20 << 10), noise(seed + 100 + n, 24 << 10));
            bytes.splice(0..0, noise(seed + 200 + n, 700));
            bytes.extend(vec![0; 9 << 10]);
        }
        series
    }

    fn assert_all(&self, machine: &Process, gone: &[SessionId]) {
        let there = self.ids.iter().zip(&self.contents);
        for (id, bytes) in there.filter(|(id, _)| !gone.contains(id)) {
            let store = machine.open();
            assert_restores_bytes(&store, &snapshot(&store, *id), self.name, bytes, "it");
        }
    }
}

#[test]
fn older_backups_become_archival_and_all_restore() {
    let machine = Process::new(1);
    machine.init();
    let series = Series::back_up(&machine, "/image", 1, 6);
    prune(&machine.open());
    let before = stored(&machine);
    let report = optimize(&machine.open(), 1);
    assert_eq!(report.backups.len(), 5);
    for (id, done) in &report.backups {
        assert!(done.is_done, "{id}: {done:?}");
        assert!(done.bytes_forward > done.bytes / 2, "{id}: {done:?}");
        assert!(done.bytes_archived > 0, "{id}: {done:?}");
    }
    series.assert_all(&machine, &[]);
    assert_sound(&machine);
    let again = optimize(&machine.open(), 1);
    assert!(again.backups.is_empty(), "{again:?}");
    prune(&machine.open());
    series.assert_all(&machine, &[]);
    assert_sound(&machine);
    let after = stored(&machine);
    assert!(after < before + before / 20, "{before} bytes became {after}");
    // No work is left, and no group is marked again.
    let again = prune(&machine.open());
    assert_eq!((again.groups_marked, again.bytes_deleted), (0, 0), "{again:?}");
}

/// A hybrid series in which only the newest backup is live takes about the space of an inline one.
#[test]
fn a_hybrid_series_takes_the_space_of_an_inline_one() {
    let mut sizes = Vec::new();
    for layout in [Layout::Inline, Layout::Hybrid] {
        let machine = Process::new(5);
        let change = SettingsChange::default()
            .layout(Some(layout))
            .segment_bytes((layout == Layout::Hybrid).then_some(64 << 10));
        machine.init().set_default_series_settings(&change).unwrap();
        let series = Series::back_up(&machine, "/image", 1, 6);
        prune(&machine.open());
        let whole = stored(&machine);
        let report = optimize(&machine.open(), 1);
        assert!(report.backups.iter().all(|(_, done)| done.is_done), "{report:?}");
        prune(&machine.open());
        series.assert_all(&machine, &[]);
        assert_sound(&machine);
        sizes.push((whole, stored(&machine)));
    }
    let [(inline, _), (before, after)] = sizes[..] else {
        panic!()
    };
    assert!(before > inline * 3 / 2, "{before} bytes hybrid, {inline} inline");
    assert!(
        after < inline * 21 / 20,
        "{after} bytes hybrid at last, {inline} inline"
    );
}

/// The newest backups are forgotten. The one before them then refers to none, and they are removed.
#[test]
fn the_new_newest_backup_refers_to_none_after_newer_ones_are_forgotten() {
    let machine = Process::new(6);
    machine.init();
    let series = Series::back_up(&machine, "/image", 1, 4);
    optimize(&machine.open(), 1);
    prune(&machine.open());
    let gone = &series.ids[2..];
    gone.iter().for_each(|id| forget(&machine, *id));
    prune(&machine.open());
    series.assert_all(&machine, gone);
    // No setting has a window, and it is still due.
    let report = machine
        .open()
        .optimize(&OptimizeRequest::default(), &Monitor::default())
        .unwrap();
    assert_eq!(report.backups.len(), 1, "{report:?}");
    assert_eq!(report.backups[0].0, series.ids[1]);
    prune(&machine.open());
    series.assert_all(&machine, gone);
    let newest = snapshot(&machine.open(), series.ids[1]);
    assert_eq!(newest.backup.next, None);
    assert_eq!(
        snapshot(&machine.open(), series.ids[0]).backup.next,
        Some(series.ids[1])
    );
    assert_sound(&machine);
    // The forgotten ones' own data no longer exists: a second prune finds nothing.
    let again = prune(&machine.open());
    assert_eq!(again.bytes_deleted, 0, "{again:?}");
}

/// A copy in the later backup that is known to be damaged never becomes the only one.
#[test]
fn a_copy_that_is_damaged_is_not_referred_to() {
    let machine = Process::new(7);
    let hybrid = SettingsChange::default()
        .layout(Some(Layout::Hybrid))
        .segment_bytes(Some(64 << 10));
    machine.init().set_default_series_settings(&hybrid).unwrap();
    let series = Series::back_up(&machine, "/image", 1, 2);
    let of_newer = format!("data/{:013}/", series.ids[1].get());
    for object in machine.storage.list("data").unwrap() {
        if object.name.as_str().starts_with(&of_newer) {
            let spoil = |bytes: &mut Vec<u8>| bytes[100] ^= 1;
            assert!(machine.storage.damage(&object.name, spoil));
        }
    }
    let found = machine
        .open()
        .check(ReadData::Share(1.0), &Monitor::default())
        .unwrap();
    assert!(!found.is_sound());
    optimize(&machine.open(), 1);
    let (_, _) = machine.open().prune(&everything(), &Monitor::default()).unwrap();
    series.assert_all(&machine, &series.ids[1..]);
}

/// An unreadable backup is reported, and the others are rewritten.
#[test]
fn one_backup_that_cannot_be_read_stops_no_other() {
    let machine = Process::new(8);
    machine.init();
    let one = Series::back_up(&machine, "/one", 1, 2);
    let other = Series::back_up(&machine, "/other", 500, 2);
    let root = snapshot(&machine.open(), one.ids[0]).backup.streams[0]
        .location
        .container;
    for name in [
        names::container(root, types::Generation::FIRST),
        names::mirror(root, types::Generation::FIRST).unwrap(),
    ] {
        assert!(machine.storage.damage(&name, |bytes| bytes.truncate(10)));
    }
    let report = optimize(&machine.open(), 1);
    assert_eq!(report.failed.len(), 1, "{report:?}");
    assert_eq!(report.failed[0].0, one.ids[0]);
    assert_eq!(report.backups.len(), 1, "{report:?}");
    other.assert_all(&machine, &[]);
}

#[test]
fn the_oldest_backup_expires_by_whole_containers_without_copies() {
    let machine = Process::new(2);
    machine.init();
    let series = Series::back_up(&machine, "/image", 1, 6);
    optimize(&machine.open(), 1);
    prune(&machine.open());
    for (n, id) in series.ids[..5].iter().enumerate() {
        forget(&machine, *id);
        let report = prune(&machine.open());
        assert!(report.containers_removed > 0, "{report:?}");
        assert_eq!((report.bytes_copied, report.nodes_read), (0, 0), "{report:?}");
        assert_eq!(report.bytes_left_dead, 0, "{report:?}");
        series.assert_all(&machine, &series.ids[..=n]);
        assert_sound(&machine);
    }
    let archive = machine.storage.list("archive").unwrap();
    assert!(archive.is_empty(), "{archive:?}");
}

#[test]
fn forgotten_backups_that_others_refer_forward_to_stay() {
    let machine = Process::new(3);
    machine.init();
    let series = Series::back_up(&machine, "/image", 1, 6);
    optimize(&machine.open(), 1);
    prune(&machine.open());
    let gone = [series.ids[2], series.ids[3]];
    gone.iter().for_each(|id| forget(&machine, *id));
    prune(&machine.open());
    series.assert_all(&machine, &gone);
    assert_sound(&machine);
    // The one before them is rewritten onto the next that is left, and then they are removed.
    let report = optimize(&machine.open(), 1);
    let ids: Vec<_> = report.backups.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [series.ids[1]]);
    let freed = prune(&machine.open());
    assert!(freed.bytes_deleted > 0, "{freed:?}");
    series.assert_all(&machine, &gone);
    assert_sound(&machine);
    series.ids[..2].iter().for_each(|id| forget(&machine, *id));
    prune(&machine.open());
    series.assert_all(&machine, &[&series.ids[..2], &gone[..]].concat());
    let all: BTreeSet<_> = series.ids[..5].iter().copied().collect();
    all.iter().for_each(|id| forget(&machine, *id));
    prune(&machine.open());
    assert!(machine.storage.list("archive").unwrap().is_empty());
    assert_sound(&machine);
}

#[test]
fn several_series_share_segments_and_none_loses_a_chunk() {
    let machine = Process::new(4);
    machine.init();
    // With the same seed, both series begin alike, and then differ.
    let one = Series::back_up(&machine, "/one", 1, 3);
    let other = Series::back_up(&machine, "/other", 1, 2);
    let third = Series::back_up(&machine, "/third", 1, 4);
    for live in [2, 1] {
        optimize(&machine.open(), live);
        for series in [&one, &other, &third] {
            series.assert_all(&machine, &[]);
        }
        prune(&machine.open());
        for series in [&one, &other, &third] {
            series.assert_all(&machine, &[]);
        }
        assert_sound(&machine);
    }
    for id in &one.ids {
        forget(&machine, *id);
        prune(&machine.open());
        other.assert_all(&machine, &[]);
        third.assert_all(&machine, &[]);
    }
    assert_sound(&machine);
}

/// Slots to which an older backup refers forward are looked up like its own slots: these belonged
/// to the forgotten backup, and another series still has them.
#[test]
fn slots_reached_through_a_forgotten_backup_stay_if_others_have_them() {
    let machine = Process::new(9);
    machine.init();
    let (common, rest) = (noise(1, 60 << 10), noise(2, 60 << 10));
    let back_up = |name: &str, bytes: &[u8]| {
        back_up_bytes(&machine.open(), name, bytes, &How::plain())
            .unwrap()
            .id
    };
    let first = back_up("/image", &[&common[..], &rest].concat());
    let second = back_up("/image", &[&common[..], &noise(3, 9 << 10), &rest].concat());
    back_up("/image", &rest);
    back_up("/other", &common);
    assert!(optimize(&machine.open(), 2).backups[0].1.bytes_forward > 100 << 10);
    forget(&machine, second);
    let report = optimize(&machine.open(), 2);
    let [(id, done)] = report.backups[..] else {
        panic!("{report:?}")
    };
    assert_eq!(id, first);
    assert!(
        done.bytes_shared > 50 << 10 && done.bytes_archived < 9 << 10,
        "{done:?}"
    );
    prune(&machine.open());
    let store = machine.open();
    let both = [common, rest].concat();
    assert_restores_bytes(&store, &snapshot(&store, first), "/image", &both, "at the end");
    assert_sound(&machine);
}
