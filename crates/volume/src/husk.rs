//! Removed volumes: their blocks become free, and what remains is a husk, which the next new volume
//! takes over.
//!
//! One thread at a time frees the blocks of a volume. A crash in between loses nothing: the next
//! call does the rest.

use std::cell::Cell;

use format::pool::header::{VOLUME_BLOCKS_MAX, VolumeHeader, VolumeSettings};

use crate::error::{Result, VolumeError};
use crate::volume::Volume;
use crate::write::REFERENCES_MAX;

/// Free extents that a husk keeps.
const EXTENTS_KEPT: usize = 1;
/// Pages of the map that are cut before their references are given back: up to 256 MiB.
const PAGES_AT_ONCE: usize = 128;

impl Volume {
    /// Whether the volume was removed, and has nothing left but free blocks.
    pub(crate) fn is_husk(&self) -> bool {
        if !self.head().header.name.is_empty() {
            return false;
        }
        let core = self.core();
        core.mapped == 0 && core.references().next().is_none() && core.with_finder.is_empty()
    }

    /// Whether a removed volume has nothing left that it could give back.
    fn is_dissolved(&self) -> bool {
        let core = self.core();
        let waits = !core.unreferenced.is_empty() && self.shared.may_collect();
        let has_blocks = core.mapped > 0 || core.limbo_len() > 0 || !core.with_finder.is_empty();
        !waits && !has_blocks && core.free.whole_extents() <= EXTENTS_KEPT
    }

    /// Blocks that are mapped, and references that are to be given back.
    fn blocks_left(&self) -> u64 {
        let core = self.core();
        let references = core.references().map(|one| u64::from(one.count)).sum::<u64>();
        core.mapped + references
    }

    /// Whether it was removed, and has blocks that are not free, or extents that are not returned.
    pub(crate) fn is_dissolving(&self) -> bool {
        self.name().is_empty() && !(self.is_husk() && self.is_dissolved())
    }

    /// A removed volume becomes a new one. It has no mapped block.
    pub(crate) fn revive(&self, name: &str, blocks: u64, settings: VolumeSettings) -> Result<()> {
        self.checkpoint()?;
        let mut head = self.head();
        let header = VolumeHeader {
            name: name.to_owned(),
            blocks,
            settings,
            ..head.header.clone()
        };
        self.write_header(&mut head, header)?;
        self.set_blocks(blocks);
        self.keep_settings(settings);
        self.counters.reset();
        Ok(())
    }

    /// Frees all blocks of a removed volume, and returns its whole extents to the pool. `pause` as
    /// in [`Self::collect`].
    ///
    /// # Errors
    /// Errors of the device and of the index.
    pub fn dissolve(&self, pause: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        let _dissolving = self.dissolving();
        self.dissolve_alone(pause)
    }

    /// As [`Self::dissolve`], unless another thread does it now.
    pub(crate) fn dissolve_if_free(&self, pause: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        match self.try_dissolving() {
            Some(_dissolving) => self.dissolve_alone(pause),
            None => Ok(()),
        }
    }

    fn dissolve_alone(&self, pause: &mut dyn FnMut(u64) -> bool) -> Result<()> {
        if !self.name().is_empty() || self.is_dissolved() {
            return Ok(());
        }
        let goes_on = Cell::new(true);
        let mut pause = |bytes| {
            goes_on.set(pause(bytes));
            goes_on.get()
        };
        let mut blocks = 0..VOLUME_BLOCKS_MAX;
        let mut failed = Ok(());
        while !blocks.is_empty() && goes_on.get() {
            let before = self.blocks_left();
            let cut = self.cut_some(blocks.clone(), PAGES_AT_ONCE);
            // What was cut becomes free before more is cut: the list of references is short, and a
            // full pool has room for the records of the next pages.
            failed = self.collect(&mut pause).map(drop);
            self.flush_now()?;
            self.flush_now()?;
            match cut {
                Ok(next) => blocks.start = next.unwrap_or(blocks.end),
                Err(VolumeError::NoSpace) if self.blocks_left() < before => self.checkpoint_if_fits()?,
                Err(error) => return Err(error),
            }
            // Without the index, only what nobody shared becomes free.
            if failed.is_err() && self.core().unreferenced.len() > REFERENCES_MAX {
                break;
            }
            pause(0);
        }
        self.checkpoint_if_fits()?;
        self.return_extents(EXTENTS_KEPT)?;
        failed
    }
}
