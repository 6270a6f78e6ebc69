//! Trimmed generations: surviving slots are read at their old places, removed slots are in no
//! catalog, and a missing or rotten body is detected.

use std::collections::BTreeSet;

use container::{Compression, ContainerError, Depth, SealedContainer};
use env::Storage;
use env::fault::CrashPolicy;
use format::names;
use types::{ByteRange, ContainerId, ContainerKind, ObjectName, Slot};

use crate::store::*;

/// Six chunks in three regions.
fn filled() -> (Store, ContainerId, Vec<Vec<u8>>) {
    let store = Store::new();
    let chunks: Vec<Vec<u8>> = (0..6).map(|n| noise(n, 9000)).collect();
    let data = id(ContainerKind::Data, 2, 0);
    let regions: Vec<_> = chunks.chunks(2).map(<[_]>::to_vec).collect();
    store.put(data, &regions);
    store.storage.barrier().unwrap();
    (store, data, chunks)
}

fn trimmed(store: &Store, id: ContainerId, generation: u32, dead: &[u32]) -> Option<SealedContainer> {
    let view = store.containers.catalog(id).unwrap();
    let is_dead = |slot: Slot| dead.contains(&slot.get());
    let next = self::generation(generation);
    store.containers.trimmed(&view, is_dead, next).unwrap()
}

fn at_byte(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

fn body(id: ContainerId) -> ObjectName {
    names::body(id, generation(0))
}

/// Trims like reclamation: first it puts the new generation, then it renames the body and gives
/// back its bytes.
fn trim(store: &Store, sealed: &SealedContainer) {
    let id = sealed.id();
    store.containers.put(sealed).unwrap();
    store.storage.barrier().unwrap();
    let ranges = sealed.catalog().given_back();
    store.storage.trim(&name(id, 0), &body(id), &ranges).unwrap();
    for before in 1..sealed.generation().get() {
        store.storage.delete(&name(id, before)).unwrap();
    }
    store.storage.barrier().unwrap();
}

fn check_chunks(store: &Store, id: ContainerId, chunks: &[Vec<u8>], left: &[u32]) {
    for (slot, chunk) in (0u32..).zip(chunks) {
        match store.read(id, slot) {
            Ok(bytes) => assert!(left.contains(&slot) && bytes == *chunk, "slot {slot}"),
            Err(ContainerError::NoSlot { .. }) => assert!(!left.contains(&slot), "slot {slot}"),
            Err(error) => panic!("slot {slot}: {error}"),
        }
    }
}

#[test]
fn trimming_keeps_the_places_of_survivors_and_frees_the_rest() {
    let (mut store, data, chunks) = filled();
    let whole = store.storage.head(&name(data, 0)).unwrap().len;
    let before = store.containers.catalog(data).unwrap();
    let sealed = trimmed(&store, data, 1, &[2, 3]).unwrap();
    assert!(sealed.bytes().len() < 1000, "a trailer alone");
    trim(&store, &sealed);

    let given_back = sealed.catalog().given_back();
    let row = before.rows()[1];
    let middle = ByteRange {
        offset: row.offset,
        len: row.stored_len.into(),
    };
    assert_eq!(given_back[0], middle);
    assert_eq!(given_back[1].end(), whole, "the former trailer");
    assert_eq!(given_back.len(), 2);
    let bytes = store.storage.get(&body(data)).unwrap();
    assert!(
        bytes[at_byte(row.offset)..][..row.stored_len as usize]
            .iter()
            .all(|byte| *byte == 0)
    );

    for _ in 0..2 {
        check_chunks(&store, data, &chunks, &[0, 1, 4, 5]);
        let verified = store.containers.verify(data, Depth::Full).unwrap();
        assert!(verified.is_sound(), "{:?}", verified.damages);
        assert_eq!((verified.generation, verified.regions), (Some(generation(1)), 2));
        store.reopen();
    }
    let view = store.containers.catalog(data).unwrap();
    assert_eq!(view.body(), Some(generation(0)));
    assert!(view.find(&before.entries()[2].fingerprint).is_none());
    let kept: u64 = before.rows().iter().map(|row| u64::from(row.stored_len)).sum();
    let expected = sealed.bytes().len() as u64 + 72 + kept - u64::from(row.stored_len);
    assert_eq!(view.stored_bytes(), expected);
}

#[test]
fn a_reader_with_the_former_catalog_reads_on() {
    let (store, data, chunks) = filled();
    let other = store.beside();
    let stale = other.containers.catalog(data).unwrap();
    trim(&store, &trimmed(&store, data, 1, &[0, 1]).unwrap());
    let region = stale.region_of(slot(4)).unwrap();
    let error = other.containers.read_region(&stale, region).unwrap_err();
    assert!(matches!(error, ContainerError::Vanished { .. }), "{error}");
    check_chunks(&other, data, &chunks, &[2, 3, 4, 5]);
}

#[test]
fn a_body_serves_one_generation_after_another() {
    let (mut store, data, chunks) = filled();
    trim(&store, &trimmed(&store, data, 1, &[2, 3]).unwrap());
    let second = trimmed(&store, data, 2, &[4, 5]).unwrap();
    assert_eq!(second.catalog().body(), Some(generation(0)));
    assert_eq!(second.catalog().given_back().len(), 1, "all but the first region");
    trim(&store, &second);
    store.reopen();
    check_chunks(&store, data, &chunks, &[0, 1]);
    assert!(store.containers.verify(data, Depth::Full).unwrap().is_sound());
    assert!(
        trimmed(&store, data, 3, &[0, 1]).is_none(),
        "nothing would be left"
    );
}

#[test]
fn a_crash_before_the_body_has_its_name_loses_nothing() {
    let (store, data, chunks) = filled();
    let sealed = trimmed(&store, data, 1, &[2, 3]).unwrap();
    store.containers.put(&sealed).unwrap();
    store.storage.barrier().unwrap();
    // The reader knows the new generation before the body is renamed.
    check_chunks(&store, data, &chunks, &[0, 1, 4, 5]);
    assert!(store.containers.verify(data, Depth::Full).unwrap().is_sound());
    let ranges = sealed.catalog().given_back();
    store.storage.trim(&name(data, 0), &body(data), &ranges).unwrap();
    for policy in (0..10).map(CrashPolicy::Seeded) {
        let after = Store::on(store.storage.crash(policy), store_id(1), &keys(1));
        for slot in [0, 1, 4, 5] {
            let bytes = after.read(data, slot).unwrap();
            assert_eq!(bytes, chunks[slot as usize]);
        }
        assert!(after.containers.verify(data, Depth::Full).unwrap().is_sound());
    }
}

#[test]
fn slots_in_shared_regions_or_with_a_mirror_are_not_trimmed() {
    let (store, data, chunks) = filled();
    assert!(trimmed(&store, data, 1, &[2]).is_none(), "3 is in that region");
    assert!(trimmed(&store, data, 1, &[0, 1, 2]).is_none(), "so it is here");
    assert!(trimmed(&store, data, 1, &[]).is_none(), "nothing is dead");
    assert!(
        trimmed(&store, data, 1, &[0, 1, 2, 3, 4, 5]).is_none(),
        "nothing is left"
    );
    let small = id(ContainerKind::Small, 2, 1);
    let regions: Vec<_> = chunks.chunks(2).map(<[_]>::to_vec).collect();
    store.put(small, &regions);
    assert!(trimmed(&store, small, 1, &[2, 3]).is_none());
}

#[test]
fn a_missing_or_rotten_body_is_noticed() {
    let (mut store, data, _) = filled();
    trim(&store, &trimmed(&store, data, 1, &[2, 3]).unwrap());
    store.reopen();
    let row = store.containers.catalog(data).unwrap().rows()[2];
    let damages: [(&str, usize); 2] = [("header", 20), ("region", at_byte(row.offset) + 100)];
    for (what, place) in damages {
        let mut rotten = Store::on(store.storage.crash(CrashPolicy::KeepAll), store_id(1), &keys(1));
        rotten.storage.damage(&body(data), |bytes| bytes[place] ^= 1);
        rotten.reopen();
        let verified = rotten.containers.verify(data, Depth::Digests).unwrap();
        let slots: BTreeSet<_> = verified
            .damages
            .iter()
            .map(|damage| damage.entries.clone().count())
            .collect();
        assert_eq!(verified.damages.len(), 1, "{what}: {slots:?}");
        if what == "region" {
            let error = rotten.read(data, 4).unwrap_err();
            assert!(error.is_damage(), "{error}");
        }
    }
    // Bytes that were given back may have any value.
    let hole = at_byte(store.containers.catalog(data).unwrap().given_back()[0].offset);
    store.storage.damage(&body(data), |bytes| bytes[hole] ^= 1);
    store.reopen();
    assert!(store.containers.verify(data, Depth::Full).unwrap().is_sound());
    store.storage.lose(&body(data));
    let verified = store.containers.verify(data, Depth::Full).unwrap();
    assert!(!verified.is_sound());
    let found = verified.damages.iter().map(|damage| damage.error.to_string());
    let gone = body(data);
    for error in found.chain([store.read(data, 0).unwrap_err().to_string()]) {
        let names = [
            &data.to_string()[..],
            "generation 1",
            gone.as_str(),
            "onefold check",
        ];
        assert!(names.iter().all(|name| error.contains(name)), "{error}");
        assert!(!error.contains("replaced"), "{error}");
    }
}

/// A reader that knows a replaced trimmed generation finds its body gone. It reads the newer
/// generation instead.
#[test]
fn a_body_removed_with_its_generation_is_not_missed() {
    let (store, data, chunks) = filled();
    trim(&store, &trimmed(&store, data, 1, &[2, 3]).unwrap());
    let other = store.beside();
    check_chunks(&other, data, &chunks, &[0, 1, 4, 5]);
    let survivors = vec![vec![chunks[0].clone(), chunks[1].clone()]];
    let copied = store.seal(data, 2, &survivors, Compression::Off);
    store.containers.put(&copied).unwrap();
    store.storage.barrier().unwrap();
    store.storage.delete(&name(data, 1)).unwrap();
    store.storage.delete(&body(data)).unwrap();
    check_chunks(&other, data, &chunks, &[0, 1]);
}

#[test]
fn compressed_regions_are_trimmed_alike() {
    let mut store = Store::new();
    let chunks: Vec<Vec<u8>> = (0..4u8).map(|n| vec![n; 5000]).collect();
    let data = id(ContainerKind::Data, 2, 0);
    let regions: Vec<_> = chunks.chunks(2).map(<[_]>::to_vec).collect();
    let sealed = store.seal(data, 0, &regions, Compression::Level(1));
    store.containers.put(&sealed).unwrap();
    trim(&store, &trimmed(&store, data, 1, &[0, 1]).unwrap());
    store.reopen();
    check_chunks(&store, data, &chunks, &[2, 3]);
}
