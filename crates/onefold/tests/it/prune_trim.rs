//! Whole dead regions are removed without a copy, if the storage gives parts of objects back.
//!
//! The suites of `prune_*.rs` trim all the time. This file has tests of trimming alone.

use std::collections::BTreeSet;

use crate::common::pruning::{
    assert_nothing_unexplained, everything, everything_at_once, forget, impatient, leaving, prune, try_prune,
};
use crate::common::{
    Asked, How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot,
};
use env::Storage;
use env::fault::{CrashPolicy, Fault};
use format::names;
use onefold::{Monitor, PruneOptions, PruneReport, PruneUnused, ReadData, SessionId};
use types::ObjectName;

const PART: usize = 60 << 10;

type Kept = (SessionId, &'static str, Vec<u8>);

/// One backup of parts 0 to 5, which will be forgotten, and one of every second part, which stays.
fn filled(seed: u64) -> (Process, SessionId, Kept) {
    let machine = Process::new(seed);
    machine.init();
    let parts: Vec<Vec<u8>> = (0..6).map(|n| noise(n, PART)).collect();
    let store = machine.open();
    let first = back_up_bytes(&store, "/a", &parts.concat(), &How::plain()).unwrap();
    let kept = [&parts[0][..], &parts[2], &parts[4]].concat();
    let second = back_up_bytes(&store, "/b", &kept, &How::plain()).unwrap();
    machine.env.storage.barrier().unwrap();
    (machine, first.id, (second.id, "/b", kept))
}

fn bodies(machine: &Process) -> Vec<ObjectName> {
    let listed = machine.storage.list("data").unwrap().into_iter();
    let names = listed.map(|meta| meta.name);
    names.filter(|name| names::parse_body(name).is_some()).collect()
}

fn assert_kept(machine: &Process, (id, name, bytes): &Kept, when: &str) {
    let store = machine.beside(900).open();
    assert_restores_bytes(&store, &snapshot(&store, *id), name, bytes, when);
    assert_sound(&store, when);
}

fn pruned(machine: &Process, seed: u64, unused: u64, when: &str) -> PruneReport {
    prune(
        &machine.beside(seed).open(),
        &leaving(PruneUnused::Bytes(unused)),
        when,
    )
}

#[test]
fn whole_dead_regions_are_trimmed_without_a_copy() {
    let (machine, first, kept) = filled(2);
    forget(&machine.open(), first);
    // The same store, on a storage that gives nothing back.
    let copying = Process::on(
        machine.storage.crash(CrashPolicy::KeepAll),
        machine.clock.clone(),
        3,
    );
    let copied = pruned(&copying, 5, 40 << 10, "by copying");
    assert!(bodies(&copying).is_empty());
    assert_eq!(copied.containers_trimmed, 0);
    let trimmed = pruned(&machine, 4, 40 << 10, "by trimming");
    assert!(trimmed.containers_trimmed > 0, "{trimmed:?}");
    assert!(
        trimmed.bytes_copied < copied.bytes_copied,
        "{trimmed:?} {copied:?}"
    );
    assert!(trimmed.bytes_freed() > 140 << 10, "{trimmed:?}");
    assert!(trimmed.bytes_left_dead <= 40 << 10, "{trimmed:?}");
    assert_eq!(bodies(&machine).len() as u64, trimmed.containers_trimmed);
    for machine in [&machine, &copying] {
        assert_kept(machine, &kept, "after the prune");
    }
    // Dead slots that share regions with live ones are removed only when no more may stay, and then
    // with a copy.
    let rest = pruned(&machine, 6, 0, "of the rest");
    assert!(rest.containers_compacted > 0, "{rest:?}");
    prune(&machine.beside(8).open(), &everything(), "again");
    assert_nothing_unexplained(&machine, "at the end");
    assert_kept(&machine, &kept, "at the end");
}

/// No file data may be copied, and nothing may stay.
fn without_copies() -> PruneOptions {
    let mut options = everything();
    options.limits.repack_bytes_max = 0;
    options
}

#[test]
fn data_that_needs_no_copy_is_removed_under_any_limit_of_copies() {
    let (machine, first, kept) = filled(2);
    forget(&machine.open(), first);
    let left = prune(
        &machine.beside(4).open(),
        &leaving(PruneUnused::Unlimited),
        "of whole ones",
    );
    assert_eq!(left.containers_trimmed, 0, "{left:?}");
    assert!(left.bytes_left_dead > 60 << 10, "{left:?}");
    let options = without_copies();
    let store = machine.beside(6).open();
    let preview = store.preview_prune(&options, &BTreeSet::new(), &Monitor::default());
    let preview = preview.unwrap().0;
    let report = prune(&machine.beside(8).open(), &options, "without copies");
    assert!(report.containers_trimmed > 0, "{report:?}");
    assert_eq!(report.containers_compacted, 0, "{report:?}");
    assert_eq!(report.containers_trimmed, preview.containers_trimmed);
    assert!(
        report.bytes_left_dead < left.bytes_left_dead / 4 * 3,
        "{report:?}"
    );
    assert_kept(&machine, &kept, "trimmed");
    // The rest needs copies, so no epoch begins for it again and again.
    let again = prune(&machine.beside(10).open(), &options, "once more");
    assert!(again.bytes_left_dead > 0 && again.epochs == 0, "{again:?}");
    let rest = prune(&machine.beside(12).open(), &everything(), "with copies");
    assert!(
        rest.containers_compacted > 0 && rest.bytes_left_dead == 0,
        "{rest:?}"
    );
    assert_kept(&machine, &kept, "at the end");
}

/// A backup that is forgotten shares some nodes with one that stays, in one container.
#[test]
fn dead_nodes_are_removed_by_copies_under_any_limit_of_data_copies() {
    let machine = Process::new(2);
    machine.init();
    let parts: Vec<Vec<u8>> = (0..6).map(|n| noise(n, PART)).collect();
    let store = machine.open();
    let first = back_up_bytes(&store, "/a", &parts.concat(), &How::plain()).unwrap();
    let kept = parts[..3].concat();
    let second = back_up_bytes(&store, "/a", &kept, &How::plain()).unwrap();
    machine.env.storage.barrier().unwrap();
    forget(&machine.open(), first.id);
    let report = prune(
        &machine.beside(4).open(),
        &without_copies(),
        "without copies of data",
    );
    assert!(report.containers_compacted > 0, "{report:?}");
    assert!(report.bytes_freed() > 2 * PART as u64, "{report:?}");
    assert_kept(&machine, &(second.id, "/a", kept), "after it");
}

#[test]
fn a_process_that_cannot_trim_reads_and_rewrites_trimmed_containers() {
    let (machine, first, kept) = filled(2);
    forget(&machine.open(), first);
    pruned(&machine, 4, 40 << 10, "by trimming");
    assert!(!bodies(&machine).is_empty());
    assert_kept(&machine, &kept, "trimmed");
    // With an odd seed the storage gives nothing back.
    prune(&machine.beside(5).open(), &everything(), "by copying");
    assert!(bodies(&machine).len() < 3, "{:?}", bodies(&machine));
    assert_nothing_unexplained(&machine, "copied");
    assert_kept(&machine, &kept, "copied");
}

/// A process that trims dies when its generations are durable, and one that cannot trim finishes
/// the work. Nothing is given back then, and the space is freed when the container is copied.
#[test]
fn a_process_that_cannot_trim_finishes_the_work_of_one_that_can() {
    let (machine, first, kept) = filled(2);
    forget(&machine.open(), first);
    let dying = machine.beside(4).striding();
    let storage = dying.storage.clone();
    dying.watched.set_before(move |asked, _| {
        if asked == Asked::Trim {
            storage.inject_here(Fault::kill(1));
        }
    });
    let options = impatient(leaving(PruneUnused::Bytes(40 << 10)));
    try_prune(&dying.open(), &options).unwrap_err();
    assert!(dying.storage.is_gone() && bodies(&machine).is_empty());
    dying.watched.clear_before();
    let cannot = machine.beside(5).striding();
    let report = prune(&cannot.open(), &options, "by who cannot");
    assert!(report.epochs > 0, "{report:?}");
    let left = bodies(&machine);
    assert!(!left.is_empty());
    for body in &left {
        let meta = machine.storage.head(body).unwrap();
        assert_eq!(meta.space, meta.len, "{body}: nothing was given back");
    }
    assert_kept(&machine, &kept, "finished by who cannot");
    prune(&cannot.open(), &everything_at_once(), "what shares regions");
    assert_nothing_unexplained(&machine, "finished by who cannot");
    assert_kept(&machine, &kept, "copied in part");
}

#[test]
fn bodies_are_removed_with_their_containers() {
    let (machine, first, (second, ..)) = filled(2);
    forget(&machine.open(), first);
    pruned(&machine, 4, 40 << 10, "by trimming");
    assert!(!bodies(&machine).is_empty());
    forget(&machine.open(), second);
    let report = prune(&machine.beside(6).open(), &everything_at_once(), "of everything");
    assert!(machine.names("data").is_empty(), "{:?}", machine.names("data"));
    assert!(report.bytes_freed() > 3 * PART as u64 / 2, "{report:?}");
}

#[test]
fn a_lost_body_is_found_and_stops_nothing() {
    let (machine, first, (second, name, bytes)) = filled(2);
    forget(&machine.open(), first);
    pruned(&machine, 4, 40 << 10, "by trimming");
    let lost = bodies(&machine)[0].clone();
    assert!(machine.storage.lose(&lost));
    // No look-up returns its slots, although its catalog exists.
    let at_once = back_up_bytes(&machine.beside(18).open(), name, &bytes, &How::plain()).unwrap();
    let store = machine.beside(20).open();
    assert_restores_bytes(
        &store,
        &snapshot(&store, at_once.id),
        name,
        &bytes,
        "before a check",
    );
    let store = machine.beside(6).open();
    let report = store.check(ReadData::None, &Monitor::default()).unwrap();
    let what: Vec<String> = report
        .findings
        .iter()
        .map(|finding| finding.what.to_string())
        .collect();
    let what = what.join("; ");
    assert!(
        what.contains("the object that its chunks are in is missing"),
        "{what}"
    );
    assert!(report.damaged_backups.contains(&second), "{what}");
    // All processes see the damage that a check has listed.
    let again = back_up_bytes(&machine.beside(8).open(), name, &bytes, &How::plain()).unwrap();
    let store = machine.beside(10).open();
    assert_restores_bytes(&store, &snapshot(&store, again.id), name, &bytes, "made again");
    forget(&store, second);
    for seed in [12, 14] {
        try_prune(&machine.beside(seed).open(), &everything()).unwrap();
    }
    let store = machine.beside(16).open();
    assert_restores_bytes(&store, &snapshot(&store, again.id), name, &bytes, "after pruning");
}

#[test]
fn a_body_that_became_shorter_is_found_without_reading_it() {
    let (machine, first, (second, ..)) = filled(2);
    forget(&machine.open(), first);
    pruned(&machine, 4, 40 << 10, "by trimming");
    let cut = bodies(&machine)[0].clone();
    assert!(
        machine
            .storage
            .damage(&cut, |bytes| bytes.truncate(bytes.len() / 8))
    );
    let store = machine.beside(6).open();
    let report = store.check(ReadData::None, &Monitor::default()).unwrap();
    let is_of_it = |finding: &onefold::Finding| finding.what.to_string().contains(cut.as_str());
    let found = report.findings.iter().find(|finding| is_of_it(finding));
    assert!(found.is_some_and(|finding| !finding.is_covered), "{report:?}");
    assert!(report.damaged_backups.contains(&second), "{report:?}");
}

/// A process that slept puts its generation, whose number is free again. The body has another name.
#[test]
fn a_late_generation_under_a_bodys_former_name_leaves_the_body_whole() {
    let (machine, first, kept) = filled(2);
    let before = machine.storage.crash(CrashPolicy::KeepAll);
    forget(&machine.open(), first);
    pruned(&machine, 4, 40 << 10, "by trimming");
    let body = bodies(&machine)[0].clone();
    let (id, generation) = names::parse_body(&body).unwrap();
    let former = names::container(id, generation);
    for (seed, stale) in [(6, before.get(&former).unwrap()), (8, noise(9, 5000))] {
        machine.storage.put(&former, &[&stale]).unwrap();
        machine.env.storage.barrier().unwrap();
        let store = machine.beside(900).open();
        assert_restores_bytes(&store, &snapshot(&store, kept.0), kept.1, &kept.2, "beside it");
        // More of the same container is dead.
        let more = [&kept.2[..PART], &noise(seed, PART)].concat();
        let more = back_up_bytes(&machine.beside(seed).open(), "/c", &more, &How::plain()).unwrap();
        forget(&machine.beside(seed).open(), more.id);
        pruned(&machine, seed, 0, "of what came");
        assert_kept(&machine, &kept, "after it");
        if machine.storage.head(&former).is_ok() {
            machine.storage.delete(&former).unwrap();
        }
    }
}
