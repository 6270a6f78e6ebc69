//! Space is freed: forgotten backups are removed, kept ones restore, whatever happens meanwhile.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::common::pruning::{Stage, assert_stages};
use crate::common::{
    Asked, How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot,
};
use env::Storage;
use env::fault::CrashPolicy;
use format::names;
use onefold::{Monitor, PruneLimits, PruneOptions, PruneReport, PruneUnused, SessionId, Store};
use types::{ByteRange, ObjectName, Revision};

fn everything() -> PruneOptions {
    PruneOptions::default().limits(PruneLimits::default().unused_max(PruneUnused::Bytes(0)))
}

fn prune(store: &Store, options: &PruneOptions) -> PruneReport {
    let (report, warnings) = store.prune(options, &Monitor::default()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    report
}

fn forget(machine: &Process, id: SessionId) {
    crate::common::reclaimer::Reclaimer::new(machine.beside(id.get() + 500)).forget(id);
}

/// Manifests, without the endings of read sessions.
fn manifests(machine: &Process) -> usize {
    let reading = format!("backups/{}/", "0".repeat(32));
    let names = machine.names("backups");
    names.iter().filter(|name| !name.starts_with(&reading)).count()
}

fn stored(machine: &Process) -> u64 {
    ["data", "recipe", "small", "catalog", "mirror"]
        .iter()
        .flat_map(|folder| machine.storage.list(folder).unwrap())
        .map(|object| object.len)
        .sum()
}

#[test]
fn forgotten_backups_give_their_space_back_and_kept_ones_restore() {
    let machine = Process::new(1);
    machine.init();
    let parts: Vec<Vec<u8>> = (0..6).map(|n| noise(n, 60 << 10)).collect();
    let of = |which: &[usize]| which.iter().flat_map(|n| parts[*n].clone()).collect::<Vec<u8>>();
    let contents = [of(&[0, 1, 2]), of(&[1, 2, 3]), of(&[3, 4, 5]), of(&[0, 5])];
    let mut ids = Vec::new();
    for bytes in &contents {
        ids.push(
            back_up_bytes(&machine.open(), "/file", bytes, &How::plain())
                .unwrap()
                .id,
        );
    }
    let before = stored(&machine);
    let nothing = prune(&machine.open(), &everything());
    assert_eq!(nothing.bytes_deleted, 0, "{nothing:?}");
    assert_eq!(nothing.groups_marked, 1);
    let again = prune(&machine.open(), &everything());
    assert_eq!((again.groups_marked, again.nodes_read), (0, 0), "marks are kept");
    forget(&machine, ids[0]);
    let preview = machine
        .open()
        .preview_prune(&everything(), &BTreeSet::new(), &Monitor::default())
        .unwrap()
        .0;
    let report = prune(&machine.open(), &everything());
    assert!(
        report.bytes_deleted == 0 || preview.bytes_freed > 0,
        "{preview:?} {report:?}"
    );
    forget(&machine, ids[1]);
    let report = prune(&machine.open(), &everything());
    assert!(
        report.bytes_freed() > 60 << 10,
        "parts 1 and 2 are nobody's: {report:?}"
    );
    assert_stages(&report, &[Stage::Removes, Stage::Compacts], "of both");
    let after = stored(&machine);
    assert!(after + (100 << 10) < before, "{before} {after}");
    let store = machine.open();
    for (id, bytes) in ids.iter().zip(&contents).skip(2) {
        assert_restores_bytes(&store, &snapshot(&store, *id), "/file", bytes, "kept");
    }
    assert_sound(&store, "after pruning");
    forget(&machine, ids[2]);
    forget(&machine, ids[3]);
    prune(&machine.open(), &everything());
    assert_eq!(stored(&machine), 0, "nothing is left of nothing");
    let more = back_up_bytes(&machine.open(), "/file", &contents[0], &How::plain()).unwrap();
    let store = machine.open();
    assert_restores_bytes(
        &store,
        &snapshot(&store, more.id),
        "/file",
        &contents[0],
        "after all",
    );
    assert_sound(&store, "after all");
}

#[test]
fn exclusive_bytes_of_a_backup_are_known_before_it_is_forgotten() {
    let machine = Process::new(7);
    machine.init();
    let parts: Vec<Vec<u8>> = (0..6).map(|n| noise(n, 60 << 10)).collect();
    let of = |which: &[usize]| which.iter().flat_map(|n| parts[*n].clone()).collect::<Vec<u8>>();
    let ids: Vec<SessionId> = [of(&[0, 1, 2]), of(&[1, 2, 3]), of(&[3, 4, 5]), of(&[0, 5])]
        .iter()
        .map(|bytes| {
            back_up_bytes(&machine.open(), "/file", bytes, &How::plain())
                .unwrap()
                .id
        })
        .collect();
    let would = |forget: &[usize]| {
        let forget: BTreeSet<SessionId> = forget.iter().map(|n| ids[*n]).collect();
        let store = machine.open();
        let preview = store
            .preview_prune(&everything(), &forget, &Monitor::default())
            .unwrap()
            .0;
        assert!(preview.alone.keys().eq(&forget), "{preview:?}");
        let alone = preview.alone.into_values().collect::<Vec<u64>>();
        (alone, preview.bytes_freed)
    };
    // With marks and without them.
    for _ in 0..2 {
        assert!(would(&[]).0.is_empty());
        let (second, _) = would(&[1]);
        assert!(second[0] < 20 << 10, "others have each part of it: {second:?}");
        let (third, freed) = would(&[2]);
        assert!((50 << 10..80 << 10).contains(&third[0]), "part 4: {third:?}");
        assert!(freed.abs_diff(third[0]) < 10 << 10, "{third:?} {freed}");
        // Part 3 belongs to these two, and would be removed with both.
        let (both, freed) = would(&[1, 2]);
        assert!(both[0] < 20 << 10, "{both:?}");
        assert!((50 << 10..80 << 10).contains(&both[1]), "{both:?}");
        assert!(freed > both[0] + both[1] + (50 << 10), "{both:?} {freed}");
        prune(&machine.open(), &everything());
    }
    // For a backup with lost nodes it is not known. All other figures are still given.
    let is_its_node = |name: &ObjectName| {
        names::parse_mirror(name).is_some_and(|mirror| mirror.session == ids[2])
            || names::parse_container(name)
                .is_some_and(|(id, _)| id.session == ids[2] && id.kind.is_mirrored())
    };
    let lost = machine.storage.list("").unwrap();
    let lost = lost.into_iter().filter(|meta| is_its_node(&meta.name));
    assert!(
        lost.map(|meta| machine.storage.lose(&meta.name))
            .filter(|lost| *lost)
            .count()
            > 1
    );
    // The last one has some of them, too.
    let forget = BTreeSet::from([ids[1], ids[2], ids[3]]);
    let preview = machine
        .open()
        .preview_prune(&everything(), &forget, &Monitor::default());
    let preview = preview.unwrap().0;
    assert_eq!(preview.alone.into_keys().collect::<Vec<_>>(), [ids[1]]);
}

#[test]
fn a_covered_manifest_that_rots_stops_no_prune_until_its_group_is_marked_anew() {
    let machine = Process::new(3);
    machine.init();
    let back_up = |name: &str, seed: u64| {
        let bytes = noise(seed, 60 << 10);
        let made = back_up_bytes(&machine.open(), name, &bytes, &How::plain()).unwrap();
        (made.id, bytes)
    };
    let [(kept, bytes), (later, _), (gone, _), _] =
        [("/a", 1), ("/a", 2), ("/b", 3), ("/b", 4)].map(|(name, seed)| back_up(name, seed));
    prune(&machine.open(), &everything());
    let list = crate::common::reclaimer::Reclaimer::new(machine.beside(4))
        .manifests
        .list()
        .unwrap();
    let name = names::manifest(list.get(kept).unwrap().series(), kept, Revision::FIRST);
    let flip = || machine.storage.damage(&name, |bytes| bytes[50] ^= 1);
    flip();
    forget(&machine, gone);
    let report = prune(&machine.open(), &everything());
    assert!(report.bytes_deleted > 60 << 10, "{report:?}");
    forget(&machine, later);
    let before = stored(&machine);
    let error = machine
        .open()
        .prune(&everything(), &Monitor::default())
        .unwrap_err();
    assert!(error.to_string().contains(name.as_str()), "{error}");
    assert_eq!(stored(&machine), before);
    flip();
    // Nor does it count as lost if the storage does not give it.
    let other = Process::on(
        machine.storage.crash(CrashPolicy::KeepAll),
        machine.clock.clone(),
        5,
    );
    other
        .storage
        .make_unreadable(&name, ByteRange { offset: 60, len: 1 });
    let error = other
        .open()
        .prune(&everything(), &Monitor::default())
        .unwrap_err();
    assert!(error.to_string().contains("--force-unreadable"), "{error}");
    assert_eq!(stored(&other), before);
    prune(&machine.open(), &everything());
    let store = machine.open();
    assert_restores_bytes(
        &store,
        &snapshot(&store, kept),
        "/a",
        &bytes,
        "its manifest is back",
    );
    assert_sound(&store, "its manifest is back");
}

#[test]
fn old_tombstones_and_endings_are_deleted() {
    let machine = Process::new(2);
    machine.init();
    let first = back_up_bytes(&machine.open(), "/file", &noise(1, 50 << 10), &How::plain()).unwrap();
    back_up_bytes(&machine.open(), "/file", &noise(2, 50 << 10), &How::plain()).unwrap();
    forget(&machine, first.id);
    prune(&machine.open(), &everything());
    assert_eq!(manifests(&machine), 3);
    machine.clock.advance(Duration::from_secs(31 * 24 * 60 * 60));
    let none = everything().keep_endings_for(Duration::ZERO);
    prune(&machine.open(), &none);
    assert_eq!(manifests(&machine), 1, "{:?}", machine.names("backups"));
    prune(&machine.open(), &none);
    assert_sound(&machine.open(), "after the tombstone went");
}

/// Marks of a series without tombstones are deleted: those that a removed list names when a later
/// list does not, others at once.
#[test]
fn marks_are_deleted_with_the_last_backup_of_their_group() {
    let machine = Process::new(6);
    machine.init();
    let at_once = everything().keep_endings_for(Duration::ZERO);
    let back_up = |name: &str, bytes: &[u8]| {
        back_up_bytes(&machine.open(), name, bytes, &How::plain())
            .unwrap()
            .id
    };
    let bytes = noise(1, 50 << 10);
    back_up("/kept", &bytes);
    prune(&machine.open(), &at_once);
    let of_kept = machine.names("groups");
    assert_eq!(of_kept.len(), 1);
    let other_than = |known: &[String]| -> Vec<String> {
        let names = machine.names("groups").into_iter();
        names.filter(|name| !known.contains(name)).collect()
    };
    let named = back_up("/named", &noise(2, 50 << 10));
    forget(&machine, named);
    assert_eq!(prune(&machine.open(), &at_once).epochs, 1);
    assert_eq!(prune(&machine.open(), &at_once).epochs, 0);
    let of_named = other_than(&of_kept);
    assert_eq!(of_named.len(), 1, "the newest list names it");
    // All data of this backup existed before, so nothing becomes dead with it.
    let unnamed = back_up("/unnamed", &bytes);
    forget(&machine, unnamed);
    for _ in 0..3 {
        assert_eq!(prune(&machine.open(), &at_once).epochs, 0);
    }
    assert_eq!(other_than(&of_kept), of_named);
    let last = back_up("/last", &noise(3, 50 << 10));
    forget(&machine, last);
    assert_eq!(prune(&machine.open(), &at_once).epochs, 1);
    let left = other_than(&of_kept);
    assert!(left.len() == 1 && left != of_named, "{left:?}");
    // No marks were missing.
    let report = prune(&machine.open(), &at_once);
    assert_eq!((report.epochs, report.bytes_deleted), (0, 0), "{report:?}");
}

/// A session died between the two copies of a container, or a power cut has left only the second
/// one, whole or torn. It is deleted when the session is ended, and with `--all` for any session.
#[test]
fn a_second_copy_without_the_first_is_deleted() {
    for (seed, is_torn) in [(8, false), (9, true)] {
        let machine = Process::new(seed);
        machine.init();
        let (how, kind) = if is_torn {
            (How::small(), types::ContainerKind::Small)
        } else {
            (How::plain(), types::ContainerKind::Recipe)
        };
        let kept = back_up_bytes(&machine.open(), "/kept", &noise(1, 50 << 10), &how).unwrap();
        let of_kept = machine.names("mirror");
        let dying = machine.beside(seed + 2);
        let storage = dying.storage.clone();
        dying.watched.set_before(move |asked, name| {
            if asked == Asked::Put && name.starts_with("backups") {
                storage.kill();
            }
        });
        back_up_bytes(&dying.open(), "/dead", &noise(2, 50 << 10), &How::plain()).unwrap_err();
        let copies = machine.names("mirror");
        let alone: Vec<_> = copies.iter().filter(|name| !of_kept.contains(name)).collect();
        assert!(!alone.is_empty(), "{copies:?}");
        for name in alone {
            let name = ObjectName::new(name.clone()).unwrap();
            let copy = names::parse_mirror(&name).unwrap();
            let (kind, session, sequence) = (types::ContainerKind::Recipe, copy.session, copy.sequence);
            let id = types::ContainerId {
                session,
                kind,
                sequence,
            };
            assert!(machine.storage.lose(&names::container(id, copy.generation)));
            if is_torn {
                machine
                    .storage
                    .damage(&name, |bytes| bytes.truncate(bytes.len() / 2));
            }
        }
        let options = everything().abandoned_after(Duration::ZERO);
        prune(&machine.open(), &options);
        assert_eq!(machine.names("mirror"), of_kept);
        // A copy whose container no prune lists as dead.
        let of_kept_one = names::parse_mirror(&ObjectName::new(of_kept[0].clone()).unwrap()).unwrap();
        let foreign = types::ContainerId {
            session: kept.id,
            kind: types::ContainerKind::Small,
            sequence: types::SequenceNumber::new(90).unwrap(),
        };
        let foreign = names::mirror(foreign, of_kept_one.generation).unwrap();
        machine.storage.put(&foreign, &[&noise(3, 3 << 10)]).unwrap();
        // And a copy that is the only one left of a container that a backup reaches.
        let serving = types::ContainerId {
            session: kept.id,
            kind,
            sequence: of_kept_one.sequence,
        };
        let (lost, left) = (
            names::container(serving, of_kept_one.generation),
            ObjectName::new(of_kept[0].clone()).unwrap(),
        );
        let main = machine.storage.get(&lost).unwrap();
        assert!(machine.storage.lose(&lost));
        if is_torn {
            machine
                .storage
                .damage(&left, |bytes| bytes.truncate(main.len() / 2));
        }
        let all = everything().all(true);
        machine.open().prune(&all, &Monitor::default()).unwrap();
        assert_eq!(machine.names("mirror"), of_kept, "torn: {is_torn}");
        machine.storage.put(&lost, &[&main]).unwrap();
        machine.storage.damage(&left, |bytes| bytes.clone_from(&main));
        assert_sound(&machine.beside(seed + 4).open(), "afterwards");
    }
}
