//! The end of recovery: volumes whose logs were replayed are compared with the index, settle their
//! open batches, and make a checkpoint each. Then they are served.
//!
//! One thread does this, and nobody uses these volumes meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ddi::Bucket;
use format::pool::EXTENT_BLOCKS;
use types::{BatchSequence, ExtentNumber, VolumeId};

use crate::error::{Result, VolumeError};
use crate::extents::Grant;
use crate::free::place;
use crate::recovery::Recovered;
use crate::shared::{Mismatch, Shared};
use crate::slot::Slot;
use crate::volume::Volume;

/// The open volumes of a pool.
pub(crate) type Volumes = BTreeMap<VolumeId, Arc<Volume>>;

/// Looks for clients of the index that the pool does not have: a removed volume keeps its header,
/// so the pool is an old copy, and the index has counted for another one since.
pub(crate) fn compare_clients(shared: &Shared, known: &BTreeMap<VolumeId, ExtentNumber>) -> Result<()> {
    for client in shared.index.clients(Bucket::FIRST)? {
        if known.contains_key(&client) {
            continue;
        }
        let last = shared.index.client(Bucket::FIRST, client)?;
        let found = last.map_or(0, BatchSequence::get);
        tracing::error!(volume = %client, found, "the duplicates index has a volume that the pool does not have");
        shared.set_mismatch(Some(Mismatch {
            volume: format!("number {client}, which the pool does not have"),
            found,
            expected: 0,
        }));
    }
    Ok(())
}

/// Ends the recovery of volumes whose logs were replayed: compares them with the index, settles
/// open batches, and makes a checkpoint of each. Returns the open volumes, and those that have no
/// block for their checkpoint, with the reason.
pub(crate) fn finish_recovery(
    shared: &Arc<Shared>,
    recovered: Vec<Recovered>,
) -> Result<(Volumes, BTreeMap<VolumeId, String>)> {
    let (mut volumes, mut gifts) = (BTreeMap::new(), Vec::new());
    let mut unknown = BTreeMap::new();
    for one in recovered {
        let volume = Arc::new(one.volume);
        shared.table().release(&*shared.device, &one.returned)?;
        gifts.extend(one.gifts);
        let references = one.open.iter().flat_map(|batch| batch.content.references());
        volume.core().in_batch = references.count();
        volume.core().batch_pages = one.open.iter().map(|batch| batch.content.pages()).sum();
        volume.slot().open = one.open;
        unknown.insert(volume.id, one.unknown);
        volumes.insert(volume.id, volume);
    }
    // No volume sends a batch before all were compared: an index that lost the batch of one volume
    // counts too few references for another (V7).
    for volume in volumes.values() {
        volume.compare_with_index(&volume.slot())?;
    }
    for volume in volumes.values() {
        volume.settle_or_abandon(&mut volume.slot())?;
    }
    for gift in gifts {
        // Of a taker that could not be recovered, nobody knows whether it uses the blocks.
        let is_open = volumes.get(&gift.to).is_some_and(|taker| !taker.has_taken(&gift));
        if let Some(giver) = volumes.get(&gift.from)
            && is_open
        {
            giver.take_back(&gift);
        }
    }
    let mut failed = BTreeMap::new();
    for volume in volumes.values() {
        let mut unknown = unknown.remove(&volume.id).unwrap_or_default();
        match volume.first_checkpoint(&mut unknown) {
            Ok(()) => {}
            // The others are served, and the pool can grow.
            Err(error @ VolumeError::NoSpace) => {
                tracing::error!(volume = %volume.id, %error, "the volume cannot be recovered");
                failed.insert(volume.id, error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        }
        volume.adopt_unknown(&unknown)?;
        shared.add(Arc::downgrade(volume) as _);
    }
    volumes.retain(|id, _| !failed.contains_key(id));
    Ok((volumes, failed))
}

impl Volume {
    /// The last batch that the index has of this volume.
    pub(crate) fn last_in_index(&self) -> Result<u64> {
        let found = self.shared.index.client(Bucket::FIRST, self.id)?;
        Ok(found.map_or(0, BatchSequence::get))
    }

    /// After recovery: compares the last batch with the index's.
    fn compare_with_index(&self, slot: &Slot) -> Result<()> {
        let (found, last) = (self.last_in_index()?, self.core().batch);
        let is_open = slot.open.is_some();
        // If the log has answers, the index had the batch.
        let is_answered = slot.open.as_ref().is_some_and(|batch| batch.answered > 0);
        if found == last && !is_answered || is_open && found == last + 1 {
            return Ok(());
        }
        let expected = last + u64::from(is_open);
        tracing::error!(volume = %self.id, found, expected, "the duplicates index does not match");
        self.shared.set_mismatch(Some(Mismatch {
            volume: self.name(),
            found,
            expected,
        }));
        Ok(())
    }

    /// After recovery: an open batch that the index has is answered again, another one is
    /// abandoned. An index that does not match may have had the batch.
    fn settle_or_abandon(&self, slot: &mut Slot) -> Result<()> {
        let has_it = match &slot.open {
            Some(batch) => self.last_in_index()? == batch.sequence,
            None => return Ok(()),
        };
        if self.shared.check_index().is_err() {
            self.count_open(slot)
        } else if has_it {
            match self.settle(slot) {
                // The index refused it, and it was ended. The checkpoint that follows settles the
                // rest.
                Err(_) if slot.open.is_none() && self.shared.check_index().is_err() => self.check_running(),
                settled => settled,
            }
        } else {
            self.abandon(slot)
        }
    }

    /// Makes the checkpoint that ends the recovery. If there are too few free blocks for its pages,
    /// the volume uses those of `unknown` extents, and more of the pool. The checkpoint tells the
    /// table of them before its header refers to the pages. So a crash in between loses the
    /// extents, and no block has two uses.
    fn first_checkpoint(&self, unknown: &mut Vec<Grant>) -> Result<()> {
        loop {
            match self.checkpoint() {
                Err(VolumeError::NoSpace) => self.check_running()?,
                made => return made,
            }
            if !unknown.is_empty() {
                self.adopt_unknown(&std::mem::take(unknown))?;
                continue;
            }
            let missing = {
                let core = self.core();
                core.reserve().saturating_sub(core.free.len()).max(1)
            };
            let extents = usize::try_from(missing.div_ceil(EXTENT_BLOCKS)).unwrap_or(usize::MAX);
            if !self.credit(extents)? {
                return Err(VolumeError::NoSpace);
            }
        }
    }

    /// Adopts extents that the table says the volume has, and that its checkpoint and its log do
    /// not know. If the volume uses one of them all the same, a checkpoint has not told the table,
    /// and nobody knows which blocks of the others have data: then it adopts none.
    fn adopt_unknown(&self, extents: &[Grant]) -> Result<()> {
        if let Some(extent) = self.used_one(extents) {
            let count = extents.len();
            tracing::error!(
                volume = %self.id, %extent, count,
                "the volume uses an extent that the table says it does not know; it takes no block of such \
                 extents"
            );
            return Ok(());
        }
        self.adopt(extents)
    }

    /// The first of these extents that the state, the log or a page of the map in memory names, or
    /// that holds a page of the map. Stored pages are not read: there may be very many.
    fn used_one(&self, extents: &[Grant]) -> Option<ExtentNumber> {
        let wanted: BTreeSet<ExtentNumber> = extents.iter().map(|(extent, _)| *extent).collect();
        if wanted.is_empty() {
            return None;
        }
        let mut used = BTreeSet::new();
        {
            let head = self.head();
            used.insert(head.extent);
            used.extend(head.state_pages.iter().map(|block| place(*block).0));
        }
        self.pages(&mut |block| {
            used.insert(place(block).0);
        });
        let core = self.core();
        used.extend(core.log.extents());
        used.extend(core.references().map(|one| place(one.block).0));
        used.extend(core.suspects.iter().map(|block| place(*block).0));
        for leaf in self.map.in_memory() {
            used.extend(leaf.blocks().map(|block| place(block).0));
        }
        wanted
            .into_iter()
            .find(|extent| core.free.has_some_of(*extent) || used.contains(extent))
    }
}

#[cfg(test)]
mod tests;
