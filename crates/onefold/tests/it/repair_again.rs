//! A repair from another store is killed at an operation, and run again: no copy stays beside the
//! backup that it is of.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use env::fault::{CrashPolicy, Fault};
use onefold::{Credential, Error, Monitor, RepairReport, SessionId, Store, TagChange, Which};
use types::ObjectName;

use crate::common::pruning::forget;
use crate::common::{
    Asked, How, Process, assert_restores_bytes, assert_sound, back_up_bytes, is_long, noise, tiny,
};
use crate::copy::copy_all;

/// Kills happen at so many operations of a repair, spread over it.
const MOMENTS: u64 = 40;

fn repair(machine: &Process, other: &Process) -> Result<RepairReport, Error> {
    let other = other.open();
    machine
        .open()
        .repair(Some(&other), &Monitor::default(), &mut |_| {})
}

/// A store with a backup that has lost its objects in these folders, another one with a copy, and
/// the bytes.
fn damaged(seed: u64, folders: &[&str]) -> (Process, Process, Vec<u8>) {
    let (machine, other) = (Process::new(seed), Process::new(seed + 1));
    let store = machine.init();
    let bytes = noise(seed, 60 << 10);
    back_up_bytes(&store, "/bytes", &bytes, &How::plain()).unwrap();
    Store::init(&other.env, &Credential::None, &tiny(), Some(&store)).unwrap();
    assert_eq!(copy_all(&machine.open(), &other.open()).copied.len(), 1);
    for folder in folders {
        for name in machine.names(folder) {
            assert!(machine.storage.lose(&ObjectName::new(name).unwrap()));
        }
    }
    (machine, other, bytes)
}

/// Kills a repair at its operations. Returns how often the store had two backups then.
fn sweep(seed: u64, folders: &[&str]) -> u64 {
    let (scene, other, bytes) = damaged(seed, folders);
    let fork = |n: u64| {
        let storage = scene.storage.crash(CrashPolicy::KeepAll);
        Process::on(storage, scene.clock.clone(), seed * 1000 + n)
    };
    let whole = fork(0);
    let before = whole.storage.counters_here().mutating();
    assert!(repair(&whole, &other).unwrap().after.is_sound());
    let operations = whole.storage.counters_here().mutating() - before;
    assert!(operations > 10, "{operations}");
    let step = if is_long() {
        1
    } else {
        (operations / MOMENTS).max(1)
    };
    let mut twice = 0;
    for n in (1..=operations).step_by(usize::try_from(step).unwrap()) {
        let when = format!("{folders:?}, killed at {n} of {operations}");
        let base = fork(n);
        let dying = base.beside(seed * 2000 + n);
        dying.storage.inject_here(Fault::kill_after(n));
        drop(repair(&dying, &other));
        if !dying.storage.is_gone() {
            continue;
        }
        let next = Process::on(base.storage.handle(), base.clock.clone(), seed * 3000 + n);
        twice += u64::from(next.open().snapshots().unwrap().snapshots.len() == 2);
        let report = repair(&next, &other).unwrap_or_else(|error| panic!("{when}: {error}"));
        let list = next.open().snapshots().unwrap().snapshots;
        assert_eq!(list.len(), 1, "{when}: {report:#?}");
        assert_restores_bytes(&next.open(), &list[0], "/bytes", &bytes, &when);
        assert_sound(&next.open(), &when);
    }
    twice
}

/// Nodes have no other place: the copy takes the place of the backup.
#[test]
fn a_backup_that_is_replaced_has_one_copy_after_a_kill() {
    assert!(sweep(6100, &["recipe", "small", "mirror"]) > 0);
}

/// A copy stores the data once more, so the backup is whole again.
#[test]
fn a_backup_that_is_healed_has_no_copy_after_a_kill() {
    assert!(sweep(6200, &["data"]) > 0);
}

/// A manifest that is lost says nothing of the backup but its number.
#[test]
fn a_backup_without_a_manifest_is_replaced_once_after_a_kill() {
    sweep(6300, &["backups"]);
}

/// A store with a backup that a repair has healed, and its copy, which the repair did not forget.
fn with_leftover(seed: u64) -> (Process, Process, Vec<u8>) {
    let (machine, other, bytes) = damaged(seed, &["data"]);
    let dying = machine.beside(seed + 1);
    let storage = dying.storage.clone();
    dying.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.starts_with("backups/") && name.ends_with(".1") {
            storage.kill();
        }
    });
    drop(repair(&dying, &other));
    dying.watched.clear_before();
    let next = Process::on(machine.storage.handle(), machine.clock.clone(), seed + 2);
    assert_eq!(next.open().snapshots().unwrap().snapshots.len(), 2);
    (next, other, bytes)
}

/// A policy of somebody else may forget the backup because there is its copy.
#[test]
fn a_backup_that_is_forgotten_during_a_repair_keeps_its_copy() {
    let (scene, other, bytes) = with_leftover(6500);
    let mut beside = 0;
    for n in 1.. {
        let when = format!("forgotten before list {n}");
        let storage = scene.storage.crash(CrashPolicy::KeepAll);
        let machine = Process::on(storage, scene.clock.clone(), 6600 + n);
        let (meanwhile, count) = (machine.beside(6700 + n), AtomicU64::new(0));
        let is_nth = move |asked, name: &str| {
            asked == Asked::List && name == "backups" && count.fetch_add(1, Ordering::Relaxed) + 1 == n
        };
        let there = Arc::new(AtomicUsize::new(0));
        let saw = Arc::clone(&there);
        machine.watched.set_once_at(is_nth, move || {
            let list = meanwhile.open().snapshots().unwrap().snapshots;
            saw.store(list.len(), Ordering::Relaxed);
            forget(&meanwhile.open(), list[0].id);
        });
        drop(repair(&machine, &other));
        let there = there.load(Ordering::Relaxed);
        if there == 0 {
            break;
        }
        if there == 2 {
            beside += 1;
            let list = machine.open().snapshots().unwrap().snapshots;
            assert_eq!(list.len(), 1, "{when}");
            assert_restores_bytes(&machine.open(), &list[0], "/bytes", &bytes, &when);
        }
    }
    assert!(beside > 1, "{beside}");
}

/// Who has tagged the copy wants to keep it, whenever that was: a copy that is looked at has no tag
/// before the first list, and has one before the last.
#[test]
fn a_copy_that_somebody_tags_during_a_repair_stays() {
    let (scene, other, _) = with_leftover(6800);
    let mut beside = 0;
    for n in 1.. {
        let storage = scene.storage.crash(CrashPolicy::KeepAll);
        let machine = Process::on(storage, scene.clock.clone(), 6900 + n);
        let (meanwhile, count) = (machine.beside(7000 + n), AtomicU64::new(0));
        let is_nth = move |asked, name: &str| {
            asked == Asked::List && name == "backups" && count.fetch_add(1, Ordering::Relaxed) + 1 == n
        };
        let there = Arc::new(AtomicUsize::new(0));
        let saw = Arc::clone(&there);
        machine.watched.set_once_at(is_nth, move || {
            let list = meanwhile.open().snapshots().unwrap().snapshots;
            saw.store(list.len(), Ordering::Relaxed);
            tag(&meanwhile.open(), list.last().unwrap().id);
        });
        drop(repair(&machine, &other));
        match there.load(Ordering::Relaxed) {
            0 => break,
            2 => {
                beside += 1;
                assert_eq!(machine.open().snapshots().unwrap().snapshots.len(), 2, "list {n}");
            }
            _ => {}
        }
    }
    assert!(beside > 1, "{beside}");
}

fn tag(store: &Store, id: SessionId) {
    let tags = TagChange::Set(["kept".to_owned()].into_iter().collect());
    store.tag(&Which::Named(vec![id.to_string()]), &tags).unwrap();
}

/// Who has tagged the copy wants to keep it.
#[test]
fn a_copy_that_somebody_has_tagged_stays() {
    let (next, other, _) = with_leftover(6400);
    let list = next.open().snapshots().unwrap().snapshots;
    let [_, copy] = &list[..] else {
        panic!("two backups: {list:?}");
    };
    tag(&next.open(), copy.id);
    repair(&next, &other).unwrap();
    assert_eq!(next.open().snapshots().unwrap().snapshots.len(), 2);
}
