//! Settings of one backup's pipeline.

use std::time::Duration;

use container::Compression;

/// How a backup is made. What shapes the stored bytes for good stands in the store's config instead.
#[derive(Debug, Clone)]
pub struct IngestOptions {
    /// How regions are compressed.
    pub compression: Compression,
    /// Worker threads for fingerprints and compression; at least 1.
    pub workers: usize,
    /// Threads that seal and put containers; at least 1.
    pub writers: usize,
    /// A checkpoint after so many bytes stored (or 1/256 of all that is stored, if that is more), ...
    pub checkpoint_bytes: u64,
    /// ... or after this time with anything stored.
    pub checkpoint_interval: Duration,
    /// Up to so many stored bytes, a backup is one container of kind `small`; 0 never makes one.
    pub small_bytes_max: usize,
}

impl IngestOptions {
    /// The defaults for a machine with `cores` processor cores.
    #[must_use]
    pub fn for_cores(cores: usize) -> Self {
        Self {
            compression: Compression::Auto { level: 3 },
            workers: cores.max(1),
            writers: 2,
            checkpoint_bytes: 64 << 20,
            checkpoint_interval: Duration::from_secs(30),
            small_bytes_max: 1 << 20,
        }
    }
}
