//! What is lost of a store costs the files that lay there, and the next backup has them again.

#![allow(missing_docs, clippy::unwrap_used, reason = "tests")]

mod common;

use std::collections::BTreeSet;
use std::path::Path;

use common::{
    How, Process, Tree, assert_restores, assert_restores_bytes, back_up, back_up_bytes, noise, snapshot,
};
use env::Storage;
use onefold::{AssembleOptions, Fault, Monitor, Overwrite, ReadData, RestoreRequest, Snapshot, Store};

/// The paths whose bytes could not be had; all others are restored.
fn lost(store: &Store, snapshot: &Snapshot, target: &Path) -> BTreeSet<Vec<u8>> {
    let request = RestoreRequest {
        include: Vec::new(),
        overwrite: Overwrite::Always,
        assembling: AssembleOptions::for_cores(1),
    };
    let mut lost = BTreeSet::new();
    store
        .restore(
            snapshot,
            target,
            &request,
            &Monitor::default(),
            &mut |fault| match fault {
                Fault::Lost { path, .. } => drop(lost.insert(path.clone())),
                Fault::Tree(fault) => panic!("{fault}"),
            },
        )
        .unwrap();
    lost
}

/// Data containers of the content, in order.
fn data(process: &Process) -> Vec<String> {
    process.names("data")
}

#[test]
fn a_lost_container_costs_its_files_alone_and_is_stored_again() {
    let process = Process::new(11);
    let store = process.init();
    let tree = Tree::plant(11, 1 << 20);
    let first = back_up(&store, &tree, &How::plain()).unwrap();
    let containers = data(&process);
    assert!(containers.len() > 8, "{containers:?}");
    let name = types::ObjectName::new(containers[containers.len() / 2].clone()).unwrap();
    process.storage.delete(&name).unwrap();

    let store = process.beside(12).open();
    let target = tempfile::tempdir().unwrap();
    let lost = lost(&store, &snapshot(&store, first.id), target.path());
    assert!(!lost.is_empty(), "something lay in {name}");
    let restored = target.path().join(tree.root().strip_prefix("/").unwrap());
    let (found, expected) = (common::picture_of(&restored), tree.picture());
    assert!(
        format!("{found:?}").len() > format!("{expected:?}").len() / 2,
        "{} files lost",
        lost.len()
    );

    let second = back_up(&store, &tree, &How::plain()).unwrap();
    assert_eq!(second.parent, Some(first.id));
    assert!(second.totals.files_unchanged > 0, "{:?}", second.totals);
    assert!(second.totals.files_changed > 0, "{:?}", second.totals);
    let store = process.beside(13).open();
    assert_restores(
        &store,
        &snapshot(&store, second.id),
        &tree.root(),
        &tree.picture(),
        "again",
    );
}

#[test]
fn unchanged_files_on_slots_listed_as_damaged_are_read_again() {
    let process = Process::new(21);
    let store = process.init();
    let tree = Tree::plant(21, 1 << 20);
    let first = back_up(&store, &tree, &How::plain()).unwrap();
    let containers = data(&process);
    let name = types::ObjectName::new(containers[containers.len() / 2].clone()).unwrap();
    let mut bytes = process.storage.get(&name).unwrap();
    bytes[200] ^= 1;
    process.storage.delete(&name).unwrap();
    process.storage.put(&name, &[&bytes]).unwrap();

    let store = process.beside(22).open();
    let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    assert!(report.damaged_backups.contains(&first.id));
    let second = back_up(&store, &tree, &How::plain()).unwrap();
    assert!(second.totals.files_unchanged > 0, "{:?}", second.totals);
    assert!(second.totals.files_changed > 0, "{:?}", second.totals);
    let store = process.beside(23).open();
    assert_restores(
        &store,
        &snapshot(&store, second.id),
        &tree.root(),
        &tree.picture(),
        "healed",
    );
}

/// Takes a sector in the middle of each object of the folder whose number the function takes.
fn make_unreadable(process: &Process, folder: &str, takes: impl Fn(usize) -> bool) -> Vec<types::ObjectName> {
    let named = process.names(folder).into_iter().enumerate();
    let taken = named.filter(|(number, _)| takes(*number));
    let names: Vec<_> = taken
        .map(|(_, name)| types::ObjectName::new(name).unwrap())
        .collect();
    for name in &names {
        let middle = process.storage.head(name).unwrap().len / 2;
        let sector = types::ByteRange {
            offset: middle,
            len: 1,
        };
        process.storage.make_unreadable(name, sector);
    }
    names
}

#[test]
fn unreadable_sectors_cost_what_no_copy_has_and_a_check_goes_on_behind_them() {
    let process = Process::new(31);
    let store = process.init();
    let tree = Tree::plant(31, 1 << 20);
    let first = back_up(&store, &tree, &How::plain()).unwrap();
    drop(store);
    let recipes = make_unreadable(&process, "recipe", |_| true);
    assert!(!recipes.is_empty());

    let store = process.beside(32).open();
    let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    let names = |name: &types::ObjectName| {
        let findings = report.findings.iter();
        let mut of_name = findings.filter(|finding| finding.what.contains(name.as_str()));
        of_name
            .next()
            .is_some_and(|first| first.is_covered && of_name.all(|other| other.is_covered))
    };
    assert!(recipes.iter().all(names), "{:#?}", report.findings);
    assert!(report.damaged_backups.is_empty(), "the mirror copies are whole");
    let whole = snapshot(&store, first.id);
    assert_restores(
        &store,
        &whole,
        &tree.root(),
        &tree.picture(),
        "from the mirror copies",
    );

    let bad = make_unreadable(&process, "data", |number| number % 8 == 3);
    let store = process.beside(33).open();
    let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    for name in &bad {
        let is_found =
            |finding: &onefold::Finding| !finding.is_covered && finding.what.contains(name.as_str());
        assert!(
            report.findings.iter().any(is_found),
            "{name}: {:#?}",
            report.findings
        );
    }
    let target = tempfile::tempdir().unwrap();
    let lost = lost(&store, &snapshot(&store, first.id), target.path());
    let foretold: BTreeSet<Vec<u8>> = report.damaged_files[&first.id].iter().cloned().collect();
    assert!(
        !lost.is_empty() && lost == foretold,
        "{} and {}",
        lost.len(),
        foretold.len()
    );

    let second = back_up(&store, &tree, &How::plain()).unwrap();
    let store = process.beside(34).open();
    assert_restores(
        &store,
        &snapshot(&store, second.id),
        &tree.root(),
        &tree.picture(),
        "stored again",
    );
}

/// A manifest on a bad sector costs its own backup: the others are listed, restored, checked, and built on.
#[test]
fn a_manifest_on_a_bad_sector_costs_its_own_backup() {
    let process = Process::new(61);
    let store = process.init();
    let tree = Tree::plant(61, 256 << 10);
    let first = back_up(&store, &tree, &How::plain()).unwrap();
    tree.change(1);
    let second = back_up(&store, &tree, &How::plain()).unwrap();
    drop(store);
    let is_of = |name: &types::ObjectName, id| {
        format::names::parse_manifest(name).is_some_and(|(_, session, _)| session == id)
    };
    let folder = format::names::BACKUPS_FOLDER;
    let bad = make_unreadable(&process, folder, |number| number == 1);
    assert!(bad.len() == 1 && is_of(&bad[0], second.id), "{bad:?}");
    // As after a crash between the ending and the tidying: a torn manifest would be a leftover.
    let beat = format::names::heartbeat(second.id, 0);
    process.storage.put(&beat, &[b"anything"]).unwrap();

    let store = process.beside(62).open();
    let list = store.snapshots().unwrap();
    let listed: Vec<_> = list.snapshots.iter().map(|snapshot| snapshot.id).collect();
    assert_eq!(listed, [first.id]);
    assert_eq!(list.damaged.len(), 1);
    assert_eq!(list.damaged[0].name, bad[0]);
    assert!(store.find("latest", &onefold::Filter::default()).is_err());
    assert!(
        store
            .find(&first.id.to_string(), &onefold::Filter::default())
            .is_ok()
    );
    let report = store.check(ReadData::None, &Monitor::default()).unwrap();
    assert!(report.unread_backups.contains(&second.id), "{report:?}");
    assert!(report.damaged_backups.is_empty(), "it may come back");

    let third = back_up(&store, &tree, &How::plain()).unwrap();
    assert_eq!(third.parent, Some(first.id));
    assert!(
        third.untidy.len() == 1 && third.untidy[0].contains(bad[0].as_str()),
        "{:?}",
        third.untidy
    );
    let store = process.beside(63).open();
    store.rebuild_index(&Monitor::default()).unwrap();
    let whole = snapshot(&store, third.id);
    assert_restores(
        &store,
        &whole,
        &tree.root(),
        &tree.picture(),
        "of the older parent",
    );
}

/// What is lost behind the back of an open store, which has its catalogs and nodes in memory.
#[test]
fn an_open_store_refers_to_nothing_that_is_gone() {
    for (kind, seed) in [("data", 31), ("recipe", 41)] {
        let process = Process::new(seed);
        let store = process.init();
        let tree = Tree::plant(seed, 256 << 10);
        let bytes = noise(seed, 256 << 10);
        back_up(&store, &tree, &How::plain()).unwrap();
        back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
        for name in process.names(kind) {
            process
                .storage
                .delete(&types::ObjectName::new(name).unwrap())
                .unwrap();
        }

        let again = back_up(&store, &tree, &How::plain().forced()).unwrap();
        let stream = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
        let store = process.beside(seed + 1).open();
        let healed = snapshot(&store, again.id);
        assert_restores(&store, &healed, &tree.root(), &tree.picture(), kind);
        assert_restores_bytes(&store, &snapshot(&store, stream.id), "/stream", &bytes, kind);
    }
}

/// A catalog that rots shows when a segment must be taken apart, and no sooner; the files there are read again.
#[test]
fn a_changed_tree_is_backed_up_whatever_catalog_has_rotted() {
    let mut read_again = 0;
    // Containers of the content: the listing's come last.
    for bad in 0..12 {
        let process = Process::new(51);
        let store = process.init();
        let tree = Tree::plant(51, 512 << 10);
        let first = back_up(&store, &tree, &How::plain()).unwrap();
        let name = types::ObjectName::new(data(&process).swap_remove(bad)).unwrap();
        process.storage.damage(&name, |bytes| bytes.truncate(99));
        tree.change(1);

        let store = process.beside(52).open();
        let second = back_up(&store, &tree, &How::plain()).unwrap();
        assert_eq!(second.parent, Some(first.id));
        assert_eq!(second.totals.files, first.totals.files, "none is counted twice");
        if second.totals.files_changed == 1 {
            // Nobody came by: rot that was not met is for `check` to find.
            continue;
        }
        read_again += 1;
        let when = format!("{name} has rotted");
        let store = process.beside(53).open();
        let healed = snapshot(&store, second.id);
        assert_restores(&store, &healed, &tree.root(), &tree.picture(), &when);
    }
    assert!(read_again > 3, "{read_again}");
}
