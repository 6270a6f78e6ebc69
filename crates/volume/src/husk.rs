//! Removed volumes: their blocks become free, and what remains is a husk, which the next new volume
//! takes over.
//!
//! One thread at a time frees the blocks of a volume. A crash in between loses nothing: the next
//! call does the rest.

use format::pool::header::{VOLUME_BLOCKS_MAX, VolumeHeader, VolumeSettings};

use crate::error::Result;
use crate::volume::Volume;

/// Free extents that a husk keeps.
const EXTENTS_KEPT: usize = 1;

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
        if !self.name().is_empty() || self.is_dissolved() {
            return Ok(());
        }
        self.cut(0, VOLUME_BLOCKS_MAX * env::BLOCK_BYTES)?;
        self.collect(pause)?;
        self.flush_now()?;
        self.flush_now()?;
        self.checkpoint()?;
        self.return_extents(EXTENTS_KEPT)
    }
}
