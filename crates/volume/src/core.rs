//! What a volume's lock protects: free blocks, the log's buffer, dropped blocks, the batch under
//! way.
//!
//! Invariant: the methods here change the map and the lists in the same way while the volume is
//! served and while its log is replayed. A change is appended to the log before it is made, under
//! the same lock, so the order of the log is the order of the changes.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use format::pool::entry::MapEntry;
use format::pool::record::{DecidedOutcome, FoundOutcome, Record};
use format::pool::state::VolumeState;
use format::pool::{BLOCK_BYTES, EXTENT_BLOCKS};
use types::{BatchSequence, BlockNumber, VolumeId};

use crate::error::Result;
use crate::free::FreeBlocks;
use crate::leaf::Leaf;
use crate::log::LogBuffer;
use crate::references::Unreferenced;

/// A block that no mapping names any more. It is free when the record that dropped it was flushed
/// and marked (rule 6), and its readers have ended (rule 7).
#[derive(Debug, Clone, Copy)]
struct Dropped {
    block: BlockNumber,
    /// The sequence number of the record's block of log.
    at: u64,
    /// The readers' era.
    era: u64,
}

/// A mark in the log.
#[derive(Debug, Clone, Copy)]
struct Mark {
    /// The sequence number of its block of log.
    at: u64,
    covers: u64,
}

/// Blocks that a changed page takes of the next checkpoint: its own, and one of a page above.
pub(crate) const PAGE_BLOCKS: u64 = 2;

/// A page as it was when a checkpoint began.
pub(crate) type PageCopy = (u64, Box<[u8; BLOCK_BYTES]>, bool);

/// The state of a volume beside its map.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) free: FreeBlocks,
    pub(crate) log: LogBuffer,
    limbo: VecDeque<Dropped>,
    pub(crate) unreferenced: VecDeque<Unreferenced>,
    /// References to blocks that the collector could not read.
    pub(crate) aside: Vec<Unreferenced>,
    /// References of the batch under way, which a checkpoint stores as well.
    pub(crate) in_batch: usize,
    /// Pages that the answers to the finder's batch under way may change.
    pub(crate) batch_pages: usize,
    /// Blocks that the finder or the collector could not read.
    pub(crate) unreadable: BTreeSet<BlockNumber>,
    pub(crate) with_finder: HashSet<BlockNumber>,
    /// Runs that were taken for writes whose records are not appended yet. A checkpoint counts them
    /// as free.
    pub(crate) reserved: BTreeMap<BlockNumber, u32>,
    /// Pages that these writes are about to change, each counted for itself.
    pub(crate) reserved_pages: usize,
    /// The last batch that was answered; 0 before the first one.
    pub(crate) batch: u64,
    pub(crate) suspects: BTreeSet<BlockNumber>,
    pub(crate) different: HashSet<BlockNumber>,
    pub(crate) taken: BTreeMap<VolumeId, u64>,
    pub(crate) given: BTreeMap<VolumeId, u64>,
    pub(crate) mapped: u64,
    pub(crate) counted: u64,
    /// Pages for the next checkpoint.
    pub(crate) dirty: Vec<Arc<Leaf>>,
    /// Pages that were changed before the present checkpoint had copied them.
    pub(crate) copies: Vec<PageCopy>,
    /// Blocks of log before this one were flushed, and a mark says so.
    pub(crate) marked: u64,
    /// Marks that are not known to be durable, in order.
    marks: VecDeque<Mark>,
    /// A mark that is durable covers the log before this block.
    settled: u64,
    /// Extents that came from the pool since the last checkpoint.
    pub(crate) credited: Vec<(types::ExtentNumber, u32)>,
    pub(crate) birth: u32,
    pub(crate) era: u64,
    /// The next checkpoint has to store the state, whatever else changed.
    pub(crate) is_changed: bool,
}

impl Core {
    /// The state of a checkpoint. `log` was begun for it.
    pub(crate) fn new(state: &VolumeState, free: FreeBlocks, log: LogBuffer, birth: u32) -> Self {
        let unreferenced = state.unreferenced.iter();
        Self {
            free,
            log,
            limbo: VecDeque::new(),
            unreferenced: unreferenced
                .map(|(block, count)| Unreferenced {
                    block: *block,
                    count: *count,
                    at: 0,
                    ready_era: 0,
                })
                .collect(),
            aside: Vec::new(),
            in_batch: 0,
            batch_pages: 0,
            unreadable: BTreeSet::new(),
            with_finder: HashSet::new(),
            reserved: BTreeMap::new(),
            reserved_pages: 0,
            batch: state.batch.map_or(0, BatchSequence::get),
            suspects: state.suspects.iter().copied().collect(),
            different: state.different.iter().copied().collect(),
            taken: state.taken.iter().copied().collect(),
            given: state.given.iter().copied().collect(),
            mapped: state.mapped,
            counted: state.counted,
            dirty: Vec::new(),
            copies: Vec::new(),
            marked: 0,
            marks: VecDeque::new(),
            settled: 0,
            credited: Vec::new(),
            birth,
            era: 0,
            is_changed: false,
        }
    }

    /// Appends a record to the log.
    pub(crate) fn append(&mut self, record: &Record) -> Result<u64> {
        self.log.append(record, &mut self.free)
    }

    /// A flush has ended that covers the log before this block. Flushes may end in any order.
    pub(crate) fn flushed(&mut self, covers: u64) -> Result<()> {
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.at < covers) {
            self.settled = mark.covers;
        }
        if covers > self.marked {
            if self.log.is_unmarked(self.marked) {
                let at = self.append(&Record::FlushMark { covers })?;
                self.marks.push_back(Mark { at, covers });
            }
            self.marked = covers;
        }
        Ok(())
    }

    /// Entries whose record is in a block of log before this one may be written in place.
    pub(crate) const fn settled(&self) -> u64 {
        self.settled
    }

    /// All that the log says is durable.
    pub(crate) fn settle(&mut self) {
        self.settled = self.log.position().sequence;
    }

    /// Whether the log has room for the records of an operation.
    pub(crate) fn has_log_room(&mut self) -> bool {
        self.take_spare();
        self.log.has_room(self.reserved.len())
    }

    /// Whether the log has room for a batch, and for operations as long as it is open.
    pub(crate) fn has_batch_room(&mut self) -> bool {
        self.take_spare();
        self.log.has_room_to_begin()
    }

    /// Gives the log a spare extent if there is one. The pages of the next checkpoint come first.
    fn take_spare(&mut self) {
        if self.log.spare().is_none() && self.free.len() >= EXTENT_BLOCKS + self.reserve() {
            self.log.take_spare(&mut self.free);
        }
    }

    /// Free blocks that are kept for the pages of the next checkpoint.
    pub(crate) fn reserve(&self) -> u64 {
        let references = self.unreferenced.len() + self.aside.len() + self.in_batch;
        let others = self.limbo.len() + self.suspects.len() + self.different.len();
        let gifts = self.taken.len() + self.given.len();
        let state_bytes = 12 * (references + others) + 16 * gifts + self.free.state_bytes();
        let pages = self.dirty.len() + self.batch_pages + self.reserved_pages;
        PAGE_BLOCKS * pages as u64 + (state_bytes / 4000) as u64 + 64
    }

    /// Sets an entry of the map. The caller holds the leaf alone.
    pub(crate) fn set(&mut self, leaf: &Arc<Leaf>, index: usize, entry: MapEntry) {
        if leaf.is_to_copy() {
            let mut page = Box::new([0; BLOCK_BYTES]);
            let has_entry = leaf.to_page(&mut page);
            leaf.set_copied();
            self.copies.push((leaf.number, page, has_entry));
        }
        if leaf.set_dirty() {
            self.dirty.push(Arc::clone(leaf));
        }
        let count = |entry: MapEntry| {
            let is_mapped = entry != MapEntry::Zero;
            let is_counted = matches!(entry, MapEntry::Counted { .. });
            (u64::from(is_mapped), u64::from(is_counted))
        };
        let (before, after) = (count(leaf.get(index)), count(entry));
        self.mapped = self.mapped + after.0 - before.0;
        self.counted = self.counted + after.1 - before.1;
        leaf.set(index, entry);
    }

    /// The volume does not refer to the block of this entry any more.
    fn drop_entry(&mut self, entry: MapEntry, at: u64) {
        match entry {
            MapEntry::Zero => {}
            MapEntry::Counted { block, .. } => self.give_back(block, 1, at),
            MapEntry::Private { block, .. } | MapEntry::Frozen { block, .. } => {
                // A block that the finder examines stays with it (rule 8).
                if !self.with_finder.contains(&block) {
                    self.drop_block(block, at);
                }
            }
        }
    }

    /// The collector will give back references to the block.
    pub(crate) fn give_back(&mut self, block: BlockNumber, count: u32, at: u64) {
        let ready_era = self.era + 2;
        // Successive references to one block, such as those of a run of equal blocks, are one.
        if let Some(last) = self.unreferenced.back_mut()
            && last.block == block
            && last.ready_era == ready_era
            && let Some(sum) = last.count.checked_add(count)
        {
            (last.count, last.at) = (sum, at);
            return;
        }
        self.unreferenced.push_back(Unreferenced {
            block,
            count,
            at,
            ready_era,
        });
    }

    /// All references that are to be given back.
    pub(crate) fn references(&self) -> impl Iterator<Item = &Unreferenced> + '_ {
        self.aside.iter().chain(&self.unreferenced)
    }

    /// Nobody refers to the block.
    pub(crate) fn drop_block(&mut self, block: BlockNumber, at: u64) {
        self.different.remove(&block);
        self.unreadable.remove(&block);
        let era = self.era;
        self.limbo.push_back(Dropped { block, at, era });
    }

    /// Takes a block out of limbo, because the finder has it.
    pub(crate) fn take_from_limbo(&mut self, block: BlockNumber) {
        if let Some(place) = self.limbo.iter().position(|dropped| dropped.block == block) {
            self.limbo.remove(place);
        }
    }

    /// Frees the blocks in limbo that a mark covers and that no reader can be at. `era` is the
    /// readers' present one.
    pub(crate) fn leave_limbo(&mut self, era: u64) {
        self.era = era;
        while let Some(first) = self.limbo.front() {
            if first.at >= self.marked || first.era + 2 > era {
                break;
            }
            self.free.add(first.block);
            self.limbo.pop_front();
        }
    }

    /// Frees all blocks in limbo: nobody reads, and a checkpoint will be durable before any is
    /// used.
    pub(crate) fn empty_limbo(&mut self) {
        for dropped in std::mem::take(&mut self.limbo) {
            self.free.add(dropped.block);
        }
    }

    /// Blocks in limbo.
    pub(crate) fn limbo_len(&self) -> u64 {
        self.limbo.len() as u64
    }

    /// The blocks in limbo.
    pub(crate) fn limbo(&self) -> impl Iterator<Item = BlockNumber> + '_ {
        self.limbo.iter().map(|dropped| dropped.block)
    }

    /// Maps successive blocks of the volume to successive blocks. The caller holds the leaf alone.
    pub(crate) fn map(&mut self, leaf: &Arc<Leaf>, index: usize, block: BlockNumber, count: usize, at: u64) {
        for n in 0..count {
            let new = BlockNumber::new(block.get() + n as u64).expect("the run was checked");
            self.drop_entry(leaf.get(index + n), at);
            let birth = self.birth;
            self.set(leaf, index + n, MapEntry::Private { block: new, birth });
            leaf.note_mapped(index + n, at, self.settled);
        }
    }

    /// Makes blocks of the volume zeros. The caller holds the leaf alone.
    pub(crate) fn cut(&mut self, leaf: &Arc<Leaf>, range: std::ops::Range<usize>, at: u64) {
        for index in range {
            let entry = leaf.get(index);
            if entry != MapEntry::Zero {
                self.drop_entry(entry, at);
                self.set(leaf, index, MapEntry::Zero);
            }
        }
    }

    /// The finder takes a private block in hand (rule 10). The caller holds the leaf alone.
    pub(crate) fn freeze(&mut self, leaf: &Arc<Leaf>, index: usize) -> Option<BlockNumber> {
        let MapEntry::Private { block, birth } = leaf.get(index) else {
            return None;
        };
        // It is to be examined, so it was written since it was compared.
        self.is_changed |= self.different.remove(&block);
        leaf.set(index, MapEntry::Frozen { block, birth });
        self.with_finder.insert(block);
        Some(block)
    }

    /// The finder is done with a block that it did not register: the volume has it again, or it is
    /// free. The caller holds the leaf alone.
    pub(crate) fn unfreeze(&mut self, leaf: &Arc<Leaf>, index: usize, block: BlockNumber, at: u64) {
        self.with_finder.remove(&block);
        match leaf.get(index) {
            MapEntry::Frozen { block: here, birth } if here == block => {
                leaf.set(index, MapEntry::Private { block, birth });
            }
            _ => self.drop_block(block, at),
        }
    }

    /// Nobody can ask the index whether it registered a block of the finder. So the block counts as
    /// registered: nobody writes it in place, and it is not freed, before a recount. The caller
    /// holds the leaf alone.
    pub(crate) fn count_frozen(&mut self, leaf: &Arc<Leaf>, index: usize, block: BlockNumber) {
        self.with_finder.remove(&block);
        if let MapEntry::Frozen { block: here, birth } = leaf.get(index)
            && here == block
        {
            self.set(leaf, index, MapEntry::Counted { block, birth });
        }
    }

    /// The finder found zeros in a block. The caller holds the leaf alone. Returns whether the
    /// volume's block was not written meanwhile.
    pub(crate) fn zeroed(&mut self, leaf: &Arc<Leaf>, index: usize, block: BlockNumber, at: u64) -> bool {
        self.with_finder.remove(&block);
        let is_still = leaf.get(index).block() == Some(block);
        if is_still {
            self.set(leaf, index, MapEntry::Zero);
        }
        self.drop_block(block, at);
        is_still
    }

    /// Acts on the index's answer about a block (rules 4, 5, 8). The caller holds the leaf alone.
    /// Returns whether the volume's block now refers to another block.
    pub(crate) fn found(
        &mut self,
        leaf: &Arc<Leaf>,
        index: usize,
        block: BlockNumber,
        outcome: FoundOutcome,
        at: u64,
    ) -> bool {
        self.with_finder.remove(&block);
        let frozen = match leaf.get(index) {
            MapEntry::Frozen { block: here, birth } if here == block => Some(birth),
            _ => None,
        };
        match (outcome, frozen) {
            (FoundOutcome::Registered, Some(birth)) => {
                self.set(leaf, index, MapEntry::Counted { block, birth });
                false
            }
            (FoundOutcome::Known(known), Some(birth)) => {
                self.set(leaf, index, MapEntry::Counted { block: known, birth });
                if known != block {
                    self.drop_block(block, at);
                }
                true
            }
            (FoundOutcome::Different(other), Some(birth)) => {
                leaf.set(index, MapEntry::Private { block, birth });
                self.different.insert(block);
                self.give_back(other, 1, at);
                false
            }
            (FoundOutcome::Registered, None) => {
                self.give_back(block, 1, at);
                false
            }
            (FoundOutcome::Known(other) | FoundOutcome::Different(other), None) => {
                self.give_back(other, 1, at);
                if other != block {
                    self.drop_block(block, at);
                }
                false
            }
        }
    }

    /// Acts on the index's answer about a block of the collector.
    pub(crate) fn decided(&mut self, block: BlockNumber, outcome: DecidedOutcome, at: u64) {
        match outcome {
            DecidedOutcome::Remains => {}
            DecidedOutcome::Freed => self.drop_block(block, at),
            DecidedOutcome::Unknown => {
                self.suspects.insert(block);
            }
        }
    }

    /// The state for a checkpoint. Blocks in limbo and reserved ones are free in it, and
    /// `more_free` too.
    pub(crate) fn state(
        &self,
        more_free: &[BlockNumber],
        free_extents: &[types::ExtentNumber],
    ) -> VolumeState {
        let mut free = self.free.clone();
        for extent in free_extents {
            free.add_extent(*extent);
        }
        for (first, count) in &self.reserved {
            for n in 0..u64::from(*count) {
                if let Ok(block) = BlockNumber::new(first.get() + n) {
                    free.add(block);
                }
            }
        }
        for block in self.limbo().chain(more_free.iter().copied()) {
            free.add(block);
        }
        let (free_extents, free_blocks) = free.to_lists();
        let counted = |map: &BTreeMap<VolumeId, u64>| map.iter().map(|(k, v)| (*k, *v)).collect();
        let mut different: Vec<BlockNumber> = self.different.iter().copied().collect();
        different.sort_unstable();
        VolumeState {
            batch: BatchSequence::new(self.batch)
                .ok()
                .filter(|batch| batch.get() > 0),
            mapped: self.mapped,
            counted: self.counted,
            free_extents,
            free_blocks,
            unreferenced: self.references().map(|one| (one.block, one.count)).collect(),
            suspects: self.suspects.iter().copied().collect(),
            taken: counted(&self.taken),
            given: counted(&self.given),
            different,
        }
    }

    /// Free blocks, and those that will be.
    pub(crate) fn free_len(&self) -> u64 {
        self.free.len() + self.limbo_len()
    }

    /// Extents that can go back to the pool: all but `keep` of the whole ones.
    pub(crate) fn surplus_extents(&mut self, keep: usize) -> Vec<types::ExtentNumber> {
        let mut surplus = Vec::new();
        while self.free.whole_extents() > keep {
            surplus.extend(self.free.take_extent());
        }
        surplus
    }
}

/// Blocks of log after which a checkpoint is made: 32 MiB.
pub(crate) const LOG_BLOCKS_MAX: u64 = 8 * EXTENT_BLOCKS;
