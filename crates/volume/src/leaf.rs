//! A page of the map in memory: where 512 successive blocks of a volume are.
//!
//! Locks: a write in place holds the gate shared while it writes. A thread that changes an entry
//! holds the gate alone, and the lock of the volume's core. So while a write in place runs, its
//! entry stays, and nobody hashes the block (rule 1, rule 10). Readers take no lock.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use format::pool::entry::MapEntry;
use format::pool::{BLOCK_BYTES, PAGE_ENTRIES};
use types::{BlockNumber, Lba};

/// Blocks of a volume that a page is about.
pub(crate) const LEAF_BLOCKS: u64 = PAGE_ENTRIES as u64;

/// The next checkpoint writes the page.
const DIRTY: u8 = 1;
/// The present checkpoint has not copied the page yet.
const TO_COPY: u8 = 2;
/// The present checkpoint is about the page.
const IN_CHECKPOINT: u8 = 4;

/// A page of the map.
#[derive(Debug)]
pub(crate) struct Leaf {
    /// Its number: the first of its blocks, divided by [`LEAF_BLOCKS`].
    pub(crate) number: u64,
    entries: [AtomicU64; PAGE_ENTRIES],
    gate: RwLock<()>,
    flags: AtomicU8,
    /// Whether it was used since the cache looked last.
    pub(crate) is_used: AtomicU8,
    recent: Unsettled,
    older: Unsettled,
}

/// Entries that were mapped by records up to a block of log.
#[derive(Debug, Default)]
struct Unsettled {
    /// Behind the last of these blocks of log; 0 if there is no entry.
    end: AtomicU64,
    bits: [AtomicU64; PAGE_ENTRIES / 64],
}

impl Unsettled {
    fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Takes the place of this one's entries.
    fn take(&self, other: &Self) {
        for (own, others) in self.bits.iter().zip(&other.bits) {
            own.store(others.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
        self.end
            .store(other.end.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Leaf {
    /// A page of zeros.
    pub(crate) fn new(number: u64) -> Self {
        Self {
            number,
            entries: [const { AtomicU64::new(0) }; PAGE_ENTRIES],
            gate: RwLock::new(()),
            flags: AtomicU8::new(0),
            is_used: AtomicU8::new(1),
            recent: Unsettled::default(),
            older: Unsettled::default(),
        }
    }

    /// From the bytes of a stored page; `None` if an entry has no meaning.
    pub(crate) fn from_page(number: u64, page: &[u8]) -> Option<Self> {
        let leaf = Self::new(number);
        for (entry, bytes) in leaf.entries.iter().zip(page.chunks_exact(8)) {
            let packed = u64::from_le_bytes(bytes.try_into().ok()?);
            MapEntry::from_stored(packed)?;
            entry.store(packed, Ordering::Relaxed);
        }
        Some(leaf)
    }

    /// The bytes to store, and whether there is something in them.
    pub(crate) fn to_page(&self, page: &mut [u8; BLOCK_BYTES]) -> bool {
        let mut has_entry = false;
        for (index, bytes) in page.chunks_exact_mut(8).enumerate() {
            let packed = self.get(index).stored().to_u64();
            has_entry |= packed != 0;
            bytes.copy_from_slice(&packed.to_le_bytes());
        }
        has_entry
    }

    /// The first of its blocks.
    pub(crate) fn lba(&self, index: usize) -> Lba {
        Lba::new(self.number * LEAF_BLOCKS + index as u64).expect("volumes are smaller than any page number")
    }

    /// The entry at this number of the page.
    pub(crate) fn get(&self, index: usize) -> MapEntry {
        let packed = self.entries[index].load(Ordering::Acquire);
        MapEntry::from_u64(packed).expect("entries are packed here alone")
    }

    /// The blocks of the entries.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = BlockNumber> + '_ {
        (0..PAGE_ENTRIES).filter_map(|index| self.get(index).block())
    }

    /// Sets an entry. The caller holds the gate alone, and the core's lock.
    pub(crate) fn set(&self, index: usize, entry: MapEntry) {
        self.entries[index].store(entry.to_u64(), Ordering::Release);
    }

    /// Keeps the entries as they are.
    pub(crate) fn share(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no write in place runs, and keeps others out.
    pub(crate) fn hold(&self) -> RwLockWriteGuard<'_, ()> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`Self::hold`], if no write in place runs.
    pub(crate) fn try_hold(&self) -> Option<RwLockWriteGuard<'_, ()>> {
        match self.gate.try_write() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }

    /// Notes that a record in the block of log `at` mapped the entry. A durable mark covers the
    /// blocks before `settled`. The caller holds the gate alone.
    pub(crate) fn note_mapped(&self, index: usize, at: u64, settled: u64) {
        // The older ones settle while the recent ones still grow.
        if self.older.end() <= settled {
            self.older.take(&self.recent);
        }
        self.recent.end.store(at + 1, Ordering::Relaxed);
        self.recent.bits[index / 64].fetch_or(1 << (index % 64), Ordering::Relaxed);
    }

    /// Whether the log's mark behind the entry's mapping is durable, so that the block may be
    /// written in place (rule 14). A durable mark covers the blocks of log before `settled`. The
    /// caller holds the gate.
    pub(crate) fn is_settled(&self, index: usize, settled: u64) -> bool {
        [&self.recent, &self.older].iter().all(|unsettled| {
            unsettled.end() <= settled
                || unsettled.bits[index / 64].load(Ordering::Relaxed) >> (index % 64) & 1 == 0
        })
    }

    /// Marks the page for the next checkpoint; `true` if it was not marked.
    pub(crate) fn set_dirty(&self) -> bool {
        self.flags.fetch_or(DIRTY, Ordering::AcqRel) & DIRTY == 0
    }

    /// Begins a checkpoint: the page is not dirty any more, but has to be copied.
    pub(crate) fn begin_checkpoint(&self) {
        self.flags.store(TO_COPY | IN_CHECKPOINT, Ordering::Release);
    }

    /// Whether the present checkpoint has not copied the page.
    pub(crate) fn is_to_copy(&self) -> bool {
        self.flags.load(Ordering::Acquire) & TO_COPY != 0
    }

    /// The present checkpoint has copied the page.
    pub(crate) fn set_copied(&self) {
        self.flags.fetch_and(!TO_COPY, Ordering::AcqRel);
    }

    /// The checkpoint is durable.
    pub(crate) fn end_checkpoint(&self) {
        self.flags.fetch_and(!(TO_COPY | IN_CHECKPOINT), Ordering::AcqRel);
    }

    /// Whether the stored page is equal.
    pub(crate) fn is_clean(&self) -> bool {
        self.flags.load(Ordering::Acquire) == 0
    }
}

#[cfg(test)]
mod tests;
