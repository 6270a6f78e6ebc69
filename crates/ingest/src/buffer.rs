//! Buffers that are used again.
//!
//! Readers fill them, chunks are slices of them, and the last holder gives them back. A buffer has
//! room in front of its bytes, so that the unfinished chunk of the buffer before is joined to it by
//! copying some KiB instead of the whole. Memory is bounded by the queues that buffers travel
//! through, not here: a limit here could leave a segment waiting for buffers that it holds itself.
//! A holder that could keep a buffer for long asks whether buffers are scarce. If they are, it
//! copies the bytes that it needs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use env::{ALIGN_BYTES, AlignedBuffer};

/// So many bytes of spare buffers are kept: what many backups that take turns use together.
const SPARE_BYTES_MAX: usize = 80 << 20;
/// If more buffers than this are in use, they are scarce: it is more than the queues and a window
/// of look-up hold.
const LENT_MAX: usize = 64;

/// Hands out buffers of one size and takes them back.
#[derive(Debug, Clone)]
pub(crate) struct BufferPool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    headroom: usize,
    capacity: usize,
    spare: Mutex<Vec<AlignedBuffer>>,
    lent: AtomicUsize,
}

impl BufferPool {
    /// Buffers with room for `capacity` bytes after at least `headroom` spare ones. The room itself
    /// begins at an address that direct disk reads accept.
    #[must_use]
    pub(crate) fn new(capacity: usize, headroom: usize) -> Self {
        Self {
            shared: Arc::new(Shared {
                headroom: headroom.next_multiple_of(ALIGN_BYTES),
                capacity,
                spare: Mutex::new(Vec::new()),
                lent: AtomicUsize::new(0),
            }),
        }
    }

    /// Bytes that a buffer has room for.
    #[must_use]
    pub(crate) fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Whether its buffers are of this shape.
    #[must_use]
    pub(crate) fn is_for(&self, capacity: usize, headroom: usize) -> bool {
        self.shared.capacity == capacity && self.shared.headroom == headroom.next_multiple_of(ALIGN_BYTES)
    }

    /// Whether a backup has the pool, or a buffer of it.
    #[must_use]
    pub(crate) fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
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
        self.shared.lent.fetch_add(1, Ordering::Relaxed);
        let is_new = spare.is_none();
        let bytes = spare.unwrap_or_else(|| {
            let size = self.shared.headroom + self.shared.capacity;
            let mut bytes = AlignedBuffer::mapped(size);
            bytes.grow_to(size);
            bytes
        });
        Buffer {
            bytes,
            start: self.shared.headroom,
            end: self.shared.headroom,
            is_new,
            home: Arc::clone(&self.shared),
        }
    }
}

/// Some bytes in a reusable buffer.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: AlignedBuffer,
    start: usize,
    end: usize,
    is_new: bool,
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

    /// Whether more of its kind are in use than should be kept for long.
    #[must_use]
    pub(crate) fn is_scarce(&self) -> bool {
        self.home.lent.load(Ordering::Relaxed) > LENT_MAX
    }

    /// Whether its memory is new. The system provides a new page when it is touched first, which
    /// takes longer than many a source.
    #[must_use]
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Whether nothing more fits.
    #[must_use]
    pub(crate) fn is_full(&self) -> bool {
        self.end == self.bytes.len()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.home.lent.fetch_sub(1, Ordering::Relaxed);
        let is_untouched = self.is_new && self.start == self.end;
        if is_untouched {
            // The system has provided no page of it yet. Its next holder would wait for the pages,
            // and not know why.
            return;
        }
        let bytes = std::mem::replace(&mut self.bytes, AlignedBuffer::with_capacity(0));
        let mut spare = self.home.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() * self.home.capacity < SPARE_BYTES_MAX {
            spare.push(bytes);
        }
    }
}

/// The bytes of a chunk in a buffer, from this offset on.
#[derive(Debug, Clone)]
pub(crate) struct InBuffer {
    pub(crate) buffer: Arc<Buffer>,
    pub(crate) offset: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_new_until_somebody_has_filled_it() {
        let pool = BufferPool::new(ALIGN_BYTES, 0);
        drop(pool.take());
        let mut buffer = pool.take();
        assert!(buffer.is_new(), "the first one was given back untouched");
        buffer.advance(1);
        drop(buffer);
        let buffer = pool.take();
        assert!(!buffer.is_new());
        drop(buffer);
        assert!(!pool.take().is_new(), "untouched this time, but not new");
    }
}
