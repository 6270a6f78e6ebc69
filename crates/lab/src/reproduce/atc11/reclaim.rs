//! Time to update references when data is added or deleted, in a store that is empty and in one
//! that is not [Guo 4.1.2, figure 5] (G7).
//!
//! As in the paper what is added or deleted is unique data. References are updated by `prune`: the
//! marks of what was added are made by the next, and what was deleted is reclaimed by it. What was
//! committed in the last minute before is looked at again by the next one, so the storage's clock
//! is moved on before each.

use std::time::Duration;

use onefold::{OpenOptions, PruneLimits, PruneOptions, PruneUnused, SessionId};

use super::engine::{Engine, Payload, Unique, cores, ingest_options};
use crate::error::LabError;
use crate::reproduce::Progress;

/// After which nothing is looked at again.
const SETTLED: Duration = Duration::from_secs(120);
/// Bytes of a series of the store that is not empty.
const LOOKUP_BYTES: u64 = 16 << 20;
/// Numbers of the streams that fill a store begin here.
const FILLING: u64 = 1 << 32;

/// What is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Setting {
    /// Unique data in the store before; 0: none.
    pub(super) filled_bytes: u64,
    /// Of each of the backups that it came with, each a series of its own.
    pub(super) filled_each: u64,
    /// Data that is added, and deleted again.
    pub(super) changes: Vec<u64>,
    /// The least time of so many: what else runs on a machine only slows.
    pub(super) runs: usize,
}

/// Of one amount of data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Updated {
    pub(super) bytes: u64,
    /// Seconds.
    pub(super) added: f64,
    pub(super) deleted: f64,
    /// Nodes read to mark what was added.
    pub(super) nodes_read: u64,
    /// Containers removed when it was deleted.
    pub(super) containers_removed: u64,
}

/// A prune that finds nothing to do, in seconds, and what each change took.
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
            // What the last one has left to the next is not the next change's.
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
    fn what_is_deleted_is_reclaimed_and_no_more_is_looked_at_in_a_full_store() {
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
            // In the full one there are six streams more.
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
