//! Reads of a volume: look the blocks up, read them (D1).
//!
//! A read takes no lock of the volume. The era in which it began keeps its blocks from being used
//! again (rule 7). If the device does several reads at once, all runs of blocks of a request, or of
//! several requests, are one call of it.

use std::ops::Range;

use env::{AlignedBuffer, BLOCK_BYTES, BlockRead};
use format::pool::PAGE_ENTRIES;
use format::pool::entry::MapEntry;

use crate::error::Result;
use crate::leaf::LEAF_BLOCKS;
use crate::volume::Volume;

/// A range of a volume of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// Bytes.
    pub len: u64,
    /// Whether they have blocks. All others are zeros.
    pub has_blocks: bool,
}

const BLOCK: usize = format::pool::BLOCK_BYTES;

/// One of the reads of [`Volume::read_many`].
#[derive(Debug)]
pub struct VolumeRead<'a> {
    /// The first byte.
    pub offset: u64,
    /// Where the bytes go.
    pub out: &'a mut [u8],
    /// The outcome, once it is done.
    pub done: Result<()>,
}

impl<'a> VolumeRead<'a> {
    /// A read that is to be done.
    #[must_use]
    pub const fn new(offset: u64, out: &'a mut [u8]) -> Self {
        Self {
            offset,
            out,
            done: Ok(()),
        }
    }
}

impl Volume {
    /// How many reads of one [`Self::read_many`] run at the same time.
    pub fn reads_at_once(&self) -> usize {
        self.shared.device.reads_at_once()
    }

    /// Does several reads, at the same time if the device can, and returns when all are done. Each
    /// has an outcome of its own, which is that of a [`Self::read_with_holes`]. Calls `hole` with
    /// the number of a read and a part of it.
    pub fn read_many(&self, reads: &mut [VolumeRead<'_>], hole: &mut dyn FnMut(usize, Range<usize>)) {
        let timed = self.counters.time(&*self.shared.clock);
        let _reading = self.readers.enter();
        let (mut runs, mut owners) = (Vec::new(), Vec::new());
        for (number, read) in reads.iter_mut().enumerate() {
            let (offset, out) = (read.offset, &mut *read.out);
            let hole = &mut |found| hole(number, found);
            let checked = self.check_range(offset, out.len() as u64);
            read.done = checked.and_then(|()| {
                if !is_whole(offset, out) {
                    return self.read_range(offset, out, hole);
                }
                self.find_blocks(offset / BLOCK_BYTES, out, hole, |at, bytes| {
                    runs.push(BlockRead::new(at, bytes));
                    owners.push(number);
                    Ok(())
                })
            });
        }
        self.shared.device.read_many(&mut runs);
        let failed = |(number, run): (usize, BlockRead<'_>)| Some((number, run.done.err()?));
        let failed: Vec<_> = owners.into_iter().zip(runs).filter_map(failed).collect();
        for (number, error) in failed {
            reads[number].done = Err(error.into());
        }
        for read in reads.iter().filter(|read| read.done.is_ok()) {
            self.counters.read(&timed, read.out.len());
        }
    }

    /// Reads any bytes of the volume.
    ///
    /// # Errors
    /// [`crate::VolumeError::OutOfRange`]; errors of the device.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.read_with_holes(offset, out, &mut |_| {})
    }

    /// Reads any bytes of the volume. Calls `hole` with the parts of `out` that have no block, in
    /// their order; they are zeros. Parts that touch may be told one by one.
    ///
    /// # Errors
    /// As [`Self::read`]. Parts may have been told before.
    pub fn read_with_holes(
        &self,
        offset: u64,
        out: &mut [u8],
        hole: &mut dyn FnMut(Range<usize>),
    ) -> Result<()> {
        let timed = self.counters.time(&*self.shared.clock);
        self.check_range(offset, out.len() as u64)?;
        let _reading = self.readers.enter();
        self.read_range(offset, out, hole)?;
        self.counters.read(&timed, out.len());
        Ok(())
    }

    fn read_range(&self, offset: u64, out: &mut [u8], hole: &mut dyn FnMut(Range<usize>)) -> Result<()> {
        if is_whole(offset, out) {
            return self.read_blocks(offset / BLOCK_BYTES, out, hole);
        }
        let within = usize::try_from(offset % BLOCK_BYTES).unwrap_or(0);
        // The ends are parts of blocks: read whole ones beside.
        let end = (within + out.len()).next_multiple_of(BLOCK);
        let mut whole = AlignedBuffer::with_capacity(end);
        whole.grow_to(end);
        let len = out.len();
        self.read_blocks(offset / BLOCK_BYTES, &mut whole, &mut |found| {
            hole(found.start.saturating_sub(within)..(found.end - within).min(len));
        })?;
        out.copy_from_slice(&whole[within..within + out.len()]);
        Ok(())
    }

    /// Reads whole blocks, and tells the parts without one. The caller is a reader.
    fn read_blocks(&self, lba: u64, out: &mut [u8], hole: &mut dyn FnMut(Range<usize>)) -> Result<()> {
        let device = &self.shared.device;
        if device.reads_at_once() == 1 {
            return self.find_blocks(lba, out, hole, |at, bytes| Ok(device.read_at(at, bytes)?));
        }
        let mut runs = Vec::new();
        self.find_blocks(lba, out, hole, |at, bytes| {
            runs.push(BlockRead::new(at, bytes));
            Ok(())
        })?;
        device.read_many(&mut runs);
        Ok(runs.into_iter().try_for_each(|run| run.done)?)
    }

    /// Calls `run` with each run of blocks, the place on the device and the memory; clears the
    /// parts without a block, and tells them. The caller is a reader.
    fn find_blocks<'a>(
        &self,
        mut lba: u64,
        out: &'a mut [u8],
        hole: &mut dyn FnMut(Range<usize>),
        mut run: impl FnMut(u64, &'a mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let (mut rest, mut done) = (out, 0);
        while !rest.is_empty() {
            let index = usize::try_from(lba % LEAF_BLOCKS).unwrap_or(0);
            let count = (PAGE_ENTRIES - index).min(rest.len() / BLOCK);
            let Some(leaf) = self.map.leaf(lba / LEAF_BLOCKS)? else {
                let here = rest.split_off_mut(..count * BLOCK).expect("it was bounded");
                here.fill(0);
                hole(done..done + here.len());
                lba += count as u64;
                done += here.len();
                continue;
            };
            let mut at = 0;
            while at < count {
                let first = leaf.get(index + at);
                let blocks = 1
                    + (1..count - at)
                        .take_while(|n| follows(first, leaf.get(index + at + n), *n))
                        .count();
                let bytes = rest.split_off_mut(..blocks * BLOCK).expect("it was bounded");
                let len = bytes.len();
                match first.block() {
                    None => {
                        bytes.fill(0);
                        hole(done..done + len);
                    }
                    Some(block) => run(Self::at(block), bytes)?,
                }
                at += blocks;
                done += len;
            }
            lba += count as u64;
        }
        Ok(())
    }

    /// Which parts of a range have blocks, in order. Stops after `max` parts.
    ///
    /// # Errors
    /// [`crate::VolumeError::OutOfRange`]; errors of the device.
    pub fn status(&self, offset: u64, len: u64, max: usize) -> Result<Vec<Status>> {
        self.check_range(offset, len)?;
        let mut found: Vec<Status> = Vec::new();
        let (mut at, end) = (offset, offset + len);
        let leaf_bytes = LEAF_BLOCKS * BLOCK_BYTES;
        let max = max.max(1);
        'all: while at < end {
            let number = at / leaf_bytes;
            let Some(leaf) = self.map.leaf(number)? else {
                // Skip all missing pages at once.
                let next = self.map.numbers(number + 1, end.div_ceil(leaf_bytes), 1);
                let stop = next.first().map_or(end, |next| (next * leaf_bytes).min(end));
                if !add(&mut found, max, stop - at, false) {
                    break;
                }
                at = stop;
                continue;
            };
            let stop = end.min((number + 1) * leaf_bytes);
            while at < stop {
                let index = usize::try_from(at / BLOCK_BYTES % LEAF_BLOCKS).unwrap_or(0);
                let next = ((at / BLOCK_BYTES + 1) * BLOCK_BYTES).min(stop);
                if !add(&mut found, max, next - at, leaf.get(index) != MapEntry::Zero) {
                    break 'all;
                }
                at = next;
            }
        }
        Ok(found)
    }
}

/// Whether a range is made of whole blocks.
fn is_whole(offset: u64, out: &[u8]) -> bool {
    offset.is_multiple_of(BLOCK_BYTES) && out.len().is_multiple_of(BLOCK)
}

/// Adds to the last part, or adds a part; `false` if there is no room for one.
fn add(found: &mut Vec<Status>, max: usize, len: u64, has_blocks: bool) -> bool {
    let room = found.len() < max;
    match found.last_mut() {
        Some(last) if last.has_blocks == has_blocks => last.len += len,
        _ if !room => return false,
        _ => found.push(Status { len, has_blocks }),
    }
    true
}

/// Whether the `n`-th entry behind `first` continues its run: zeros behind zeros, or the block
/// behind its block.
pub(crate) fn follows(first: MapEntry, entry: MapEntry, n: usize) -> bool {
    match (first.block(), entry.block()) {
        (None, None) => true,
        (Some(first), Some(block)) => first.get() + n as u64 == block.get(),
        _ => false,
    }
}
