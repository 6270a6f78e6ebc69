//! References that other threads read equal those that one thread reads: same order, same lost
//! parts.

use std::sync::Arc;
use std::thread;

use env::{Entropy, SeededEntropy};
use format::names;
use proptest::prelude::*;
use recipe::{NodeCache, RecipeError};
use types::{ByteRange, ContainerKind, Generation};

use crate::RestoreError;
use crate::recipe_prefetch::references_by;
use crate::references::{Opened, one_by_one, references};
use crate::test_store::{CHUNK_BYTES, CHUNKS, containers, id, store};

/// Data containers of the stream.
const CONTAINERS: u32 = 12;
const STREAM_BYTES: usize = CONTAINERS as usize * CHUNKS * CHUNK_BYTES - 77;

fn stream() -> Vec<u8> {
    let mut bytes = vec![0; STREAM_BYTES];
    SeededEntropy::new(5).fill(&mut bytes);
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn prefetch_threads_return_the_same_recipes_as_one_thread(
        gone in prop::collection::btree_set(0..CONTAINERS, 0..4),
        without_nodes in prop::bool::weighted(0.1),
        ends in prop::collection::btree_set(0..STREAM_BYTES as u64, 0..7),
        threads in 0..5_usize,
    ) {
        let containers = containers();
        let root = store(&containers, 0, &stream());
        let lost = gone.into_iter().map(|number| id(ContainerKind::Data, number));
        for id in lost.chain(without_nodes.then(|| id(ContainerKind::Recipe, 0))) {
            containers.env().storage.delete(&names::container(id, Generation::FIRST)).unwrap();
            if let Some(mirror) = names::mirror(id, Generation::FIRST) {
                containers.env().storage.delete(&mirror).unwrap();
            }
        }
        containers.clear_catalogs();
        let ends: Vec<u64> = ends.into_iter().collect();
        let ranges: Vec<ByteRange> = match ends.is_empty() {
            true => vec![ByteRange { offset: 0, len: root.len }],
            false => ends.chunks(2).map(|ends| ByteRange {
                offset: ends[0],
                len: ends.last().unwrap() - ends[0],
            }).collect(),
        };
        let nodes = NodeCache::new(containers.clone(), 1 << 20);
        let one: Vec<_> = references(&nodes, &root, &ranges).map(|one| format!("{one:?}")).collect();
        containers.clear_catalogs();
        let nodes = NodeCache::new(containers, 1 << 20);
        let many: Vec<_> = thread::scope(|scope| {
            references_by(scope, threads, &nodes, &root, &ranges).map(|one| format!("{one:?}")).collect()
        });
        prop_assert_eq!(one, many);
        // Each byte occurs once, found or lost.
        let len = |one: Result<crate::plan::Reference, RestoreError>| match one {
            Ok(reference) => reference.len,
            Err(RestoreError::LostPart { len, .. }) => len,
            Err(error) => panic!("{error}"),
        };
        let all: u64 = references(&nodes, &root, &ranges).map(len).sum();
        prop_assert_eq!(all, ranges.iter().map(|range| range.len).sum::<u64>());
    }
}

/// Unlike damage, which is skipped, it is an error: none of it counts as lost.
#[test]
fn a_range_beyond_the_stream_is_refused() {
    let containers = containers();
    let root = store(&containers, 0, &stream());
    let nodes = NodeCache::new(containers, 1 << 20);
    for (offset, len) in [(5000, root.len), (root.len, 1), (u64::MAX, 2)] {
        let ranges = [ByteRange { offset, len }];
        for threads in [0, 2] {
            let told: Vec<_> =
                thread::scope(|scope| references_by(scope, threads, &nodes, &root, &ranges).collect());
            let is_refused = matches!(
                told[..],
                [Err(RestoreError::Recipe(RecipeError::OutOfStream { .. }))]
            );
            assert!(is_refused, "{told:?}");
        }
    }
}

/// Whole streams and parts of them; a root that is a segment; the root of an empty stream.
#[test]
fn short_streams_come_as_they_are() {
    let containers = containers();
    for (number, bytes) in [(0, 1_usize), (10, 999), (20, 3 * CHUNK_BYTES + 1)] {
        let root = store(&containers, number, &stream()[..bytes]);
        let nodes = NodeCache::new(containers.clone(), 1 << 20);
        for (begin, end) in [(0, bytes), (0, 0), (bytes / 2, bytes), (bytes, bytes)] {
            let ranges = [ByteRange {
                offset: begin as u64,
                len: (end - begin) as u64,
            }];
            let len = thread::scope(|scope| {
                let each = references_by(scope, 2, &nodes, &root, &ranges);
                each.map(|one| one.unwrap().len).sum::<u64>()
            });
            assert_eq!(len, ranges[0].len);
        }
    }
}

#[test]
fn a_reader_with_enough_recipes_ends_the_prefetch_threads() {
    let containers = containers();
    let root = store(&containers, 0, &stream());
    containers.clear_catalogs();
    let nodes = NodeCache::new(containers.clone(), 1 << 20);
    let whole = [ByteRange {
        offset: 0,
        len: root.len,
    }];
    let loads = containers.stats().catalog_loads;
    // The scope waits for all its threads, so the test ends only if they do.
    thread::scope(|scope| {
        let mut few = references_by(scope, 1, &nodes, &root, &whole);
        assert!(few.next().unwrap().is_ok());
    });
    let loads = containers.stats().catalog_loads - loads;
    assert!(loads < u64::from(CONTAINERS), "{loads} catalogs were loaded");
}

#[test]
fn a_lost_part_ends_nothing_and_any_other_error_does() {
    let lost = || RestoreError::LostPart {
        len: 7,
        error: Arc::new(RestoreError::Interrupted),
    };
    let nothing: fn() -> Opened = || Ok(Vec::new());
    let opened = [
        nothing(),
        Err(lost()),
        nothing(),
        Err(lost()),
        Err(RestoreError::Interrupted),
        Err(lost()),
    ];
    let told: Vec<_> = one_by_one(opened.into_iter()).map(Result::unwrap_err).collect();
    assert!(matches!(
        told[..],
        [
            RestoreError::LostPart { .. },
            RestoreError::LostPart { .. },
            RestoreError::Interrupted
        ]
    ));
}
