//! Prunes with wrong clocks: the storage's clock is set while a session runs, or a backup's process
//! does not notice how much time has passed. This may end a backup, which then reports it.
//! Acknowledged backups stay.

use std::sync::Arc;
use std::time::Duration;

use crate::common::beside::dump_within;
use crate::common::pruning::{
    Stage, assert_nothing_unexplained, assert_stages, everything, everything_at_once, forget, leaving, prune,
};
use crate::common::reclaimer::Reclaimer;
use crate::common::{
    Asked, HandClock, How, Parts, Process, StorageClock, assert_restores_bytes, assert_sound, back_up_bytes,
    back_up_watched, noise, snapshot, wait_for_look_ups,
};
use env::Storage;
use env::fault::FaultStorage;
use format::names;
use onefold::{BackupReport, Error, Monitor, PruneUnused};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A store on a machine whose storage has a clock of its own.
fn begin(seed: u64) -> (Process, StorageClock) {
    let time = HandClock::new();
    let storage_time = StorageClock::new(&time);
    let machine = FaultStorage::with_clock(Arc::new(storage_time.clone()));
    let first = Process::on(machine, time, seed);
    first.init();
    (first, storage_time)
}

/// Backs up two parts as `/a`. In between, when the first was looked up, it does something.
fn back_up_pausing(
    process: &Process,
    parts: [&[u8]; 2],
    mut pause: impl FnMut() + Send,
) -> Result<BackupReport, Error> {
    let monitor = Monitor::default();
    let store = process.open();
    let mut source = Parts::new(&parts, |_| {
        wait_for_look_ups(&monitor);
        pause();
    });
    back_up_watched(&store, "/a", &mut source, &How::plain(), &monitor)
}

#[test]
fn data_that_a_reader_needs_stays_after_the_storages_clock_was_set_back() {
    let (first, storage_time) = begin(70);
    let parts = [70, 71, 72].map(|n| noise(n, 150 << 10));
    let store = first.open();
    let back_up = |name, bytes| back_up_bytes(&store, name, bytes, &How::plain()).unwrap().id;
    let read = back_up("/a", &parts[0]);
    let other = back_up("/b", &parts[1]);
    let kept = back_up("/c", &parts[2]);
    let pruner = first.beside(71).striding();
    let bytes = dump_within(&store, read, 32 << 10, || {
        storage_time.set(-7 * DAY_SECONDS);
        // Its tombstone seems older than the session that has declared the backup.
        forget(&pruner.open(), read);
        for n in 0..2 {
            prune(&pruner.open(), &everything_at_once(), &format!("{n}, set back"));
        }
        // Another epoch asks for the session's references.
        forget(&pruner.open(), other);
        let report = prune(&pruner.open(), &everything_at_once(), "another epoch");
        assert_stages(&report, &[Stage::Removes], "another epoch");
    });
    assert!(bytes == parts[0], "other bytes came back");
    assert_restores_bytes(&store, &snapshot(&store, kept), "/c", &parts[2], "set back");
    assert_sound(&store, "set back");
    storage_time.set(8 * DAY_SECONDS);
    for n in 0..2 {
        prune(&pruner.open(), &everything_at_once(), &format!("{n}, at the end"));
    }
    assert_nothing_unexplained(&pruner, "at the end");
}

/// A claim that rotted, or that the storage does not give when prune needs the session's
/// declarations.
#[test]
fn data_that_a_reader_needs_stays_if_the_readers_claim_is_unreadable() {
    for rots in [true, false] {
        let when = if rots {
            "a claim rots"
        } else {
            "a claim is not given"
        };
        let (first, storage_time) = begin(80);
        let parts = [80, 81].map(|n| noise(n, 150 << 10));
        let store = first.open();
        let back_up = |name, bytes| back_up_bytes(&store, name, bytes, &How::plain()).unwrap().id;
        let read = back_up("/a", &parts[0]);
        let other = back_up("/b", &parts[1]);
        let pruner = first.beside(82).striding();
        let bytes = dump_within(&store, read, 32 << 10, || {
            storage_time.set(-7 * DAY_SECONDS);
            forget(&pruner.open(), read);
            prune(&pruner.open(), &everything_at_once(), when);
            let manifests = first.names("backups");
            let table = Reclaimer::new(first.beside(83)).table();
            let claim = names::claim(table.running.last().unwrap().id);
            // No new slot is dead, so no epoch begins, which would stop at that claim.
            let idle = leaving(PruneUnused::Unlimited).keep_endings_for(Duration::ZERO);
            let flip = |bytes: &mut Vec<u8>| bytes[60] ^= 1;
            let (machine, bad, mut barriers) = (first.clone(), claim.clone(), 0);
            if rots {
                assert!(first.storage.damage(&claim, flip));
            } else {
                // When sessions were listed: before the second barrier, which is for tidying.
                pruner.watched.set_before(move |asked, _| {
                    barriers += u32::from(asked == Asked::Barrier);
                    if barriers == 2 {
                        machine.take_away(&bad);
                    }
                });
            }
            let report = prune(&pruner.open(), &idle, when);
            pruner.watched.clear_before();
            assert_eq!(report.epochs, 0, "{when}: {report:?}");
            if rots {
                assert!(first.storage.damage(&claim, flip));
            } else {
                first.storage.get(&claim).unwrap_err();
                first.give_back(&claim);
            }
            let left = first.names("backups");
            assert!(
                manifests.iter().all(|name| left.contains(name)),
                "{when}: {left:?}"
            );
            // Another epoch asks for the session's references.
            forget(&pruner.open(), other);
            prune(&pruner.open(), &everything_at_once(), when);
        });
        assert!(bytes == parts[0], "{when}: other bytes came back");
        storage_time.set(8 * DAY_SECONDS);
        for _ in 0..2 {
            prune(&pruner.open(), &everything_at_once(), when);
        }
        assert_nothing_unexplained(&pruner, when);
    }
}

#[test]
fn a_backup_that_stood_still_while_the_storages_clock_was_set_forth_is_no_backup() {
    let (first, storage_time) = begin(74);
    let parts = [74, 75, 76].map(|n| noise(n, 60 << 10));
    let store = first.open();
    let kept = back_up_bytes(&store, "/b", &parts[2], &How::plain()).unwrap().id;
    let gone = back_up_bytes(&store, "/c", &noise(77, 60 << 10), &How::plain())
        .unwrap()
        .id;
    forget(&store, gone);
    let clock = first.clock.seen_by(0, 1000);
    let sleeper = Process::on(first.storage.handle_elsewhere(), clock.clone(), 75);
    let pruner = first.beside(76).striding();
    let made = back_up_pausing(&sleeper, [&parts[0], &parts[1]], || {
        clock.stand_still(true);
        let report = prune(&pruner.open(), &everything(), "it is taken for dead");
        assert_eq!(report.sessions_expired.len(), 1, "{report:?}");
        let sleeping = report.sessions_expired[0];
        let has_ended = || {
            let listed = first.storage.list("backups").unwrap();
            let mut names = listed.iter().filter_map(|meta| names::parse_manifest(&meta.name));
            names.any(|(_, session, _)| session == sleeping)
        };
        assert!(has_ended());
        // Half an hour has passed, and the storage's clock shows two months.
        storage_time.set(60 * DAY_SECONDS);
        prune(&pruner.open(), &everything(), "its ending goes");
        assert!(!has_ended());
        clock.stand_still(false);
    });
    let error = made.unwrap_err().to_string();
    assert!(
        error.contains("was ended") && error.contains("run the backup again"),
        "{error}"
    );
    let store = first.beside(77).open();
    let list = store.snapshots().unwrap();
    let ids: Vec<_> = list.snapshots.iter().map(|one| one.id).collect();
    assert_eq!(ids, [kept]);
    assert_sound(&store, "after it");
    // Containers that it put after its objects were deleted are removed because of the ending that
    // it put for itself.
    for n in 0..2 {
        prune(&pruner.open(), &everything(), &format!("{n}, at the end"));
    }
    assert_nothing_unexplained(&pruner, "at the end");
}
