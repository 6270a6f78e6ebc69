//! Assembly from containers in memory. Whatever the recipe: the bytes are the stream's, memory
//! stays within the budget, and damage loses only the damaged bytes.

use std::sync::{Arc, OnceLock};

use container::{Compression, ContainerBuilder, Containers, PendingEntry, compress_region};
use crypto::{DomainKey, EncryptionKey, MasterKeys};
use env::{Entropy, Env, MemoryStorage, SeededEntropy, Storage};
use format::names;
use proptest::prelude::*;
use types::{
    ChunkLocation, ContainerId, ContainerKind, Fingerprint, Generation, SequenceNumber, SessionId, StoreId,
};

use crate::assemble::{AssembleOptions, assemble};
use crate::belady::{AheadPlanner, references_bytes};
use crate::error::RestoreError;
use crate::memory_budget::MemoryBudget;
use crate::message::AssembleStats;
use crate::plan::{ChunkPart, Fill, Next, Place, Reference};
use crate::read_sizes::ReadSizes;
use crate::read_split::pieces;
use crate::send::Sink;
use crate::test_store::reader;

const CONTAINERS: u32 = 5;
const REGIONS: usize = 6;
const CHUNKS_A_REGION: usize = 7;

/// A chunk and its location.
#[derive(Clone)]
struct Chunk {
    location: ChunkLocation,
    fingerprint: Fingerprint,
    bytes: Vec<u8>,
    region: usize,
}

struct World {
    storage: Arc<MemoryStorage>,
    chunks: Vec<Chunk>,
    longest: u64,
}

fn id(sequence: u32) -> ContainerId {
    ContainerId {
        session: SessionId::new(1).unwrap(),
        kind: ContainerKind::Data,
        sequence: SequenceNumber::new(sequence).unwrap(),
    }
}

fn containers(storage: Arc<MemoryStorage>) -> Containers {
    let keys = MasterKeys {
        domain: DomainKey::from_bytes([1; 32]),
        encryption: EncryptionKey::from_bytes([2; 32]),
    };
    let (env, _) = Env::simulated(storage, 3);
    Containers::new(env, StoreId::from_bytes([4; 16]), &keys, 1 << 20)
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let storage = Arc::new(MemoryStorage::new());
        let containers = containers(Arc::clone(&storage));
        let random = SeededEntropy::new(9);
        let mut chunks: Vec<Chunk> = Vec::new();
        for sequence in 0..CONTAINERS {
            let mut builder = ContainerBuilder::new(id(sequence), Generation::FIRST);
            for region in 0..REGIONS {
                let mut of_region = Vec::new();
                for number in 0..CHUNKS_A_REGION {
                    let mut bytes = vec![0; 1 + (number * 37 + region * 101) % 400];
                    random.fill(&mut bytes);
                    let fingerprint = containers.fingerprinter().chunk(&bytes);
                    of_region.push((fingerprint, bytes));
                }
                let plain: Vec<u8> = of_region.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
                let entries: Vec<PendingEntry> = of_region
                    .iter()
                    .map(|(print, bytes)| PendingEntry::chunk(*print, u32::try_from(bytes.len()).unwrap()))
                    .collect();
                let first = builder.append(compress_region(plain, Compression::Level(1)), &entries);
                for (slot, (fingerprint, bytes)) in (first.get()..).zip(of_region) {
                    let location = ChunkLocation {
                        container: id(sequence),
                        slot: types::Slot::new(slot).unwrap(),
                    };
                    chunks.push(Chunk {
                        location,
                        fingerprint,
                        bytes,
                        region,
                    });
                }
            }
            containers.put(&builder.seal(&containers).unwrap()).unwrap();
        }
        let longest = chunks.iter().map(|chunk| chunk.bytes.len() as u64).max().unwrap();
        World {
            storage,
            chunks,
            longest,
        }
    })
}

/// The received bytes, and where parts were lost.
#[derive(Default)]
struct Collected {
    bytes: Vec<u8>,
    lost: Vec<(u64, u64, String)>,
    stop_after: Option<usize>,
}

impl Sink for Collected {
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.bytes.extend_from_slice(bytes);
        match self.stop_after {
            Some(most) if self.bytes.len() > most => Err(RestoreError::Interrupted),
            _ => Ok(()),
        }
    }

    fn zeros(&mut self, len: u64) -> Result<(), RestoreError> {
        self.bytes
            .resize(self.bytes.len() + usize::try_from(len).unwrap(), 0);
        Ok(())
    }

    fn lost(&mut self, len: u64, error: &Arc<RestoreError>) -> Result<(), RestoreError> {
        self.lost.push((self.bytes.len() as u64, len, error.to_string()));
        self.zeros(len)
    }
}

/// One reference of a test's stream: a part of a chunk, or zeros.
#[derive(Debug, Clone)]
enum Part {
    Chunk { number: usize, skip: usize, len: usize },
    Zeros(u64),
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let chunks = CONTAINERS as usize * REGIONS * CHUNKS_A_REGION;
    // Few distinct chunks among many references give duplicates within and across windows.
    let one = prop_oneof![
        8 => (0..chunks, any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(number, a, b)| {
            let whole = world().chunks[number].bytes.len();
            let skip = a.index(whole);
            Part::Chunk { number, skip, len: 1 + b.index(whole - skip) }
        }),
        8 => (0..20_usize).prop_map(|number| {
            let len = world().chunks[number].bytes.len();
            Part::Chunk { number, skip: 0, len }
        }),
        1 => (1..2000_u64).prop_map(Part::Zeros),
    ];
    prop::collection::vec(one, 0..400)
}

fn reference(part: &Part) -> Reference {
    match *part {
        Part::Zeros(len) => Reference { chunk: None, len },
        Part::Chunk { number, skip, len } => {
            let chunk = &world().chunks[number];
            Reference {
                chunk: Some(ChunkPart {
                    location: chunk.location,
                    fingerprint: chunk.fingerprint,
                    chunk_len: chunk.bytes.len() as u64,
                    skip: skip as u64,
                }),
                len: len as u64,
            }
        }
    }
}

fn expected(parts: &[Part]) -> Vec<u8> {
    let mut out = Vec::new();
    for part in parts {
        match *part {
            Part::Zeros(len) => out.resize(out.len() + usize::try_from(len).unwrap(), 0),
            Part::Chunk { number, skip, len } => {
                out.extend_from_slice(&world().chunks[number].bytes[skip..skip + len]);
            }
        }
    }
    out
}

/// The number of containers that the plan reads.
fn planned_reads(parts: &[Part], memory_bytes: u64) -> u64 {
    let references = parts.iter().map(|part| Ok::<_, RestoreError>(reference(part)));
    let mut planner = AheadPlanner::new(references, memory_bytes);
    let mut reads = 0;
    while let Some(next) = planner.next_action().unwrap() {
        reads += u64::from(matches!(next, Next::Step(_)));
    }
    reads
}

fn options(budget_bytes: u64, workers: usize) -> AssembleOptions {
    AssembleOptions {
        budget_bytes,
        workers,
        prefetch_threads: 0,
        finishers: 2,
    }
}

fn run(
    containers: &Containers,
    parts: &[Part],
    options: AssembleOptions,
    sink: &mut Collected,
) -> Result<AssembleStats, RestoreError> {
    let references = parts.iter().map(|part| Ok(reference(part)));
    assemble(
        &reader(containers),
        containers.fingerprinter(),
        references,
        options,
        sink,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(3)))]

    #[test]
    fn restored_bytes_match_with_any_recipe_budget_and_workers(
        parts in parts(), budget in 1..400_000_u64, workers in 1..4_usize,
    ) {
        let containers = containers(Arc::clone(&world().storage));
        let mut sink = Collected::default();
        let stats = run(&containers, &parts, options(budget, workers), &mut sink).unwrap();
        prop_assert!(sink.lost.is_empty(), "{:?}", sink.lost);
        let expected = expected(&parts);
        prop_assert_eq!(stats.bytes, expected.len() as u64);
        prop_assert!(sink.bytes == expected, "other bytes came out");
    }

    #[test]
    fn the_storage_gets_the_requests_of_the_plan(
        parts in parts(), budget in 1..400_000_u64, workers in 1..4_usize,
    ) {
        let containers = containers(Arc::clone(&world().storage));
        let mut sink = Collected::default();
        let stats = run(&containers, &parts, options(budget, workers), &mut sink).unwrap();
        prop_assert_eq!(stats.containers_read, planned_reads(&parts, budget / 2));
        let asked = containers.stats();
        // These containers are small enough for one request each.
        prop_assert_eq!(asked.reads - asked.catalog_loads, stats.containers_read);
    }

    #[test]
    fn memory_keeps_to_the_budget(
        parts in parts(), budget in 1..400_000_u64, workers in 1..4_usize,
    ) {
        let containers = containers(Arc::clone(&world().storage));
        let mut sink = Collected::default();
        let stats = run(&containers, &parts, options(budget, workers), &mut sink).unwrap();
        // Beyond the budget there may be one chunk, and the minimum of known references. The limit
        // of the spots' own cost does not matter here: so few references do not reach it.
        let spots = parts.len() as u64 * crate::plan::SPOT_BYTES;
        let most = budget + world().longest + spots + references_bytes(0);
        prop_assert!(stats.memory_bytes_max <= most, "{} of {budget}", stats.memory_bytes_max);
    }

    #[test]
    fn a_budget_of_everything_reads_each_container_once(parts in parts()) {
        let containers = containers(Arc::clone(&world().storage));
        let mut sink = Collected::default();
        let stats = run(&containers, &parts, options(1 << 30, 2), &mut sink).unwrap();
        prop_assert!(stats.containers_read <= u64::from(CONTAINERS));
        let plain: u64 = world().chunks.iter().map(|chunk| chunk.bytes.len() as u64).sum();
        prop_assert!(stats.region_bytes_read <= plain, "a region was read twice");
    }
}

/// The storage with one container's object changed, or without it.
fn with(sequence: u32, change: impl Fn(&mut Vec<u8>) -> bool) -> Containers {
    let storage = MemoryStorage::new();
    for object in world().storage.list("").unwrap() {
        let mut bytes = world().storage.get(&object.name).unwrap();
        let is_it = object.name == names::container(id(sequence), Generation::FIRST);
        if !is_it || change(&mut bytes) {
            storage.put(&object.name, &[&bytes]).unwrap();
        }
    }
    containers(Arc::new(storage))
}

fn all_chunks() -> Vec<Part> {
    let of = |(number, chunk): (usize, &Chunk)| Part::Chunk {
        number,
        skip: 0,
        len: chunk.bytes.len(),
    };
    world().chunks.iter().enumerate().map(of).collect()
}

/// Budgets with room for next to nothing, for little, and for most of the read bytes.
const BUDGETS: [u64; 3] = [1, 5_000, 1 << 20];

/// Restores every chunk with each budget, in the containers' order and in another one. Each chunk
/// must be right or lost, and the lost ones must be those of `is_bad`. Returns the reasons.
fn judge(containers: &Containers, is_bad: impl Fn(&Chunk) -> bool) -> Vec<String> {
    let in_order = all_chunks();
    let of_container = REGIONS * CHUNKS_A_REGION;
    let across: Vec<Part> = (0..of_container)
        .flat_map(|n| (0..CONTAINERS as usize).map(move |container| container * of_container + n))
        .map(|number| in_order[number].clone())
        .collect();
    let mut told: Option<Vec<String>> = None;
    for budget in BUDGETS {
        for parts in [&in_order, &across] {
            let mut of_run = judge_run(containers, parts, options(budget, 2), &is_bad);
            of_run.sort();
            let before = told.get_or_insert_with(|| of_run.clone());
            assert_eq!(*before, of_run, "with {budget} bytes");
        }
    }
    told.unwrap()
}

fn judge_run(
    containers: &Containers,
    parts: &[Part],
    options: AssembleOptions,
    is_bad: &impl Fn(&Chunk) -> bool,
) -> Vec<String> {
    let mut sink = Collected::default();
    run(containers, parts, options, &mut sink).unwrap();
    let mut lost = sink.lost.into_iter().peekable();
    let (mut at, mut told) = (0, Vec::new());
    for part in parts {
        let Part::Chunk { number, .. } = part else {
            continue;
        };
        let chunk = &world().chunks[*number];
        let len = chunk.bytes.len();
        let mut left = len;
        while let Some((_, part, text)) =
            lost.next_if(|(offset, ..)| (at..at + len).contains(&usize::try_from(*offset).unwrap()))
        {
            left -= usize::try_from(part).unwrap();
            told.push(text);
        }
        assert_eq!(left == 0, is_bad(chunk), "{:?}", chunk.location);
        assert!(left == 0 || left == len);
        if left == len {
            assert!(
                sink.bytes[at..at + len] == chunk.bytes,
                "{:?}: wrong bytes",
                chunk.location
            );
        }
        at += len;
    }
    told
}

#[test]
fn a_bad_region_costs_its_own_chunks_alone() {
    for region in [0, 3, REGIONS - 1] {
        let rows = containers(Arc::clone(&world().storage))
            .catalog(id(2))
            .unwrap()
            .rows()
            .to_vec();
        let at = usize::try_from(rows[region].offset).unwrap();
        let damaged = with(2, |bytes| {
            bytes[at] ^= 1;
            true
        });
        let told = judge(&damaged, |chunk| {
            chunk.location.container == id(2) && chunk.region == region
        });
        assert_eq!(told.len(), CHUNKS_A_REGION);
        let name = format!("{} generation 0: region {region}", id(2));
        assert!(told.iter().all(|text| text.contains(&name)), "{told:?}");
    }
}

#[test]
fn a_lost_container_costs_its_own_chunks_alone() {
    let torn = with(1, |bytes| {
        bytes.truncate(bytes.len() / 2);
        true
    });
    let gone = with(1, |_| false);
    for damaged in [torn, gone] {
        let told = judge(&damaged, |chunk| chunk.location.container == id(1));
        assert!(
            told.iter().all(|text| text.contains(&id(1).to_string())),
            "{told:?}"
        );
    }
}

#[test]
fn a_reference_that_the_catalog_does_not_bear_out_gives_no_bytes() {
    let containers = containers(Arc::clone(&world().storage));
    let whole = reference(&all_chunks()[3]);
    let part = whole.chunk.unwrap();
    let other = world().chunks[4].fingerprint;
    let wrong = [
        ChunkPart {
            fingerprint: other,
            ..part
        },
        ChunkPart {
            chunk_len: part.chunk_len + 1,
            ..part
        },
        ChunkPart {
            skip: part.chunk_len,
            ..part
        },
        ChunkPart {
            skip: u64::MAX - 1,
            ..part
        },
        ChunkPart {
            location: ChunkLocation {
                slot: types::Slot::MAX,
                ..part.location
            },
            ..part
        },
    ];
    for (chunk, budget) in wrong
        .into_iter()
        .flat_map(|chunk| BUDGETS.map(|budget| (chunk, budget)))
    {
        let good = Reference {
            chunk: Some(part),
            len: 1,
        };
        let bad = Reference {
            chunk: Some(chunk),
            len: 1,
        };
        // A right chunk at the same location does not replace the bad one, and is not lost with it.
        let references = [good, bad, good, bad, bad, good].map(Ok);
        let mut sink = Collected::default();
        let ran = assemble(
            &reader(&containers),
            containers.fingerprinter(),
            references.into_iter(),
            options(budget, 1),
            &mut sink,
        );
        ran.unwrap();
        let lost: Vec<u64> = sink.lost.iter().map(|(at, ..)| *at).collect();
        assert_eq!(lost, [1, 3, 4], "{chunk:?}");
        let byte = world().chunks[3].bytes[0];
        assert_eq!(sink.bytes, [byte, 0, byte, 0, 0, byte]);
    }
}

#[test]
fn bytes_that_are_sealed_rightly_and_fingerprinted_wrongly_do_not_leave() {
    // The object of a broken writer: region and catalog are sealed, but do not belong together.
    let storage = Arc::new(MemoryStorage::new());
    let containers = containers(Arc::clone(&storage));
    let print = containers.fingerprinter().chunk(b"promised");
    let mut builder = ContainerBuilder::new(id(0), Generation::FIRST);
    let region = compress_region(b"actually".to_vec(), Compression::Off);
    let slot = builder.append(region, &[PendingEntry::chunk(print, 8)]);
    containers.put(&builder.seal(&containers).unwrap()).unwrap();
    let location = ChunkLocation {
        container: id(0),
        slot,
    };
    let chunk = ChunkPart {
        location,
        fingerprint: print,
        chunk_len: 8,
        skip: 0,
    };
    let one = Reference {
        chunk: Some(chunk),
        len: 8,
    };
    let printer = containers.fingerprinter();
    for budget in BUDGETS {
        let mut sink = Collected::default();
        let references = [one, one].map(Ok).into_iter();
        assemble(
            &reader(&containers),
            printer,
            references,
            options(budget, 1),
            &mut sink,
        )
        .unwrap();
        assert_eq!(sink.lost.len(), 2);
        assert!(sink.lost[0].2.contains("fingerprint"), "{:?}", sink.lost);
        assert_eq!(sink.bytes, [0; 16]);
    }
}

#[test]
fn a_sink_that_fails_ends_the_restore_and_all_its_threads() {
    for budget in BUDGETS {
        let containers = containers(Arc::clone(&world().storage));
        let mut sink = Collected {
            stop_after: Some(3_000),
            ..Collected::default()
        };
        let ran = run(&containers, &all_chunks(), options(budget, 3), &mut sink);
        assert!(matches!(ran, Err(RestoreError::Interrupted)));
        assert!(expected(&all_chunks()).starts_with(&sink.bytes));
    }
}

#[test]
fn references_that_fail_end_the_restore_after_no_wrong_byte() {
    let containers = containers(Arc::clone(&world().storage));
    let parts = all_chunks();
    for budget in BUDGETS {
        let references = parts
            .iter()
            .take(50)
            .map(|part| Ok(reference(part)))
            .chain([Err(RestoreError::Internal("the recipe ends here"))]);
        let mut sink = Collected::default();
        let printer = containers.fingerprinter();
        let ran = assemble(
            &reader(&containers),
            printer,
            references,
            options(budget, 2),
            &mut sink,
        );
        assert!(matches!(ran, Err(RestoreError::Internal(_))));
        assert!(expected(&parts).starts_with(&sink.bytes));
    }
}

#[test]
fn many_workers_read_no_further_ahead_than_the_budget() {
    const CHUNK_BYTES: usize = 64 << 10;
    const COUNT: u32 = 64;
    let containers = containers(Arc::new(MemoryStorage::new()));
    let random = SeededEntropy::new(2);
    let mut references = Vec::new();
    for sequence in 0..COUNT {
        let mut bytes = vec![0; CHUNK_BYTES];
        random.fill(&mut bytes);
        let fingerprint = containers.fingerprinter().chunk(&bytes);
        let mut builder = ContainerBuilder::new(id(sequence), Generation::FIRST);
        let entry = PendingEntry::chunk(fingerprint, 64 << 10);
        let slot = builder.append(compress_region(bytes, Compression::Off), &[entry]);
        containers.put(&builder.seal(&containers).unwrap()).unwrap();
        let location = ChunkLocation {
            container: id(sequence),
            slot,
        };
        let chunk = ChunkPart {
            location,
            fingerprint,
            chunk_len: CHUNK_BYTES as u64,
            skip: 0,
        };
        references.push(Reference {
            chunk: Some(chunk),
            len: CHUNK_BYTES as u64,
        });
    }
    // Memory for known references and for the spots of a run, beside four chunks.
    let budget = 4 * CHUNK_BYTES as u64 + 6 * references_bytes(0);
    let mut sink = Collected::default();
    let printer = containers.fingerprinter();
    let twice = references.iter().chain(references.iter().rev()).copied().map(Ok);
    let stats = assemble(
        &reader(&containers),
        printer,
        twice,
        options(budget, 16),
        &mut sink,
    )
    .unwrap();
    let spots = 2 * u64::from(COUNT);
    assert_eq!(stats.bytes, spots * CHUNK_BYTES as u64);
    let most = budget + CHUNK_BYTES as u64 + spots * crate::plan::SPOT_BYTES;
    assert!(
        stats.memory_bytes_max <= most,
        "{} of {budget}",
        stats.memory_bytes_max
    );
}

#[test]
fn a_fetching_thread_that_panics_ends_the_restore() {
    let storage = Arc::new(MemoryStorage::new());
    let containers = containers(Arc::clone(&storage));
    let small = |sequence| ContainerId {
        kind: ContainerKind::Small,
        ..id(sequence)
    };
    let mut references = Vec::new();
    for sequence in 0..8 {
        let bytes = vec![u8::try_from(sequence).unwrap(); 1000];
        let fingerprint = containers.fingerprinter().chunk(&bytes);
        let mut builder = ContainerBuilder::new(small(sequence), Generation::FIRST);
        let entry = PendingEntry::chunk(fingerprint, 1000);
        let slot = builder.append(compress_region(bytes, Compression::Off), &[entry]);
        containers.put(&builder.seal(&containers).unwrap()).unwrap();
        let location = ChunkLocation {
            container: small(sequence),
            slot,
        };
        let chunk = ChunkPart {
            location,
            fingerprint,
            chunk_len: 1000,
            skip: 0,
        };
        references.push(Ok(Reference {
            chunk: Some(chunk),
            len: 1000,
        }));
    }
    // The catalogs are in memory, so the fetching thread requests the first container's other copy.
    storage
        .delete(&names::container(small(0), Generation::FIRST))
        .unwrap();
    containers.observe_mirror_reads(|_| panic!("a thread dies here"));
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let run = std::panic::AssertUnwindSafe(|| {
            let printer = containers.fingerprinter();
            let mut sink = Collected::default();
            let options = options(1_000, 2);
            assemble(
                &reader(&containers),
                printer,
                references.into_iter(),
                options,
                &mut sink,
            )
        });
        ended.send(std::panic::catch_unwind(run).is_err()).unwrap();
    });
    let panicked = end.recv_timeout(std::time::Duration::from_secs(20));
    assert_eq!(panicked, Ok(true), "it ends, and does not pass for a restore");
}

#[test]
fn pieces_with_gaps_are_of_equal_size_as_they_are_read() {
    const REGION_BYTES: usize = 128 << 10;
    const COUNT: u32 = 40;
    let containers = containers(Arc::new(MemoryStorage::new()));
    let random = SeededEntropy::new(3);
    let mut builder = ContainerBuilder::new(id(0), Generation::FIRST);
    let mut fills = Vec::new();
    for number in 0..COUNT {
        let mut bytes = vec![0; REGION_BYTES];
        random.fill(&mut bytes);
        let fingerprint = containers.fingerprinter().chunk(&bytes);
        let entry = PendingEntry::chunk(fingerprint, 128 << 10);
        let slot = builder.append(compress_region(bytes, Compression::Off), &[entry]);
        let len = REGION_BYTES as u64;
        let location = ChunkLocation {
            container: id(0),
            slot,
        };
        let part = ChunkPart {
            location,
            fingerprint,
            chunk_len: len,
            skip: 0,
        };
        // Every other region is wanted.
        if number % 2 == 0 {
            fills.push(Fill {
                place: Place::Spot(u64::from(number / 2)),
                part,
                len,
            });
        }
    }
    containers.put(&builder.seal(&containers).unwrap()).unwrap();
    let view = containers.catalog(id(0)).unwrap();
    let counts: Vec<usize> = pieces(&view, &fills, ReadSizes::NEAR)
        .iter()
        .map(|piece| piece.regions.len())
        .collect();
    assert_eq!(counts, [10, 10], "5 MiB to read, half of which is wanted");
    let far = pieces(&view, &fills, ReadSizes::FAR);
    assert_eq!(far.len(), 1, "a request costs more than the other half");
}

#[test]
fn empty_memory_is_returned_and_held_memory_is_charged() {
    let containers = containers(Arc::new(MemoryStorage::new()));
    let random = SeededEntropy::new(4);
    let mut noise = vec![0; 64 << 10];
    random.fill(&mut noise);
    let text: Vec<u8> = noise.iter().map(|byte| b"abcd"[usize::from(byte % 4)]).collect();
    let store = |sequence, regions: &[&[u8]]| {
        let mut builder = ContainerBuilder::new(id(sequence), Generation::FIRST);
        let mut fills = Vec::new();
        for (spot, bytes) in (0..).zip(regions) {
            let fingerprint = containers.fingerprinter().chunk(bytes);
            let len = bytes.len() as u64;
            let entry = PendingEntry::chunk(fingerprint, u32::try_from(len).unwrap());
            let slot = builder.append(compress_region(bytes.to_vec(), Compression::Level(1)), &[entry]);
            let location = ChunkLocation {
                container: id(sequence),
                slot,
            };
            let part = ChunkPart {
                location,
                fingerprint,
                chunk_len: len,
                skip: 0,
            };
            fills.push(Fill {
                place: Place::Spot(spot),
                part,
                len,
            });
        }
        containers.put(&builder.seal(&containers).unwrap()).unwrap();
        let view = containers.catalog(id(sequence)).unwrap();
        let [piece] = <[_; 1]>::try_from(pieces(&view, &fills, ReadSizes::NEAR)).unwrap();
        piece
    };
    let (text, noise) = (&text[..], &noise[..]);
    let (compressed, raw) = (store(1, &[text, text]), store(2, &[noise, noise]));
    let (mixed, wanted) = (store(3, &[text, noise, noise]), 3 * (64_u64 << 10));
    let pool = Arc::new(crate::pool::RegionPool::new(ReadSizes::NEAR));
    let fetch = |room: &Arc<MemoryBudget>, piece| {
        let brought = crate::fetch::fetch(
            &reader(&containers),
            containers.fingerprinter(),
            &pool,
            room,
            piece,
        );
        for run in &brought.runs {
            assert!(brought.bytes.get(run.found.as_ref().unwrap()).len() as u64 == run.len);
        }
        brought
    };
    let room = Arc::new(MemoryBudget::new(1 << 20, 1 << 19));
    let one = fetch(&room, &compressed);
    assert_eq!(
        (pool.spare_count(), room.most_bytes()),
        ((1, 0), 0),
        "decompressed alone is held"
    );
    drop(one);
    let one = fetch(&room, &raw);
    assert_eq!(pool.spare_count(), (0, 1), "as read alone is held");
    let before = room.most_bytes();
    assert!(before < 100, "the seals: {before}");
    drop(one);
    let one = fetch(&room, &mixed);
    let extra = room.most_bytes();
    assert!(
        extra > 10_000 && extra < wanted,
        "what was compressed is held twice: {extra}"
    );
    assert_eq!(pool.spare_count(), (0, 0));
    drop(one);
    assert_eq!(pool.spare_count(), (1, 1));

    let full = Arc::new(MemoryBudget::new(wanted + extra - 1, wanted));
    full.take(wanted, 1);
    let one = fetch(&full, &mixed);
    assert_eq!(
        (full.most_bytes(), pool.spare_count()),
        (wanted, (1, 1)),
        "what is wanted is copied"
    );
    drop(one);
    full.free(1);
    drop(fetch(&full, &mixed));
    assert_eq!(full.most_bytes(), wanted - 1 + extra);
    assert!(full.take_extra(extra).is_some(), "and given back");
}
