//! Memory for regions, lent and taken back.
//!
//! Memory that was touched is kept, as much as was ever in use at once: fresh pages cost the system as much
//! as filling them. What had to grow for a single huge region is not kept. Any number of threads.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use container::RegionBuffer;

/// Stored bytes that a piece has at most, unless a single region has more.
pub(crate) const PIECE_BYTES_MAX: usize = 4 << 20;
/// Memory of a buffer that is kept: a piece as stored, with the blocks at its ends, and decompressed.
const KEPT_BYTES_MAX: usize = 4 * PIECE_BYTES_MAX;

/// The spare buffers of one restore.
#[derive(Debug, Default)]
pub(crate) struct RegionPool {
    spare: Mutex<Vec<RegionBuffer>>,
}

impl RegionPool {
    /// An empty buffer.
    pub(crate) fn take(self: &Arc<Self>) -> Pooled {
        let spare = self.spare().pop();
        Pooled {
            buffer: spare.unwrap_or_default(),
            pool: Arc::clone(self),
        }
    }

    fn spare(&self) -> MutexGuard<'_, Vec<RegionBuffer>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A buffer that goes back to its pool.
#[derive(Debug)]
pub(crate) struct Pooled {
    buffer: RegionBuffer,
    pool: Arc<RegionPool>,
}

impl Deref for Pooled {
    type Target = RegionBuffer;
    fn deref(&self) -> &RegionBuffer {
        &self.buffer
    }
}

impl DerefMut for Pooled {
    fn deref_mut(&mut self) -> &mut RegionBuffer {
        &mut self.buffer
    }
}

impl Drop for Pooled {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.buffer);
        if buffer.memory_bytes() <= KEPT_BYTES_MAX {
            buffer.clear();
            self.pool.spare().push(buffer);
        }
    }
}
