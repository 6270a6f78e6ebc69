use std::collections::{BTreeSet, HashMap};

use ingest::Capping;
use proptest::prelude::*;
use types::Fingerprint;

use super::*;
use crate::trace::Source;

fn print(n: u8) -> Fingerprint {
    let mut bytes = [7; 32];
    bytes[8] = n;
    Fingerprint::from_bytes(bytes)
}

fn chunk(n: u8) -> Chunk {
    Chunk {
        fingerprint: (n > 0).then(|| print(n)),
        len: 1 + u32::from(n) % 5,
    }
}

struct Workload(Vec<Vec<u8>>);

impl Source for Workload {
    fn replay(&mut self, sink: &mut dyn Sink) -> Result<(), SimulateError> {
        for (n, backup) in self.0.iter().enumerate() {
            sink.begin(&BackupHead {
                name: n.to_string(),
                extent: Extent::Full,
            })?;
            let chunks: Vec<Chunk> = backup.iter().map(|n| chunk(*n)).collect();
            if !chunks.is_empty() {
                sink.chunks(&chunks)?;
            }
            sink.end()?;
        }
        Ok(())
    }
}

fn run(
    workload: Vec<Vec<u8>>,
    keep: Option<usize>,
    container_bytes: u64,
    memories: &[Memory],
) -> Vec<Outcome> {
    run_with(
        Finding::Exact { seal: true },
        workload,
        keep,
        container_bytes,
        memories,
    )
}

fn run_with(
    finding: Finding,
    workload: Vec<Vec<u8>>,
    keep: Option<usize>,
    container_bytes: u64,
    memories: &[Memory],
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let settings = Settings {
        container_bytes,
        finding,
        schedule: keep.map_or(Schedule::All, Schedule::Cycle),
        memories: memories.to_vec(),
        skip: 0,
    };
    let mut simulator = Simulator::new(settings, |outcome| {
        outcomes.push(outcome);
        Ok(())
    })
    .unwrap();
    Workload(workload).replay(&mut simulator).unwrap();
    outcomes
}

/// The engine without a cap, with segments and regions of a few chunks.
fn engine() -> Finding {
    Finding::Engine(Policy {
        segment_chunks: 4,
        region_bytes: 7,
        index_bytes: 1 << 20,
        capping: Capping::NONE,
        ..Policy::default()
    })
}

fn memory(bytes: u64, assembly: Assembly) -> Memory {
    Memory { bytes, assembly }
}

#[test]
fn a_scattered_backup_reads_each_container_once_with_an_area_and_more_often_without() {
    // Two containers of two chunks each, and a backup that alternates between them.
    let workload = vec![vec![5, 10, 15, 20], vec![5, 15, 10, 20, 5, 15]];
    let outcomes = run(
        workload,
        None,
        2,
        &[
            memory(100, Assembly::Rolling),
            memory(100, Assembly::Fixed),
            memory(2, Assembly::Fixed),
            memory(4, Assembly::Lru),
            memory(3, Assembly::Lru),
        ],
    );
    let reads = |outcome: &Outcome| {
        outcome
            .restored
            .iter()
            .map(|one| one.containers_read)
            .collect::<Vec<_>>()
    };
    assert_eq!(reads(&outcomes[0]), [2, 2, 2, 2, 2]);
    assert_eq!(reads(&outcomes[1]), [2, 2, 6, 2, 6]);
    assert_eq!(
        (
            outcomes[1].bytes_new,
            outcomes[1].bytes_stored,
            outcomes[1].bytes_kept
        ),
        (0, 4, 10)
    );
}

proptest! {
    /// A plain model: stored chunks are those that were ever new and still have a reference. The
    /// engine's look-ups find all of so few chunks.
    #[test]
    fn a_store_matches_a_plain_model(
        workload in prop::collection::vec(prop::collection::vec(0..40_u8, 0..60), 1..12),
        keep in prop::option::of(1..5_usize),
        container_bytes in 1..40_u64,
        finding in prop_oneof![Just(Finding::Exact { seal: false }), Just(Finding::Exact { seal: true }), Just(engine())],
    ) {
        let memories = [memory(1, Assembly::Rolling), memory(u64::MAX, Assembly::Lru)];
        let outcomes = run_with(finding, workload.clone(), keep, container_bytes, &memories);
        prop_assert_eq!(outcomes.len(), workload.len());
        let len = |n: &u8| u64::from(chunk(*n).len);
        for (at, outcome) in outcomes.iter().enumerate() {
            let first = keep.map_or(0, |keep| (at + 1).saturating_sub(keep));
            let kept = &workload[first..=at];
            let before: BTreeSet<u8> = workload[first..at].iter().flatten().copied().filter(|n| *n > 0).collect();
            let now: BTreeSet<u8> = kept.iter().flatten().copied().filter(|n| *n > 0).collect();
            let sum = |chunks: &BTreeSet<u8>| chunks.iter().map(len).sum::<u64>();
            prop_assert_eq!(outcome.bytes_stored, sum(&now));
            prop_assert_eq!(outcome.bytes_new, sum(&now) - sum(&before));
            prop_assert_eq!(outcome.bytes_kept, kept.iter().flatten().filter(|n| **n > 0).map(len).sum::<u64>());
            prop_assert_eq!(outcome.bytes, workload[at].iter().filter(|n| **n > 0).map(len).sum::<u64>());
            // With little memory, nothing fits beside the first chunk; with much, all containers
            // stay.
            let distinct: HashMap<u8, ()> = workload[at].iter().filter(|n| **n > 0).map(|n| (*n, ())).collect();
            prop_assert!(outcome.restored[1].containers_read <= distinct.len() as u64);
            prop_assert!(outcome.restored[1].containers_read <= outcome.containers);
            prop_assert!(outcome.restored[0].containers_read <= outcome.chunks);
            prop_assert!(outcome.restored[0].containers_read >= outcome.restored[1].containers_read);
        }
    }
}

#[test]
fn a_fingerprint_with_two_lengths_is_an_error() {
    for finding in [Finding::Exact { seal: false }, engine()] {
        let settings = Settings {
            container_bytes: 100,
            finding,
            schedule: Schedule::All,
            memories: Vec::new(),
            skip: 0,
        };
        let mut simulator = Simulator::new(settings, |_| Ok(())).unwrap();
        let head = BackupHead {
            name: "one".to_owned(),
            extent: Extent::Full,
        };
        simulator.begin(&head).unwrap();
        let longer = Chunk { len: 9, ..chunk(1) };
        let taken = simulator
            .chunks(&[chunk(1), longer])
            .and_then(|()| simulator.end());
        let error = taken.unwrap_err().to_string();
        assert!(
            error.contains("9 bytes has the fingerprint of one of 2"),
            "{error}"
        );
    }
}

#[test]
fn backups_begin_and_end_one_after_another() {
    let mut simulator = Simulator::new(
        Settings {
            container_bytes: 100,
            finding: engine(),
            schedule: Schedule::Generations {
                sons: usize::MAX,
                fathers: usize::MAX,
                grandfathers: usize::MAX,
            },
            memories: Vec::new(),
            skip: 0,
        },
        |_| Ok(()),
    )
    .unwrap();
    let head = BackupHead {
        name: "one".to_owned(),
        extent: Extent::Full,
    };
    assert!(simulator.end().is_err() && simulator.chunks(&[chunk(1)]).is_err());
    for _ in 0..6 {
        simulator.begin(&head).unwrap();
        assert!(simulator.begin(&head).is_err());
        simulator.chunks(&[chunk(1)]).unwrap();
        simulator.end().unwrap();
    }
}

/// A warm cache loads fewer catalogs, and a lower R gives fewer hooks.
#[test]
fn warm_caches_load_less_and_sparse_hooks_are_fewer() {
    let printer = crate::cut::trace_printer();
    let chunks: Vec<Chunk> = (0..4000_u32)
        .map(|n| Chunk {
            fingerprint: Some(printer.chunk(&n.to_le_bytes())),
            len: 1000,
        })
        .collect();
    let looked = |warm: bool, halvings: u8| {
        let mut looked = Vec::new();
        let settings = Settings {
            container_bytes: 100_000,
            finding: Finding::Engine(Policy {
                warm,
                sampling: SamplingRate::new(halvings).unwrap(),
                capping: Capping::NONE,
                ..Policy::default()
            }),
            schedule: Schedule::All,
            memories: Vec::new(),
            skip: 0,
        };
        let mut simulator = Simulator::new(settings, |outcome| {
            looked.push(outcome.looked.unwrap());
            Ok(())
        })
        .unwrap();
        for backup in 0..4_u32 {
            let head = BackupHead {
                name: backup.to_string(),
                extent: Extent::Full,
            };
            simulator.begin(&head).unwrap();
            // Every segment has a new chunk, so that none is known whole.
            for (n, part) in chunks.chunks(100).enumerate() {
                let new = [backup.to_le_bytes(), u32::try_from(n).unwrap().to_be_bytes()].concat();
                let new = Chunk {
                    fingerprint: Some(printer.chunk(&new)),
                    len: 1000,
                };
                simulator.chunks(part).unwrap();
                simulator.chunks(&[new]).unwrap();
            }
            simulator.end().unwrap();
        }
        drop(simulator);
        looked
    };
    let (cold, warm, sparse) = (looked(false, 0), looked(true, 0), looked(false, 4));
    let loads = |looked: &[Looked]| looked[2].lookups.catalog_loads + looked[3].lookups.catalog_loads;
    assert!(
        loads(&warm) * 2 < loads(&cold),
        "{} {}",
        loads(&warm),
        loads(&cold)
    );
    assert_eq!(warm[3].chunks_new, cold[3].chunks_new);
    let hooks = |looked: &[Looked]| looked[3].index.entries[0];
    assert!(
        hooks(&sparse) * 8 < hooks(&cold),
        "{} {}",
        hooks(&sparse),
        hooks(&cold)
    );
    assert_eq!((cold[3].period, sparse[3].period), (1, 16));
}

/// Chunks removed from a container do not make its slot in the cache smaller.
#[test]
fn a_slot_of_the_cache_is_as_large_as_a_container_may_be() {
    // Two containers, each with half of its chunks removed when the last backup alternates between
    // them.
    let workload = vec![vec![5, 10, 15, 20], vec![5, 15, 5, 15]];
    let reads = |bytes| {
        let outcomes = run(workload.clone(), Some(1), 2, &[memory(bytes, Assembly::Lru)]);
        outcomes[1].restored[0].containers_read
    };
    assert_eq!(
        (reads(3), reads(4)),
        (1, 1),
        "all was gone, and is in one container anew"
    );
    let workload = vec![vec![5, 10, 15, 20], vec![5, 15], vec![5, 15, 5, 15]];
    let reads = |bytes| {
        let outcomes = run(workload.clone(), Some(2), 2, &[memory(bytes, Assembly::Lru)]);
        outcomes[2].restored[0].containers_read
    };
    assert_eq!((reads(3), reads(4)), (4, 2));
}

/// A recipe of chunks, each given by its container and its slot. Chunk lengths follow from both.
fn references(
    chunks: &[(u8, u8)],
) -> impl Iterator<Item = Result<restore::plan::Reference, std::convert::Infallible>> {
    use restore::plan::{ChunkPart, Reference};
    use types::{ChunkLocation, ContainerId, ContainerKind, SequenceNumber, SessionId, Slot};
    chunks.iter().map(|(container, slot)| {
        let len = 1 + u64::from(container + slot) % 7;
        let location = ChunkLocation {
            container: ContainerId {
                session: SessionId::new(1).unwrap(),
                kind: ContainerKind::Data,
                sequence: SequenceNumber::new(u32::from(*container)).unwrap(),
            },
            slot: Slot::new(u32::from(*slot)).unwrap(),
        };
        let part = ChunkPart {
            location,
            fingerprint: print(*slot),
            chunk_len: len,
            skip: 0,
        };
        // Container 0 stands for zeros.
        let chunk = (*container > 0).then_some(part);
        Ok(Reference { chunk, len })
    })
}

fn rolling(chunks: &[(u8, u8)], bytes: u64) -> u64 {
    let mut planner = area::AreaPlanner::new(references(chunks), true, bytes);
    std::iter::from_fn(|| planner.next_read().unwrap()).count() as u64
}

fn looking(chunks: &[(u8, u8)], bytes: u64, area: u8, known: Option<u8>) -> u64 {
    let memory = Ahead {
        bytes,
        area,
        references: known,
    };
    ahead::reads(references(chunks), memory, &|| Ok(())).unwrap()
}

proptest! {
    #[test]
    fn an_area_alone_is_rolling_assembly(chunks in prop::collection::vec((0..6_u8, 0..9_u8), 0..200), bytes in 1..40_u64) {
        prop_assert_eq!(looking(&chunks, bytes * 64, 64, Some(0)), rolling(&chunks, bytes * 64));
        prop_assert_eq!(looking(&chunks, 64, 64, Some(0)), rolling(&chunks, 64));
    }

    /// No way to use memory reads less than the proved bound, whatever the recipe.
    #[test]
    fn nobody_reads_less_than_the_bound(chunks in prop::collection::vec((0..12_u8, 0..9_u8), 0..300), units in 1..4_u64) {
        let bytes = units * 64;
        let container: u64 = {
            let of_container = (0..9).map(|slot| references(&[(1, slot)]).map(|Ok(one)| one.len).sum::<u64>());
            of_container.sum()
        };
        let bound = |held| bound::reads_at_least(|| references(&chunks), held);
        let at_least = bound(bytes + container);
        prop_assert!(at_least <= looking(&chunks, bytes, 0, None));
        prop_assert!(at_least <= rolling(&chunks, bytes));
        let containers: BTreeSet<u8> = chunks.iter().map(|(container, _)| *container).filter(|n| *n > 0).collect();
        prop_assert!(at_least >= containers.len() as u64);
        prop_assert_eq!(bound(1 << 20), containers.len() as u64);
        prop_assert!(bound(1) >= at_least);
    }

    /// With room for everything, each container is read once. A planner that knows all references
    /// reads no more than an area of the same bytes.
    #[test]
    fn a_planner_that_knows_all_references_reads_least(chunks in prop::collection::vec((0..6_u8, 0..9_u8), 0..200), units in 1..4_u64) {
        let bytes = units * 64;
        let containers: BTreeSet<u8> = chunks.iter().map(|(container, _)| *container).filter(|n| *n > 0).collect();
        prop_assert_eq!(looking(&chunks, 1 << 20, 0, None), containers.len() as u64);
        let best = looking(&chunks, bytes, 0, None);
        prop_assert!(best >= containers.len() as u64);
        prop_assert!(best <= rolling(&chunks, bytes), "{} {}", best, rolling(&chunks, bytes));
    }
}
