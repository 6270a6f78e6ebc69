//! Settings of one backup's pipeline.

use std::time::Duration;

use container::Compression;
use index::Eviction;

use crate::dedup::Capping;

/// At which regions are compressed if nobody says otherwise: decision 18 says why.
pub const COMPRESSION_LEVEL: i32 = 1;

/// Memory of look-ups, of one backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupMemory {
    /// For the fingerprints of prefetched catalogs of chunks, in bytes; 42 for each.
    pub catalog_bytes: u64,
    /// For those of segments' nodes, in bytes.
    pub node_bytes: u64,
    /// For the fingerprints of what the backup itself has stored, in bytes.
    pub own_bytes: u64,
    /// Segments of its own that a backup recognises whole; some 64 bytes each.
    pub own_segments_max: usize,
    /// Which catalogs are forgotten first.
    pub eviction: Eviction,
}

impl LookupMemory {
    /// So many bytes in all, besides [`Self::own_segments_max`].
    #[must_use]
    pub fn within(bytes: u64) -> Self {
        let node_bytes = bytes / 16;
        let catalog_bytes = bytes / 2;
        Self {
            catalog_bytes,
            node_bytes,
            own_bytes: bytes - catalog_bytes - node_bytes,
            own_segments_max: 1 << 15,
            eviction: Eviction::ContainerLru,
        }
    }
}

impl Default for LookupMemory {
    fn default() -> Self {
        Self::within(32 << 20)
    }
}

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
    /// How many containers a stretch of the backup may refer to.
    pub capping: Capping,
    /// Memory of look-ups.
    pub lookup: LookupMemory,
}

impl IngestOptions {
    /// The defaults for a machine with `cores` processor cores.
    #[must_use]
    pub fn for_cores(cores: usize) -> Self {
        Self {
            compression: Compression::Auto {
                level: COMPRESSION_LEVEL,
            },
            workers: cores.max(1),
            writers: 2,
            checkpoint_bytes: 64 << 20,
            checkpoint_interval: Duration::from_secs(30),
            small_bytes_max: 1 << 20,
            capping: Capping::default(),
            lookup: LookupMemory::default(),
        }
    }
}
