//! Free blocks that one volume gives to another, when the pool has no whole extent left.
//!
//! The giver's record is durable before the taker has the blocks, and the giver makes no checkpoint
//! before the taker's record is durable. So after a crash the blocks are the giver's, or the gift is
//! in the giver's log and not in the taker's, and the taker gets it then.

use format::pool::record::Record;

use crate::error::Result;
use crate::recovery::{Gift, each_block};
use crate::volume::Volume;

/// Free blocks that a giver keeps.
const KEPT_BLOCKS: u64 = 512;
/// Runs in one record: at most 11 bytes each.
const RUNS_MAX: usize = 300;

impl Volume {
    /// Asks the other volumes for free blocks. Returns whether one gave some.
    pub(crate) fn take_gift(&self, wanted: u64) -> Result<bool> {
        let mut others = self.shared.others(self.id);
        others.sort_by_key(|other| std::cmp::Reverse(other.core().free.len()));
        for giver in others {
            // A giver that is busy with a batch is left alone: it may be waiting for this volume.
            let Some(slot) = giver.try_slot() else {
                continue;
            };
            if slot.open.is_some() {
                continue;
            }
            let Some(gift) = giver.give(self, wanted)? else {
                continue;
            };
            self.accept(&gift)?;
            self.flush_now()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Gives free blocks away. The caller has the giver's slot.
    fn give(&self, taker: &Self, wanted: u64) -> Result<Option<Gift>> {
        let gift = {
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
            let number = core.given.get(&taker.id).map_or(1, |last| last + 1);
            core.given.insert(taker.id, number);
            self.or_stop(core.append(&Record::Give {
                to: taker.id,
                gift: number,
                runs: runs.clone(),
            }))?;
            Gift {
                from: self.id,
                to: taker.id,
                number,
                runs,
            }
        };
        self.flush_now()?;
        Ok(Some(gift))
    }

    /// Takes blocks that another volume gave, unless it has them already.
    pub(crate) fn accept(&self, gift: &Gift) -> Result<()> {
        let mut core = self.core();
        if core
            .taken
            .get(&gift.from)
            .is_some_and(|last| *last >= gift.number)
        {
            return Ok(());
        }
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
