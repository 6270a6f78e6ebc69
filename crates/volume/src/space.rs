//! Free blocks of a volume: taken for writes, and got from the pool, from limbo, from the
//! collector, or from other volumes (D5).

use format::pool::record::Record;
use types::BlockNumber;

use crate::core::PAGE_BLOCKS;
use crate::error::{Result, VolumeError};
use crate::extents::Grant;
use crate::lock::lock;
use crate::slot::Slot;
use crate::volume::{KEPT_FOR_CUTS, KEPT_FOR_OVERWRITES, Purpose, Volume};

impl Volume {
    /// Takes blocks for `count` successive blocks of the volume: several runs if there is no long
    /// one. If too few are free, more come from limbo, from the pool or from other volumes.
    ///
    /// The last free blocks are kept for blocks that were written before: each of these frees
    /// another block in the end, so it can always be overwritten as long as nobody shares it. The
    /// very last ones are kept for trims and the like, which make a full pool empty again.
    pub(crate) fn allocate(&self, count: u64, purpose: Purpose) -> Result<Vec<(BlockNumber, u32)>> {
        let kept = PAGE_BLOCKS
            + match purpose {
                Purpose::First => KEPT_FOR_OVERWRITES,
                Purpose::Overwrite => KEPT_FOR_CUTS,
            };
        loop {
            let before = {
                let mut core = self.core();
                // The log may take an extent for its room, so it is asked first.
                if core.has_log_room() && core.free.len() >= count + kept + core.reserve() {
                    let mut runs = Vec::new();
                    let mut left = count;
                    while left > 0 {
                        let wanted = u32::try_from(left).unwrap_or(u32::MAX);
                        let run = core.free.take_run(wanted).expect("blocks were counted");
                        left -= u64::from(run.1);
                        core.reserved.insert(run.0, run.1);
                        runs.push(run);
                    }
                    core.reserved_pages += 1;
                    return Ok(runs);
                }
                core.free.len()
            };
            self.refill(count + kept, before)?;
        }
    }

    /// Gives back blocks that were taken and not mapped.
    pub(crate) fn give_up(&self, runs: &[(BlockNumber, u32)]) {
        let mut core = self.core();
        core.reserved_pages = core.reserved_pages.saturating_sub(1);
        for (first, count) in runs {
            core.reserved.remove(first);
            for n in 0..u64::from(*count) {
                if let Ok(block) = BlockNumber::new(first.get() + n) {
                    core.free.add(block);
                }
            }
        }
    }

    /// Gets free blocks: extents of the pool, or blocks of limbo after a flush. `before` is the
    /// number of free blocks that were too few.
    fn refill(&self, count: u64, before: u64) -> Result<()> {
        let mut step = lock(&self.refill_turn);
        self.check_running()?;
        let (reserve, has_more) = {
            let core = self.core();
            (core.reserve(), core.free.len() > before)
        };
        if has_more {
            return Ok(());
        }
        let wanted =
            usize::try_from((count + reserve).div_ceil(format::pool::EXTENT_BLOCKS)).unwrap_or(usize::MAX);
        if self.credit(wanted.max(self.next_step(&mut step)))? {
            return Ok(());
        }
        *step = 1;
        // A checkpoint frees extents of the log, and blocks in limbo need two flushes.
        self.checkpoint_if_fits()?;
        self.flush_now()?;
        {
            let mut core = self.core();
            core.leave_limbo(self.readers.advance());
            // It may have been the log alone that had no room.
            let has_room = core.has_log_room() && core.free.len() >= count + core.reserve();
            if core.free.len() > before || has_room {
                return Ok(());
            }
        }
        if self.take_gift(count + reserve)? || self.collect_now(before)? {
            return Ok(());
        }
        Err(VolumeError::NoSpace)
    }

    /// Extents to ask for: a volume that grows quickly gets more at once, up to an eighth of what
    /// is free.
    fn next_step(&self, step: &mut u64) -> usize {
        let share = self.shared.table().free() / 8;
        let extents = usize::try_from((*step).min(share)).unwrap_or(usize::MAX);
        *step = (*step * 2).min(256);
        extents
    }

    /// Frees the blocks that nobody refers to any more, at once, and those that readers have left.
    /// Returns whether more blocks are free than before.
    fn collect_now(&self, before: u64) -> Result<bool> {
        let (has_references, in_limbo) = {
            let core = self.core();
            (!core.unreferenced.is_empty(), core.limbo_len())
        };
        if !has_references && in_limbo == 0 {
            return Ok(false);
        }
        // An index that fails, or that does not match, frees nothing; that is no error of a write.
        if has_references && let Err(error) = self.collect(&mut |_| true) {
            tracing::warn!(volume = %self.id, %error, "no reference can be given back");
            self.check_running()?;
        }
        self.flush_now()?;
        self.flush_now()?;
        let mut core = self.core();
        core.leave_limbo(self.readers.advance());
        Ok(core.free.len() > before)
    }

    /// Gets extents of the pool until so many blocks are free, or the pool has no more.
    pub(crate) fn refill_ahead(&self, blocks: u64) -> Result<()> {
        let mut step = lock(&self.refill_turn);
        if self.core().free.len() >= blocks {
            return Ok(());
        }
        let extents = self.next_step(&mut step);
        if extents > 0 {
            self.credit(extents)?;
        }
        Ok(())
    }

    /// Makes sure that the log has room for an operation, and that the next checkpoint has blocks
    /// for its pages and `more`. The caller holds no lock.
    pub(crate) fn make_room(&self, more: u64) -> Result<()> {
        self.make_log_room()?;
        let missing = || {
            let core = self.core();
            (core.reserve() + more).saturating_sub(core.free.len())
        };
        while missing() > 0 {
            if !self.credit(1)? {
                return self.make_room_without_extents(&missing);
            }
        }
        Ok(())
    }

    /// Gets free blocks until none is missing, in a pool without a free extent.
    fn make_room_without_extents(&self, missing: &dyn Fn() -> u64) -> Result<()> {
        self.checkpoint_if_fits()?;
        self.flush_now()?;
        while missing() > 0 {
            let before = self.core().free.len();
            if !self.take_gift(missing())? && !self.collect_now(before)? {
                return Err(VolumeError::NoSpace);
            }
        }
        self.make_log_room()
    }

    /// Makes a checkpoint, unless there are too few blocks for its pages.
    pub(crate) fn checkpoint_if_fits(&self) -> Result<()> {
        match self.checkpoint() {
            // If the log had no room, the volume has stopped.
            Err(VolumeError::NoSpace) => self.check_running(),
            made => made,
        }
    }

    /// Makes sure that the log has room for an operation. The caller holds no lock.
    pub(crate) fn make_log_room(&self) -> Result<()> {
        if self.core().has_log_room() || self.credit(1)? && self.core().has_log_room() {
            return Ok(());
        }
        self.checkpoint_if_fits()?;
        if self.core().has_log_room() {
            return Ok(());
        }
        Err(VolumeError::NoSpace)
    }

    /// Makes sure that the log has room for a batch, which may stay open for long. The caller holds
    /// the slot, whose batch is answered.
    pub(crate) fn make_batch_room(&self, slot: &Slot) -> Result<()> {
        let has_room = || self.core().has_batch_room();
        if has_room() || self.credit(1)? && has_room() {
            return Ok(());
        }
        self.checkpoint_in_slot(slot)?;
        if has_room() {
            return Ok(());
        }
        Err(VolumeError::NoSpace)
    }

    /// Gets extents from the pool. Returns whether there was one.
    pub(crate) fn credit(&self, count: usize) -> Result<bool> {
        let granted = self.or_stop(self.shared.grant(self.id, count))?;
        self.adopt(&granted)?;
        Ok(!granted.is_empty())
    }

    /// Adds extents that the table says the volume has, and tells the log.
    pub(crate) fn adopt(&self, granted: &[Grant]) -> Result<()> {
        let mut core = self.core();
        for part in granted.chunks(256) {
            let extents = part.to_vec();
            for (extent, _) in part {
                core.free.add_extent(*extent);
            }
            core.credited.extend_from_slice(part);
            self.or_stop(core.append(&Record::Extents { extents }))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
