//! Buffers that are used again.
//!
//! Readers fill them, chunks are slices of them, and the last holder gives them back. A buffer has room
//! in front of its bytes, so that the unfinished chunk of the buffer before is joined to it by copying
//! some KiB instead of the whole. Memory is bounded by the queues that buffers travel through, not here:
//! a limit here could leave a segment waiting for buffers that it holds itself.

use std::sync::{Arc, Mutex, PoisonError};

/// How many spare buffers are kept; more than the queues hold is of no use.
const SPARE_MAX: usize = 24;

/// Hands out buffers of one size and takes them back.
#[derive(Debug, Clone)]
pub(crate) struct BufferPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    headroom: usize,
    capacity: usize,
    spare: Mutex<Vec<Box<[u8]>>>,
}

impl BufferPool {
    /// Buffers with room for `capacity` bytes behind `headroom` spare ones.
    #[must_use]
    pub(crate) fn new(capacity: usize, headroom: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                headroom,
                capacity,
                spare: Mutex::new(Vec::new()),
            }),
        }
    }

    /// Bytes that a buffer has room for.
    #[must_use]
    pub(crate) fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// An empty buffer.
    #[must_use]
    pub(crate) fn take(&self) -> Buffer {
        let spare = self
            .shared
            .spare
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let size = self.shared.headroom + self.shared.capacity;
        let bytes = spare.unwrap_or_else(|| vec![0; size].into_boxed_slice());
        Buffer {
            bytes,
            start: self.shared.headroom,
            end: self.shared.headroom,
            home: Arc::clone(&self.shared),
        }
    }
}

/// Some bytes in a reusable buffer.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    home: Arc<Shared>,
}

impl Buffer {
    /// The bytes in it.
    #[must_use]
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Room for more bytes behind those in it.
    pub(crate) fn spare_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.end..]
    }

    /// Counts the first `n` spare bytes as filled.
    ///
    /// # Panics
    /// When there is less room: the caller would have written outside.
    pub(crate) fn advance(&mut self, n: usize) {
        assert!(n <= self.bytes.len() - self.end, "advanced past the buffer's end");
        self.end += n;
    }

    /// Puts bytes in front of those in it.
    ///
    /// # Panics
    /// When they are more than the headroom: the longest chunk bounds them.
    pub(crate) fn prepend(&mut self, front: &[u8]) {
        assert!(
            front.len() <= self.start,
            "more bytes carried over than the headroom holds"
        );
        let start = self.start - front.len();
        self.bytes[start..self.start].copy_from_slice(front);
        self.start = start;
    }

    /// Whether nothing more fits.
    #[must_use]
    pub(crate) fn is_full(&self) -> bool {
        self.end == self.bytes.len()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut spare = self.home.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE_MAX {
            spare.push(bytes);
        }
    }
}
