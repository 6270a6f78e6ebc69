//! Buffers that disks read and write without a copy, and a pool that keeps them for reuse.
//!
//! Invariant: an [`AlignedBuffer`]'s bytes begin at an address that is a multiple of
//! [`ALIGN_BYTES`], so they fill whole blocks. All its memory is initialised. One thread uses a
//! buffer at a time. Any number of threads may use a pool. The pool keeps used memory, because
//! fresh pages cost more than filling them. Nothing here fails unless memory runs out.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use memmap2::MmapMut;

/// Direct reads and writes have addresses, lengths and offsets that are multiples of this. No disk
/// that we know has larger blocks. If one has, the system refuses the request, and the storage
/// reads or writes through the page cache.
pub const ALIGN_BYTES: usize = 4096;

/// Larger buffers begin at multiples of this, a huge page of the usual processors (decision 17).
const HUGE_BYTES: usize = 2 << 20;

/// A growing run of bytes in aligned memory. It returns to its pool, if it has one, when it is
/// dropped.
pub struct AlignedBuffer {
    memory: Memory,
    /// Offset of the bytes in `memory`.
    start: usize,
    /// Bytes that fit behind it.
    capacity: usize,
    len: usize,
    pool: Option<Arc<Shelf>>,
}

/// The memory of a buffer.
enum Memory {
    /// The allocator's. It may keep what it gets back, in pieces that fit nothing else.
    Allocated(Vec<u8>),
    /// The system's. It has it back when the buffer is dropped.
    Mapped(MmapMut),
}

impl AlignedBuffer {
    /// An empty buffer with room for so many bytes. Memory that is new to the process costs nothing
    /// before it is touched; memory that the allocator used before is cleared here.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self::of(bytes, |len| Memory::Allocated(vec![0; len]))
    }

    /// The same in memory of its own: for large buffers that are kept and used again.
    #[must_use]
    pub fn mapped(bytes: usize) -> Self {
        Self::of(bytes, |len| {
            let mapped = MmapMut::map_anon(len);
            // Without a mapping, the allocator has the last word.
            mapped.map_or_else(|_| Memory::Allocated(vec![0; len]), Memory::Mapped)
        })
    }

    fn of(bytes: usize, memory: impl FnOnce(usize) -> Memory) -> Self {
        let (memory, start) = aligned(bytes, memory);
        Self {
            memory,
            start,
            capacity: bytes.next_multiple_of(ALIGN_BYTES),
            len: 0,
            pool: None,
        }
    }

    /// Bytes that fit without moving; a multiple of [`ALIGN_BYTES`].
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Adds bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let at = self.start + self.len;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Adds zeros.
    pub fn extend_zeros(&mut self, bytes: usize) {
        let at = self.len;
        self.grow_to(at + bytes);
        self[at..].fill(0);
    }

    /// Sets the length. New bytes have the old content of the memory.
    pub fn grow_to(&mut self, len: usize) {
        if len > self.len {
            self.reserve(len - self.len);
        }
        self.len = len;
    }

    /// Removes the bytes and keeps the memory.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    fn reserve(&mut self, more: usize) {
        if more <= self.capacity() - self.len {
            return;
        }
        let mut longer = Self::with_capacity((self.len + more).max(2 * self.capacity));
        longer.memory[longer.start..][..self.len].copy_from_slice(self);
        (self.memory, self.start, self.capacity) = (longer.take_memory(), longer.start, longer.capacity);
    }

    fn take_memory(&mut self) -> Memory {
        std::mem::replace(&mut self.memory, Memory::Allocated(Vec::new()))
    }
}

/// Zeroed memory, and an aligned offset in it. `bytes`, rounded up to whole blocks, fit behind it.
fn aligned(bytes: usize, memory: impl FnOnce(usize) -> Memory) -> (Memory, usize) {
    let room = bytes.next_multiple_of(ALIGN_BYTES);
    if room == 0 {
        return (Memory::Allocated(Vec::new()), 0);
    }
    let align = if room < HUGE_BYTES {
        ALIGN_BYTES
    } else {
        HUGE_BYTES
    };
    // Pages before and after are never touched, so the system never provides them.
    let mut memory = memory(room + align - 1);
    let start = memory.as_ptr().align_offset(align);
    assert!(start < align, "bytes can be aligned to any power of two");
    if align == HUGE_BYTES {
        ask_for_huge_pages(&mut memory[start..start + room]);
    }
    (memory, start)
}

/// Requests pages of 2 MiB, if the system has them. A disk's request takes a limited number of
/// stretches of memory (254 for a virtual disk). With small pages that is 1 MiB, and each page is
/// pinned by itself.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "advice about memory takes an address")]
fn ask_for_huge_pages(memory: &mut [u8]) {
    // SAFETY: the range is ours alone and lives beyond the call; this advice changes no byte of it.
    let asked = unsafe {
        rustix::mm::madvise(
            memory.as_mut_ptr().cast(),
            memory.len(),
            rustix::mm::Advice::LinuxHugepage,
        )
    };
    // Without huge pages it is slower, and otherwise the same.
    asked.ok();
}

#[cfg(not(target_os = "linux"))]
fn ask_for_huge_pages(_: &mut [u8]) {}

impl Deref for Memory {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Allocated(bytes) => bytes,
            Self::Mapped(bytes) => bytes,
        }
    }
}

impl DerefMut for Memory {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Allocated(bytes) => bytes,
            Self::Mapped(bytes) => bytes,
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes", self.len, self.capacity())
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if let Some(shelf) = self.pool.take() {
            shelf.keep(Self {
                memory: self.take_memory(),
                start: self.start,
                capacity: self.capacity,
                len: 0,
                pool: None,
            });
        }
    }
}

/// Lends buffers of one size and takes them back. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AlignedPool {
    shelf: Arc<Shelf>,
}

#[derive(Debug)]
struct Shelf {
    capacity: usize,
    spare_max: usize,
    spare: Mutex<Vec<AlignedBuffer>>,
}

impl AlignedPool {
    /// A pool of buffers with room for `capacity` bytes. It keeps at most `spare_max` unused ones.
    /// The borrowers decide how many they take.
    #[must_use]
    pub fn new(capacity: usize, spare_max: usize) -> Self {
        Self {
            shelf: Arc::new(Shelf {
                capacity,
                spare_max,
                spare: Mutex::default(),
            }),
        }
    }

    /// An empty buffer.
    #[must_use]
    pub fn take(&self) -> AlignedBuffer {
        let spare = self.shelf.spare().pop();
        let mut buffer = spare.unwrap_or_else(|| AlignedBuffer::mapped(self.shelf.capacity));
        buffer.pool = Some(Arc::clone(&self.shelf));
        buffer
    }
}

impl Shelf {
    fn spare(&self) -> std::sync::MutexGuard<'_, Vec<AlignedBuffer>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer that had to grow is not kept: a single large object must not hold its memory for
    /// ever.
    fn keep(&self, buffer: AlignedBuffer) {
        let usual = self.capacity.next_multiple_of(ALIGN_BYTES);
        let mut spare = self.spare();
        if buffer.capacity() == usual && spare.len() < self.spare_max {
            spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_aligned(buffer: &AlignedBuffer) -> bool {
        buffer.as_ptr().addr().is_multiple_of(ALIGN_BYTES)
    }

    #[test]
    fn growing_buffers_keep_their_bytes_and_alignment() {
        let (mut buffer, mut model) = (AlignedBuffer::with_capacity(10), Vec::new());
        for step in 0..200_usize {
            let piece = vec![u8::try_from(step).unwrap(); step * 37 % 5000];
            buffer.extend_from_slice(&piece);
            model.extend_from_slice(&piece);
            buffer.extend_zeros(step % 7);
            model.resize(model.len() + step % 7, 0);
            assert!(buffer[..] == model[..], "step {step}");
            assert!(is_aligned(&buffer), "step {step}");
            assert!(buffer.capacity() >= buffer.len() && buffer.capacity().is_multiple_of(ALIGN_BYTES));
        }
    }

    #[test]
    fn a_large_buffer_has_the_room_asked_for_at_a_huge_pages_beginning() {
        for make in [AlignedBuffer::with_capacity, AlignedBuffer::mapped] {
            let mut buffer = make(HUGE_BYTES + 1);
            assert_eq!(buffer.capacity(), HUGE_BYTES + ALIGN_BYTES);
            assert!(buffer.as_ptr().addr().is_multiple_of(HUGE_BYTES));
            buffer.extend_from_slice(&[7; 10]);
            buffer.extend_zeros(HUGE_BYTES);
            buffer.extend_from_slice(&vec![8; HUGE_BYTES]);
            assert!(buffer.as_ptr().addr().is_multiple_of(HUGE_BYTES));
            assert!(buffer[..10] == [7; 10] && buffer[10..][..HUGE_BYTES].iter().all(|byte| *byte == 0));
            assert!(buffer[10 + HUGE_BYTES..].iter().all(|byte| *byte == 8));
        }
    }

    #[test]
    fn zeros_are_zeros_in_memory_that_was_used_before() {
        let mut buffer = AlignedBuffer::with_capacity(100);
        buffer.extend_from_slice(&[7; 100]);
        buffer.clear();
        buffer.extend_zeros(50);
        assert_eq!(buffer[..], [0; 50]);
    }

    #[test]
    fn a_pool_lends_the_same_memory_again_and_keeps_no_more_than_it_may() {
        let pool = AlignedPool::new(10_000, 1);
        let (first, second) = (pool.take(), pool.take());
        assert!(is_aligned(&first) && is_aligned(&second));
        let address = first.memory.as_ptr();
        drop((first, second));
        assert_eq!(pool.shelf.spare().len(), 1);
        let mut again = pool.take();
        assert_eq!(again.memory.as_ptr(), address);
        assert!(again.is_empty());
        again.grow_to(1 << 20);
        drop(again);
        assert_eq!(pool.shelf.spare().len(), 0, "grown: not kept");
    }
}
