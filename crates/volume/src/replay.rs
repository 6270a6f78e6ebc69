//! Replays the log of a volume over the state of its last checkpoint.
//!
//! The changes are those of `core`, judged by the map as it is replayed: if a `Map` does not count,
//! later records meet the entry that it would have replaced.

use std::sync::Arc;

use env::{AlignedBuffer, BlockDevice};
use format::pool::BLOCK_BYTES;
use format::pool::entry::MapEntry;
use format::pool::record::{DecidedOutcome, FoundOutcome, IntentBlock, Record, block_digest};
use types::{BlockNumber, Fingerprint, Lba, VolumeId};

use crate::core::Core;
use crate::error::{Result, VolumeError};
use crate::extents::Grant;
use crate::free::each_block;
use crate::leaf::{LEAF_BLOCKS, Leaf};
use crate::map::Map;
use crate::references::take_references;
use crate::shared::Gift;
use crate::slot::BatchContent;
use crate::unreadable::try_read;

/// Replays records.
pub(crate) struct Replay<'a> {
    volume: VolumeId,
    device: &'a dyn BlockDevice,
    map: &'a Map,
    core: &'a mut Core,
    /// Blocks of log before this one are covered by a mark.
    pub(crate) trusted: u64,
    pub(crate) blocks: u64,
    /// The batch of which all intents, and not all answers, were met.
    pub(crate) open: Option<(u64, BatchContent)>,
    /// How many of its answers were met.
    pub(crate) answered: usize,
    /// The intents of a batch whose last one was not met.
    partial: Vec<IntentBlock>,
    partial_dec: Vec<(BlockNumber, Fingerprint, u32)>,
    pub(crate) returned: Vec<Grant>,
    pub(crate) credited: Vec<Grant>,
    pub(crate) gifts: Vec<Gift>,
    pub(crate) held: Vec<Arc<Leaf>>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        volume: VolumeId,
        device: &'a dyn BlockDevice,
        map: &'a Map,
        core: &'a mut Core,
        blocks: u64,
    ) -> Self {
        Self {
            volume,
            device,
            map,
            core,
            trusted: 0,
            blocks,
            open: None,
            answered: 0,
            partial: Vec::new(),
            partial_dec: Vec::new(),
            returned: Vec::new(),
            credited: Vec::new(),
            gifts: Vec::new(),
            held: Vec::new(),
        }
    }

    fn wrong(why: String) -> VolumeError {
        VolumeError::Contradiction {
            volume: String::new(),
            why,
        }
    }

    fn leaf(&self, lba: Lba) -> Result<(Arc<Leaf>, usize)> {
        let leaf = self.map.leaf_or_new(lba.get() / LEAF_BLOCKS)?;
        Ok((leaf, usize::try_from(lba.get() % LEAF_BLOCKS).unwrap_or(0)))
    }

    /// Makes the change of a record again. `at` is the number of its block of log.
    pub(crate) fn record(&mut self, at: u64, record: Record) -> Result<()> {
        match record {
            Record::Map { lba, block, digests } => self.map(at, lba, block, &digests)?,
            Record::Cut { lba, count } => {
                let (leaf, index) = self.leaf(lba)?;
                let end = index + usize::try_from(count).unwrap_or(usize::MAX);
                if end > leaf_len() {
                    return Err(Self::wrong(format!("a cut at {lba} crosses a page")));
                }
                self.core.cut(&leaf, index..end, at);
            }
            Record::Intent {
                batch,
                is_last,
                blocks,
            } => {
                self.partial.extend(blocks);
                if is_last {
                    self.intent(batch.get())?;
                }
            }
            Record::Found {
                batch,
                from,
                outcomes,
            } => self.found(at, batch.get(), from as usize, &outcomes)?,
            Record::DecIntent {
                batch,
                is_last,
                blocks,
            } => {
                self.partial_dec.extend(blocks);
                if is_last {
                    self.dec_intent(batch.get())?;
                }
            }
            Record::Decided {
                batch,
                from,
                outcomes,
            } => self.decided(at, batch.get(), from as usize, &outcomes)?,
            Record::Extents { extents } => {
                for (extent, _) in &extents {
                    self.core.free.add_extent(*extent);
                }
                self.returned.retain(|grant| !extents.contains(grant));
                self.credited.extend(extents);
            }
            Record::Returned { extents } => {
                for (extent, _) in &extents {
                    if !self.core.free.remove_extent(*extent) {
                        return Err(Self::wrong(format!(
                            "extent {extent} went back to the pool, but was not free"
                        )));
                    }
                }
                self.credited.retain(|grant| !extents.contains(grant));
                self.returned.extend(extents);
            }
            Record::Give { to, gift, runs } => {
                for block in each_block(&runs) {
                    self.core.free.remove(block);
                }
                self.core.given.insert(to, gift);
                self.gifts.push(Gift {
                    from: self.volume,
                    to,
                    number: gift,
                    runs,
                });
            }
            Record::Take { from, gift, runs } => {
                for block in each_block(&runs) {
                    self.core.free.add(block);
                }
                self.core.taken.insert(from, gift);
            }
            Record::FlushMark { covers } => {
                self.core.marked = covers;
                self.core.leave_limbo(u64::MAX);
                self.core.era = 0;
            }
            Record::Resized { blocks } => self.blocks = blocks,
        }
        Ok(())
    }

    fn map(&mut self, at: u64, lba: Lba, block: BlockNumber, digests: &[u64]) -> Result<()> {
        let (leaf, index) = self.leaf(lba)?;
        if index + digests.len() > leaf_len() {
            return Err(Self::wrong(format!(
                "blocks that are mapped at {lba} cross a page"
            )));
        }
        let found = if at < self.trusted {
            None
        } else {
            Some(self.digests(block, digests.len())?)
        };
        for (n, digest) in digests.iter().enumerate() {
            let is_there = found.as_ref().is_none_or(|found| found[n] == Some(*digest));
            let new = BlockNumber::new(block.get() + n as u64);
            let new = new.map_err(|error| Self::wrong(error.to_string()))?;
            if !is_there {
                continue;
            }
            if !self.core.free.remove(new) {
                return Err(Self::wrong(format!(
                    "block {new} is mapped at {lba}, but was not free"
                )));
            }
            self.core.map(&leaf, index + n, new, 1, at);
        }
        Ok(())
    }

    /// The digests of blocks in a row. A block that the device cannot read has none: a power cut
    /// may have left it so.
    fn digests(&self, first: BlockNumber, count: usize) -> Result<Vec<Option<u64>>> {
        let mut content = AlignedBuffer::with_capacity(count * BLOCK_BYTES);
        content.grow_to(count * BLOCK_BYTES);
        if try_read(self.device, first, &mut content)? {
            let blocks = content.chunks_exact(BLOCK_BYTES).take(count);
            return Ok(blocks.map(|block| Some(block_digest(block))).collect());
        }
        let mut digests = Vec::with_capacity(count);
        for (n, content) in content.chunks_exact_mut(BLOCK_BYTES).take(count).enumerate() {
            let block = BlockNumber::new(first.get() + n as u64);
            let block = block.map_err(|error| Self::wrong(error.to_string()))?;
            let is_read = try_read(self.device, block, content)?;
            if !is_read {
                tracing::warn!(volume = %self.volume, %block, "the device cannot read a block that was written last");
            }
            digests.push(is_read.then(|| block_digest(content)));
        }
        Ok(digests)
    }

    /// Whether the batch was met before: a checkpoint that did not end has repeated its intents.
    fn is_open(&self, batch: u64) -> bool {
        self.open.as_ref().is_some_and(|(open, _)| *open == batch)
    }

    /// The finder had these blocks in hand.
    fn intent(&mut self, batch: u64) -> Result<()> {
        let blocks = std::mem::take(&mut self.partial);
        if self.is_open(batch) {
            return Ok(());
        }
        for one in &blocks {
            let (leaf, index) = self.leaf(one.lba)?;
            match leaf.get(index) {
                MapEntry::Private { block, .. } if block == one.block => {
                    self.core.freeze(&leaf, index);
                }
                _ => {
                    // It was written before the intent was appended: the block is in limbo, or
                    // free.
                    self.core.take_from_limbo(one.block);
                    self.core.free.remove(one.block);
                    self.core.with_finder.insert(one.block);
                }
            }
            self.held.push(leaf);
        }
        (self.open, self.answered) = (Some((batch, BatchContent::Intent(blocks))), 0);
        Ok(())
    }

    fn found(&mut self, at: u64, batch: u64, from: usize, outcomes: &[FoundOutcome]) -> Result<()> {
        let Some((open, BatchContent::Intent(blocks))) = &self.open else {
            return Err(Self::wrong(format!(
                "answers to batch {batch}, which is not open"
            )));
        };
        let (open, count) = (*open, blocks.len());
        let answered = blocks.get(from..from + outcomes.len());
        let answered = answered
            .ok_or_else(|| Self::wrong("too many answers".to_owned()))?
            .to_vec();
        for (one, outcome) in answered.iter().zip(outcomes) {
            let (leaf, index) = self.leaf(one.lba)?;
            self.core.found(&leaf, index, one.block, *outcome, at);
        }
        self.answered = from + outcomes.len();
        if self.answered >= count {
            self.core.batch = open;
            self.open = None;
            self.held.clear();
        }
        Ok(())
    }

    fn decided(&mut self, at: u64, batch: u64, from: usize, outcomes: &[DecidedOutcome]) -> Result<()> {
        let Some((open, BatchContent::DecIntent(blocks))) = &self.open else {
            return Err(Self::wrong(format!(
                "answers to batch {batch}, which is not open"
            )));
        };
        let (open, count) = (*open, blocks.len());
        for (number, outcome) in outcomes.iter().enumerate() {
            let decided = blocks.get(from + number);
            let (block, _, _) = decided.ok_or_else(|| Self::wrong("too many answers".to_owned()))?;
            self.core.decided(*block, *outcome, at);
        }
        self.answered = from + outcomes.len();
        if self.answered >= count {
            self.core.batch = open;
            self.open = None;
        }
        Ok(())
    }

    /// The collector took these references.
    fn dec_intent(&mut self, batch: u64) -> Result<()> {
        let blocks = std::mem::take(&mut self.partial_dec);
        if self.is_open(batch) {
            return Ok(());
        }
        if !take_references(&mut self.core.unreferenced, &blocks) {
            return Err(Self::wrong(format!("batch {batch} gives back too much")));
        }
        (self.open, self.answered) = (Some((batch, BatchContent::DecIntent(blocks))), 0);
        Ok(())
    }
}

const fn leaf_len() -> usize {
    format::pool::PAGE_ENTRIES
}
