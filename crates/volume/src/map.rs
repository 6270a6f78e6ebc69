//! The map of a volume: where each of its blocks is (D1).
//!
//! A tree of pages of 512 entries: leaves (2 MiB of the volume each), pages of references to leaves
//! (1 GiB), and two levels above them. Leaves are cached within a budget; the pages above are in
//! memory. Pages are shadow-paged: a checkpoint writes changed pages to other blocks
//! (`checkpoint`). A missing page is zeros.
//!
//! Many threads may look up. A leaf that somebody holds, or that is not stored as it is, stays in
//! the cache.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use env::BlockDevice;
use format::FormatError;
use format::pool::entry::PageReference;
use format::pool::{BLOCK_BYTES, PAGE_ENTRIES};
use types::BlockNumber;

use crate::error::{Result, VolumeError};
use crate::leaf::Leaf;

const SHARDS: usize = 64;

/// Memory of a cached leaf, with its bookkeeping.
pub(crate) const LEAF_MEMORY_BYTES: usize = size_of::<Leaf>() + 96;

/// References to the pages below, and to the page itself.
#[derive(Debug, Clone)]
pub(crate) struct Upper {
    /// References to the pages below, packed.
    below: Box<[u64; PAGE_ENTRIES]>,
    /// Where this page is stored.
    pub(crate) stored: Option<BlockNumber>,
}

impl Default for Upper {
    fn default() -> Self {
        Self {
            below: Box::new([0; PAGE_ENTRIES]),
            stored: None,
        }
    }
}

impl Upper {
    /// From the bytes of a stored page.
    pub(crate) fn from_page(page: &[u8; BLOCK_BYTES], stored: BlockNumber) -> Self {
        let mut below = Box::new([0; PAGE_ENTRIES]);
        for (packed, bytes) in below.iter_mut().zip(page.chunks_exact(8)) {
            *packed = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        }
        let stored = Some(stored);
        Self { below, stored }
    }

    /// The bytes to store, and whether there is a reference in them.
    pub(crate) fn to_page(&self, page: &mut [u8; BLOCK_BYTES]) -> bool {
        for (bytes, packed) in page.chunks_exact_mut(8).zip(&*self.below) {
            bytes.copy_from_slice(&packed.to_le_bytes());
        }
        self.below.iter().any(|packed| *packed != 0)
    }

    /// The reference at this place; `None` if the page below is zeros.
    pub(crate) fn get(&self, index: usize) -> Option<PageReference> {
        PageReference::from_u64(self.below[index])
    }

    /// Sets the reference at this place.
    pub(crate) fn set(&mut self, index: usize, reference: Option<PageReference>) {
        self.below[index] = reference.map_or(0, PageReference::to_u64);
    }

    /// The references, with their places.
    pub(crate) fn references(&self) -> impl Iterator<Item = (usize, PageReference)> + '_ {
        let all = self.below.iter().enumerate();
        all.filter_map(|(index, packed)| Some((index, PageReference::from_u64(*packed)?)))
    }
}

/// The pages above leaves, by level and number.
#[derive(Debug, Default)]
pub(crate) struct UpperPages {
    /// Pages of references to leaves.
    pub(crate) second: BTreeMap<u64, Upper>,
    /// Pages of references to those.
    pub(crate) third: BTreeMap<u64, Upper>,
    /// The root.
    pub(crate) root: Upper,
}

/// A volume's map.
#[derive(Debug)]
pub(crate) struct Map {
    device: Arc<dyn BlockDevice>,
    shards: Vec<Mutex<HashMap<u64, Arc<Leaf>>>>,
    upper: RwLock<UpperPages>,
    cached: AtomicUsize,
    leaves_max: AtomicUsize,
}

impl Map {
    /// A map of these stored pages, with a cache of so many bytes.
    pub(crate) fn new(device: Arc<dyn BlockDevice>, upper: UpperPages, cache_bytes: usize) -> Self {
        Self {
            device,
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            upper: RwLock::new(upper),
            cached: AtomicUsize::new(0),
            leaves_max: AtomicUsize::new((cache_bytes / LEAF_MEMORY_BYTES).max(SHARDS)),
        }
    }

    fn shard(&self, number: u64) -> MutexGuard<'_, HashMap<u64, Arc<Leaf>>> {
        let index = usize::try_from(number % SHARDS as u64).unwrap_or(0);
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pages above leaves, to read.
    pub(crate) fn upper(&self) -> std::sync::RwLockReadGuard<'_, UpperPages> {
        self.upper.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pages above leaves, to change.
    pub(crate) fn upper_mut(&self) -> std::sync::RwLockWriteGuard<'_, UpperPages> {
        self.upper.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves that are in memory.
    pub(crate) fn cached(&self) -> usize {
        self.cached.load(Ordering::Relaxed)
    }

    /// Leaves that fit the budget.
    pub(crate) fn leaves_max(&self) -> usize {
        self.leaves_max.load(Ordering::Relaxed)
    }

    fn stored_leaf(&self, number: u64) -> Option<PageReference> {
        let (gib, index) = split(number);
        self.upper().second.get(&gib)?.get(index)
    }

    /// The leaf with this number; `None` if all its blocks are zeros.
    pub(crate) fn leaf(&self, number: u64) -> Result<Option<Arc<Leaf>>> {
        self.load(&mut self.shard(number), number)
    }

    /// The leaf with this number, which is made if all its blocks are zeros.
    pub(crate) fn leaf_or_new(&self, number: u64) -> Result<Arc<Leaf>> {
        let mut shard = self.shard(number);
        match self.load(&mut shard, number)? {
            Some(leaf) => Ok(leaf),
            None => Ok(self.keep(&mut shard, Leaf::new(number))),
        }
    }

    /// The shard stays locked while the page is read, so that an old page is never kept.
    fn load(&self, shard: &mut HashMap<u64, Arc<Leaf>>, number: u64) -> Result<Option<Arc<Leaf>>> {
        if let Some(leaf) = shard.get(&number) {
            leaf.is_used.store(1, Ordering::Relaxed);
            return Ok(Some(Arc::clone(leaf)));
        }
        let Some(reference) = self.stored_leaf(number) else {
            return Ok(None);
        };
        let page = read_page(&*self.device, "a page of the map", reference)?;
        let leaf = Leaf::from_page(number, &page[..]).ok_or(VolumeError::Damaged {
            what: "a page of the map",
            block: reference.block,
            why: FormatError::Invalid {
                what: "map page",
                why: "an entry has no meaning",
            },
        })?;
        Ok(Some(self.keep(shard, leaf)))
    }

    fn keep(&self, shard: &mut HashMap<u64, Arc<Leaf>>, leaf: Leaf) -> Arc<Leaf> {
        if self.cached() >= self.leaves_max() {
            self.evict(shard);
        }
        let leaf = Arc::new(leaf);
        shard.insert(leaf.number, Arc::clone(&leaf));
        self.cached.fetch_add(1, Ordering::Relaxed);
        leaf
    }

    /// Drops leaves that nobody holds, that are stored as they are, and that were not used since
    /// the last time; if there is none, any of those that nobody holds.
    fn evict(&self, shard: &mut HashMap<u64, Arc<Leaf>>) {
        let before = shard.len();
        let may_go = |leaf: &Arc<Leaf>| Arc::strong_count(leaf) == 1 && leaf.is_clean();
        let mut has_gone = false;
        shard.retain(|_, leaf| {
            let stays = !may_go(leaf) || leaf.is_used.swap(0, Ordering::Relaxed) != 0;
            has_gone |= !stays;
            stays
        });
        if !has_gone {
            let victim = shard.iter().find(|(_, leaf)| may_go(leaf));
            if let Some(number) = victim.map(|(number, _)| *number) {
                shard.remove(&number);
            }
        }
        self.cached.fetch_sub(before - shard.len(), Ordering::Relaxed);
    }

    /// The leaves that are in memory.
    pub(crate) fn in_memory(&self) -> Vec<Arc<Leaf>> {
        let mut leaves = Vec::with_capacity(self.cached());
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            leaves.extend(shard.values().cloned());
        }
        leaves
    }

    /// The numbers of leaves that are stored or cached, from `from` on, in order; at most `max`.
    pub(crate) fn numbers(&self, from: u64, to: u64, max: usize) -> Vec<u64> {
        // A leaf leaves the cache only when a page above refers to it. So the cache is read first.
        let mut cached: Vec<u64> = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            cached.extend(shard.keys().filter(|number| (from..to).contains(*number)));
        }
        let mut found: Vec<u64> = Vec::new();
        {
            let upper = self.upper();
            let (gib, _) = split(from);
            'all: for (gib, page) in upper.second.range(gib..) {
                for (index, _) in page.references() {
                    let number = gib * PAGE_ENTRIES as u64 + index as u64;
                    if number >= to || found.len() >= max {
                        break 'all;
                    }
                    if number >= from {
                        found.push(number);
                    }
                }
            }
        }
        if let Some(last) = found.last().filter(|_| found.len() >= max) {
            cached.retain(|number| number <= last);
        }
        found.append(&mut cached);
        found.sort_unstable();
        found.dedup();
        found.truncate(max);
        found
    }
}

/// The page of references that has the page of this number, and the place there.
pub(crate) fn split(number: u64) -> (u64, usize) {
    let entries = PAGE_ENTRIES as u64;
    (number / entries, usize::try_from(number % entries).unwrap_or(0))
}

/// Reads a page, and compares it with its reference.
pub(crate) fn read_page(
    device: &dyn BlockDevice,
    what: &'static str,
    reference: PageReference,
) -> Result<Box<[u8; BLOCK_BYTES]>> {
    let mut page = Box::new([0; BLOCK_BYTES]);
    let block = reference.block;
    device.read_at(block.get() * env::BLOCK_BYTES, &mut page[..])?;
    if reference.is_to(&page[..]) {
        return Ok(page);
    }
    Err(VolumeError::Damaged {
        what,
        block,
        why: FormatError::Invalid {
            what: "map page",
            why: "its digest is not the one that the page above has",
        },
    })
}

#[cfg(test)]
mod tests;
