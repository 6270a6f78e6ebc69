//! Small containers become one: fewer objects, the same bytes, by old names and new ones.
//!
//! The suites of `prune_*.rs` merge all the time; here is what is merging's own.
#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use common::pruning::{
    assert_nothing_unexplained, everything, everything_apart, everything_at_once, forget, impatient, prune,
    stubs, try_prune,
};
use common::{
    Asked, How, Parts, Process, assert_restores_bytes, assert_sound, back_up_bytes, back_up_watched, noise,
    snapshot, wait_for_look_ups,
};
use env::Storage;
use env::fault::Fault;
use format::names;
use onefold::{Monitor, PruneOptions, ReadData, SessionId};
use types::{ContainerId, ContainerKind, ObjectName};

type Backups = Vec<(SessionId, &'static str, Vec<u8>)>;

/// Two series, each backup with a little of its own and a little of the one before.
fn back_up(machine: &Process, seed: u64, count: u64, how: &How) -> Backups {
    let mut all = Backups::new();
    for n in 0..count {
        let name = if n % 2 == 0 { "/a" } else { "/b" };
        let bytes = [
            noise(seed + n / 2, 1800),
            noise(seed + n + 1000, 1500),
            noise(seed + n / 3, 900),
        ]
        .concat();
        let made = back_up_bytes(&machine.beside(seed + n + 100).open(), name, &bytes, how).unwrap();
        all.push((made.id, name, bytes));
    }
    all
}

fn assert_kept(machine: &Process, kept: &Backups, when: &str) {
    assert_restored(machine, kept, when);
    assert_sound(&machine.beside(900).open(), when);
}

fn assert_restored(machine: &Process, kept: &Backups, when: &str) {
    let store = machine.beside(901).open();
    for (id, name, bytes) in kept {
        assert_restores_bytes(&store, &snapshot(&store, *id), name, bytes, when);
    }
}

/// What others were merged into was no small container when they were; it becomes one when most of that goes.
#[test]
fn what_took_others_over_and_shrank_is_not_moved() {
    for seed in 30..34 {
        let machine = Process::new(seed);
        machine.init();
        let mut kept = Backups::new();
        for round in 0..4 {
            let when = format!("seed {seed}, round {round}");
            kept.extend(back_up(&machine, seed * 1000 + round * 100, 10, &How::plain()));
            let report = prune(&machine.beside(seed + round).open(), &everything(), &when);
            assert!(report.containers_merged > 0, "{when}: {report:?}");
            for (id, ..) in kept.drain(..kept.len() - 2) {
                forget(&machine.open(), id);
            }
            prune(&machine.beside(seed + round + 1).open(), &everything(), &when);
            assert_kept(&machine, &kept, &when);
        }
        prune(&machine.beside(seed).open(), &everything(), "at the end");
        assert_nothing_unexplained(&machine, "at the end");
    }
}

fn containers(machine: &Process) -> usize {
    ["data", "recipe", "small"]
        .iter()
        .map(|folder| machine.names(folder).len())
        .sum()
}

#[test]
fn small_containers_of_many_backups_become_few() {
    for how in [How::plain(), How::small()] {
        let machine = Process::new(1);
        machine.init();
        let mut kept = back_up(&machine, 10, 10, &how);
        let options = everything();
        let preview =
            machine
                .open()
                .preview_prune(&options, &BTreeSet::from([kept[0].0]), &Monitor::default());
        let preview = preview.unwrap().0;
        forget(&machine.open(), kept.remove(0).0);
        let report = prune(&machine.beside(50).open(), &options, "first");
        assert!(report.containers_merged >= 8, "{report:?}");
        assert_eq!(preview.containers_merged, report.containers_merged);
        let led = stubs(&machine);
        assert_eq!(led.len() as u64, report.containers_merged);
        assert_kept(&machine, &kept, "merged");
        assert_nothing_unexplained(&machine, "merged");
        let again = prune(&machine.beside(51).open(), &options, "again");
        assert_eq!((again.epochs, again.bytes_deleted), (0, 0), "{again:?}");

        // The next backups take from what was merged, by its new name, and are merged themselves.
        let before = containers(&machine);
        let more = back_up(&machine, 10, 10, &how);
        let sent = machine.open().snapshots().unwrap().snapshots;
        assert_eq!(sent.len(), kept.len() + more.len());
        kept.extend(more);
        assert_kept(&machine, &kept, "more");
        for _ in 0..4 {
            forget(&machine.open(), kept.remove(3).0);
        }
        prune(&machine.beside(52).open(), &options, "second");
        assert_kept(&machine, &kept, "second");
        assert_nothing_unexplained(&machine, "second");
        assert!(containers(&machine) < before + 30, "{}", containers(&machine));

        // Nothing is left of nothing, the ways neither.
        for (id, ..) in kept.drain(..) {
            forget(&machine.open(), id);
        }
        prune(&machine.beside(53).open(), &everything_at_once(), "all");
        prune(&machine.beside(53).open(), &everything_at_once(), "all, again");
        assert_eq!(containers(&machine), 0);
        assert_nothing_unexplained(&machine, "all");
    }
}

/// Where nothing was forgotten, an epoch is begun for merging alone when many backups have come.
#[test]
fn many_small_backups_are_merged_though_nothing_is_dead() {
    let machine = Process::new(2);
    machine.init();
    let kept = back_up(&machine, 20, 3, &How::small());
    let none = BTreeSet::new();
    let preview = |options: &PruneOptions| {
        let preview = machine.open().preview_prune(options, &none, &Monitor::default());
        preview.unwrap().0.containers_merged
    };
    assert_eq!(preview(&everything()), 0);
    let report = prune(&machine.open(), &everything(), "few");
    assert_eq!((report.epochs, report.containers_merged), (0, 0), "{report:?}");
    let mut kept = kept;
    kept.extend(back_up(&machine, 30, 3, &How::small()));
    let report = prune(&machine.beside(7).open(), &everything_apart(), "apart");
    assert_eq!((report.epochs, report.containers_merged), (0, 0), "{report:?}");
    let announced = preview(&everything());
    let report = prune(&machine.beside(8).open(), &everything(), "many");
    assert_eq!(
        (report.epochs, report.containers_merged),
        (1, announced),
        "{report:?}"
    );
    assert_eq!(preview(&everything()), 0);
    assert!(report.containers_merged >= 4, "{report:?}");
    assert_kept(&machine, &kept, "merged");
    assert_nothing_unexplained(&machine, "merged");
}

/// A backup that has cached catalogs from before refers to nothing that goes after, and to what stays by its old name.
#[test]
fn a_session_from_before_a_merge_never_refers_to_what_went_after() {
    for forgets_all in [false, true] {
        let machine = Process::new(3);
        machine.init();
        let how = How::plain();
        let mut kept = back_up(&machine, 40, 8, &how);
        let whole: Vec<u8> = kept.iter().flat_map(|(_, _, bytes)| bytes.clone()).collect();
        let (first, rest) = whole.split_at(whole.len() / 2);
        let last = noise(77, 3000);
        let parts = [first, rest, first, &last];
        let running = machine.beside(60);
        let store = running.open();
        let monitor = Monitor::default();
        let pruner = machine.beside(61).striding();
        let old: Vec<SessionId> = kept.iter().map(|(id, ..)| *id).collect();
        let mut source = Parts::new(&parts, |done| {
            wait_for_look_ups(&monitor);
            let store = pruner.open();
            match done {
                // All catalogs are known to it by now, half of them are merged.
                1 => {
                    forget(&store, old[0]);
                    assert!(prune(&store, &everything(), "beside").containers_merged > 0);
                }
                // What it has not taken yet goes.
                2 => {
                    let gone = if forgets_all { &old[1..] } else { &old[1..5] };
                    gone.iter().for_each(|id| forget(&store, *id));
                    prune(&store, &everything(), "beside, again");
                }
                _ => {}
            }
        });
        let made = back_up_watched(&store, "/big", &mut source, &how, &monitor).unwrap();
        kept.retain(|(id, ..)| !forgets_all && !old[..5].contains(id));
        kept.push((made.id, "/big", Parts::whole(&parts)));
        let when = format!("all forgotten: {forgets_all}");
        assert_kept(&machine, &kept, &when);
        prune(&pruner.open(), &everything(), &when);
        assert_kept(&machine, &kept, &format!("{when}, pruned"));
        assert_nothing_unexplained(&machine, &when);
    }
}

/// A process that has read everything before reads everything after, and what came after.
#[test]
fn a_process_that_lives_on_reads_old_and_new_names() {
    let machine = Process::new(4);
    machine.init();
    let mut kept = back_up(&machine, 50, 8, &How::plain());
    let store = machine.beside(70).open();
    for (id, name, bytes) in &kept {
        assert_restores_bytes(&store, &snapshot(&store, *id), name, bytes, "before");
    }
    forget(&machine.open(), kept.remove(0).0);
    assert!(prune(&machine.beside(71).open(), &everything(), "merge").containers_merged > 0);
    kept.extend(back_up(&machine, 50, 4, &How::plain()));
    for (id, name, bytes) in &kept {
        assert_restores_bytes(&store, &snapshot(&store, *id), name, bytes, "after");
    }
    assert_sound(&store, "after");
}

#[test]
fn an_index_made_anew_knows_what_was_merged_once() {
    let machine = Process::new(5);
    machine.init();
    let mut kept = back_up(&machine, 60, 8, &How::plain());
    forget(&machine.open(), kept.remove(0).0);
    prune(&machine.beside(80).open(), &everything(), "merge");
    let store = machine.beside(81).open();
    let report = store.rebuild_index(&Monitor::default()).unwrap();
    assert!(report.unreadable.is_empty(), "{:?}", report.unreadable);
    let again = store.rebuild_index(&Monitor::default()).unwrap();
    assert_eq!(report.hooks, again.hooks);
    let before = machine.storage.counters().puts;
    let whole: Vec<u8> = kept.iter().flat_map(|(_, _, bytes)| bytes.clone()).collect();
    let made = back_up_bytes(&machine.beside(82).open(), "/all", &whole, &How::plain()).unwrap();
    assert!(machine.storage.counters().puts > before);
    kept.push((made.id, "/all", whole));
    assert_kept(&machine, &kept, "an index made anew");
}

/// The list that says what was merged cannot be read: the store itself says it.
#[test]
fn without_its_list_what_was_merged_is_found_in_the_store() {
    let machine = Process::new(6);
    machine.init();
    let mut kept = back_up(&machine, 70, 8, &How::plain());
    forget(&machine.open(), kept.remove(0).0);
    prune(&machine.beside(90).open(), &everything(), "merge");
    assert!(!stubs(&machine).is_empty());
    for name in machine.names("removed") {
        let name = types::ObjectName::new(&name).unwrap();
        assert!(machine.storage.damage(&name, |bytes| bytes[60] ^= 1));
    }
    forget(&machine.open(), kept.remove(2).0);
    let (report, _) = machine
        .beside(91)
        .open()
        .prune(&everything(), &Monitor::default())
        .unwrap();
    assert!(report.epochs > 0 && report.damaged.is_empty(), "{report:?}");
    assert_nothing_unexplained(&machine, "found in the store");
    assert_restored(&machine, &kept, "found in the store");
}

/// The object of a container that stands alone.
fn object_of(machine: &Process, id: ContainerId) -> ObjectName {
    let listed = machine
        .storage
        .list(&names::container_folder(id.kind, id.session))
        .unwrap();
    let mut objects = listed.into_iter().map(|meta| meta.name);
    objects
        .find(|name| names::parse_container(name).unwrap().0 == id)
        .unwrap()
}

fn rot_end(machine: &Process, name: &ObjectName) {
    let len = machine.storage.get(name).unwrap().len();
    assert!(machine.storage.damage(name, |bytes| bytes[len - 60] ^= 1));
}

#[test]
fn a_damaged_container_that_took_others_over_is_found() {
    let machine = Process::new(7);
    machine.init();
    let mut kept = back_up(&machine, 80, 8, &How::plain());
    forget(&machine.open(), kept.remove(0).0);
    prune(&machine.beside(95).open(), &everything(), "merge");
    let led = stubs(&machine);
    let (_, damaged) = led
        .iter()
        .find(|(from, _)| from.kind == ContainerKind::Data)
        .unwrap();
    rot_end(&machine, &object_of(&machine, *damaged));
    let store = machine.beside(96).open();
    let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    let is_named = |finding: &onefold::Finding| finding.object.starts_with(&damaged.to_string());
    assert!(report.findings.iter().any(is_named), "{:#?}", report.findings);
    assert!(!report.damaged_backups.is_empty());
    for (id, name, bytes) in kept
        .iter()
        .filter(|(id, ..)| !report.damaged_backups.contains(id))
    {
        assert_restores_bytes(&store, &snapshot(&store, *id), name, bytes, "not named");
    }
    // The next backup rests on nothing that is lost.
    let (_, name, bytes) = &kept[kept.len() - 1];
    let made = back_up_bytes(&machine.beside(97).open(), name, bytes, &How::plain()).unwrap();
    let store = machine.beside(98).open();
    assert_restores_bytes(&store, &snapshot(&store, made.id), name, bytes, "the next backup");
}

/// Of a stub nothing is lost while a list says what was merged: all is read, found by `check`, and made again.
#[test]
fn a_stub_that_is_lost_or_rotten_loses_nothing() {
    for kind in [ContainerKind::Data, ContainerKind::Recipe] {
        for is_gone in [false, true] {
            let machine = Process::new(17);
            machine.init();
            let mut kept = back_up(&machine, 160, 8, &How::plain());
            forget(&machine.open(), kept.remove(0).0);
            prune(&machine.beside(95).open(), &everything(), "merge");
            let led: Vec<_> = stubs(&machine)
                .into_keys()
                .filter(|from| from.kind == kind)
                .collect();
            assert!(led.len() > 1, "{led:?}");
            for id in &led {
                let main = object_of(&machine, *id);
                let mirror = names::mirror(*id, names::parse_container(&main).unwrap().1);
                for name in [Some(main), mirror].into_iter().flatten() {
                    if is_gone {
                        machine.storage.delete(&name).unwrap();
                    } else {
                        rot_end(&machine, &name);
                    }
                }
            }
            let when = format!("{kind:?}, gone: {is_gone}");
            assert_restored(&machine, &kept, &when);
            let report = machine
                .beside(96)
                .open()
                .check(ReadData::Share(1.0), &Monitor::default())
                .unwrap();
            for id in &led {
                let mut findings = report.findings.iter();
                assert!(
                    findings.any(|finding| finding.object.starts_with(&id.to_string())),
                    "{when}: {id}"
                );
            }
            assert!(
                report.findings.iter().all(|finding| finding.is_covered),
                "{when}: {:#?}",
                report.findings
            );
            assert!(
                report.damaged_backups.is_empty() && machine.names("damaged").is_empty(),
                "{when}"
            );

            // Prune reads them by the list, too.
            let made = back_up(&machine, 160, 2, &How::plain());
            kept.extend(made);
            forget(&machine.open(), kept.remove(2).0);
            prune(&machine.beside(97).open(), &everything(), &when);
            assert_restored(&machine, &kept, &when);
            let all = PruneOptions {
                all: true,
                ..everything()
            };
            let store = machine.beside(98).open();
            assert!(
                !store
                    .check(ReadData::None, &Monitor::default())
                    .unwrap()
                    .is_sound()
            );
            prune(&store, &all, &when);
            assert_sound(&store, &format!("{when}, by who has seen it"));
            assert_kept(&machine, &kept, &format!("{when}, made again"));
            assert_nothing_unexplained(&machine, &when);
        }
    }
}

/// Nodes are found though the backup is dropped that wrote the container which they are in now: those that wrote them stand.
#[test]
fn merged_nodes_are_found_when_the_backup_that_took_them_over_is_dropped() {
    let machine = Process::new(18);
    machine.init();
    let mut kept = back_up(&machine, 170, 8, &How::plain());
    prune(&machine.beside(140).open(), &everything(), "merge");
    let into: BTreeSet<SessionId> = stubs(&machine).into_values().map(|id| id.session).collect();
    assert!(!into.is_empty() && into.len() < 3, "{into:?}");
    into.iter().for_each(|id| forget(&machine.open(), *id));
    kept.retain(|(id, ..)| !into.contains(id));
    for n in 0..2 {
        prune(&machine.beside(141 + n).open(), &everything_at_once(), "drop");
    }
    let listed = machine.storage.list("backups").unwrap();
    let mut listed = listed.iter().filter_map(|meta| names::parse_manifest(&meta.name));
    assert!(listed.all(|(_, session, _)| !into.contains(&session)));
    assert_kept(&machine, &kept, "dropped");
    let nodes = || ["recipe", "small"].map(|folder| machine.names(folder).len());
    let before = nodes();
    let bytes = kept[0].2.clone();
    let made = back_up_bytes(&machine.beside(145).open(), "/again", &bytes, &How::plain()).unwrap();
    assert_eq!(nodes(), before, "its nodes were stored again");
    kept.push((made.id, "/again", bytes));
    assert_kept(&machine, &kept, "found");
}

/// Whoever dies in the midst of a merge, at whatever operation, the next prune finishes it.
#[test]
fn a_successor_finishes_a_merge() {
    for folder in ["removed", "data", "recipe"] {
        for nth in 1..5 {
            let machine = Process::new(8);
            machine.init();
            let mut kept = back_up(&machine, 90, 6, &How::plain());
            forget(&machine.open(), kept.remove(0).0);
            let dying = machine.beside(110).striding();
            let (storage, mut puts) = (dying.storage.clone(), 0);
            let store = dying.open();
            dying.watched.set_before(move |asked, name| {
                if asked == Asked::Put && name.starts_with(folder) {
                    puts += 1;
                    if puts == nth {
                        storage.inject_here(Fault::kill_after(1));
                    }
                }
            });
            let done = try_prune(&store, &impatient(everything()));
            dying.watched.clear_before();
            let when = format!("{folder}, put {nth}");
            assert_eq!(done.is_err(), dying.storage.is_gone(), "{when}");
            drop(store);
            // Half a new generation may lack its second copy: nothing is lost.
            assert_restored(&machine, &kept, &when);
            let next = machine.beside(111).striding();
            prune(&next.open(), &impatient(everything()), &when);
            assert_kept(&machine, &kept, &format!("{when}, finished"));
            prune(&next.open(), &impatient(everything()), &when);
            assert_nothing_unexplained(&next, &when);
            assert!(!stubs(&machine).is_empty(), "{when}: nothing was merged");
        }
    }
}

/// What could not be merged is merged when it can be read again; and slots of it that could not be removed get no new name.
#[test]
fn what_could_not_be_read_is_merged_by_a_later_epoch() {
    let machine = Process::new(9);
    machine.init();
    let mut kept = back_up(&machine, 120, 8, &How::plain());
    let victim = machine
        .storage
        .list("data")
        .unwrap()
        .into_iter()
        .find(|meta| names::parse_container(&meta.name).is_some_and(|(id, _)| id.session == kept[2].0))
        .unwrap()
        .name;
    let (id, _) = names::parse_container(&victim).unwrap();
    // A byte of its first region; half of it is still needed when its backup goes.
    let flip = |bytes: &mut Vec<u8>| bytes[200] ^= 1;
    assert!(machine.storage.damage(&victim, flip));
    forget(&machine.open(), kept.remove(2).0);
    let report = try_prune(&machine.beside(120).open(), &everything()).unwrap();
    assert!(report.containers_merged > 0, "{report:?}");
    assert!(
        report.damaged.iter().any(|(name, _)| *name == id.to_string()),
        "{report:?}"
    );
    assert!(!stubs(&machine).contains_key(&id));

    assert!(machine.storage.damage(&victim, flip));
    forget(&machine.open(), kept.remove(0).0);
    prune(&machine.beside(121).open(), &everything(), "whole again");
    assert!(stubs(&machine).contains_key(&id));
    assert_kept(&machine, &kept, "whole again");
    assert_nothing_unexplained(&machine, "whole again");
}

/// What is committed while it is decided what an epoch removes is not forgotten as small.
#[test]
fn what_came_while_a_list_was_decided_is_merged_later() {
    let machine = Process::new(11);
    machine.init();
    let mut kept = back_up(&machine, 130, 8, &How::plain());
    forget(&machine.open(), kept.remove(0).0);
    let pruner = machine.beside(130).striding();
    let store = pruner.open();
    let late = Arc::new(Mutex::new(None));
    let (beside, made, bytes) = (machine.beside(131), Arc::clone(&late), noise(999, 2000));
    pruner.watched.set_before(move |asked, name| {
        let mut made = made.lock().unwrap();
        if asked == Asked::Put && name.starts_with("removed") && made.is_none() {
            *made = Some(
                back_up_bytes(&beside.open(), "/a", &bytes, &How::plain())
                    .unwrap()
                    .id,
            );
        }
    });
    assert!(prune(&store, &everything(), "first").containers_merged > 0);
    pruner.watched.clear_before();
    let late = late.lock().unwrap().unwrap();
    kept.push((late, "/a", noise(999, 2000)));

    kept.extend(back_up(&machine, 140, 8, &How::plain()));
    forget(&machine.open(), kept.remove(0).0);
    prune(&machine.beside(132).open(), &everything(), "second");
    let (from, to): (Vec<_>, Vec<_>) = stubs(&machine).into_iter().unzip();
    let of_late = machine.storage.list("data").unwrap();
    let of_late = of_late
        .iter()
        .filter_map(|meta| names::parse_container(&meta.name));
    let of_late: Vec<_> = of_late
        .map(|(id, _)| id)
        .filter(|id| id.session == late)
        .collect();
    assert!(!of_late.is_empty());
    for id in of_late {
        assert!(from.contains(&id) || to.contains(&id), "{id} stayed as it was");
    }
    assert_kept(&machine, &kept, "second");
    assert_nothing_unexplained(&machine, "second");
}
