//! Reusable memory for regions.
//!
//! The pool keeps used memory, as much as was ever in use at once: a fresh page costs as much as
//! filling it. It does not keep a buffer that grew for a single huge region. The two halves of a
//! buffer, for read and for decompressed bytes, are returned separately, because a piece seldom
//! needs both. Any number of threads may use it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use container::{PlainBuffer, RegionBuffer};
use env::AlignedBuffer;

use crate::read_sizes::ReadSizes;

/// The spare memory of one restore.
#[derive(Debug)]
pub(crate) struct RegionPool {
    /// The most memory of half a buffer that the pool keeps: a piece as stored, with the blocks at
    /// its ends, or decompressed.
    kept_bytes_max: usize,
    spare: Mutex<Spare>,
}

#[derive(Debug, Default)]
struct Spare {
    stored: Vec<AlignedBuffer>,
    plain: Vec<PlainBuffer>,
}

impl RegionPool {
    /// For reads of these sizes.
    pub(crate) fn new(sizes: ReadSizes) -> Self {
        Self {
            kept_bytes_max: 2 * sizes.piece_bytes_max,
            spare: Mutex::default(),
        }
    }

    /// An empty buffer.
    pub(crate) fn take(self: &Arc<Self>) -> Pooled {
        let mut spare = self.spare();
        let (stored, plain) = (spare.stored.pop(), spare.plain.pop());
        drop(spare);
        let stored = stored.unwrap_or_else(|| AlignedBuffer::with_capacity(0));
        Pooled {
            buffer: RegionBuffer::of(stored, plain.unwrap_or_default()),
            pool: Arc::clone(self),
        }
    }

    fn keep(&self, stored: Option<AlignedBuffer>, plain: Option<PlainBuffer>) {
        let kept = 1..=self.kept_bytes_max;
        let stored = stored.filter(|stored| kept.contains(&stored.capacity()));
        let plain = plain.filter(|plain| kept.contains(&plain.memory_bytes()));
        let mut spare = self.spare();
        spare.stored.extend(stored);
        spare.plain.extend(plain);
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Numbers of spare halves: for read and for decompressed bytes.
    #[cfg(test)]
    pub(crate) fn spare_count(&self) -> (usize, usize) {
        let spare = self.spare();
        (spare.stored.len(), spare.plain.len())
    }
}

/// A buffer that returns its memory to its pool.
#[derive(Debug)]
pub(crate) struct Pooled {
    buffer: RegionBuffer,
    pool: Arc<RegionPool>,
}

impl Pooled {
    /// Returns empty halves at once.
    pub(crate) fn give_back_unused(&mut self) {
        let (stored, plain) = self.buffer.take_unused();
        self.pool.keep(stored, plain);
    }
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
        let (stored, plain) = std::mem::take(&mut self.buffer).into_memory();
        self.pool.keep(Some(stored), Some(plain));
    }
}
