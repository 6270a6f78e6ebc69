//! Settings of one backup's pipeline.

use std::time::Duration;

use container::Compression;

use crate::dedup::{Capping, LookupMemory};
use crate::sample::VerifyKnown;

/// The default level at which regions are compressed; decision 18 has the reasons.
pub const COMPRESSION_LEVEL: i32 = 1;

/// The level while the network is what slows a backup. Level 3 makes text a tenth smaller than
/// level 1, and takes twice the time; higher levels gain hardly more with regions of 128 KiB.
pub const SLOW_LINE_LEVEL: i32 = 3;

/// The options of one backup. The permanent settings of stored bytes are in the store's config.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct IngestOptions {
    /// How regions are compressed.
    pub compression: Compression,
    /// The zstd level while the network to the store is what slows the backup, if that is higher
    /// than that of `compression`. `None`: the level does not change.
    pub slow_line_level: Option<i32>,
    /// Worker threads for fingerprints and compression; at least 1. Backups share them: the backup
    /// that wants most decides how many there are.
    pub workers: usize,
    /// Threads that seal and put containers; at least 1, and shared like `workers`.
    pub writers: usize,
    /// Threads that read small files of a tree; at least 1. One fewer reads sections of a large
    /// file.
    pub readers: usize,
    /// Put a checkpoint after so many bytes stored (or 1/256 of all stored bytes, if that is more),
    /// ...
    pub checkpoint_bytes: u64,
    /// ... or after this time, if any bytes were stored.
    pub checkpoint_interval: Duration,
    /// Whether checkpoints of a single stream state its position, so that a later backup can
    /// continue there. Each such checkpoint seals the open containers.
    pub is_resumable: bool,
    /// One in so many checkpoints of a resumable backup states positions.
    pub checkpoints_a_position: u64,
    /// A backup with at most so many stored bytes is one container of kind `small`; 0 never makes
    /// one.
    pub small_bytes_max: usize,
    /// How many containers a stretch of the backup may refer to. `None`: [`Capping`]'s default. If
    /// the backup refers to segments, there is no cap.
    pub capping: Option<Capping>,
    /// Memory of look-ups.
    pub lookup: LookupMemory,
    /// How many of the reused containers the backup reads.
    pub verify_known: VerifyKnown,
}

types::setters!(IngestOptions {
    compression: Compression,
    slow_line_level: Option<i32>,
    workers: usize,
    writers: usize,
    readers: usize,
    checkpoint_bytes: u64,
    checkpoint_interval: Duration,
    is_resumable: bool,
    checkpoints_a_position: u64,
    small_bytes_max: usize,
    capping: Option<Capping>,
    lookup: LookupMemory,
    verify_known: VerifyKnown,
});

impl Default for IngestOptions {
    /// For this machine.
    fn default() -> Self {
        Self::for_cores(std::thread::available_parallelism().map_or(1, std::num::NonZero::get))
    }
}

impl IngestOptions {
    /// The defaults for a machine with `cores` processor cores.
    #[must_use]
    pub fn for_cores(cores: usize) -> Self {
        Self {
            compression: Compression::Auto {
                level: COMPRESSION_LEVEL,
            },
            slow_line_level: Some(SLOW_LINE_LEVEL),
            workers: cores.max(1),
            writers: 2,
            // On a cold disk they wait most of the time.
            readers: 4,
            checkpoint_bytes: 64 << 20,
            checkpoint_interval: Duration::from_secs(30),
            is_resumable: false,
            checkpoints_a_position: 4,
            small_bytes_max: 1 << 20,
            capping: None,
            lookup: LookupMemory::default(),
            verify_known: VerifyKnown::NONE,
        }
    }
}
