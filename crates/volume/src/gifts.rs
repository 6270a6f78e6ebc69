//! Free blocks that one volume gives to another, when the pool has no whole extent left.
//!
//! The giver's record is durable before the taker has the blocks, and the giver makes no checkpoint
//! before the taker's record is durable. So after a crash the blocks are the giver's, or the gift
//! is in the giver's log and not in the taker's. Then nobody has used the blocks, and the giver
//! takes them back, whatever the order in which the volumes make their checkpoints.
//!
//! A volume whose log has no room asks for no gift: it could not take what was given.

use format::pool::record::Record;
use types::VolumeId;

use crate::error::Result;
use crate::free::each_block;
use crate::shared::{Gift, Giver};
use crate::volume::Volume;

/// Free blocks that a giver keeps.
const KEPT_BLOCKS: u64 = 512;
/// Runs in one record: at most 11 bytes each.
const RUNS_MAX: usize = 300;

impl Volume {
    /// Asks the other volumes for free blocks. Returns whether one gave some.
    pub(crate) fn take_gift(&self, wanted: u64) -> Result<bool> {
        if !self.core().has_log_room() {
            return Ok(false);
        }
        for giver in self.shared.givers(self.id) {
            let given = giver.give(self.id, wanted, &mut |gift| {
                self.accept(gift)?;
                self.flush_now()
            });
            match given {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                // A giver that has stopped is no error of this volume.
                Err(error) => {
                    self.check_running()?;
                    tracing::warn!(giver = %giver.id(), %error, "a volume gives no blocks");
                }
            }
        }
        Ok(false)
    }

    /// Takes blocks out of the free ones, and appends the record.
    fn part_with(&self, taker: VolumeId, wanted: u64) -> Result<Option<Gift>> {
        let mut core = self.core();
        let spare = core.free.len().saturating_sub(KEPT_BLOCKS + core.reserve());
        if spare == 0 || !core.has_log_room() {
            return Ok(None);
        }
        let mut runs = core.free.take_scattered(wanted.max(256).min(spare));
        let too_many = runs.split_off(runs.len().min(RUNS_MAX));
        for block in each_block(&too_many) {
            core.free.add(block);
        }
        if runs.is_empty() {
            return Ok(None);
        }
        let number = core.given.get(&taker).map_or(1, |last| last + 1);
        core.given.insert(taker, number);
        self.or_stop(core.append(&Record::Give {
            to: taker,
            gift: number,
            runs: runs.clone(),
        }))?;
        Ok(Some(Gift {
            from: self.id,
            to: taker,
            number,
            runs,
        }))
    }

    /// Whether the volume took this gift.
    pub(crate) fn has_taken(&self, gift: &Gift) -> bool {
        let core = self.core();
        let last = core.taken.get(&gift.from);
        last.is_some_and(|last| *last >= gift.number)
    }

    /// After recovery: the blocks of a gift that was not taken are free again. A checkpoint of this
    /// volume follows.
    pub(crate) fn take_back(&self, gift: &Gift) {
        let mut core = self.core();
        for block in each_block(&gift.runs) {
            core.free.add(block);
        }
    }

    /// Takes blocks that another volume gave.
    fn accept(&self, gift: &Gift) -> Result<()> {
        let mut core = self.core();
        for block in each_block(&gift.runs) {
            core.free.add(block);
        }
        core.taken.insert(gift.from, gift.number);
        self.or_stop(core.append(&Record::Take {
            from: gift.from,
            gift: gift.number,
            runs: gift.runs.clone(),
        }))?;
        Ok(())
    }
}

impl Giver for Volume {
    fn id(&self) -> VolumeId {
        self.id
    }

    fn free_blocks(&self) -> u64 {
        self.core().free.len()
    }

    fn give(
        &self,
        taker: VolumeId,
        wanted: u64,
        accept: &mut dyn FnMut(&Gift) -> Result<()>,
    ) -> Result<bool> {
        // A giver that is busy with a batch is left alone: it may be waiting for the taker.
        let Some(slot) = self.try_slot() else {
            return Ok(false);
        };
        if slot.open.is_some() {
            return Ok(false);
        }
        let Some(gift) = self.part_with(taker, wanted)? else {
            return Ok(false);
        };
        self.flush_now()?;
        accept(&gift)?;
        Ok(true)
    }
}
