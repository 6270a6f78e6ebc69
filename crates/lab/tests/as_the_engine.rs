//! The same backups through the engine and through the simulator: identical counts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;

use crypto::Fingerprinter;
use env::fault::FaultStorage;
use env::{Env, SeededEntropy, SystemClock};
use lab::simulate::{Finding, Looked, Memory, Outcome, Policy, Schedule, Settings, Simulator};
use lab::{Cutter, Cutting};
use onefold::{
    AssembleOptions, Assembly, BackupOptions, BackupReport, Cap, Capping, Compression, Credential,
    IngestOptions, InitOptions, LookupMemory, Monitor, OpenOptions, ReaderSource, Store, StreamOutput,
};

const CHUNK_BYTES: u32 = 1 << 10;
const CONTAINER_BYTES: u32 = 64 << 10;
const REGION_BYTES: u32 = 8 << 10;
const SEGMENT_CHUNKS: u32 = 16;
/// Memory of an index that all hooks have room in.
const ROOMY: usize = 64 << 20;

/// What each backup is restored with: an area of so many bytes.
const AREAS: [(u64, Assembly); 5] = [
    (96 << 10, Assembly::Rolling),
    (1 << 20, Assembly::Rolling),
    (96 << 10, Assembly::Fixed),
    // Of the smaller one, references and spots take 112 KiB: some are always known.
    (256 << 10, Assembly::LookAhead),
    (1 << 20, Assembly::LookAhead),
];

/// A sequence of numbers that is the same in every run.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(len).collect()
    }
}

/// Generations of a file: parts overwritten, inserted, moved, repeated and zeroed.
fn generations(bytes: usize) -> Vec<Vec<u8>> {
    let mut draws = Draws(7);
    let mut file = draws.bytes(bytes);
    let mut all = vec![file.clone()];
    for _ in 0..7 {
        for _ in 0..24 {
            let (at, len) = (draws.below(file.len() - 9000), 500 + draws.below(8000));
            match draws.below(5) {
                0 => file[at..at + len].fill(0),
                1 => {
                    let new = draws.bytes(len);
                    file.splice(at..at, new);
                }
                2 => {
                    let part = file[at..at + len].to_vec();
                    file.extend(part);
                }
                3 => {
                    let part: Vec<u8> = file.drain(at..at + len).collect();
                    let to = draws.below(file.len());
                    file.splice(to..to, part);
                }
                _ => {
                    let new = draws.bytes(len);
                    file[at..at + len].copy_from_slice(&new);
                }
            }
        }
        all.push(file.clone());
    }
    all
}

struct Nowhere;

impl StreamOutput for Nowhere {
    fn write(&mut self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
    fn skip_zeros(&mut self, _: u64) -> std::io::Result<()> {
        Ok(())
    }
}

fn env() -> Env {
    Env {
        storage: Arc::new(FaultStorage::new()),
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SeededEntropy::new(1)),
    }
}

/// What the engine counts of each backup, and reads to restore it.
fn by_engine(env: &Env, policy: Policy, bytes: usize) -> Vec<(BackupReport, Vec<u64>)> {
    // Read where it lies, hooks are looked up one by one; held in memory, many together, as the simulator does.
    let options = OpenOptions {
        index_memory_bytes_max: (policy.index_bytes < ROOMY).then_some(policy.index_bytes),
        ..OpenOptions::default()
    };
    let store = Store::open(env, &Credential::None, &options).unwrap();
    let options = BackupOptions {
        host: b"host".to_vec(),
        user: b"user".to_vec(),
        tags: Vec::new(),
        ingest: IngestOptions {
            compression: Compression::Off,
            small_bytes_max: 0,
            capping: policy.capping,
            lookup: policy.memory,
            ..IngestOptions::for_cores(1)
        },
    };
    let back_up = |bytes: Vec<u8>| {
        let mut source = ReaderSource(bytes.as_slice());
        let monitor = Monitor::default();
        let report = store.backup_stream(&options, Path::new("file"), None, &mut source, &monitor);
        let report = report.unwrap();
        let snapshots = store.snapshots().unwrap().snapshots;
        let snapshot = snapshots.iter().find(|snapshot| snapshot.id == report.id);
        let reads = AREAS.map(|(area, assembly)| {
            let assembling = AssembleOptions {
                // Half of it is the area.
                budget_bytes: 2 * area,
                assembly,
                workers: 1,
            };
            let monitor = Monitor::default();
            let stats = store.dump(snapshot.unwrap(), None, &mut Nowhere, assembling, &monitor);
            stats.unwrap().containers_read
        });
        (report, reads.to_vec())
    };
    generations(bytes).into_iter().map(back_up).collect()
}

/// What the simulator counts of them.
fn by_simulator(env: &Env, policy: Policy, bytes: usize) -> Vec<Outcome> {
    let config = object::config::open(env, crypto::Credential::NoPassword).unwrap();
    let printer = Fingerprinter::new(&config.keys.domain);
    let mut cutter = Cutter::under(printer, Cutting::Content(CHUNK_BYTES)).unwrap();
    let settings = Settings {
        container_bytes: u64::from(CONTAINER_BYTES),
        finding: Finding::Engine(policy),
        schedule: Schedule::All,
        memories: AREAS.map(|(bytes, assembly)| Memory { bytes, assembly }).to_vec(),
        skip: 0,
    };
    let mut outcomes = Vec::new();
    let mut simulator = Simulator::new(settings, |outcome| {
        outcomes.push(outcome);
        Ok(())
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    for generation in generations(bytes) {
        let path = folder.path().join("file");
        std::fs::write(&path, generation).unwrap();
        cutter.backup(&path, &mut simulator).unwrap();
    }
    outcomes
}

fn compare(capping: Capping, memory: LookupMemory) -> Vec<Looked> {
    compare_with(capping, memory, ROOMY, 1 << 20)
}

/// With an index of so many bytes, and files of so many at first.
fn compare_with(capping: Capping, memory: LookupMemory, index_bytes: usize, bytes: usize) -> Vec<Looked> {
    let policy = Policy {
        capping,
        memory,
        index_bytes,
        segment_chunks: SEGMENT_CHUNKS,
        region_bytes: REGION_BYTES,
        ..Policy::default()
    };
    let env = env();
    let shape = InitOptions {
        chunk_avg_bytes: CHUNK_BYTES,
        region_bytes: REGION_BYTES,
        container_bytes: CONTAINER_BYTES,
        node_avg_children: SEGMENT_CHUNKS,
        reserve_bytes: 0,
        ..InitOptions::default()
    };
    drop(Store::init(&env, &Credential::None, &shape, None).unwrap());
    let engine = by_engine(&env, policy, bytes);
    let simulator = by_simulator(&env, policy, bytes);
    assert_eq!(engine.len(), simulator.len());
    for (n, ((report, reads), outcome)) in engine.iter().zip(&simulator).enumerate() {
        let looked = outcome.looked.unwrap();
        let totals = &report.totals;
        assert_eq!(
            (totals.chunks, totals.chunks_new, totals.bytes_new),
            (outcome.chunks, looked.chunks_new, outcome.bytes_new),
            "chunks of backup {n}, {capping:?}"
        );
        let engine = [
            totals.segments,
            totals.segments_known,
            report.chunks_capped,
            report.bytes_capped,
        ];
        let simulated = [
            looked.segments,
            looked.segments_known,
            looked.chunks_capped,
            looked.bytes_capped,
        ];
        assert_eq!(engine, simulated, "segments of backup {n}, {capping:?}");
        assert_eq!(
            report.lookups, looked.lookups,
            "look-ups of backup {n}, {capping:?}"
        );
        let simulated: Vec<u64> = outcome.restored.iter().map(|one| one.containers_read).collect();
        assert_eq!(*reads, simulated, "restoring backup {n}, {capping:?}");
    }
    simulator
        .into_iter()
        .filter_map(|outcome| outcome.looked)
        .collect()
}

fn capping(cap: Cap, remembered_windows: u32) -> Capping {
    Capping {
        cap,
        remembered_windows,
        window_bytes: 100_000,
    }
}

#[test]
fn without_a_cap() {
    let looked = compare(capping(Cap::None, 0), LookupMemory::within(32 << 20));
    assert!(looked.iter().all(|looked| looked.chunks_capped == 0));
    assert!(looked[7].segments_known > 0 && looked[7].segments_known < looked[7].segments);
}

/// So little memory for look-ups of chunks that catalogs are loaded again and again. Catalogs of nodes list more nodes in the
/// engine than in the simulator: those above segments.
#[test]
fn with_a_small_cache() {
    let memory = LookupMemory {
        catalog_bytes: 4 << 10,
        own_bytes: 16 << 10,
        ..LookupMemory::within(32 << 20)
    };
    let small = compare(capping(Cap::None, 0), memory);
    let large = compare(capping(Cap::None, 0), LookupMemory::within(32 << 20));
    let loads = |looked: &[Looked]| {
        let loads = looked.iter().map(|looked| looked.lookups.catalog_loads);
        loads.sum::<u64>()
    };
    assert!(
        loads(&small) > 2 * loads(&large),
        "{} {}",
        loads(&small),
        loads(&large)
    );
}

/// So little memory for hooks that R falls while backups are made.
#[test]
fn with_sampled_hooks() {
    for cap in [Cap::None, Cap::Least(4000)] {
        let looked = compare_with(
            capping(cap, 2),
            LookupMemory::within(32 << 20),
            64 << 10,
            12 << 20,
        );
        let periods: Vec<u64> = looked.iter().map(|looked| looked.period).collect();
        assert!(periods[0] > 1 && periods.is_sorted(), "{periods:?}");
    }
}

#[test]
fn with_each_kind_of_cap() {
    let caps = [
        (Cap::Fixed(2), 0),
        (Cap::Fixed(6), 0),
        (Cap::Adaptive(3), 0),
        (Cap::Fixed(3), 2),
        (Cap::Least(4000), 0),
        (Cap::Least(4000), 2),
    ];
    for (cap, remembered) in caps {
        let looked = compare(capping(cap, remembered), LookupMemory::within(32 << 20));
        let capped: u64 = looked.iter().map(|looked| looked.chunks_capped).sum();
        assert!(capped > 0, "{cap:?} has an effect");
    }
}
