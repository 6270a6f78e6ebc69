//! What a check finds without reading every byte, and how it reports that.

use std::sync::atomic::Ordering;

use onefold::{ErrorKind, Finding, Monitor, ReadData};
use types::ObjectName;

use crate::common::{Asked, How, Process, Tree, back_up};

/// The objects of a folder.
fn objects(process: &Process, folder: &str) -> Vec<ObjectName> {
    let names = process.names(folder).into_iter();
    names.map(|name| ObjectName::new(name).unwrap()).collect()
}

/// A first copy rots, and its mirror copy serves the check. Both depths report the same.
#[test]
fn damage_that_a_mirror_copy_covers_is_found_without_reading_data() {
    // In the catalog, or in the first region.
    let ways = [
        ("recipe", How::plain(), false),
        ("recipe", How::plain(), true),
        ("small", How::small(), true),
    ];
    for (folder, how, is_catalog) in ways {
        let process = Process::new(71);
        let tree = Tree::plant(71, 256 << 10);
        back_up(&process.init(), &tree, &how).unwrap();
        let victim = objects(&process, folder).remove(0);
        assert!(process.storage.damage(&victim, |bytes| {
            let at = if is_catalog { bytes.len() - 100 } else { 200 };
            bytes[at] ^= 1;
        }));
        let find = |read_data| {
            let store = process.beside(72).open();
            let report = store.check(read_data, &Monitor::default()).unwrap();
            assert!(report.damaged_backups.is_empty(), "{folder}: {report:?}");
            let mut findings: Vec<Finding> = report.findings;
            findings.sort();
            findings
        };
        let found = find(ReadData::None);
        assert!(!found.is_empty(), "{victim}");
        assert!(found.iter().all(|finding| finding.is_covered), "{found:?}");
        assert_eq!(found, find(ReadData::Share(1.0)), "{victim}");
    }
}

/// A catalog rots while an open store has it in memory.
#[test]
fn an_open_store_checks_catalogs_in_the_storage() {
    let process = Process::new(73);
    let store = process.init();
    let tree = Tree::plant(73, 256 << 10);
    back_up(&store, &tree, &How::plain()).unwrap();
    let check = || store.check(ReadData::None, &Monitor::default()).unwrap();
    assert!(check().is_sound());
    let victim = objects(&process, "data").remove(1);
    assert!(process.storage.damage(&victim, |bytes| {
        let at = bytes.len() - 100;
        bytes[at] ^= 1;
    }));
    let report = check();
    assert!(!report.damaged_backups.is_empty(), "{victim}: {report:?}");
}

/// Ctrl-C also ends a check while it looks for the files that damage affects.
#[test]
fn a_check_that_has_found_damage_can_be_stopped() {
    let process = Process::new(75);
    let tree = Tree::plant(75, 256 << 10);
    back_up(&process.init(), &tree, &How::plain()).unwrap();
    let victim = objects(&process, "data").remove(1);
    assert!(process.storage.damage(&victim, |bytes| bytes[200] ^= 1));
    let other = process.beside(76);
    let store = other.open();
    let monitor = Monitor::default();
    let cancel = monitor.cancel_handle();
    // The list of damage is the last object before the search for files.
    other.watched.set_before(move |asked, name| {
        if asked == Asked::Put && name.starts_with("damaged/") {
            cancel.store(true, Ordering::Relaxed);
        }
    });
    let ended = store.check(ReadData::Share(1.0), &monitor);
    assert!(ended.is_err_and(|error| error.kind() == ErrorKind::Interrupted));
}
