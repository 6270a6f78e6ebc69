//! Times to update references when data is added or deleted, in an empty and in a filled store [Guo
//! 4.1.2, figure 5] (G7).
//!
//! As in the paper, the added and deleted data is unique. `prune` updates references: the next
//! prune makes the marks of added data, and reclaims deleted data. A prune looks again at commits
//! of the minute before the last one, so the storage's clock is moved forward before each prune.

use std::time::Duration;

use onefold::{OpenOptions, PruneLimits, PruneOptions, PruneUnused, SessionId};

use super::engine::{Engine, Payload, Unique, cores, ingest_options};
use crate::error::LabError;
use crate::reproduce::Progress;

/// After this time no prune looks at a commit again.
const SETTLED: Duration = Duration::from_secs(120);
/// Memory of look-ups of each backup.
const LOOKUP_BYTES: u64 = 16 << 20;
/// The first number of the streams that fill a store.
const FILLING: u64 = 1 << 32;

/// The settings of the measurement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// Unique data in the store beforehand; 0: none.
    pub(super) filled_bytes: u64,
    /// Bytes of each backup that fills the store. Each is a series of its own.
    pub(super) filled_each: u64,
    /// Amounts of data to add, and to delete again.
    pub(super) changes: Vec<u64>,
    /// Number of runs. The least time counts, because other work on the machine only slows.
    pub(super) runs: usize,
}

/// The results for one amount of data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Updated {
    pub(super) bytes: u64,
    /// Seconds.
    pub(super) added: f64,
    pub(super) deleted: f64,
    /// Nodes that prune read to mark the added data.
    pub(super) nodes_read: u64,
    /// Containers that prune removed after the deletion.
    pub(super) containers_removed: u64,
}

/// Measures each change, and a prune that finds nothing to do, in seconds.
pub(super) fn update(setting: &Setting, progress: &Progress) -> Result<(f64, Vec<Updated>), LabError> {
    let engine = Engine::new(Payload::GivenUp, &OpenOptions::default())?;
    let ingest = ingest_options(cores(), LOOKUP_BYTES);
    let options = PruneOptions::default().limits(PruneLimits::default().unused_max(PruneUnused::Bytes(0)));
    let back_up = |stream: u64, bytes: u64| -> Result<SessionId, LabError> {
        let ran = engine.back_up(
            Unique::jobs(stream..stream + 1, bytes, progress),
            &ingest,
            progress,
        )?;
        Ok(ran.reports[0].id)
    };
    let prune = || {
        engine.pass(SETTLED);
        engine.prune(&options)
    };
    let mut left = setting.filled_bytes;
    for stream in FILLING.. {
        if left == 0 {
            break;
        }
        let bytes = left.min(setting.filled_each);
        back_up(stream, bytes)?;
        left -= bytes;
    }
    prune()?;
    let mut idle = Vec::new();
    let mut told = Vec::new();
    let mut stream = 0;
    for bytes in &setting.changes {
        let (mut added, mut deleted) = (Vec::new(), Vec::new());
        let (mut nodes_read, mut containers_removed) = (0, 0);
        for _ in 0..setting.runs {
            let id = back_up(stream, *bytes)?;
            stream += 1;
            let (took, report) = prune()?;
            added.push(took.as_secs_f64());
            nodes_read = report.nodes_read;
            engine.forget(&[id])?;
            let (took, report) = prune()?;
            deleted.push(took.as_secs_f64());
            containers_removed = report.containers_removed;
            // Work that the last prune left over must not count for the next change.
            prune()?;
            idle.push(prune()?.0.as_secs_f64());
        }
        told.push(Updated {
            bytes: *bytes,
            added: least(&added),
            deleted: least(&deleted),
            nodes_read,
            containers_removed,
        });
    }
    Ok((least(&idle), told))
}

fn least(of: &[f64]) -> f64 {
    of.iter().copied().fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleted_data_is_reclaimed_and_a_full_store_costs_no_more_reads() {
        let progress = Progress::new(std::sync::Arc::default());
        let setting = |filled_bytes| Setting {
            filled_bytes,
            filled_each: 4 << 20,
            changes: vec![9 << 20, 34 << 20],
            runs: 1,
        };
        let (_, empty) = update(&setting(0), &progress).unwrap();
        let (_, full) = update(&setting(24 << 20), &progress).unwrap();
        for (empty, full) in empty.iter().zip(&full) {
            // The filled store has six more streams.
            assert!(full.nodes_read <= empty.nodes_read + 8, "{empty:?} {full:?}");
            assert_eq!(
                empty.containers_removed, full.containers_removed,
                "{empty:?} {full:?}"
            );
            assert!(
                empty.containers_removed >= empty.bytes.div_ceil(16 << 20),
                "{empty:?}"
            );
        }
        assert!(empty[1].nodes_read > empty[0].nodes_read, "{empty:?}");
    }
}
