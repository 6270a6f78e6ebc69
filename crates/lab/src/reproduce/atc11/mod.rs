//! Guo and Efstathopoulos, "Building a High-performance Deduplication System", USENIX ATC 2011: the
//! evaluation, section 4, and equations 1 and 2 (G2-G7, G10-G12).
//!
//! The engine makes all decisions: its index, its look-ups through prefetched catalogs, its
//! backups, and its reclamation. Stores are in memory, and drop the payload where the paper drops
//! it ([`hollow`]). R is a power of two: rows with 1/128 and 1/64 are compared with the paper's
//! 1/101. Machines differ, so verdicts compare shapes and ratios.

mod backups;
mod chunks;
mod duplicates;
mod efficiency;
mod engine;
mod fill;
pub mod hollow;
mod images;
mod near_full;
mod reclaim;
mod references;
mod repeat;
mod runs;
mod sampled;
mod throughput;

use std::time::Duration;

use env::SystemClock;

use super::figures::{gib, median, number, percent, share};
use super::{Extent, Paper, Run};
use crate::error::LabError;

/// The paper.
pub(super) const PAPER: Paper = Paper {
    name: "atc11",
    title: "F. Guo, P. Efstathopoulos, Building a High-performance Deduplication System, USENIX ATC 2011",
    extents: [
        "`--full`: 1.2 billion hooks of 154 billion chunks, images as large as the paper's, some 300 GB of backups; under an \
         hour on two cores, within 14 GiB.",
        "An eighth of the hooks and of the images, some 60 GB of backups: minutes on two cores, within 3 GiB. `--full` \
         measures all of them.",
    ],
    parts: &[
        duplicates::STREAMS,
        duplicates::IMAGES,
        backups::PART,
        references::PART,
        sampled::EQUATION_1,
        sampled::EQUATION_2,
        sampled::RUNS,
        sampled::INDEX,
    ],
    with_versions: &[],
    with_disk_options: false,
    with_hosts: &[],
    run,
};

fn run(run: &mut Run<'_>) -> Result<(), LabError> {
    run_all(&Size::of(run.extent), run)
}

fn run_all(size: &Size, run: &mut Run<'_>) -> Result<(), LabError> {
    let bytes = [
        sampled::bytes(size, run),
        duplicates::bytes(size, run),
        run.bytes_of(backups::PART, backups::bytes(size)),
        run.bytes_of(references::PART, references::bytes(size)),
    ];
    run.progress.expect(bytes.iter().sum());
    duplicates::run(size, run)?;
    if run.wants(backups::PART) {
        backups::run(size, run)?;
    }
    if run.wants(references::PART) {
        references::run(size, run)?;
    }
    sampled::run(size, &SystemClock, run)
}

/// How much is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Size {
    /// Divides the paper's number of hooks and memory of the index.
    index_divisor: u64,
    /// Memory of the index that begins at R = 1.
    halving_bytes: usize,
    /// Containers of the stream that is looked up again at many rates.
    repeated_containers: u64,
    /// Containers of the index in runs.
    runs_containers: u64,
    /// Divides the paper's number of blocks of the images.
    image_divisor: u64,
    /// Bytes of all streams together.
    stream_bytes: u64,
    /// Numbers of concurrent streams.
    streams: Vec<u64>,
    /// Number of runs, where two rates are compared. The best counts.
    repeats: usize,
    /// Bytes of the index, in the comparison of one near full with an empty one.
    near_full_bytes: u64,
    /// Unique data in the full store when references are updated, and the smallest change.
    filled_bytes: u64,
    change_bytes: u64,
    /// Bytes of each restored stream.
    restored_bytes: u64,
}

impl Size {
    fn of(extent: Extent) -> Self {
        match extent {
            Extent::Quick => Self {
                index_divisor: 8,
                halving_bytes: 16 << 20,
                repeated_containers: 2048,
                runs_containers: 512,
                image_divisor: 8,
                stream_bytes: 1 << 30,
                streams: vec![1, 4, 16],
                repeats: 2,
                near_full_bytes: 32 << 20,
                filled_bytes: 8 << 30,
                change_bytes: 128 << 20,
                restored_bytes: 256 << 20,
            },
            Extent::Full => Self {
                index_divisor: 1,
                halving_bytes: 64 << 20,
                repeated_containers: 8192,
                runs_containers: 2048,
                image_divisor: 1,
                stream_bytes: 4 << 30,
                streams: vec![1, 4, 16, 32, 64],
                repeats: 3,
                near_full_bytes: 256 << 20,
                filled_bytes: 64 << 30,
                change_bytes: 512 << 20,
                restored_bytes: 1 << 30,
            },
        }
    }
}

/// `3 streams`.
fn streams(n: u64) -> String {
    if n == 1 {
        "1 stream".to_owned()
    } else {
        format!("{n} streams")
    }
}

/// Nanoseconds for each of `count` actions; 0 if there are none.
#[expect(clippy::cast_precision_loss, reason = "a time")]
fn nanos_each(took: Duration, count: u64) -> f64 {
    if count == 0 {
        0.0
    } else {
        took.as_nanos() as f64 / count as f64
    }
}

#[cfg(test)]
mod tests;
