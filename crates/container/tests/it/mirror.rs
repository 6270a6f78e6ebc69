//! Second copies: reads use them when the first is bad, and report this.

use std::sync::{Arc, Mutex};

use container::{ContainerError, MirrorRead, Part};
use env::{Storage, StorageError};
use format::names;
use types::{ByteRange, ContainerId, ContainerKind, ObjectName};

use crate::store::*;

fn mirror_of(id: ContainerId) -> ObjectName {
    names::mirror(id, generation(0)).unwrap()
}

fn watched(store: &Store) -> Arc<Mutex<Vec<MirrorRead>>> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&seen);
    store
        .containers
        .observe_mirror_reads(move |read| sink.lock().unwrap().push(read.clone()));
    seen
}

#[test]
fn recipe_and_small_containers_are_stored_twice() {
    for kind in ContainerKind::ALL {
        let store = Store::new();
        let sealed = store.put(id(kind, 1, 1), &sample());
        assert_eq!(
            store.storage.counters().puts,
            if kind.is_mirrored() { 2 } else { 1 },
            "{kind:?}"
        );
        if kind.is_mirrored() {
            assert_eq!(
                store.storage.get(&mirror_of(id(kind, 1, 1))).unwrap(),
                sealed.bytes()
            );
            assert_eq!(sealed.stored_bytes_total(), 2 * sealed.bytes().len() as u64);
        }
    }
}

#[test]
fn any_damage_of_the_main_copy_is_made_good() {
    let id = id(ContainerKind::Recipe, 1, 1);
    let mut store = Store::new();
    let whole = store.put(id, &sample()).bytes().to_vec();
    for at in (72..whole.len()).step_by(7) {
        store.damage(&name(id, 0), |bytes| bytes[at] ^= 0x40);
        store.reopen();
        let seen = watched(&store);
        assert_eq!(store.read_all(id).unwrap(), sample().concat(), "byte {at}");
        assert!(!seen.lock().unwrap().is_empty(), "byte {at}: and it is reported");
        assert_eq!(
            store.containers.stats().mirror_reads,
            seen.lock().unwrap().len() as u64
        );
        store.damage(&name(id, 0), |bytes| bytes.clone_from(&whole));
    }
}

#[test]
fn a_lost_main_copy_is_made_good() {
    let id = id(ContainerKind::Small, 1, 1);
    let mut store = Store::new();
    store.put(id, &sample());
    let view = store.containers.catalog(id).unwrap();
    store.storage.delete(&name(id, 0)).unwrap();
    let seen = watched(&store);
    let region = store
        .containers
        .read_region(&view, view.region_of(slot(0)).unwrap())
        .unwrap();
    assert_eq!(region.bytes(), sample()[0].concat(), "with the catalog in memory");
    assert!(matches!(seen.lock().unwrap()[0].part, Part::Region(_)));
    store.reopen();
    assert_eq!(store.read_all(id).unwrap(), sample().concat(), "from nothing");
    assert!(store.containers.stats().mirror_reads > 0);
}

#[test]
fn both_copies_damaged_is_the_error_of_the_main_copy() {
    let id = id(ContainerKind::Recipe, 1, 1);
    let mut store = Store::new();
    let sealed = store.put(id, &sample());
    let row = sealed.catalog().rows()[0];
    let at = usize::try_from(row.offset).unwrap();
    for copy in [name(id, 0), mirror_of(id)] {
        store.damage(&copy, |bytes| bytes[at] ^= 1);
    }
    store.reopen();
    assert!(matches!(
        store.read(id, 0),
        Err(ContainerError::DigestMismatch { .. })
    ));
    assert!(store.read(id, 3).is_ok(), "the other region is whole");
    for copy in [name(id, 0), mirror_of(id)] {
        store.storage.delete(&copy).unwrap();
    }
    store.reopen();
    assert!(matches!(store.read(id, 0), Err(ContainerError::Missing { .. })));
}

#[test]
fn halves_of_two_damaged_copies_make_a_whole() {
    let id = id(ContainerKind::Recipe, 1, 1);
    let mut store = Store::new();
    let sealed = store.put(id, &sample());
    let offset = |n: usize| usize::try_from(sealed.catalog().rows()[n].offset).unwrap();
    store.damage(&name(id, 0), |bytes| bytes[offset(0)] ^= 1);
    store.damage(&mirror_of(id), |bytes| bytes[offset(1)] ^= 1);
    store.reopen();
    assert_eq!(store.read_all(id).unwrap(), sample().concat());
}

#[test]
fn a_mirror_left_by_a_crash_gives_way() {
    let id = id(ContainerKind::Recipe, 1, 1);
    let store = Store::new();
    store
        .storage
        .put(&mirror_of(id), &[b"of an attempt whose main copy was undone"])
        .unwrap();
    let sealed = store.put(id, &sample());
    assert_eq!(store.storage.get(&mirror_of(id)).unwrap(), sealed.bytes());
}

#[test]
fn a_mirror_of_another_kind_is_not_taken_for_ours() {
    let (recipe, small) = (id(ContainerKind::Recipe, 1, 1), id(ContainerKind::Small, 1, 1));
    let mut store = Store::new();
    store.put(recipe, &sample());
    store.reopen();
    assert!(matches!(
        store.read(small, 0),
        Err(ContainerError::Missing { .. })
    ));
}

/// The sector with the byte at `at`.
fn sector(at: u64) -> ByteRange {
    ByteRange { offset: at, len: 1 }
}

#[test]
fn unreadable_sectors_of_the_main_copy_are_made_good() {
    let id = id(ContainerKind::Recipe, 1, 1);
    let mut store = Store::new();
    let len = store.put(id, &sample()).bytes().len() as u64;
    for at in (72..len).step_by(7) {
        store.storage.make_unreadable(&name(id, 0), sector(at));
        store.reopen();
        let seen = watched(&store);
        assert_eq!(store.read_all(id).unwrap(), sample().concat(), "byte {at}");
        assert!(!seen.lock().unwrap().is_empty(), "byte {at}: and it is reported");
    }
}

#[test]
fn a_newer_generation_serves_regions_on_bad_sectors_of_the_older() {
    let mut store = Store::new();
    let sealed = store.put(data(1), &sample());
    let row = sealed.catalog().rows()[0];
    store.reopen();
    store.containers.catalog(data(1)).unwrap();
    store.put_survivors(data(1), 1, &[(0, &noise(1, 100))]);
    store
        .storage
        .make_unreadable(&name(data(1), 0), sector(row.offset));
    assert_eq!(store.read(data(1), 0).unwrap(), noise(1, 100));
    store.reopen();
    store
        .storage
        .make_unreadable(&name(data(1), 0), sector(sealed.bytes().len() as u64 - 1));
    assert_eq!(
        store.read(data(1), 0).unwrap(),
        noise(1, 100),
        "the catalog of it is gone as well"
    );
}

#[test]
fn sectors_of_both_copies_are_the_error_of_the_main_copy() {
    let id = id(ContainerKind::Recipe, 1, 1);
    let mut store = Store::new();
    let sealed = store.put(id, &sample());
    let row = sealed.catalog().rows()[0];
    let is_of_main = |error: ContainerError| {
        matches!(error, ContainerError::Storage(StorageError::Io { name: found, .. })
            if found == name(id, 0).as_str())
    };
    for copy in [name(id, 0), mirror_of(id)] {
        store.storage.make_unreadable(&copy, sector(row.offset));
    }
    store.reopen();
    assert!(is_of_main(store.read(id, 0).unwrap_err()));
    assert!(store.read(id, 3).is_ok(), "the other region is whole");
    for copy in [name(id, 0), mirror_of(id)] {
        store
            .storage
            .make_unreadable(&copy, sector(sealed.bytes().len() as u64 - 1));
    }
    store.reopen();
    assert!(is_of_main(store.read(id, 0).unwrap_err()));
}
