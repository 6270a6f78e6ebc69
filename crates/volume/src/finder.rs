//! The finder: shares equal blocks, in the background (D2, D6, D7).
//!
//! For each batch it freezes quiet blocks under the gates of their pages, so that writes go
//! elsewhere (rule 10), reads and hashes them, writes to the log what it is about to register,
//! flushes data and log together (rules 2 and 3), and asks the index. Then it looks at the map
//! again (rule 4). Blocks of zeros become zeros of the map, without the index.
//!
//! A page with a write in progress is skipped, unless the caller waits.

use std::sync::Arc;

use env::{AlignedBuffer, BLOCK_BYTES, DeviceError};
use format::pool::entry::MapEntry;
use format::pool::record::{IntentBlock, Record};
use types::{BlockNumber, Fingerprint, Lba};

use crate::core::{Core, PAGE_BLOCKS};
use crate::error::{Result, VolumeError};
use crate::leaf::{LEAF_BLOCKS, Leaf};
use crate::slot::{Batch, BatchContent, Slot};
use crate::unreadable::is_of_device;
use crate::volume::{KEPT_FOR_CUTS, KEPT_FOR_OVERWRITES, Volume};

/// Blocks of a batch: 32 MiB.
const BATCH_BLOCKS: usize = 8192;
const BLOCK_LEN: usize = format::pool::BLOCK_BYTES;
/// Blocks of one read: 1 MiB.
const READ_BLOCKS: usize = 256;
/// Pages that are searched for private blocks in one step.
const SEARCH_PAGES: usize = 4096;

/// What an iteration of the finder did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Found {
    /// Blocks that were read and hashed.
    pub examined: u64,
    /// Blocks whose page had a write in progress. They are examined later.
    pub skipped: u64,
}

/// A block that the finder has in hand.
struct Taken {
    leaf: Arc<Leaf>,
    index: usize,
    lba: Lba,
    block: BlockNumber,
    content: Content,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Content {
    Unread,
    Unreadable,
    Zeros,
    Data(Fingerprint),
}

impl Volume {
    /// Examines the blocks that nobody has written in this interval and in `quiet - 1` before.
    ///
    /// `wait` makes it wait for writes in progress. `pause` is called after each batch with the
    /// bytes that were examined; the iteration ends early if it returns `false`.
    ///
    /// # Errors
    /// Errors of the device and of the index; [`VolumeError::NeedsRecount`].
    pub fn find(&self, quiet: u8, wait: bool, pause: &mut dyn FnMut(u64) -> bool) -> Result<Found> {
        let mut found = Found::default();
        let begun = self.shared.clock.monotonic();
        let result = self.find_all(quiet, wait, pause, &mut found);
        let time = self.shared.clock.monotonic().saturating_sub(begun);
        self.counters
            .finder_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        result.map(|()| found)
    }

    fn find_all(
        &self,
        quiet: u8,
        wait: bool,
        pause: &mut dyn FnMut(u64) -> bool,
        found: &mut Found,
    ) -> Result<()> {
        self.search_private()?;
        let mut from = Lba::new(0).expect("a volume has a first block");
        loop {
            let mut lbas = self.dirty.quiet(from, quiet, BATCH_BLOCKS);
            if lbas.is_empty() {
                return Ok(());
            }
            let examined = self.find_batch(&mut lbas, wait, found)?;
            from = lbas.last().map_or(from, |last| last.next());
            if !pause(examined * BLOCK_BYTES) {
                return Ok(());
            }
        }
    }

    /// Whether [`Self::search_private`] has found all.
    pub(crate) fn is_searched(&self) -> bool {
        let end = self.blocks().div_ceil(LEAF_BLOCKS);
        self.unsearched.load(std::sync::atomic::Ordering::Acquire) >= end
    }

    /// After a start, all private blocks are to be examined: finds them.
    fn search_private(&self) -> Result<()> {
        use std::sync::atomic::Ordering;
        let end = self.blocks().div_ceil(LEAF_BLOCKS);
        loop {
            let from = self.unsearched.load(Ordering::Acquire);
            if from >= end {
                return Ok(());
            }
            let numbers = self.map.numbers(from, end, SEARCH_PAGES);
            for number in &numbers {
                let leaf = match self.map.leaf(*number) {
                    Ok(Some(leaf)) => leaf,
                    Ok(None) => continue,
                    Err(
                        error @ (VolumeError::Damaged { .. } | VolumeError::Device(DeviceError::Io { .. })),
                    ) => {
                        tracing::error!(volume = %self.id, %error, "a page of the map cannot be read");
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let core = self.core();
                for index in 0..usize::try_from(LEAF_BLOCKS).unwrap_or(0) {
                    // One that differs from the known block of its fingerprint stays so until it is
                    // written.
                    if let MapEntry::Private { block, .. } = leaf.get(index)
                        && !core.different.contains(&block)
                    {
                        self.dirty.add_old(leaf.lba(index));
                    }
                }
            }
            let next = match numbers.last() {
                Some(last) if numbers.len() == SEARCH_PAGES => last + 1,
                _ => end,
            };
            self.unsearched.store(next, Ordering::Release);
        }
    }

    /// Examines the first of these blocks, and leaves these in the list. Returns how many it read.
    fn find_batch(&self, lbas: &mut Vec<Lba>, wait: bool, found: &mut Found) -> Result<u64> {
        let mut slot = self.slot();
        self.check_running()?;
        self.shared.check_index()?;
        self.settle(&mut slot)?;
        self.make_batch_room(&slot)?;
        lbas.truncate(self.reserve_pages(lbas, &slot)?);
        let examined = self.examine(lbas, wait, found, &mut slot);
        if slot.open.is_none() {
            self.core().batch_pages = 0;
        }
        examined
    }

    /// Examines these blocks. Returns how many it read.
    fn examine(&self, lbas: &[Lba], wait: bool, found: &mut Found, slot: &mut Slot) -> Result<u64> {
        let mut taken = self.freeze(lbas, wait, found);
        let read = self.read_taken(&mut taken);
        if let Err(error) = read {
            self.put_back(&taken);
            return Err(error);
        }
        let examined = taken.len() as u64;
        self.counters.examined(examined);
        found.examined += examined;
        let (unreadable, taken): (Vec<Taken>, Vec<Taken>) = taken
            .into_iter()
            .partition(|one| one.content == Content::Unreadable);
        if is_of_device(unreadable.len(), unreadable.len() + taken.len()) {
            self.put_back(&taken);
            self.put_back(&unreadable);
            self.read_again(unreadable[0].block)?;
            return Ok(0);
        }
        self.leave_alone(&unreadable);
        let (zeros, data): (Vec<Taken>, Vec<Taken>) =
            taken.into_iter().partition(|one| one.content == Content::Zeros);
        self.cut_zeros(&zeros)?;
        self.register(data, slot)?;
        Ok(examined)
    }

    /// How many of these blocks a batch may take: each page that it changes needs blocks in the
    /// next checkpoint, which are reserved from now on. At least those of one page. A batch may
    /// stay open for long, and overwrites and trims go on then.
    fn reserve_pages(&self, lbas: &[Lba], slot: &Slot) -> Result<usize> {
        let spare = |core: &Core| {
            let kept = core.reserve() + KEPT_FOR_OVERWRITES + KEPT_FOR_CUTS;
            core.free.len().saturating_sub(kept)
        };
        let pages = lbas.chunk_by(|a, b| a.get() / LEAF_BLOCKS == b.get() / LEAF_BLOCKS);
        let wanted = PAGE_BLOCKS * pages.clone().count() as u64;
        if spare(&self.core()) < wanted {
            let extents = wanted.div_ceil(format::pool::EXTENT_BLOCKS);
            if !self.credit(usize::try_from(extents).unwrap_or(1))? {
                match self.checkpoint_in_slot(slot) {
                    Err(VolumeError::NoSpace) => self.check_running()?,
                    made => made?,
                }
            }
        }
        let mut core = self.core();
        let fit = usize::try_from(spare(&core) / PAGE_BLOCKS).unwrap_or(usize::MAX);
        let taken = pages.take(fit.max(1));
        core.batch_pages = taken.clone().count();
        Ok(taken.map(<[Lba]>::len).sum())
    }

    /// Takes the private ones of these blocks in hand.
    fn freeze(&self, lbas: &[Lba], wait: bool, found: &mut Found) -> Vec<Taken> {
        let mut taken = Vec::with_capacity(lbas.len());
        for of_page in lbas.chunk_by(|a, b| a.get() / LEAF_BLOCKS == b.get() / LEAF_BLOCKS) {
            let number = of_page[0].get() / LEAF_BLOCKS;
            let leaf = match self.map.leaf(number) {
                Ok(Some(leaf)) => leaf,
                Ok(None) => {
                    of_page.iter().for_each(|lba| self.dirty.remove(*lba, 1));
                    continue;
                }
                Err(error) => {
                    tracing::error!(volume = %self.id, %error, "a page of the map cannot be read");
                    continue;
                }
            };
            let gate = if wait { Some(leaf.hold()) } else { leaf.try_hold() };
            let Some(_gate) = gate else {
                found.skipped += of_page.len() as u64;
                continue;
            };
            let mut core = self.core();
            for lba in of_page {
                let index = usize::try_from(lba.get() % LEAF_BLOCKS).unwrap_or(0);
                self.dirty.remove(*lba, 1);
                if let Some(block) = core.freeze(&leaf, index) {
                    taken.push(Taken {
                        leaf: Arc::clone(&leaf),
                        index,
                        lba: *lba,
                        block,
                        content: Content::Unread,
                    });
                }
            }
        }
        taken
    }

    /// Reads and hashes the blocks, in the order of the device.
    fn read_taken(&self, taken: &mut [Taken]) -> Result<()> {
        let mut order: Vec<usize> = (0..taken.len()).collect();
        order.sort_unstable_by_key(|number| taken[*number].block);
        let mut buffer = AlignedBuffer::with_capacity(READ_BLOCKS * BLOCK_LEN);
        let mut rest = &order[..];
        while let Some(first) = rest.first() {
            let begin = taken[*first].block.get();
            let run = rest
                .iter()
                .take(READ_BLOCKS)
                .zip(begin..)
                .take_while(|(number, block)| taken[**number].block.get() == *block)
                .count();
            let (here, others) = rest.split_at(run);
            self.read_run(taken, here, &mut buffer)?;
            rest = others;
        }
        Ok(())
    }

    /// Reads and hashes blocks in a row. If that fails, reads them one by one, and finds those that
    /// cannot be read.
    fn read_run(&self, taken: &mut [Taken], run: &[usize], buffer: &mut AlignedBuffer) -> Result<()> {
        let first = taken[run[0]].block;
        buffer.grow_to(run.len() * BLOCK_LEN);
        if !self
            .shared
            .try_read(first, &mut buffer[..run.len() * BLOCK_LEN])?
        {
            if let [one] = run {
                taken[*one].content = Content::Unreadable;
                return Ok(());
            }
            return run
                .chunks(1)
                .try_for_each(|one| self.read_run(taken, one, buffer));
        }
        self.note_readable(first, run.len());
        let blocks: Vec<&[u8]> = buffer.chunks_exact(BLOCK_LEN).take(run.len()).collect();
        let mut prints = Vec::new();
        self.shared.printer.chunks(&blocks, &mut prints);
        for ((number, print), content) in run.iter().zip(&prints).zip(&blocks) {
            taken[*number].content = if is_zeros(content) {
                Content::Zeros
            } else {
                Content::Data(*print)
            };
        }
        Ok(())
    }

    /// Gives blocks back that cannot be read. They are not to be examined again.
    fn leave_alone(&self, unreadable: &[Taken]) {
        for one in unreadable {
            let _gate = one.leaf.hold();
            let mut core = self.core();
            let at = core.log.last_record();
            let is_mapped = Self::is_frozen(&one.leaf, one.index, one.block);
            core.unfreeze(&one.leaf, one.index, one.block, at);
            if is_mapped {
                self.set_aside(&mut core, one.block, Some(one.lba));
            }
        }
    }

    /// Gives blocks back that were not registered.
    fn put_back(&self, taken: &[Taken]) {
        for one in taken {
            let _gate = one.leaf.hold();
            let mut core = self.core();
            let at = core.log.last_record();
            core.unfreeze(&one.leaf, one.index, one.block, at);
            self.dirty.add_old(one.lba);
        }
    }

    /// Blocks of zeros become zeros of the map.
    fn cut_zeros(&self, zeros: &[Taken]) -> Result<()> {
        let mut logged = None;
        for one in zeros {
            let _gate = one.leaf.hold();
            let mut core = self.core();
            let mut at = core.log.last_record();
            if Self::is_frozen(&one.leaf, one.index, one.block) {
                let (lba, count) = (one.lba, 1);
                at = self.or_stop(core.append(&Record::Cut { lba, count }))?;
                logged = Some(at);
            }
            let is_cut = core.zeroed(&one.leaf, one.index, one.block, at);
            self.counters.zeroed(u64::from(is_cut));
            self.counters.orphaned(u64::from(!is_cut));
        }
        match logged {
            Some(sequence) => self.commit(sequence),
            None => Ok(()),
        }
    }

    /// Registers blocks with the index.
    fn register(&self, data: Vec<Taken>, slot: &mut Slot) -> Result<()> {
        let (frozen, orphans): (Vec<Taken>, Vec<Taken>) = data
            .into_iter()
            .partition(|one| Self::is_frozen(&one.leaf, one.index, one.block));
        for one in &orphans {
            let _gate = one.leaf.hold();
            let mut core = self.core();
            let at = core.log.last_record();
            core.unfreeze(&one.leaf, one.index, one.block, at);
            self.counters.orphaned(1);
        }
        let blocks: Vec<IntentBlock> = frozen
            .iter()
            .filter_map(|one| match one.content {
                Content::Data(fingerprint) => Some(IntentBlock {
                    lba: one.lba,
                    block: one.block,
                    fingerprint,
                }),
                Content::Unread | Content::Unreadable | Content::Zeros => None,
            })
            .collect();
        if blocks.is_empty() {
            return Ok(());
        }
        let sequence = self.core().batch + 1;
        let batch = types::BatchSequence::new(sequence).map_err(|error| VolumeError::Invalid {
            what: "batch",
            why: error.to_string(),
        })?;
        let content = BatchContent::Intent(blocks);
        for record in content.records(batch) {
            let appended = self.core().append(&record);
            self.or_stop(appended)?;
        }
        slot.open = Some(Batch {
            sequence,
            content,
            answered: 0,
            held: frozen.into_iter().map(|one| one.leaf).collect(),
        });
        self.flush_now()?;
        self.settle(slot)
    }
}

/// Whether all bytes are zero.
fn is_zeros(content: &[u8]) -> bool {
    content.chunks_exact(64).all(|part| part == [0; 64])
}
