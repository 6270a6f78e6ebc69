//! The index in memory: a process that opens the store in this way deduplicates as well as with the
//! index on disk, and the store restores at every budget.

use crate::common::*;
use env::Storage;
use onefold::{Credential, OpenOptions, Store};
use types::ObjectName;

fn open_held(process: &Process, memory_bytes: usize) -> Store {
    let options = OpenOptions::default().index_memory_bytes_max(Some(memory_bytes));
    Store::open(&process.env, &Credential::None, &options).unwrap()
}

fn images(process: &Process) -> Vec<String> {
    let names = process.names("index").into_iter();
    names.filter(|name| name.starts_with("index/image.")).collect()
}

/// Shifted by a byte in the middle: the segments there are new, and most chunks are known.
fn shifted(bytes: &[u8]) -> Vec<u8> {
    let (front, back) = bytes.split_at(bytes.len() / 2);
    [front, b"!", back].concat()
}

#[test]
fn an_index_in_memory_deduplicates_as_on_disk_with_and_without_images() {
    let machine = Process::new(71);
    machine.init();
    let bytes = noise(71, 3 << 20);
    let first = back_up_bytes(&open_held(&machine, 1 << 20), "/stream", &bytes, &How::plain()).unwrap();
    assert!(first.warnings.is_empty(), "{:?}", first.warnings);
    assert_eq!(images(&machine).len(), 1, "an image of it is left");
    let on_disk = {
        let storage = machine.storage.crash(env::fault::CrashPolicy::KeepAll);
        let beside = Process::on(storage, machine.clock.clone(), 72);
        back_up_bytes(&beside.open(), "/other", &shifted(&bytes), &How::plain()).unwrap()
    };
    assert!(on_disk.totals.chunks_new < 20 && on_disk.totals.chunks > 100);
    // From the image; then without it; then from a damaged one.
    for (n, damage) in [None, Some(true), Some(false)].into_iter().enumerate() {
        let storage = machine.storage.crash(env::fault::CrashPolicy::KeepAll);
        let process = Process::on(storage, machine.clock.clone(), 80 + n as u64);
        let image = ObjectName::new(&images(&process)[0]).unwrap();
        match damage {
            None => {}
            Some(true) => process.storage.delete(&image).unwrap(),
            Some(false) => assert!(process.storage.damage(&image, |bytes| bytes[3000] ^= 1)),
        }
        let store = open_held(&process, 1 << 20);
        let stats = store.stats().unwrap().index;
        let held = stats.memory.unwrap();
        assert_eq!(held.entries.iter().sum::<u64>(), stats.entries, "{stats:?}");
        let again = back_up_bytes(&store, "/other", &shifted(&bytes), &How::plain()).unwrap();
        assert_eq!(again.totals.chunks_new, on_disk.totals.chunks_new);
        assert_eq!(again.totals.bytes_stored, on_disk.totals.bytes_stored);
        let snapshot = snapshot(&store, again.id);
        assert_restores_bytes(&store, &snapshot, "/other", &shifted(&bytes), "held in memory");
        assert_sound(&store, "held in memory");
    }
}

#[test]
fn backups_restore_at_every_index_budget() {
    let machine = Process::new(73);
    machine.init();
    let mut bytes = noise(73, 2 << 20);
    let mut made = Vec::new();
    for memory_bytes in [1, 64 << 10, 256 << 10, 16 << 20] {
        let store = open_held(&machine, memory_bytes);
        bytes = shifted(&bytes);
        let report = back_up_bytes(&store, "/stream", &bytes, &How::plain()).unwrap();
        assert!(report.totals.bytes_stored < 3 << 20);
        made.push((report.id, bytes.clone()));
    }
    let store = machine.open();
    for (id, bytes) in made {
        assert_restores_bytes(
            &store,
            &snapshot(&store, id),
            "/stream",
            &bytes,
            "at every budget",
        );
    }
    assert_sound(&store, "at every budget");
}
