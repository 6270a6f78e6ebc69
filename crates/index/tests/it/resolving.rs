//! From fingerprints to places: how often the index and the catalogs are read.

use container::Containers;
use env::Storage;
use env::fault::{Counted, FailWith, Fault, FaultStorage};
use format::names;
use index::{Eviction, Hook, HookKind, IndexOptions, Resolver, ResolverOptions, SessionContainers};
use types::{ByteRange, ChunkLocation, ContainerKind, Generation, Slot};

use crate::store::*;

fn resolver(index: index::Index, containers: Containers, kind: HookKind) -> Resolver<index::Index> {
    let options = ResolverOptions {
        cache_bytes: 1 << 20,
        eviction: Eviction::ContainerLru,
    };
    Resolver::new(index, containers, kind, options)
}

fn stored(count: u64) -> (FaultStorage, Resolver<index::Index>) {
    let storage = FaultStorage::new();
    let writing = containers(&storage);
    let committed: Vec<_> = (0..count)
        .map(|n| {
            put(
                &writing,
                data(n + 1, 0),
                &(n * 100..n * 100 + 100).collect::<Vec<_>>(),
            );
            SessionContainers {
                session: session(n + 1),
                containers: vec![data(n + 1, 0)],
            }
        })
        .collect();
    let index = open(&storage, IndexOptions::default());
    index.catch_up(&writing, &committed).unwrap();
    let resolver = resolver(index, containers(&storage), HookKind::Data);
    (storage, resolver)
}

fn fingerprint(n: u64) -> types::Fingerprint {
    containers(&FaultStorage::new()).fingerprinter().chunk(&chunk(n))
}

fn find_all(
    resolver: &mut Resolver<index::Index>,
    n: u64,
    absent: &[ChunkLocation],
    preferred: &[u64],
) -> Vec<ChunkLocation> {
    let mut out = vec![at(1, 1)];
    let prefers = |id| preferred.iter().any(|n| data(*n, 0) == id);
    resolver
        .resolve(&fingerprint(n), &|at| absent.contains(&at), &prefers, &mut out)
        .unwrap();
    out
}

fn find(resolver: &mut Resolver<index::Index>, n: u64, absent: &[ChunkLocation]) -> Option<ChunkLocation> {
    find_all(resolver, n, absent, &[]).first().copied()
}

fn at(n: u64, slot: u32) -> ChunkLocation {
    ChunkLocation {
        container: data(n, 0),
        slot: Slot::new(slot).unwrap(),
    }
}

#[test]
fn a_known_stream_costs_one_index_read_a_container() {
    let (_, mut resolver) = stored(5);
    for n in 0..500 {
        assert_eq!(
            find(&mut resolver, n, &[]),
            Some(at(n / 100 + 1, u32::try_from(n % 100).unwrap()))
        );
    }
    let stats = resolver.stats();
    assert_eq!(
        (stats.lookups, stats.index_reads, stats.catalog_loads),
        (500, 5, 5)
    );
    assert_eq!((stats.hits_cached, stats.false_loads), (495, 0));
    for n in 500..600 {
        assert_eq!(find(&mut resolver, n, &[]), None);
    }
    assert_eq!(resolver.stats().catalog_loads, 5, "what is new loads nothing");
    resolver.forget();
    assert!(find(&mut resolver, 7, &[]).is_some());
    assert_eq!(resolver.stats().catalog_loads, 6);
}

#[test]
fn absent_slots_are_not_returned() {
    let (storage, mut resolver) = stored(3);
    // The same chunk again, in a newer container.
    let writing = containers(&storage);
    let view = put(&writing, data(9, 0), &[7, 7]);
    let mut writer = resolver.index().session(session(9));
    writer.add(&view).unwrap();
    assert_eq!(find(&mut resolver, 7, &[]), Some(at(9, 0)), "the newest");
    assert_eq!(
        find(&mut resolver, 7, &[at(9, 0)]),
        Some(at(9, 1)),
        "a second slot of the same container"
    );
    assert_eq!(
        find(&mut resolver, 7, &[at(9, 0), at(9, 1)]),
        Some(at(1, 7)),
        "an older container"
    );
    assert_eq!(find(&mut resolver, 7, &[at(9, 0), at(9, 1), at(1, 7)]), None);
}

#[test]
fn a_lost_or_damaged_container_costs_deduplication_alone() {
    let (storage, mut resolver) = stored(2);
    storage
        .delete(&names::container(data(1, 0), Generation::FIRST))
        .unwrap();
    storage.damage(&names::container(data(2, 0), Generation::FIRST), |bytes| {
        bytes.truncate(99)
    });
    assert_eq!(find(&mut resolver, 5, &[]), None);
    assert_eq!(find(&mut resolver, 105, &[]), None);
    assert_eq!(resolver.stats().failed_loads, 2);
}

/// Makes all of a container unreadable, in a storage that otherwise answers.
fn make_unreadable(storage: &FaultStorage, n: u64) {
    let name = names::container(data(n, 0), Generation::FIRST);
    let len = storage.head(&name).unwrap().len;
    storage.make_unreadable(&name, ByteRange { offset: 0, len });
}

#[test]
fn a_catalog_on_a_bad_sector_is_a_damaged_one() {
    let (storage, mut resolver) = stored(3);
    make_unreadable(&storage, 1);
    for _ in 0..2 {
        assert_eq!(find(&mut resolver, 5, &[]), None);
        assert_eq!(find(&mut resolver, 105, &[]), Some(at(2, 5)));
    }
    assert_eq!(resolver.stats().failed_loads, 1, "nobody tries again");
}

#[test]
fn a_storage_that_fails_as_a_whole_ends_a_look_up() {
    for with in [FailWith::Io, FailWith::Denied] {
        let (storage, mut resolver) = stored(1);
        storage.inject(Fault::fail_from(1, with).counting(Counted::All));
        let mut out = Vec::new();
        let asked = resolver.resolve(&fingerprint(5), &|_| false, &|_| false, &mut out);
        assert!(asked.is_err(), "{with:?}");
    }
}

#[test]
fn a_wrong_hook_is_a_false_load() {
    let (_, mut resolver) = stored(2);
    let print = fingerprint(5000);
    resolver
        .index()
        .add_session(session(50), [hook(print.index_bits(), data(1, 0))])
        .unwrap();
    assert_eq!(find(&mut resolver, 5000, &[]), None);
    assert_eq!(resolver.stats().false_loads, 1);
}

#[test]
fn kinds_do_not_mix() {
    let storage = FaultStorage::new();
    let containers = containers(&storage);
    let recipe = id(ContainerKind::Recipe, 1, 0);
    put(&containers, recipe, &[1]);
    let index = open(&storage, IndexOptions::default());
    for kind in HookKind::ALL {
        let hook = Hook {
            kind,
            ..hook(fingerprint(1).index_bits(), recipe)
        };
        index.add_session(session(kind as u64 + 1), [hook]).unwrap();
        let mut resolver = resolver(index.clone(), containers.clone(), kind);
        let mut out = Vec::new();
        resolver
            .resolve(&fingerprint(1), &|_| false, &|_| false, &mut out)
            .unwrap();
        assert_eq!(out.len(), usize::from(kind == HookKind::Node));
    }
}

/// If a prefetched catalog lacks a fingerprint, it is not loaded again. Nor is a catalog that
/// cannot be loaded.
#[test]
fn no_catalog_is_loaded_for_look_ups_that_the_cache_answers() {
    let (storage, mut resolver) = stored(2);
    storage
        .delete(&names::container(data(2, 0), Generation::FIRST))
        .unwrap();
    for _ in 0..3 {
        assert_eq!(find(&mut resolver, 5, &[]), Some(at(1, 5)));
        assert_eq!(
            find(&mut resolver, 6, &[at(1, 6)]),
            None,
            "it is absent, and was looked for"
        );
        assert_eq!(find(&mut resolver, 150, &[]), None);
    }
    let stats = resolver.stats();
    assert_eq!(
        (stats.catalog_loads, stats.failed_loads, stats.lookups),
        (1, 1, 9)
    );
    assert_eq!((stats.hits_cached, stats.index_reads), (2, 7));
}

#[test]
fn of_equal_chunks_the_preferred_come_first_then_the_newest() {
    let (storage, mut resolver) = stored(1);
    let writing = containers(&storage);
    for n in [5, 6, 7] {
        let view = put(&writing, data(n, 0), &[3, 500 + n]);
        resolver
            .index()
            .add_session(session(n), index::hooks_of(&view))
            .unwrap();
    }
    let places = find_all(&mut resolver, 3, &[], &[6]);
    assert_eq!(places, [at(6, 0)], "one catalog is enough");
    assert!(find(&mut resolver, 505, &[]).is_some());
    assert_eq!(find_all(&mut resolver, 3, &[], &[6]), [at(6, 0), at(5, 0)]);
    assert_eq!(find_all(&mut resolver, 3, &[], &[5]), [at(5, 0), at(6, 0)]);
    assert_eq!(
        find_all(&mut resolver, 3, &[], &[]),
        [at(6, 0), at(5, 0)],
        "the newest"
    );
}

/// A running session's containers are left out: the time when they are sealed must not matter.
#[test]
fn a_session_is_left_out() {
    let (_, resolver) = stored(3);
    let mut resolver = resolver.without(session(2));
    assert!(find(&mut resolver, 5, &[]).is_some());
    assert_eq!(find(&mut resolver, 105, &[]), None);
    assert_eq!(resolver.stats().catalog_loads, 1);
}

/// However many of its containers have a fingerprint, they do not displace an older container.
#[test]
fn a_session_that_is_left_out_hides_nothing() {
    let (storage, resolver) = stored(3);
    let writing = containers(&storage);
    let mut writer = resolver.index().session(session(9));
    let mut resolver = resolver.without(session(9));
    for n in 0..20 {
        let view = put(&writing, id(ContainerKind::Data, 9, n), &[5]);
        writer.add(&view).unwrap();
        let mut out = Vec::new();
        resolver.hinted(&fingerprint(5), &mut out);
        assert_eq!(out, [data(1, 0)], "{n}");
    }
}
