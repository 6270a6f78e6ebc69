//! The index in sorted runs, the form for SSD, compared with the index in memory: reads and time of
//! look-ups, and time to rewrite the runs [Guo 3.2.3, table 2] (G6).

use std::sync::Arc;

use env::{Clock, MemoryStorage, Storage};
use index::sampling::SamplingRate;
use index::{Hook, HookIndex, HookKind, Index, IndexOptions, MemoryIndex};
use types::{ContainerId, Fingerprint, SessionId, StoreId};

use super::chunks::{self, CONTAINER_CHUNKS};
use super::{median, nanos_each, share};
use crate::error::LabError;
use crate::reproduce::Progress;
use crate::rng::drawn;

const STORED: u64 = 41;
const NEW: u64 = 42;
/// Look-ups that are timed together: few enough that another process hardly ever interrupts them.
/// And the number of rounds, alternating with the index in memory.
const ROUND: usize = 512;
const ROUNDS: usize = 401;

/// The cost of one kind of look-up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cost {
    /// Blocks read for each look-up, without resident ones.
    pub(super) blocks: f64,
    /// Nanoseconds for each, with the read blocks in memory.
    pub(super) nanos: f64,
    /// Nanoseconds for each, with the same hooks in the index in memory.
    pub(super) memory_nanos: f64,
}

/// The results of an index with a number of runs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) runs: u64,
    pub(super) hooks: u64,
    pub(super) bytes: u64,
    pub(super) resident_bytes: u64,
    pub(super) known: Cost,
    pub(super) new: Cost,
    /// The rate of sorting and writing its hooks, in MB (10^6) of runs a second.
    pub(super) written: f64,
}

/// Writes the hooks of `containers` containers as `runs` runs, and times look-ups.
pub(super) fn measure(
    containers: u64,
    runs: u64,
    clock: &dyn Clock,
    progress: &Progress,
) -> Result<Measured, LabError> {
    let failed = |error: index::IndexError| LabError::from(onefold::Error::from(error));
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let options = IndexOptions {
        bytes_max: u64::MAX,
        pending_bytes_max: usize::MAX,
        ..IndexOptions::default()
    };
    let index = Index::open(storage, StoreId::from_bytes([5; 16]), options).map_err(failed)?;
    let all = usize::try_from(containers * CONTAINER_CHUNKS).unwrap_or(usize::MAX);
    let memory = MemoryIndex::new(all.saturating_mul(10));
    let (mut prints, mut writing) = (Vec::new(), std::time::Duration::ZERO);
    for run in 0..runs {
        let session = SessionId::new(run + 1).expect("a few");
        let mut hooks = Vec::new();
        for n in containers * run / runs..containers * (run + 1) / runs {
            prints.clear();
            chunks::sampled(STORED, n, SamplingRate::ONE, &mut prints);
            hooks.extend(chunks::hooks(n, &prints).map(|hook| of(session, hook)));
            progress.advance(0)?;
        }
        memory.add(hooks.iter().copied());
        let began = clock.monotonic();
        index.add_session(session, hooks).map_err(failed)?;
        writing += clock.monotonic().saturating_sub(began);
    }
    let of_all = containers * CONTAINER_CHUNKS;
    let ask = |known: bool| {
        let print = |n| {
            if known {
                chunks::fingerprint(STORED, drawn(STORED + 1, n) % of_all)
            } else {
                chunks::fingerprint(NEW, n)
            }
        };
        let prints: Vec<Fingerprint> = (0..(ROUND * ROUNDS) as u64).map(print).collect();
        let before = index.stats();
        let (mut nanos, mut memory_nanos) = (Vec::new(), Vec::new());
        for round in prints.chunks(ROUND) {
            nanos.push(time(&index, round, known, clock));
            memory_nanos.push(time(&memory, round, known, clock));
        }
        let after = index.stats();
        Cost {
            blocks: share(
                after.blocks_read - before.blocks_read,
                after.lookups - before.lookups,
            ),
            nanos: median(&mut nanos),
            memory_nanos: median(&mut memory_nanos),
        }
    };
    let (known, new) = (ask(true), ask(false));
    let stats = index.stats();
    Ok(Measured {
        runs: stats.runs,
        hooks: stats.entries,
        bytes: stats.bytes,
        resident_bytes: stats.resident_bytes,
        known,
        new,
        written: share(stats.bytes, 1_000_000) / writing.as_secs_f64().max(1e-9),
    })
}

fn of(session: SessionId, hook: Hook) -> Hook {
    let container = ContainerId {
        session,
        ..hook.container
    };
    Hook { container, ..hook }
}

/// Nanoseconds for each look-up.
fn time(index: &dyn HookIndex, prints: &[Fingerprint], known: bool, clock: &dyn Clock) -> f64 {
    let (mut out, mut found) = (Vec::new(), 0);
    let began = clock.monotonic();
    for print in prints {
        index.candidates(print, HookKind::Data, &mut out);
        found += usize::from(!out.is_empty());
    }
    let took = clock.monotonic().saturating_sub(began);
    assert!(
        !known || found == prints.len(),
        "an index at R = 1 has every hook"
    );
    nanos_each(took, prints.len() as u64)
}

#[cfg(test)]
mod tests {
    use env::SystemClock;

    use super::*;

    #[test]
    fn a_look_up_reads_one_block_where_it_finds_and_none_where_not() {
        let progress = Progress::new(std::sync::Arc::default());
        for runs in [1, 3] {
            let measured = measure(12, runs, &SystemClock, &progress).unwrap();
            assert_eq!((measured.runs, measured.hooks), (runs, 12 * CONTAINER_CHUNKS));
            assert!((1.0..1.01).contains(&measured.known.blocks), "{measured:?}");
            assert!(measured.new.blocks < 0.01, "{measured:?}");
            assert!(measured.bytes < 8 * measured.hooks && measured.resident_bytes < 2 * measured.hooks);
            assert!(measured.written > 0.0 && measured.known.nanos > 0.0 && measured.new.memory_nanos > 0.0);
        }
    }
}
