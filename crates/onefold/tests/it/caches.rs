//! Values that a store caches from one operation to the next: its index, catalogs and nodes. It
//! must still notice the changes of other processes.

use std::collections::BTreeMap;

use onefold::{Credential, Monitor, OpenOptions, ReadData, Store};

use crate::common::pruning::{everything_at_once, forget, prune};
use crate::common::storage::Asked;
use crate::common::{How, Process, assert_restores_bytes, assert_sound, back_up_bytes, noise, snapshot};

/// Another process removes a half of one container, and then the list that names the slots. A store
/// with the old catalog in its cache refers to no removed slot.
#[test]
fn nothing_is_referred_to_that_only_a_cached_catalog_has() {
    let machine = Process::new(91);
    machine.init();
    let store = machine.open();
    let bytes = noise(91, 200_000);
    let (front, _) = bytes.split_at(bytes.len() / 2);
    let first = back_up_bytes(&store, "/whole", &bytes, &How::plain()).unwrap().id;
    let kept = back_up_bytes(&store, "/front", front, &How::plain()).unwrap().id;
    assert_restores_bytes(&store, &snapshot(&store, first), "/whole", &bytes, "before");

    let other = machine.beside(92).open();
    forget(&other, first);
    prune(&other, &everything_at_once(), "half of it goes");
    for n in 0..4 {
        let more = back_up_bytes(&other, "/more", &noise(93 + n, 60_000), &How::plain()).unwrap();
        forget(&other, more.id);
        prune(&other, &everything_at_once(), "more goes");
    }
    assert_eq!(machine.names("removed").len(), 1, "the list that said it is gone");

    let again = back_up_bytes(&store, "/whole", &bytes, &How::plain()).unwrap().id;
    let fresh = machine.open();
    assert_restores_bytes(&fresh, &snapshot(&fresh, again), "/whole", &bytes, "again");
    assert_restores_bytes(&fresh, &snapshot(&fresh, kept), "/front", front, "kept");
    assert_sound(&fresh, "after both");
}

/// With less memory than a container takes, containers are shorter, and hold the same.
#[test]
fn open_containers_keep_to_their_memory() {
    let made = |open_bytes: u64| {
        let machine = Process::new(95);
        machine.init();
        let options = OpenOptions::default().open_containers_bytes(open_bytes);
        let store = Store::open(&machine.env, &Credential::None, &options).unwrap();
        let bytes = noise(95, 300_000);
        let report = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
        assert_restores_bytes(&store, &snapshot(&store, report.id), "/stream", &bytes, "made");
        assert_sound(&store, "made");
        let longest = env::Storage::list(&machine.storage, "data").unwrap();
        let longest = longest.iter().map(|object| object.len).max();
        (
            machine.names("data").len(),
            longest.unwrap(),
            report.totals.bytes_new,
        )
    };
    // A container has 32 KiB and a region of 8 KiB at most.
    let (few, long, bytes) = made(1 << 20);
    let (many, short, same) = made(12 << 10);
    assert!(
        few <= 10 && long > 30 << 10,
        "{few} containers, the longest has {long}"
    );
    assert!(
        many > 14 && short < 24 << 10,
        "{many} containers, the longest has {short}"
    );
    assert_eq!(bytes, same);
    let (each, _, same) = made(0);
    assert!(each > many && bytes == same, "{each} containers of one region");
}

/// Cached nodes prove nothing about the storage.
#[test]
fn a_check_reads_nodes_that_are_in_memory() {
    let machine = Process::new(97);
    machine.init();
    let store = machine.open();
    let bytes = noise(97, 200_000);
    let made = back_up_bytes(&store, "/stream", &bytes, &How::plain())
        .unwrap()
        .id;
    assert_restores_bytes(&store, &snapshot(&store, made), "/stream", &bytes, "before");
    for name in [machine.names("recipe"), machine.names("mirror")].concat() {
        let name = types::ObjectName::new(name).unwrap();
        assert!(machine.storage.damage(&name, |bytes| bytes[200] ^= 1));
    }
    let report = store.check(ReadData::Share(0.0), &Monitor::default()).unwrap();
    assert!(!report.is_sound(), "both copies of the recipes are damaged");
}

/// Backups of one process open each part of the index once.
#[test]
fn the_index_is_opened_once() {
    let machine = Process::new(98);
    machine.init();
    let store = machine.open();
    machine.watched.take_requests();
    for n in 0..10 {
        back_up_bytes(&store, "/stream", &noise(98 + n, 50_000), &How::plain()).unwrap();
    }
    let mut opened: BTreeMap<String, usize> = BTreeMap::new();
    for request in machine.watched.take_requests() {
        if request.asked == Asked::Whole && request.is_in("index") {
            *opened.entry(request.name).or_default() += 1;
        }
    }
    assert!(!opened.is_empty(), "each backup has a run of its own");
    let twice: Vec<_> = opened.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}
