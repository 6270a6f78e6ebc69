//! The log of a volume before it is written: records fill blocks, blocks fill extents (D8).
//!
//! Invariant: blocks are written in order, each once before a checkpoint that makes it unneeded is
//! durable. So a block that was flushed is never torn by a later record. If there are many free
//! blocks, a spare extent is kept, so that a record never waits for the pool. Else the log turns
//! round: it continues at the first block of its extent, up to the first one that recovery needs.

use format::pool::frame::{self, BlockKind, PoolId};
use format::pool::header::LogPosition;
use format::pool::log::{LogBlockHead, RECORDS_BYTES_MAX};
use format::pool::record::Record;
use format::pool::{BLOCK_BYTES, EXTENT_BLOCKS};
use types::{BlockNumber, ExtentNumber, VolumeId};

use crate::error::{Result, VolumeError};
use crate::free::{FreeBlocks, block_at};

/// Blocks of log that an operation leaves to operations beside it, and to a batch that is under
/// way.
const RESERVE_BLOCKS: u32 = 256;
/// Blocks of log that the intents of a batch fill at most, with its answers behind them.
const BATCH_BLOCKS_MAX: u32 = RESERVE_BLOCKS / 2;

/// Bytes of the records of one run of mapped blocks, which may be in two pages.
const MAP_BYTES_MAX: usize = 64;

/// Behind the last block of an extent.
#[expect(clippy::cast_possible_truncation, reason = "1024")]
pub(crate) const EXTENT_END: u32 = EXTENT_BLOCKS as u32;

/// A block of log that waits to be written.
pub(crate) type SealedBlock = (BlockNumber, Box<[u8; BLOCK_BYTES]>);

/// A volume's log. The volume's core has it under its lock.
#[derive(Debug)]
pub(crate) struct LogBuffer {
    pool: PoolId,
    volume: VolumeId,
    epoch: u32,
    /// The extents with blocks that recovery needs; the open block is in the last one.
    extents: Vec<ExtentNumber>,
    index: u32,
    /// The end of the room in the open extent: the extent's, or the first block that recovery
    /// needs, once the log has turned round.
    limit: u32,
    sequence: u64,
    spare: Option<ExtentNumber>,
    open: Vec<u8>,
    sealed: Vec<SealedBlock>,
    /// The sequence number behind the block of the last record that is no mark.
    record_end: u64,
    /// Blocks since the last checkpoint.
    blocks: u64,
}

impl LogBuffer {
    /// A log that continues behind the last block of these extents.
    pub(crate) fn resume(
        pool: PoolId,
        volume: VolumeId,
        epoch: u32,
        extents: Vec<ExtentNumber>,
        next: LogPosition,
        limit: u32,
        blocks: u64,
    ) -> Self {
        Self {
            pool,
            volume,
            epoch,
            extents,
            index: next.index,
            limit,
            sequence: next.sequence,
            spare: None,
            open: Vec::with_capacity(RECORDS_BYTES_MAX),
            sealed: Vec::new(),
            record_end: 0,
            blocks,
        }
    }

    /// Appends a record. Returns the sequence number of its block.
    ///
    /// # Errors
    /// [`VolumeError::NoSpace`] if the log has no extent to continue in.
    pub(crate) fn append(&mut self, record: &Record, free: &mut FreeBlocks) -> Result<u64> {
        let before = self.open.len();
        record.write(&mut self.open);
        if self.open.len() > RECORDS_BYTES_MAX {
            let moved = self.open.split_off(before);
            assert!(moved.len() <= RECORDS_BYTES_MAX, "a record fits a block");
            self.seal(free)?;
            self.open = moved;
        }
        if !matches!(record, Record::FlushMark { .. }) {
            self.record_end = self.sequence + 1;
        }
        Ok(self.sequence)
    }

    /// Ends the open block, if there is a record in it.
    pub(crate) fn seal(&mut self, free: &mut FreeBlocks) -> Result<()> {
        if self.open.is_empty() {
            return Ok(());
        }
        let current = *self.extents.last().expect("a log has an extent");
        let turn = self.turn();
        let next = if self.index + 1 < self.limit {
            None
        } else {
            let turned = turn.map(|_| current);
            let next = self.spare.take().or(turned).or_else(|| free.take_extent());
            Some(next.ok_or(VolumeError::NoSpace)?)
        };
        let head = LogBlockHead {
            volume: self.volume,
            epoch: self.epoch,
            sequence: self.sequence,
            next,
        };
        let mut block = Box::new([0; BLOCK_BYTES]);
        frame::seal_in(
            self.pool,
            BlockKind::Log,
            &head.with_records(&self.open),
            &mut block[..],
        );
        self.sealed.push((block_at(current, self.index as usize), block));
        self.open.clear();
        self.sequence += 1;
        self.index += 1;
        self.blocks += 1;
        match next {
            None => return Ok(()),
            Some(next) if next == current => {
                self.limit = turn.expect("the log can turn round");
            }
            Some(next) => {
                self.extents.push(next);
                self.limit = EXTENT_END;
            }
        }
        self.index = 0;
        Ok(())
    }

    /// Where the room at the beginning of the open extent ends, if the log can turn round: at the
    /// first block that recovery needs. The log begins and ends in the extent then, and has not
    /// turned round.
    fn turn(&self) -> Option<u32> {
        let blocks = u32::try_from(self.blocks).ok()?;
        let is_in_one = self.extents.len() == 1 && self.limit == EXTENT_END;
        let first = self.index.checked_sub(blocks)?;
        (is_in_one && first > RESERVE_BLOCKS).then_some(first)
    }

    /// The blocks that wait to be written, in order.
    pub(crate) fn take_sealed(&mut self) -> Vec<SealedBlock> {
        std::mem::take(&mut self.sealed)
    }

    /// The place of the open block.
    pub(crate) fn position(&self) -> LogPosition {
        LogPosition {
            extent: *self.extents.last().expect("a log has an extent"),
            index: self.index,
            sequence: self.sequence,
        }
    }

    /// Takes a spare extent if there is none.
    pub(crate) fn take_spare(&mut self, free: &mut FreeBlocks) {
        if self.spare.is_none() {
            self.spare = free.take_extent();
        }
    }

    /// Whether so many blocks can be written, and one more.
    fn has_blocks(&self, blocks: u32) -> bool {
        let room = self.limit.saturating_sub(self.index) + self.turn().unwrap_or(0);
        self.spare.is_some() || room > blocks
    }

    /// Whether records of an operation and of the batch beside it fit, whatever happens. So many
    /// runs of blocks were taken by writes beside it, and each becomes a record.
    pub(crate) fn has_room(&self, runs: usize) -> bool {
        let blocks = (runs * MAP_BYTES_MAX).div_ceil(RECORDS_BYTES_MAX);
        self.has_blocks(RESERVE_BLOCKS + u32::try_from(blocks).unwrap_or(u32::MAX - RESERVE_BLOCKS))
    }

    /// Whether a batch may begin: operations beside it, and checkpoints that log its intents again,
    /// fit for as long as no answer comes.
    pub(crate) fn has_room_to_begin(&self) -> bool {
        self.has_blocks(2 * RESERVE_BLOCKS)
    }

    /// Whether the records of an open batch fit, and those of its answers behind them.
    pub(crate) fn has_room_for_batch(&self) -> bool {
        self.has_blocks(BATCH_BLOCKS_MAX)
    }

    /// The sequence number of the block of the last record that is no mark.
    pub(crate) const fn last_record(&self) -> u64 {
        self.record_end.saturating_sub(1)
    }

    /// Whether a record was appended behind the block at which the last mark ends.
    pub(crate) const fn is_unmarked(&self, marked: u64) -> bool {
        self.record_end > marked
    }

    /// Whether records, perhaps a mark alone, wait for the next commit.
    pub(crate) fn has_open_records(&self) -> bool {
        !self.open.is_empty()
    }

    /// Blocks since the last checkpoint.
    pub(crate) const fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The extents that recovery needs no more once a checkpoint at the present position is
    /// durable.
    pub(crate) fn extents_before_open(&self) -> &[ExtentNumber] {
        let (_, before) = self.extents.split_last().expect("a log has an extent");
        before
    }

    /// All its extents: those with blocks, and the spare.
    pub(crate) fn extents(&self) -> impl Iterator<Item = ExtentNumber> + '_ {
        self.extents.iter().copied().chain(self.spare)
    }

    /// The spare extent, whose blocks a checkpoint counts as free.
    pub(crate) const fn spare(&self) -> Option<ExtentNumber> {
        self.spare
    }

    /// The checkpoint at this position is durable, which began when the log had so many extents
    /// before the open one, and so many blocks.
    pub(crate) fn release(&mut self, at: LogPosition, count: usize, blocks: u64) -> Vec<ExtentNumber> {
        self.blocks -= blocks;
        let released = self.extents.drain(..count).collect();
        if self.extents.len() == 1 {
            // What follows the position is in one stretch, or in two if the log turned round since.
            let is_one = u64::from(self.index) >= self.blocks;
            self.limit = if is_one { EXTENT_END } else { at.index };
        }
        released
    }
}

#[cfg(test)]
mod tests;
