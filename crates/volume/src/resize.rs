//! The length of a volume.
//!
//! Requests may be under way meanwhile; the caller keeps clients away from what is cut. Two changes
//! of the length come one behind the other. A crash leaves the length of before or that of after;
//! what was behind a new end may be zeros in both.

use format::pool::header::VOLUME_BLOCKS_MAX;
use format::pool::record::Record;

use crate::error::Result;
use crate::names::check_len;
use crate::volume::Volume;

impl Volume {
    /// Gives the volume another length, rounded up to whole blocks. If it gets shorter, what is
    /// behind its end is lost.
    ///
    /// # Errors
    /// [`crate::VolumeError::Invalid`]; [`crate::VolumeError::NoSpace`]; errors of the device.
    pub fn resize(&self, len_bytes: u64) -> Result<()> {
        let _resizing = self.resizing();
        self.resize_alone(check_len(len_bytes)?)
    }

    /// Gives the volume another length, rounded up to whole blocks, unless that is shorter: then it
    /// changes nothing, and returns `false`.
    ///
    /// # Errors
    /// As [`Self::resize`].
    pub fn lengthen(&self, len_bytes: u64) -> Result<bool> {
        let _resizing = self.resizing();
        let blocks = check_len(len_bytes)?;
        if blocks < self.blocks() {
            return Ok(false);
        }
        self.resize_alone(blocks).map(|()| true)
    }

    fn resize_alone(&self, blocks: u64) -> Result<()> {
        self.make_log_room()?;
        let before = self.blocks();
        self.set_blocks(blocks.min(before));
        // Also when it grows: an attempt to make it shorter may have ended halfway.
        let end = VOLUME_BLOCKS_MAX * env::BLOCK_BYTES;
        if let Err(error) = self.cut(blocks.min(before) * env::BLOCK_BYTES, end) {
            if let Err(later) = self.keep_length(before) {
                tracing::warn!(volume = %self.id, error = %later, "the length may be lost by a crash");
            }
            return Err(error);
        }
        {
            // A checkpoint must not come between the record and the length that it stores.
            let mut core = self.core();
            let record = Record::Resized { blocks };
            self.or_stop(core.append(&record))?;
            self.set_blocks(blocks);
        }
        self.flush_now()
    }

    /// The volume keeps this length, because it could not be cut. A checkpoint may have stored the
    /// shorter one meanwhile.
    fn keep_length(&self, blocks: u64) -> Result<()> {
        {
            let mut core = self.core();
            self.set_blocks(blocks);
            self.or_stop(core.append(&Record::Resized { blocks }))?;
        }
        self.flush_now()
    }
}
