//! Repair from another store: what becomes of the holds of the damaged backups.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::fault::FaultStorage;
use format::names;
use onefold::{Credential, HoldEnd, InitOptions, Monitor, RepairReport, SessionId, Store};
use types::{ObjectName, Revision, UnixNanos};

use crate::common::archival::Base;
use crate::common::{
    HandClock, How, Process, StorageClock, assert_sound, back_up_bytes, noise, snapshot, tiny,
};
use crate::copy::copy_all;

fn init(machine: &Process, like: &Process, options: &InitOptions) {
    Store::init(&machine.env, &Credential::None, options, Some(&like.open())).unwrap();
}

fn repaired(machine: &Process, other: &Process) -> RepairReport {
    let other = other.open();
    machine
        .open()
        .repair(Some(&other), &Monitor::default(), &mut |_| {})
        .unwrap()
}

/// Holds the backup for an hour, and returns the end.
fn hold(machine: &Process, id: SessionId) -> UnixNanos {
    let end = HoldEnd::After("1h".parse().unwrap());
    let held = machine.open().hold(&[id.to_string()], Some(end)).unwrap();
    held.until.unwrap()
}

/// The manifest revision that counts.
fn newest(machine: &Process, id: SessionId) -> ObjectName {
    let now = snapshot(&machine.open(), id);
    names::manifest(now.series, id, now.revision)
}

/// Nodes have no other place, so a copy takes the place of a backup without them.
fn lose_nodes(machine: &Process) {
    for folder in ["recipe", "small", "mirror"] {
        for name in machine.names(folder) {
            assert!(machine.storage.lose(&ObjectName::new(name).unwrap()));
        }
    }
}

/// A store with a backup, and another one with a copy of it.
fn pair(seed: u64) -> (Process, Process, SessionId) {
    let clock = HandClock::new();
    let storage = FaultStorage::with_clock(Arc::new(StorageClock::new(&clock)));
    let machine = Process::on(storage, clock, seed);
    machine.init();
    let made = back_up_bytes(&machine.open(), "/bytes", &noise(seed, 200 << 10), &How::plain()).unwrap();
    let other = Process::new(seed + 1);
    init(&other, &machine, &tiny());
    copy_all(&machine.open(), &other.open());
    (machine, other, made.id)
}

fn ids(machine: &Process) -> Vec<SessionId> {
    let list = machine.open().snapshots().unwrap().snapshots;
    list.iter().map(|one| one.id).collect()
}

/// A hold that has ended cannot be made again. The repair must not fail for that each time, and
/// leave one more copy.
#[test]
fn a_hold_that_has_ended_stops_no_repair() {
    let (machine, other, id) = pair(4100);
    hold(&machine, id);
    machine.clock.advance(Duration::from_secs(2 * 3600));
    lose_nodes(&machine);
    let report = repaired(&machine, &other);
    assert!(report.warnings.is_empty(), "{report:?}");
    assert_eq!(report.replaced.keys().copied().collect::<Vec<_>>(), [id]);
    assert_eq!(ids(&machine), [report.replaced[&id]]);
    assert!(repaired(&machine, &other).before.is_sound());
}

#[test]
fn a_hold_that_lasts_is_the_copys_too() {
    let (machine, other, id) = pair(4200);
    let until = hold(&machine, id);
    lose_nodes(&machine);
    let report = repaired(&machine, &other);
    let copy = snapshot(&machine.open(), report.replaced[&id]);
    assert_eq!(copy.backup.hold_until, Some(until));
}

/// The revision may be readable later, and hold the backup. So the backup stays.
#[test]
fn a_backup_with_a_revision_that_is_not_read_now_is_not_replaced() {
    let (machine, other, id) = pair(4300);
    let until = hold(&machine, id);
    let held = newest(&machine, id);
    machine.take_away(&held);
    lose_nodes(&machine);
    for _ in 0..2 {
        let report = repaired(&machine, &other);
        assert!(
            report.replaced.is_empty() && !report.after.is_sound(),
            "{report:?}"
        );
        assert_eq!(ids(&machine), [id], "and no copy is left");
    }
    machine.give_back(&held);
    let report = repaired(&machine, &other);
    let copy = snapshot(&machine.open(), report.replaced[&id]);
    assert_eq!(copy.backup.hold_until, Some(until));
    assert_sound(&machine.open(), "read again");
}

/// What somebody does meanwhile counts: the damaged backup stays beside its copy.
#[test]
fn a_hold_that_comes_during_a_repair_stays() {
    let (machine, other, id) = pair(4400);
    lose_nodes(&machine);
    let (beside, watching) = (machine.beside(4405), machine.beside(4406));
    let tombstone = names::manifest(
        snapshot(&machine.open(), id).series,
        id,
        Revision::new(1).unwrap(),
    );
    let mut is_held = false;
    watching.watched.set_before(move |asked, name| {
        if asked == crate::common::Asked::Put && name == tombstone.as_str() && !is_held {
            is_held = true;
            hold(&beside, id);
        }
    });
    let report = repaired(&watching, &other);
    assert!(report.replaced.is_empty(), "{report:?}");
    let told = report
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect::<String>();
    assert!(told.contains("somebody changed backup"), "{told}");
    assert!(snapshot(&machine.open(), id).backup.hold_until.is_some());
}

/// No revision can be put above one that may be an archival rewrite (R2): the copy takes the place
/// of the backup, and the repair has an end.
#[test]
fn an_archival_backup_with_a_damaged_revision_is_replaced_once() {
    let base = Base::new(4500, 2);
    let other = Process::new(4501);
    init(&other, &base.machine, &tiny());
    copy_all(&base.machine.open(), &other.open());
    let archival: BTreeMap<SessionId, ObjectName> = base
        .ids
        .iter()
        .filter(|id| snapshot(&base.machine.open(), **id).backup.next.is_some())
        .map(|id| (*id, newest(&base.machine, *id)))
        .collect();
    let (id, name) = archival.first_key_value().unwrap();
    assert!(base.machine.storage.damage(name, |bytes| bytes[70] ^= 1));
    let report = repaired(&base.machine, &other);
    let copy = report.replaced.get(id).copied();
    let copy = copy.unwrap_or_else(|| panic!("{report:?}"));
    let kinds: Vec<_> = report.warnings.iter().map(onefold::Warning::kind).collect();
    assert_eq!(kinds, ["revision_lost"], "{report:?}");
    base.assert_all(&[*id], "replaced");
    let now = snapshot(&base.machine.open(), copy);
    crate::common::assert_restores_bytes(
        &base.machine.open(),
        &now,
        crate::common::archival::NAME,
        &base.contents[id],
        "the copy",
    );
    assert!(repaired(&base.machine, &other).before.is_sound());
}
