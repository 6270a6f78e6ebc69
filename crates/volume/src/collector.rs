//! The collector: gives references back that a volume dropped, and frees blocks without any (D4).
//!
//! A reference is given back only when the record that dropped it was flushed and marked (rule 11).
//! The block is read and hashed again, so collection is a scrub as well: a rotten block has a
//! fingerprint that the index does not know with this block, and is never freed. References to a
//! block that cannot be read are set aside until the next start.

use std::collections::BTreeMap;

use env::{AlignedBuffer, BLOCK_BYTES};
use format::pool::record::Record;
use types::{BatchSequence, BlockNumber, Fingerprint};

use crate::error::{Result, VolumeError};
use crate::references::Unreferenced;
use crate::slot::{Batch, BatchContent};
use crate::unreadable::is_of_device;
use crate::volume::Volume;

/// References of a batch.
const BATCH_REFERENCES: usize = 8192;
/// Free extents that a volume keeps.
const EXTENTS_KEPT: usize = 16;

impl Volume {
    /// Gives back the references that were dropped before this call. Returns how many.
    ///
    /// Those that are dropped meanwhile wait for the next call. A load may drop more than the
    /// pauses allow. Then a call would last as long as the load, and the finder would wait for it.
    ///
    /// `pause` is called after each batch with the bytes that were read; the collection ends early
    /// if it returns `false`. As long as the device could not read a volume of the pool, none is
    /// given back: an index that lost a batch of that volume would let its blocks be freed.
    ///
    /// # Errors
    /// Errors of the device and of the index; [`VolumeError::NeedsRecount`].
    pub fn collect(&self, pause: &mut dyn FnMut(u64) -> bool) -> Result<u64> {
        let mut given_back = 0;
        // Two flushes make every reference ready that was dropped before.
        for _ in 0..2 {
            if self.has_unready() {
                self.flush_now()?;
            }
        }
        let until = self.core().marked;
        while let Some((references, blocks)) = self.collect_batch(until)? {
            given_back += references;
            if !pause(blocks * BLOCK_BYTES) {
                break;
            }
        }
        self.return_surplus()?;
        Ok(given_back)
    }

    /// Gives back one batch. Returns how many references, and the blocks that were read; `None` if
    /// no reference is ready that a record before `until` dropped.
    fn collect_batch(&self, until: u64) -> Result<Option<(u64, u64)>> {
        let mut slot = self.slot();
        self.check_running()?;
        self.shared.check_index()?;
        self.settle(&mut slot)?;
        if !self.shared.may_collect() {
            return Ok(None);
        }
        self.make_batch_room(&slot)?;
        let taken = self.take_unreferenced(until);
        if taken.is_empty() {
            return Ok(None);
        }
        let mut merged: BTreeMap<BlockNumber, u32> = BTreeMap::new();
        for one in &taken {
            *merged.entry(one.block).or_insert(0) += one.count;
        }
        let prints = self.hash_blocks(merged.keys().copied());
        let prints = match prints {
            Ok(prints) => prints,
            Err(error) => {
                self.put_unreferenced(taken);
                return Err(error);
            }
        };
        let read = merged.len() as u64;
        let blocks = merged.iter().zip(prints);
        let blocks: Vec<_> = blocks
            .filter_map(|((block, count), print)| Some((*block, print?, *count)))
            .collect();
        if is_of_device(merged.len() - blocks.len(), merged.len()) {
            self.put_unreferenced(taken);
            let is_readable = |block: &BlockNumber| blocks.binary_search_by_key(block, |one| one.0).is_ok();
            let unreadable = merged.into_keys().find(|block| !is_readable(block));
            self.read_again(unreadable.expect("most cannot be read"))?;
            return Ok(None);
        }
        if blocks.len() < merged.len() {
            self.keep_aside(&taken, &blocks);
        }
        if blocks.is_empty() {
            self.core().in_batch = 0;
            return Ok(Some((0, read)));
        }
        let references = blocks.iter().map(|(_, _, count)| u64::from(*count)).sum();
        let sequence = self.core().batch + 1;
        let batch = BatchSequence::new(sequence).map_err(|error| VolumeError::Invalid {
            what: "batch",
            why: error.to_string(),
        })?;
        let content = BatchContent::DecIntent(blocks);
        self.core().in_batch = content.references().count();
        for record in content.records(batch) {
            let appended = self.core().append(&record);
            self.or_stop(appended)?;
        }
        slot.open = Some(Batch {
            sequence,
            content,
            answered: 0,
            held: Vec::new(),
        });
        self.flush_now()?;
        self.settle(&mut slot)?;
        Ok(Some((references, read)))
    }

    /// The first references of the list, as long as records before `until` dropped them, and no
    /// reader of this volume is at the blocks (rule 7). A mark covers those records (rule 11).
    fn take_unreferenced(&self, until: u64) -> Vec<Unreferenced> {
        let mut core = self.core();
        let mut taken = Vec::new();
        while taken.len() < BATCH_REFERENCES
            && core
                .unreferenced
                .front()
                .is_some_and(|one| one.at < until && one.ready_era <= core.era)
        {
            taken.extend(core.unreferenced.pop_front());
        }
        // The reserve counts them all the time.
        core.in_batch = taken.len();
        taken
    }

    /// Whether a reference waits for a mark or for readers.
    fn has_unready(&self) -> bool {
        let core = self.core();
        let last = core.unreferenced.back();
        last.is_some_and(|one| one.at >= core.marked || one.ready_era > core.era)
    }

    fn put_unreferenced(&self, taken: Vec<Unreferenced>) {
        let mut core = self.core();
        for one in taken.into_iter().rev() {
            core.unreferenced.push_front(one);
        }
        core.in_batch = 0;
    }

    /// Sets aside those of the references whose blocks are not among these: they cannot be read.
    fn keep_aside(&self, taken: &[Unreferenced], readable: &[(BlockNumber, Fingerprint, u32)]) {
        let mut core = self.core();
        for one in taken {
            if readable.binary_search_by_key(&one.block, |read| read.0).is_err() {
                core.aside.push(*one);
                self.set_aside(&mut core, one.block, None);
            }
        }
    }

    /// The fingerprints of blocks, which are in order; `None` for a block that cannot be read.
    fn hash_blocks(&self, blocks: impl Iterator<Item = BlockNumber>) -> Result<Vec<Option<Fingerprint>>> {
        let mut buffer = AlignedBuffer::with_capacity(format::pool::BLOCK_BYTES);
        buffer.grow_to(format::pool::BLOCK_BYTES);
        blocks
            .map(|block| {
                if !self.shared.try_read(block, &mut buffer)? {
                    return Ok(None);
                }
                self.note_readable(block, 1);
                Ok(Some(self.shared.printer.chunk(&buffer)))
            })
            .collect()
    }

    /// Returns whole free extents to the pool, if there are many.
    pub(crate) fn return_surplus(&self) -> Result<()> {
        if self.core().free.whole_extents() <= 2 * EXTENTS_KEPT {
            return Ok(());
        }
        self.return_extents(EXTENTS_KEPT)
    }

    /// Returns whole free extents to the pool, all but so many.
    pub(crate) fn return_extents(&self, keep: usize) -> Result<()> {
        // No checkpoint may drop the records before the table knows.
        let _slot = self.slot();
        let surplus = self.core().surplus_extents(keep);
        if surplus.is_empty() {
            return Ok(());
        }
        let surplus: Vec<_> = {
            let table = self.shared.table();
            let grants = surplus
                .iter()
                .map(|extent| (*extent, table.entry(*extent).grants));
            grants.collect()
        };
        for part in surplus.chunks(256) {
            let mut core = self.core();
            core.credited.retain(|grant| !part.contains(grant));
            let extents = part.to_vec();
            self.or_stop(core.append(&Record::Returned { extents }))?;
        }
        self.flush_now()?;
        let released = self.shared.table().release(&*self.shared.device, &surplus);
        self.or_stop(released)
    }
}
