//! Writes of a volume (D1): in place where the block is the volume's alone, else to a new block.
//!
//! A write in place touches no metadata: it holds the page's gate shared, so that the finder waits
//! for it, or skips the page. A redirected write writes the new block, appends a record to the log
//! and changes the map under the page's gate, and returns when the log is written. No hash of the
//! content names a block, and no index is asked.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use env::{AlignedBuffer, BLOCK_BYTES};
use format::pool::entry::MapEntry;
use format::pool::record::{Record, block_digest};
use types::BlockNumber;

use crate::error::Result;
use crate::leaf::{LEAF_BLOCKS, Leaf};
use crate::lock::lock;
use crate::read::follows;
use crate::volume::{Purpose, Volume};

const BLOCK: usize = format::pool::BLOCK_BYTES;
/// Digests in one record.
const DIGESTS_MAX: usize = 256;

/// References that wait to be given back, of 32 bytes each, before requests that drop more give
/// some back first.
pub(crate) const REFERENCES_MAX: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };
/// After a failure, requests drop references so long before one of them tries to give some back.
const SHORTEN_AGAIN: Duration = Duration::from_secs(10);

impl Volume {
    /// Writes any bytes of the volume. When it returns, a kill of the process loses nothing of
    /// them; a power cut loses nothing after a flush, or with `is_durable`.
    ///
    /// # Errors
    /// [`crate::VolumeError::OutOfRange`], [`crate::VolumeError::NoSpace`]; errors of the device.
    /// After an error each block has its old or its new bytes.
    pub fn write(&self, offset: u64, bytes: &[u8], is_durable: bool) -> Result<()> {
        let timed = self.counters.time(&*self.shared.clock);
        self.check_range(offset, bytes.len() as u64)?;
        self.check_running()?;
        self.write_range(offset, bytes)?;
        if is_durable {
            self.flush_now()?;
        }
        self.counters.wrote(&timed, bytes.len() as u64);
        Ok(())
    }

    fn write_range(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let (mut at, mut rest, mut logged) = (offset, bytes, None);
        while !rest.is_empty() {
            let within = usize::try_from(at % BLOCK_BYTES).unwrap_or(0);
            let leaf_end = (at / BLOCK_BYTES / LEAF_BLOCKS + 1) * LEAF_BLOCKS * BLOCK_BYTES;
            let in_leaf = usize::try_from(leaf_end - at)
                .unwrap_or(usize::MAX)
                .min(rest.len());
            let len = if within != 0 || in_leaf < BLOCK {
                in_leaf.min(BLOCK - within)
            } else {
                in_leaf - in_leaf % BLOCK
            };
            let (here, others) = rest.split_at(len);
            let lba = at / BLOCK_BYTES;
            let leaf = self.map.leaf_or_new(lba / LEAF_BLOCKS)?;
            let index = usize::try_from(lba % LEAF_BLOCKS).unwrap_or(0);
            let sequence = if len < BLOCK {
                self.write_part(&leaf, index, within, here)?
            } else {
                self.write_blocks(&leaf, index, here)?
            };
            logged = logged.max(sequence);
            (at, rest) = (at + len as u64, others);
        }
        match logged {
            Some(sequence) => self.commit(sequence),
            None => Ok(()),
        }
    }

    /// Whether the block may be overwritten where it is. The caller holds the gate.
    fn is_in_place(&self, leaf: &Leaf, index: usize, birth: u32, settled: u64) -> bool {
        matches!(leaf.get(index), MapEntry::Private { birth: born, .. } if born == birth)
            && leaf.is_settled(index, settled)
    }

    /// Writes whole blocks of one page. Returns the block of log with the last record.
    fn write_blocks(&self, leaf: &Arc<Leaf>, index: usize, bytes: &[u8]) -> Result<Option<u64>> {
        let count = bytes.len() / BLOCK;
        let mut redirects: Vec<Range<usize>> = Vec::new();
        {
            let _gate = leaf.share();
            let (birth, settled) = (self.birth(), self.settled());
            let mut at = 0;
            while at < count {
                let is_in_place = self.is_in_place(leaf, index + at, birth, settled);
                let first = leaf.get(index + at);
                let run = 1
                    + (1..count - at)
                        .take_while(|n| {
                            let next = index + at + n;
                            self.is_in_place(leaf, next, birth, settled) == is_in_place
                                && (!is_in_place || follows(first, leaf.get(next), *n))
                        })
                        .count();
                match first.block() {
                    Some(block) if is_in_place => {
                        self.dirty.written(leaf.lba(index + at), run as u64);
                        let part = &bytes[at * BLOCK..(at + run) * BLOCK];
                        self.shared.device.write_at(Self::at(block), part)?;
                        self.counters.blocks_in_place(run as u64);
                    }
                    _ => redirects.push(at..at + run),
                }
                at += run;
            }
        }
        let mut logged = None;
        for range in redirects {
            let part = &bytes[range.start * BLOCK..range.end * BLOCK];
            logged = logged.max(Some(self.redirect(leaf, index + range.start, part)?));
        }
        Ok(logged)
    }

    /// Writes whole blocks of one page to new blocks.
    fn redirect(&self, leaf: &Arc<Leaf>, index: usize, bytes: &[u8]) -> Result<u64> {
        let count = bytes.len() / BLOCK;
        self.shorten_references_for(leaf, index..index + count)?;
        let runs = self.allocate(count as u64, purpose_of(leaf, index..index + count))?;
        if let Err(error) = self.write_runs(&runs, bytes) {
            self.give_up(&runs);
            return Err(error);
        }
        let digests: Vec<u64> = bytes.chunks_exact(BLOCK).map(block_digest).collect();
        let _gate = leaf.hold();
        self.map_runs(leaf, index, &runs, &digests)
    }

    fn write_runs(&self, runs: &[(BlockNumber, u32)], bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        for (first, count) in runs {
            let (here, others) = rest.split_at(*count as usize * BLOCK);
            self.shared.device.write_at(Self::at(*first), here)?;
            rest = others;
        }
        Ok(())
    }

    /// Appends the records of new blocks, and maps them. The caller holds the page alone.
    fn map_runs(
        &self,
        leaf: &Arc<Leaf>,
        index: usize,
        runs: &[(BlockNumber, u32)],
        digests: &[u64],
    ) -> Result<u64> {
        let mut core = self.core();
        core.reserved_pages = core.reserved_pages.saturating_sub(1);
        let (mut done, mut logged) = (0, 0);
        for (first, count) in runs {
            core.reserved.remove(first);
            let mut of_run = 0;
            while of_run < *count as usize {
                let len = (*count as usize - of_run).min(DIGESTS_MAX);
                let block = BlockNumber::new(first.get() + of_run as u64).expect("a block of the pool");
                let record = Record::Map {
                    lba: leaf.lba(index + done),
                    block,
                    digests: digests[done..done + len].to_vec(),
                };
                logged = self.or_stop(core.append(&record))?;
                for n in done..done + len {
                    self.count_redirect(leaf.get(index + n));
                }
                core.map(leaf, index + done, block, len, logged);
                (done, of_run) = (done + len, of_run + len);
            }
        }
        drop(core);
        self.dirty.written(leaf.lba(index), done as u64);
        Ok(logged)
    }

    fn count_redirect(&self, entry: MapEntry) {
        match entry {
            MapEntry::Zero => self.counters.blocks_first(1),
            MapEntry::Private { .. } => self.counters.blocks_unsettled(1),
            MapEntry::Frozen { .. } | MapEntry::Counted { .. } => self.counters.blocks_copied(1),
        }
    }

    /// Writes a part of a block. Nobody else writes the page meanwhile, so that two writes of
    /// different parts of a block both count.
    fn write_part(&self, leaf: &Arc<Leaf>, index: usize, within: usize, bytes: &[u8]) -> Result<Option<u64>> {
        // In place it needs no block, which a full pool does not have.
        {
            let _gate = leaf.hold();
            if self.write_part_in_place(leaf, index, within, bytes)? {
                return Ok(None);
            }
        }
        // No lock is held while the pool is asked for a block.
        self.shorten_references_for(leaf, index..index + 1)?;
        let runs = self.allocate(1, purpose_of(leaf, index..index + 1))?;
        let written = self.write_part_to(leaf, index, within, bytes, &runs);
        if !matches!(written, Ok(Some(_))) {
            self.give_up(&runs);
        }
        written
    }

    /// Writes a part of a block, to this new block if it cannot be written in place. Returns the
    /// block of log if the new block is used.
    fn write_part_to(
        &self,
        leaf: &Arc<Leaf>,
        index: usize,
        within: usize,
        bytes: &[u8],
        runs: &[(BlockNumber, u32)],
    ) -> Result<Option<u64>> {
        let _gate = leaf.hold();
        if self.write_part_in_place(leaf, index, within, bytes)? {
            return Ok(None);
        }
        let whole = self.with_part(leaf.get(index), within, bytes)?;
        self.write_runs(runs, &whole)?;
        self.map_runs(leaf, index, runs, &[block_digest(&whole)])
            .map(Some)
    }

    /// Writes a part of a block in place, if that may be done. The caller holds the page alone.
    fn write_part_in_place(&self, leaf: &Leaf, index: usize, within: usize, bytes: &[u8]) -> Result<bool> {
        let entry = leaf.get(index);
        let Some(block) = entry.block() else {
            return Ok(false);
        };
        if !self.is_in_place(leaf, index, self.birth(), self.settled()) {
            return Ok(false);
        }
        let whole = self.with_part(entry, within, bytes)?;
        self.dirty.written(leaf.lba(index), 1);
        self.shared.device.write_at(Self::at(block), &whole)?;
        self.counters.blocks_in_place(1);
        Ok(true)
    }

    /// The content of a block with another part.
    fn with_part(&self, entry: MapEntry, within: usize, bytes: &[u8]) -> Result<AlignedBuffer> {
        let mut whole = AlignedBuffer::with_capacity(BLOCK);
        whole.extend_zeros(BLOCK);
        if let Some(block) = entry.block() {
            self.shared.device.read_at(Self::at(block), &mut whole)?;
        }
        whole[within..within + bytes.len()].copy_from_slice(bytes);
        Ok(whole)
    }

    /// Makes a range zeros and frees its blocks. Parts of blocks at the ends are written.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn write_zeroes(&self, offset: u64, len: u64, is_durable: bool) -> Result<()> {
        let timed = self.counters.time(&*self.shared.clock);
        self.check_range(offset, len)?;
        self.check_running()?;
        let end = offset + len;
        let first = offset.next_multiple_of(BLOCK_BYTES).min(end);
        let last = (end - end % BLOCK_BYTES).max(first);
        let zeros = [0; BLOCK];
        let before = usize::try_from(first - offset).unwrap_or(0);
        let behind = usize::try_from(end - last).unwrap_or(0);
        self.write_range(offset, &zeros[..before])?;
        self.cut(first, last)?;
        self.write_range(last, &zeros[..behind])?;
        if is_durable {
            self.flush_now()?;
        }
        self.counters.wrote(&timed, 0);
        Ok(())
    }

    /// Frees the whole blocks of a range; they are zeros afterwards. Parts of blocks at the ends
    /// stay.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn trim(&self, offset: u64, len: u64, is_durable: bool) -> Result<()> {
        let timed = self.counters.time(&*self.shared.clock);
        self.check_range(offset, len)?;
        self.check_running()?;
        let end = offset + len;
        let first = offset.next_multiple_of(BLOCK_BYTES).min(end);
        self.cut(first, (end - end % BLOCK_BYTES).max(first))?;
        if is_durable {
            self.flush_now()?;
        }
        self.counters.wrote(&timed, 0);
        Ok(())
    }

    /// Makes whole blocks zeros. Costs the pages that are there, not the length.
    pub(crate) fn cut(&self, from: u64, to: u64) -> Result<()> {
        /// Up to 65,536 references between two looks at the list.
        const PAGES: usize = 128;
        /// Of some 8,000 references each: a trim gives back as many as it adds.
        const BATCHES: u32 = 9;
        let mut blocks = from / BLOCK_BYTES..to / BLOCK_BYTES;
        loop {
            self.shorten_references(BATCHES)?;
            match self.cut_some(blocks.clone(), PAGES)? {
                Some(next) => blocks.start = next,
                None => return Ok(()),
            }
        }
    }

    /// Before a write of these blocks of a page: as [`Self::shorten_references`], if the write
    /// drops references.
    fn shorten_references_for(&self, leaf: &Leaf, mut range: Range<usize>) -> Result<()> {
        let is_shared = |index| {
            matches!(
                leaf.get(index),
                MapEntry::Counted { .. } | MapEntry::Frozen { .. }
            )
        };
        if range.any(is_shared) {
            self.shorten_references(1)
        } else {
            Ok(())
        }
    }

    /// If very many references wait to be given back, gives so many batches back: the list is in
    /// memory. One thread does this, and others wait for it. A request waits for no more: after the
    /// index was away the list may be many times as long, and the collector shortens it. If it
    /// fails, the collector tries again later, and requests go on meanwhile. The caller holds no
    /// lock.
    fn shorten_references(&self, batches: u32) -> Result<()> {
        let is_long = || self.core().unreferenced.len() > REFERENCES_MAX;
        if !is_long() {
            return Ok(());
        }
        let clock = &self.shared.clock;
        let mut rests_until = lock(&self.shortening);
        if clock.monotonic() < *rests_until || !is_long() {
            return Ok(());
        }
        let mut left = batches;
        let mut goes_on = |_| {
            left = left.saturating_sub(1);
            left > 0 && is_long()
        };
        match self.collect(&mut goes_on) {
            Ok(given_back) if given_back > 0 => return Ok(()),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(volume = %self.id, %error, "references are not given back now");
                self.check_running()?;
            }
        }
        *rests_until = clock.monotonic() + SHORTEN_AGAIN;
        Ok(())
    }

    /// Whether so many references wait to be given back that the collector should not wait for its
    /// interval.
    pub(crate) fn has_many_references(&self) -> bool {
        self.core().unreferenced.len() > REFERENCES_MAX / 2
    }

    /// Makes the blocks of so many pages zeros, of those that have any. Returns the first block
    /// that it did not look at; `None`: there is none.
    pub(crate) fn cut_some(&self, blocks: Range<u64>, pages: usize) -> Result<Option<u64>> {
        let stop = blocks.end.div_ceil(LEAF_BLOCKS);
        let numbers = self.map.numbers(blocks.start / LEAF_BLOCKS, stop, pages);
        let mut logged = None;
        for number in &numbers {
            let Some(leaf) = self.map.leaf(*number)? else {
                continue;
            };
            let base = number * LEAF_BLOCKS;
            let inside = |lba: u64| usize::try_from(lba.clamp(base, base + LEAF_BLOCKS) - base).unwrap_or(0);
            logged = logged.max(self.cut_page(&leaf, inside(blocks.start)..inside(blocks.end))?);
        }
        if let Some(sequence) = logged {
            self.commit(sequence)?;
        }
        let last = numbers.last().filter(|_| numbers.len() == pages);
        Ok(last
            .map(|last| (last + 1) * LEAF_BLOCKS)
            .filter(|next| *next < blocks.end))
    }

    fn cut_page(&self, leaf: &Arc<Leaf>, range: Range<usize>) -> Result<Option<u64>> {
        let is_zero = || range.clone().all(|index| leaf.get(index) == MapEntry::Zero);
        {
            let _gate = leaf.hold();
            if is_zero() {
                return Ok(None);
            }
        }
        self.make_room(8)?;
        let _gate = leaf.hold();
        if is_zero() {
            return Ok(None);
        }
        let mut core = self.core();
        let record = Record::Cut {
            lba: leaf.lba(range.start),
            count: range.len() as u64,
        };
        let logged = self.or_stop(core.append(&record))?;
        core.cut(leaf, range.clone(), logged);
        drop(core);
        self.dirty.remove(leaf.lba(range.start), range.len() as u64);
        Ok(Some(logged))
    }

    /// The present generation.
    pub(crate) fn birth(&self) -> u32 {
        self.birth.load(Ordering::Acquire)
    }
}

/// What new blocks for these are for.
fn purpose_of(leaf: &Leaf, mut range: Range<usize>) -> Purpose {
    if range.any(|index| leaf.get(index) == MapEntry::Zero) {
        Purpose::First
    } else {
        Purpose::Overwrite
    }
}
