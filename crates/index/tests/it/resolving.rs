//! From fingerprints to places: how often the index and the catalogs are read.

use env::Storage;
use env::fault::FaultStorage;
use format::names;
use index::{HookKind, IndexOptions, Resolver, SessionContainers};
use types::{ChunkLocation, ContainerKind, Generation, Slot};

use crate::store::*;

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
    let resolver = Resolver::new(index, containers(&storage));
    (storage, resolver)
}

fn find(resolver: &Resolver<index::Index>, n: u64, absent: &[ChunkLocation]) -> Option<ChunkLocation> {
    let fingerprint = resolver.containers().fingerprinter().chunk(&chunk(n));
    let found = resolver
        .resolve(&fingerprint, HookKind::Data, &|at| absent.contains(&at))
        .unwrap();
    found.map(|found| {
        assert_eq!(found.entry.fingerprint, fingerprint);
        assert_eq!(
            found.view.entry(found.location.slot).unwrap().fingerprint,
            fingerprint
        );
        found.location
    })
}

fn at(n: u64, slot: u32) -> ChunkLocation {
    ChunkLocation {
        container: data(n, 0),
        slot: Slot::new(slot).unwrap(),
    }
}

#[test]
fn a_known_stream_costs_one_index_read_a_container() {
    let (_, resolver) = stored(5);
    for n in 0..500 {
        assert_eq!(
            find(&resolver, n, &[]),
            Some(at(n / 100 + 1, u32::try_from(n % 100).unwrap()))
        );
    }
    let stats = resolver.stats();
    assert_eq!(
        (stats.lookups, stats.index_reads, stats.catalog_loads),
        (500, 5, 5)
    );
    assert_eq!((stats.hits_recent, stats.false_loads), (495, 0));
    for n in 500..600 {
        assert_eq!(find(&resolver, n, &[]), None);
    }
    assert_eq!(resolver.stats().catalog_loads, 5, "what is new loads nothing");
    resolver.forget_recent();
    assert!(find(&resolver, 7, &[]).is_some());
    assert_eq!(resolver.stats().hits_cached, 1);
}

#[test]
fn what_is_absent_is_not_returned() {
    let (storage, resolver) = stored(3);
    // The same chunk again, in a newer container.
    let writing = containers(&storage);
    let view = put(&writing, data(9, 0), &[7, 7]);
    let mut writer = resolver.index().session(session(9));
    writer.add(&view).unwrap();
    assert_eq!(find(&resolver, 7, &[]), Some(at(9, 0)), "the newest");
    assert_eq!(
        find(&resolver, 7, &[at(9, 0)]),
        Some(at(9, 1)),
        "a second slot of the same container"
    );
    assert_eq!(
        find(&resolver, 7, &[at(9, 0), at(9, 1)]),
        Some(at(1, 7)),
        "an older container"
    );
    assert_eq!(find(&resolver, 7, &[at(9, 0), at(9, 1), at(1, 7)]), None);
}

#[test]
fn a_lost_or_damaged_container_costs_deduplication_alone() {
    let (storage, resolver) = stored(2);
    storage
        .delete(&names::container(data(1, 0), Generation::FIRST))
        .unwrap();
    storage.damage(&names::container(data(2, 0), Generation::FIRST), |bytes| {
        bytes.truncate(99)
    });
    assert_eq!(find(&resolver, 5, &[]), None);
    assert_eq!(find(&resolver, 105, &[]), None);
    assert_eq!(resolver.stats().failed_loads, 2);
}

#[test]
fn a_hook_that_lies_is_a_false_load() {
    let (_, resolver) = stored(2);
    let print = resolver.containers().fingerprinter().chunk(&chunk(5000));
    resolver
        .index()
        .add_session(session(50), [hook(print.index_bits(), data(1, 0))])
        .unwrap();
    assert_eq!(find(&resolver, 5000, &[]), None);
    assert_eq!(resolver.stats().false_loads, 1);
}

#[test]
fn kinds_do_not_mix() {
    let storage = FaultStorage::new();
    let containers = containers(&storage);
    let recipe = id(ContainerKind::Recipe, 1, 0);
    let view = put(&containers, recipe, &[1]);
    let resolver = Resolver::new(open(&storage, IndexOptions::default()), containers);
    resolver.use_view(&view);
    let print = resolver.containers().fingerprinter().chunk(&chunk(1));
    assert!(
        resolver
            .resolve(&print, HookKind::Data, &|_| false)
            .unwrap()
            .is_none()
    );
    assert!(
        resolver
            .resolve(&print, HookKind::Node, &|_| false)
            .unwrap()
            .is_some()
    );
}
