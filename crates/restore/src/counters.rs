//! Counters that other threads may read while a restore runs.

use std::sync::atomic::AtomicU64;

/// Counters that other threads may read while a restore runs.
#[derive(Debug, Default)]
pub struct RestoreCounters {
    /// Files restored.
    pub files: AtomicU64,
    /// Bytes of content written or skipped as zeros.
    pub bytes: AtomicU64,
    /// Bytes of content in all; known once the restore has surveyed the listing.
    pub bytes_total: AtomicU64,
}
