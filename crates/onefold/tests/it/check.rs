//! What a check finds without reading every byte, and how it reports that.

use std::sync::atomic::Ordering;

use container::{CompressedRegion, ContainerBuilder, Containers};
use crypto::Credential;
use format::names;
use object::config;
use onefold::{ErrorKind, Finding, Monitor, ReadData};
use types::{ContainerKind, ObjectName, RegionIndex};

use crate::common::{Asked, How, Process, Request, Tree, back_up};

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

/// The listings of folders of containers.
fn listings(requests: &[Request]) -> usize {
    let folders = ContainerKind::ALL.map(ContainerKind::folder);
    let is_of =
        |request: &&Request| folders.iter().any(|folder| request.is_in(folder)) || request.is_in("mirror");
    let listings = requests.iter().filter(|request| request.asked == Asked::List);
    listings.filter(is_of).count()
}

/// A folder may have a hundred thousand containers.
#[test]
fn a_check_of_all_bytes_lists_each_folder_once() {
    let process = Process::new(77);
    let tree = Tree::plant(77, 1 << 20);
    back_up(&process.init(), &tree, &How::plain()).unwrap();
    let data = objects(&process, "data");
    assert!(data.len() > 20, "{data:?}");
    // Data, nodes and copies of catalogs; and the mirror copies of nodes.
    let folders = 4;
    let listings_of = |read_data| {
        let other = process.beside(78);
        let store = other.open();
        drop(other.watched.take_requests());
        let report = store.check(read_data, &Monitor::default()).unwrap();
        (listings(&other.watched.take_requests()), report)
    };
    let (of_structure, _) = listings_of(ReadData::None);
    let (sound, report) = listings_of(ReadData::Share(1.0));
    assert!(report.is_sound() && report.containers_read > 20, "{report:?}");
    assert!(sound <= of_structure + folders, "{sound} beside {of_structure}");
    // Nor does it list for each damaged container.
    for name in &data[..10] {
        assert!(process.storage.damage(name, |bytes| bytes[200] ^= 1));
    }
    let (of_structure, _) = listings_of(ReadData::None);
    let (damaged, report) = listings_of(ReadData::Share(1.0));
    assert_eq!(report.damaged_containers.len(), 10);
    assert!(
        damaged <= of_structure + folders + 1,
        "{damaged} beside {of_structure}"
    );
}

/// Another process puts newer generations of containers, and deletes the older ones, when the check
/// has listed them and not read them yet.
#[test]
fn containers_that_are_rewritten_during_a_check_are_read_again() {
    let process = Process::new(79);
    let tree = Tree::plant(79, 1 << 20);
    back_up(&process.init(), &tree, &How::plain()).unwrap();
    let data = objects(&process, "data");
    let machine = process.beside(80);
    let opened = config::open(&machine.env, Credential::NoPassword).unwrap();
    let containers = Containers::new(machine.env.clone(), opened.store(), &opened.keys, 8 << 20);
    let rewrite = move || {
        // The readers begin with the others.
        for name in data.iter().rev() {
            let (id, generation) = names::parse_container(name).unwrap();
            let view = containers.generation(id, generation).unwrap();
            let mut builder = ContainerBuilder::new(id, generation.next());
            for (row, number) in view.rows().iter().zip(0..) {
                let region = RegionIndex::new(number).unwrap();
                let bytes = containers.read_region(&view, region).unwrap().bytes().to_vec();
                let positions = row.first_entry as usize..(row.first_entry + row.entry_count) as usize;
                builder.append_survivors(CompressedRegion::raw(bytes), &view.entries()[positions]);
            }
            containers.put(&builder.seal(&containers).unwrap()).unwrap();
            assert!(machine.storage.lose(name));
        }
    };
    let other = process.beside(81);
    let store = other.open();
    // Only a check of all bytes reads a header.
    let is_header = |asked, name: &str| {
        matches!(asked, Asked::Range(range) if range.offset == 0) && name.starts_with("data/")
    };
    other.watched.set_once_at(is_header, rewrite);
    drop(other.watched.take_requests());
    let report = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    assert!(report.is_sound(), "{report:?}");
    let read_again = |request: &Request| request.name.ends_with(".1") && request.is_in("data");
    let requests = other.watched.take_requests();
    assert!(requests.iter().any(read_again));
    let lists = requests.iter().filter(|request| request.asked == Asked::List);
    assert!(lists.filter(|request| request.is_in("data")).count() < 5);
}
