//! The same backups through the engine and through the simulator give identical counts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod engine;
mod generations;

use crypto::Fingerprinter;
use env::Env;
use generations::generations;
use onefold::{Cap, Capping, LookupMemory};
use simulate::{
    Assembly, Cutter, Cutting, Finding, Looked, Memory, Outcome, Policy, Schedule, Settings, Simulator,
};

const CHUNK_BYTES: u32 = 1 << 10;
const CONTAINER_BYTES: u32 = 64 << 10;
const REGION_BYTES: u32 = 8 << 10;
const SEGMENT_CHUNKS: u32 = 16;
/// Memory of an index that has room for all hooks.
const ROOMY: usize = 64 << 20;

/// Memories of the restores, in bytes. References and spots take 112 KiB of the smaller one: some
/// are always known.
const MEMORIES: [u64; 2] = [256 << 10, 1 << 20];

/// The settings of both sides.
#[derive(Debug, Clone, Copy)]
struct Case {
    policy: Policy,
    /// Length of the first generation.
    bytes: usize,
    schedule: Schedule,
    /// Whether one process makes all of the engine's backups, or one process each.
    in_one_process: bool,
}

impl Case {
    fn new(capping: Capping) -> Self {
        let policy = Policy {
            capping,
            memory: LookupMemory::within(32 << 20),
            index_bytes: ROOMY,
            segment_chunks: SEGMENT_CHUNKS,
            region_bytes: REGION_BYTES,
            ..Policy::default()
        };
        Self {
            policy,
            bytes: 1 << 20,
            schedule: Schedule::All,
            in_one_process: true,
        }
    }

    fn within(mut self, memory: LookupMemory) -> Self {
        self.policy.memory = memory;
        self
    }

    /// Gives hooks so little memory that R falls while backups are made.
    fn sampled(mut self) -> Self {
        self.policy.index_bytes = 64 << 10;
        self.bytes = 12 << 20;
        self
    }

    fn keeping(self, backups: usize) -> Self {
        Self {
            schedule: Schedule::Cycle(backups),
            ..self
        }
    }
}

fn memory(bytes: u64) -> Memory {
    Memory {
        bytes,
        assembly: Assembly::LookAhead,
    }
}

/// The simulator's counts of each backup.
fn by_simulator(env: &Env, case: Case) -> Vec<Outcome> {
    let config = object::config::open(env, crypto::Credential::NoPassword).unwrap();
    let printer = Fingerprinter::new(&config.keys.domain);
    let mut cutter = Cutter::under(printer, Cutting::Content(CHUNK_BYTES)).unwrap();
    let settings = Settings {
        container_bytes: u64::from(CONTAINER_BYTES),
        finding: Finding::Engine(case.policy),
        schedule: case.schedule,
        memories: MEMORIES.map(memory).to_vec(),
        skip: 0,
    };
    let mut outcomes = Vec::new();
    let mut simulator = Simulator::new(settings, |outcome| {
        outcomes.push(outcome);
        Ok(())
    })
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    for generation in generations(case.bytes) {
        let path = folder.path().join("file");
        std::fs::write(&path, generation).unwrap();
        cutter.backup(&path, &mut simulator).unwrap();
    }
    outcomes
}

/// Asserts that both sides have the same counts, and returns the simulator's.
fn compare(case: Case) -> Vec<Outcome> {
    let env = engine::init();
    let counted = engine::count(&env, case, generations(case.bytes));
    let outcomes = by_simulator(&env, case);
    assert_eq!(counted.len(), outcomes.len());
    for (n, (counted, outcome)) in counted.iter().zip(&outcomes).enumerate() {
        let (report, looked) = (&counted.report, outcome.looked.unwrap());
        let totals = &report.totals;
        assert_eq!(
            (totals.chunks, totals.chunks_new, totals.bytes_new),
            (outcome.chunks, looked.chunks_new, outcome.bytes_new),
            "chunks of backup {n}, {case:?}"
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
        assert_eq!(engine, simulated, "segments of backup {n}, {case:?}");
        assert_eq!(report.lookups, looked.lookups, "look-ups of backup {n}, {case:?}");
        let simulated = (outcome.bytes_stored, outcome.containers);
        assert_eq!(counted.stored, simulated, "stored after backup {n}, {case:?}");
        let simulated: Vec<u64> = outcome.restored.iter().map(|one| one.containers_read).collect();
        assert_eq!(counted.reads, simulated, "restoring backup {n}, {case:?}");
    }
    outcomes
}

fn looked(case: Case) -> Vec<Looked> {
    let outcomes = compare(case).into_iter();
    outcomes.filter_map(|outcome| outcome.looked).collect()
}

const fn capping(cap: Cap, remembered_windows: u32) -> Capping {
    Capping {
        cap,
        remembered_windows,
        window_bytes: 100_000,
    }
}

const UNCAPPED: Capping = capping(Cap::None, 0);

#[test]
fn without_a_cap() {
    let looked = looked(Case::new(UNCAPPED));
    assert!(looked.iter().all(|looked| looked.chunks_capped == 0));
    assert!(looked[7].segments_known > 0 && looked[7].segments_known < looked[7].segments);
}

/// Look-ups of chunks have so little memory that catalogs are loaded again and again. Catalogs of
/// nodes list more nodes in the engine than in the simulator: those above segments.
#[test]
fn with_a_small_cache() {
    let memory = LookupMemory {
        catalog_bytes: 4 << 10,
        own_bytes: 16 << 10,
        ..LookupMemory::within(32 << 20)
    };
    let loads = |case: Case| {
        let loads = looked(case)
            .into_iter()
            .map(|looked| looked.lookups.catalog_loads);
        loads.sum::<u64>()
    };
    let large = Case::new(UNCAPPED);
    let (small, large) = (loads(large.within(memory)), loads(large));
    assert!(small > 2 * large, "{small} {large}");
}

#[test]
fn with_sampled_hooks() {
    for cap in [Cap::None, Cap::Least(4000)] {
        let looked = looked(Case::new(capping(cap, 2)).sampled());
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
        let looked = looked(Case::new(capping(cap, remembered)));
        let capped: u64 = looked.iter().map(|looked| looked.chunks_capped).sum();
        assert!(capped > 0, "{cap:?} has an effect");
    }
}

/// The deletion of a backup deletes what only this backup had.
#[test]
fn with_deleted_backups() {
    for kept in [1, 3] {
        let case = Case::new(UNCAPPED).keeping(kept);
        let outcomes = compare(case);
        let all = compare(Case::new(UNCAPPED));
        let stored = |outcomes: &[Outcome]| outcomes.last().unwrap().bytes_stored;
        assert!(stored(&outcomes) < stored(&all));
        compare(Case::new(capping(Cap::Least(4000), 2)).keeping(kept));
    }
}

#[test]
fn with_sampled_hooks_and_deleted_backups() {
    for cap in [Cap::None, Cap::Least(4000)] {
        let looked = looked(Case::new(capping(cap, 2)).sampled().keeping(3));
        assert!(looked[7].period > 1, "{}", looked[7].period);
    }
}

/// A backup does not use what its process prefetched for the previous one: the counts equal those
/// of one process for each backup.
#[test]
fn with_a_process_for_each_backup() {
    for capping in [UNCAPPED, capping(Cap::Least(4000), 2)] {
        let case = Case {
            in_one_process: false,
            ..Case::new(capping)
        };
        compare(case);
        compare(case.keeping(3));
    }
}
