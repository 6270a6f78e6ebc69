//! What a check finds without reading every byte, and how it reports that.

use onefold::{Finding, Monitor, ReadData};
use types::ObjectName;

use crate::common::{How, Process, Tree, back_up};

/// The objects of a folder.
fn objects(process: &Process, folder: &str) -> Vec<ObjectName> {
    let names = process.names(folder).into_iter();
    names.map(|name| ObjectName::new(name).unwrap()).collect()
}

/// A first copy rots, and its mirror copy serves the check. Both depths report the same.
#[test]
fn damage_that_a_mirror_copy_covers_is_found_without_reading_data() {
    // In the first region, and in the catalog.
    let of_region = |_: usize| 200;
    let of_catalog = |len: usize| len - 100;
    let ways: [(&str, How, &dyn Fn(usize) -> usize); 3] = [
        ("recipe", How::plain(), &of_region),
        ("recipe", How::plain(), &of_catalog),
        ("small", How::small(), &of_catalog),
    ];
    for (folder, how, place) in ways {
        let process = Process::new(71);
        let tree = Tree::plant(71, 256 << 10);
        back_up(&process.init(), &tree, &how).unwrap();
        let victim = objects(&process, folder).remove(0);
        assert!(process.storage.damage(&victim, |bytes| {
            let at = place(bytes.len());
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
