//! Merged containers: old references lead to the new places.

use container::{Compression, ContainerBuilder, ContainerError, Containers, HOPS_MAX, compress_region};
use env::Storage;
use format::container::MergedRange;
use types::{ContainerId, ContainerKind, SlotRange};

use crate::store::*;

fn small(n: u32) -> ContainerId {
    id(ContainerKind::Small, 2, n)
}

fn range(from: ContainerId, first: u32, count: u32, here: u32) -> MergedRange {
    MergedRange {
        from,
        slots: SlotRange::new(slot(first), count).unwrap(),
        first_here: slot(here),
    }
}

fn put_merged(store: &Store, id: ContainerId, chunks: &[Vec<u8>], merged: Vec<MergedRange>) {
    let mut builder = ContainerBuilder::new(id, generation(0));
    let entries: Vec<_> = chunks.iter().map(|chunk| store.entry(chunk)).collect();
    builder.append(compress_region(chunks.concat(), Compression::Off), &entries);
    builder.set_merged(merged);
    store
        .containers
        .put(&builder.seal(&store.containers).unwrap())
        .unwrap();
}

fn put_stub(store: &Store, id: ContainerId, n: u32, to: ContainerId) {
    let stub = ContainerBuilder::stub(id, generation(n), to);
    store
        .containers
        .put(&stub.seal(&store.containers).unwrap())
        .unwrap();
    if n > 0 {
        for old in [
            name(id, n - 1),
            format::names::mirror(id, generation(n - 1)).unwrap(),
        ] {
            store.storage.delete(&old).unwrap();
        }
    }
}

/// Three small containers merged into one, that one merged with a fourth.
fn merged_twice() -> (Store, Vec<Vec<u8>>) {
    let mut store = Store::new();
    let chunks: Vec<Vec<u8>> = (0..8)
        .map(|n| noise(n, 60 + usize::try_from(n).unwrap()))
        .collect();
    for n in 0..4 {
        let own = usize::try_from(n).unwrap() * 2;
        store.put(small(n), &[chunks[own..own + 2].to_vec()]);
    }
    let first = chunks[..6].to_vec();
    put_merged(
        &store,
        small(10),
        &first,
        vec![
            range(small(0), 0, 2, 0),
            range(small(1), 0, 2, 2),
            range(small(2), 0, 1, 4),
            range(small(2), 1, 1, 5),
        ],
    );
    for n in 0..3 {
        put_stub(&store, small(n), 1, small(10));
    }
    // The second merge moves the fourth to the front, and names only its direct predecessors.
    let second: Vec<Vec<u8>> = chunks[6..].iter().chain(&chunks[..6]).cloned().collect();
    put_merged(
        &store,
        small(11),
        &second,
        vec![range(small(3), 0, 2, 0), range(small(10), 0, 6, 2)],
    );
    put_stub(&store, small(3), 1, small(11));
    let mut stub = ContainerBuilder::stub(small(10), generation(1), small(11));
    stub.set_merged(vec![
        range(small(0), 0, 2, 0),
        range(small(1), 0, 2, 2),
        range(small(2), 0, 2, 4),
    ]);
    store
        .containers
        .put(&stub.seal(&store.containers).unwrap())
        .unwrap();
    for old in [
        name(small(10), 0),
        format::names::mirror(small(10), generation(0)).unwrap(),
    ] {
        store.storage.delete(&old).unwrap();
    }
    store.reopen();
    (store, chunks)
}

#[test]
fn references_into_merged_containers_resolve() {
    let (store, chunks) = merged_twice();
    for (n, chunk) in (0u32..).zip(&chunks) {
        let (old, at) = (small(n / 2), n % 2);
        assert_eq!(&store.read(old, at).unwrap(), chunk, "{old} slot {at}");
        let view = store.containers.catalog(old).unwrap();
        assert_eq!((view.id(), view.requested()), (small(11), old));
        let location = view.location_of(slot(at)).unwrap();
        assert_eq!(&store.containers.read_chunk(location).unwrap(), chunk);
        assert_eq!(
            view.entry(slot(at)).unwrap().slot,
            location.slot,
            "entries are the final container's"
        );
        assert_eq!(
            view.find(&store.entry(chunk).fingerprint).unwrap().slot,
            location.slot
        );
        assert!(view.entry(slot(2)).is_none(), "it never had a third slot");
    }
    for (n, chunk) in (0u32..).zip(&chunks[..6]) {
        assert_eq!(&store.read(small(10), n).unwrap(), chunk, "and those in between");
    }
}

#[test]
fn the_final_container_may_be_rewritten() {
    let (store, chunks) = merged_twice();
    let view = store.containers.catalog(small(0)).unwrap();
    store.put_survivors(small(11), 1, &[(3, &chunks[1])]);
    for old in [
        name(small(11), 0),
        format::names::mirror(small(11), generation(0)).unwrap(),
    ] {
        store.storage.delete(&old).unwrap();
    }
    // Rewriting keeps the map.
    let newer = store
        .containers
        .newer(&view)
        .unwrap()
        .expect("a newer generation");
    assert_eq!(newer.generation(), generation(1));
    assert!(
        newer.location_of(slot(1)).is_none(),
        "this rewriting dropped the map, so nothing is known"
    );
}

#[test]
fn a_circle_of_stubs_ends() {
    let mut store = Store::new();
    put_stub(&store, small(1), 0, small(2));
    put_stub(&store, small(2), 0, small(1));
    put_stub(&store, small(3), 0, small(3));
    store.reopen();
    for n in 1..4 {
        let error = store.read(small(n), 0).unwrap_err();
        assert!(
            matches!(error, ContainerError::TooManyHops { hops: HOPS_MAX, .. }),
            "{error}"
        );
    }
}

#[test]
fn a_stub_to_nowhere_is_missing() {
    let mut store = Store::new();
    put_stub(&store, small(1), 0, small(2));
    store.reopen();
    assert!(
        matches!(store.read(small(1), 0), Err(ContainerError::Missing { container }) if container == small(2))
    );
}

/// Two small containers, of which the second takes the first one's slots over as its next generation.
fn taken_over(store: &Store, chunks: &[Vec<u8>]) {
    let entries: Vec<_> = chunks.iter().map(|chunk| store.entry(chunk)).collect();
    let mut builder = ContainerBuilder::new(small(1), generation(1));
    builder.append(compress_region(chunks.concat(), Compression::Off), &entries);
    builder.set_merged(vec![range(small(0), 0, 2, 1)]);
    store
        .containers
        .put(&builder.seal(&store.containers).unwrap())
        .unwrap();
}

#[test]
fn a_stub_leads_to_the_generation_that_has_its_slots_though_an_older_one_is_known() {
    let mut store = Store::new();
    let chunks: Vec<Vec<u8>> = (0..3).map(|n| noise(n, 70)).collect();
    store.put(small(0), &[chunks[1..].to_vec()]);
    store.put(small(1), &[chunks[..1].to_vec()]);
    let other = store.beside();
    taken_over(&other, &chunks);
    put_stub(&other, small(0), 1, small(1));
    // The older one is cached here, and stands still; so does it for who knows nothing.
    drop(store.containers.catalog(small(1)).unwrap());
    for _ in 0..2 {
        for (n, chunk) in (0u32..).zip(&chunks[1..]) {
            assert_eq!(&store.read(small(0), n).unwrap(), chunk);
            assert_eq!(&store.read(small(1), n + 1).unwrap(), chunk, "by its new name");
        }
        assert_eq!(store.read(small(1), 0).unwrap(), chunks[0]);
        store.reopen();
    }
}

#[test]
fn what_took_others_over_is_followed_when_it_is_rewritten() {
    let mut store = Store::new();
    let chunks: Vec<Vec<u8>> = (0..3).map(|n| noise(n, 70)).collect();
    store.put(small(0), &[chunks[1..].to_vec()]);
    store.put(small(1), &[chunks[..1].to_vec()]);
    taken_over(&store, &chunks);
    put_stub(&store, small(0), 1, small(1));
    store.reopen();
    drop(store.containers.catalog(small(1)).unwrap());
    drop(store.containers.catalog(small(0)).unwrap());
    // Another process rewrites it once more, without its first slot.
    let other = store.beside();
    let view = other.containers.generation(small(1), generation(1)).unwrap();
    let mut builder = ContainerBuilder::new(small(1), generation(2));
    builder.append_survivors(
        compress_region(chunks[1..].concat(), Compression::Off),
        &view.entries()[1..],
    );
    builder.set_merged(view.merged().to_vec());
    other
        .containers
        .put(&builder.seal(&other.containers).unwrap())
        .unwrap();
    for n in 0..2 {
        for old in [
            name(small(1), n),
            format::names::mirror(small(1), generation(n)).unwrap(),
        ] {
            other.storage.delete(&old).unwrap();
        }
    }
    for (n, chunk) in (0u32..).zip(&chunks[1..]) {
        assert_eq!(&store.read(small(0), n).unwrap(), chunk);
    }
}

#[test]
fn slots_that_were_given_once_are_remembered() {
    let store = Store::new();
    let chunks: Vec<Vec<u8>> = (0..3).map(|n| noise(n, 70)).collect();
    store.put(small(0), std::slice::from_ref(&chunks));
    let view = store.containers.catalog(small(0)).unwrap();
    assert_eq!(view.slots_end(), 3);
    let mut builder = ContainerBuilder::new(small(0), generation(1));
    builder.append_survivors(
        compress_region(chunks[0].clone(), Compression::Off),
        &view.entries()[..1],
    );
    builder.set_slots_given(view.slots_end());
    store
        .containers
        .put(&builder.seal(&store.containers).unwrap())
        .unwrap();
    let view = store.containers.generation(small(0), generation(1)).unwrap();
    assert_eq!((view.entries().len(), view.slots_end()), (1, 3));
}

/// Stubs are many and lead to few: the catalog there is read once, held once, and counted once.
#[test]
fn what_many_stubs_lead_to_is_loaded_once_and_counts() {
    let mut store = Store::new();
    let chunks: Vec<Vec<u8>> = (0..60).map(|n| noise(n, 50)).collect();
    let sources: Vec<ContainerId> = (0..30).map(small).collect();
    let ranges = (0u32..).zip(&sources).map(|(n, id)| range(*id, 0, 2, n * 2));
    put_merged(&store, small(99), &chunks, ranges.collect());
    sources.iter().for_each(|id| put_stub(&store, *id, 0, small(99)));
    store.reopen();
    for (n, id) in sources.iter().enumerate() {
        assert_eq!(store.read(*id, 1).unwrap(), chunks[n * 2 + 1]);
    }
    assert_eq!(store.containers.stats().catalog_loads, 31);
    let whole = store.containers.catalog(small(99)).unwrap();
    let one = store.containers.catalog(small(3)).unwrap().bytes_in_memory();
    let all = whole.bytes_in_memory() + 30 * one;
    assert_eq!(store.containers.catalog_cache_bytes(), all);

    // With little room the ways go first, and what is left is within it.
    let few = Containers::new(
        store.containers.env().clone(),
        store_id(1),
        &keys(1),
        whole.bytes_in_memory() + 3 * one,
    );
    for id in sources.iter().chain(&sources) {
        few.catalog(*id).unwrap();
        assert!(few.catalog_cache_bytes() <= whole.bytes_in_memory() + 3 * one);
    }
    assert_eq!(few.stats().catalog_loads, 61, "the stubs twice");
    assert!(few.cached_catalog(small(29)).is_some() && few.cached_catalog(small(20)).is_none());

    // What is replaced goes with all that lead to it, or it would be held by them and counted by nobody.
    let survivors = [(1, chunks[1].as_slice())];
    store.put_survivors(small(99), 1, &survivors);
    let newest = store.containers.catalog(small(99)).unwrap();
    assert_eq!(newest.generation(), generation(1));
    assert_eq!(store.containers.catalog_cache_bytes(), newest.bytes_in_memory());
}

/// Without a stub the list of what was merged shows the way; it is asked where nothing else does, and believed where the
/// catalog there agrees.
#[test]
fn a_list_stands_in_for_stubs_that_are_lost() {
    let (mut store, chunks) = merged_twice();
    let mirror = |n| format::names::mirror(small(n), generation(1)).unwrap();
    for object in [name(small(3), 1), mirror(3)] {
        store.storage.delete(&object).unwrap();
    }
    for object in [name(small(10), 1), mirror(10)] {
        store.damage(&object, |bytes| *bytes.last_mut().unwrap() ^= 1);
    }
    assert!(matches!(
        store.read(small(3), 0),
        Err(ContainerError::Missing { .. })
    ));
    assert!(store.read(small(10), 0).is_err() && store.read(small(0), 0).is_err());
    store.reopen();
    let told = [
        (small(3), small(11)),
        (small(10), small(11)),
        (small(0), small(99)),
        (small(77), small(11)),
    ];
    store.containers.know_moved(told);
    assert_eq!(store.read(small(3), 1).unwrap(), chunks[7]);
    assert_eq!(store.read(small(10), 0).unwrap(), chunks[0]);
    assert!(store.containers.led_by_list(small(3)).is_some());
    // Where the list is wrong, what is wrong with the container itself is what one is told.
    let error = store.read(small(77), 0).unwrap_err();
    assert!(
        matches!(error, ContainerError::Missing { container } if container == small(77)),
        "{error}"
    );
    assert_eq!(store.containers.led_by_list(small(77)), None);
    store.containers.know_moved([]);
    store.containers.clear_catalogs();
    assert!(store.read(small(3), 0).is_err());
}
