//! Layout repair: the layout of the newest backup of an inline series is repaired, and nothing
//! stays stored twice (L9).

use crate::common::pruning::{everything, forget, prune_after_crash};
use crate::common::scattered::{PIECE, Scattered, hold, only, repair, scattered, stored};
use crate::common::{Asked, How, Process, Request, assert_sound, back_up_bytes, snapshot};
use onefold::{Monitor, OptimizeRequest, Repaired, SettingsChange};

const NAME: &str = "/image";

#[test]
fn the_newest_backup_is_put_in_order_and_nothing_is_stored_twice() {
    let machine = Process::new(1);
    machine.init();
    let mut series = scattered(&machine, NAME, 8);
    prune_after_crash(&machine.open(), &everything(), "before");
    let before = stored(&machine);
    let (id, done) = only(&repair(&machine.open(), 100));
    assert_eq!(id, series.made.last().unwrap().0);
    assert!(done.is_done && done.backups > 0, "{done:?}");
    assert!(
        done.bytes_copied > 0 && done.bytes_copied <= done.bytes_budget,
        "{done:?}"
    );
    assert!(done.containers_after < done.containers_before, "{done:?}");
    assert!(done.containers_after <= done.containers_least + 2, "{done:?}");
    series.assert_all(&machine, &[], "repaired");
    assert_sound(&machine.open(), "repaired");
    // It is not repaired again, and the unused data is removed.
    assert!(repair(&machine.open(), 100).repaired.is_empty());
    prune_after_crash(&machine.open(), &everything(), "after");
    series.assert_all(&machine, &[], "pruned");
    assert_sound(&machine.open(), "pruned");
    let after = stored(&machine);
    assert!(after < before + before / 50, "{before} bytes became {after}");
    // The next backup finds everything in its new place.
    let bytes = series.bytes();
    let same = back_up_bytes(&machine.open(), NAME, &bytes, &How::plain()).unwrap();
    assert_eq!(same.totals.bytes_new, 0, "{:?}", same.totals);
    series.made.push((same.id, bytes.clone()));
    let elsewhere = back_up_bytes(&machine.open(), "/elsewhere", &bytes, &How::plain()).unwrap();
    assert_eq!(elsewhere.totals.bytes_new, 0, "{:?}", elsewhere.totals);
    series.assert_all(&machine, &[], "at the end");
}

/// Barriers, listings of manifests, and put revisions, for a repair of a series of so many backups.
fn published(count: usize) -> (usize, usize, usize) {
    let machine = Process::new(3).striding();
    machine.init();
    scattered(&machine, NAME, count);
    let store = machine.open();
    drop(machine.watched.take_requests());
    assert!(only(&repair(&store, 1000)).1.is_done);
    let requests = machine.watched.take_requests();
    let of = |asked: Asked| requests.iter().filter(move |request| request.asked == asked);
    let is_revision = |request: &&Request| request.is_in("backups") && request.name.ends_with(".1");
    let barriers = of(Asked::Barrier).count();
    let listings = of(Asked::List).filter(|request| request.name.starts_with("backups"));
    (
        barriers,
        listings.count(),
        of(Asked::Put).filter(is_revision).count(),
    )
}

#[test]
fn barriers_and_listings_do_not_grow_with_the_backups_that_are_rewritten() {
    let ((barriers, listings, few), (same_barriers, same_listings, many)) = (published(3), published(9));
    // The rewrite's own tombstone is among them.
    assert!(few >= 3 && many >= few + 4, "{few} and {many} revisions");
    assert_eq!((barriers, listings), (same_barriers, same_listings));
}

#[test]
fn no_more_is_copied_than_may_be() {
    let mut copied = Vec::new();
    for percent in [1, 20, 100, 1000] {
        let machine = Process::new(2);
        machine.init();
        let mut series = scattered(&machine, NAME, 6);
        let new = |id| snapshot(&machine.open(), id).backup.totals.bytes_new;
        let (_, first) = only(&repair(&machine.open(), 100));
        assert!(first.is_done, "{first:?}");
        // The bytes that the first backup stored do not count.
        let since: u64 = series.made[1..].iter().map(|(id, _)| new(*id)).sum();
        assert_eq!(first.bytes_budget, since);
        series.change(7, 3);
        let last = series.back_up(&machine);
        let (_, done) = only(&repair(&machine.open(), percent));
        // The unused budget of the repair before may be used too.
        let of = |bytes: u64| bytes * u64::from(percent) / 100;
        let all: u64 = series.made[1..series.made.len() - 1]
            .iter()
            .map(|(id, _)| of(new(*id)))
            .sum();
        let left = all.saturating_sub(first.bytes_copied);
        assert_eq!(done.bytes_budget, left + of(new(last)));
        assert!(done.bytes_copied <= done.bytes_budget, "{done:?}");
        copied.push(done.bytes_copied);
        series.assert_all(&machine, &[], "repaired");
    }
    assert!(copied.is_sorted() && copied[0] < copied[3], "{copied:?}");
}

/// Chunks that several series share are copied once for all of them, and the old ones are removed.
#[test]
fn backups_of_other_series_refer_to_the_copies_too() {
    let machine = Process::new(3);
    machine.init();
    let series = scattered(&machine, NAME, 8);
    let mut other = Scattered::new("/other", 1000, 60);
    other.pieces.clone_from(&series.pieces);
    other.back_up(&machine);
    prune_after_crash(&machine.open(), &everything(), "before");
    let before = stored(&machine);
    let report = {
        let store = machine.open();
        let id = store.series().unwrap();
        let of = id
            .series
            .iter()
            .find(|series| series.name.paths == [NAME.as_bytes()]);
        let request = OptimizeRequest::default()
            .series(Some(of.unwrap().id))
            .repair(Some(100))
            .workers(1);
        store.optimize(&request, &Monitor::default()).unwrap()
    };
    let (_, done) = only(&report);
    assert!(done.is_done && done.backups >= 2, "{done:?}");
    prune_after_crash(&machine.open(), &everything(), "after");
    let after = stored(&machine);
    assert!(after < before + before / 50, "{before} bytes became {after}");
    series.assert_all(&machine, &[], "repaired");
    other.assert_all(&machine, &[], "of the other series");
    assert_sound(&machine.open(), "repaired");
}

/// An incremental backup is not repaired. The bytes stored for it count for the next full one.
#[test]
fn a_short_backup_is_not_repaired() {
    let machine = Process::new(4);
    machine.init();
    let mut series = scattered(&machine, NAME, 5);
    let whole = series.pieces.clone();
    series.pieces.truncate(20);
    series.change(3, 0);
    series.back_up(&machine);
    assert!(repair(&machine.open(), 100).repaired.is_empty());
    series.pieces = whole;
    series.back_up(&machine);
    let (_, done) = only(&repair(&machine.open(), 100));
    assert!(done.is_done, "{done:?}");
    series.assert_all(&machine, &[], "repaired");
}

#[test]
fn optimize_follows_the_settings_of_a_series() {
    let machine = Process::new(5);
    machine.init();
    scattered(&machine, NAME, 6);
    let plain = OptimizeRequest::default();
    let store = machine.open();
    assert!(
        store
            .optimize(&plain, &Monitor::default())
            .unwrap()
            .repaired
            .is_empty()
    );
    let change = SettingsChange::default().repair_percent(Some(50));
    store.set_default_series_settings(&change).unwrap();
    let due = store.preview_optimize(&plain).unwrap().repairs;
    let report = store.optimize(&plain, &Monitor::default()).unwrap();
    let (id, done) = only(&report);
    assert!(done.is_done, "{done:?}");
    assert_eq!((due[0].id, due[0].budget), (id, done.bytes_budget));
    assert!(store.preview_optimize(&plain).unwrap().repairs.is_empty());
}

/// A held backup stays as it is, and keeps its data.
#[test]
fn a_held_backup_stays_as_it_is() {
    let machine = Process::new(6);
    machine.init();
    let series = scattered(&machine, NAME, 7);
    let (held, _) = series.made[2];
    hold(&machine, held);
    let roots = |id| snapshot(&machine.open(), id).backup.streams.clone();
    let before = roots(held);
    let (_, done) = only(&repair(&machine.open(), 100));
    assert!(done.is_done, "{done:?}");
    assert_eq!(roots(held), before);
    prune_after_crash(&machine.open(), &everything(), "after");
    series.assert_all(&machine, &[], "repaired");
    // The newest one is not repaired while it is held.
    let mut series = series;
    series.change(5, 2);
    let last = series.back_up(&machine);
    hold(&machine, last);
    assert!(repair(&machine.open(), 100).repaired.is_empty());
}

/// Repair after each backup, and forgetting of the oldest: the layout of the newest stays good.
#[test]
fn repair_after_each_backup() {
    let machine = Process::new(7);
    machine.init();
    let mut series = scattered(&machine, NAME, 1);
    let (mut gone, mut copied, mut new) = (Vec::new(), 0, 0);
    let mut last = Repaired::default();
    for n in 0..14usize {
        series.change(13, n * 5 % 13);
        let id = series.back_up(&machine);
        new += snapshot(&machine.open(), id).backup.totals.bytes_new;
        let report = repair(&machine.open(), 100);
        if let Some((_, done)) = report.repaired.first() {
            copied += done.bytes_copied;
            last = *done;
        }
        if n >= 5 {
            forget(&machine.open(), series.made[n - 5].0);
            gone.push(series.made[n - 5].0);
        }
        prune_after_crash(&machine.open(), &everything(), "each");
        series.assert_all(&machine, &gone, "each");
    }
    assert!(
        copied > new / 4 && copied <= new + (60 * PIECE) as u64,
        "{copied} bytes were copied, {new} were new"
    );
    assert!(last.containers_after <= last.containers_least + 3, "{last:?}");
    assert_sound(&machine.open(), "at the end");
}
