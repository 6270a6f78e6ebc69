//! Blocks that the device cannot read: they are set aside, and the work on all others goes on.
//!
//! An error of a read is *of the block* if the device reports [`DeviceError::Io`] and can still
//! read a superblock of the pool. Any other error is of the device: it ends the work, and nothing
//! is set aside. So does an error of most blocks of a batch, because the system may still have a
//! superblock in memory when the disk is gone.
//!
//! The finder does not meet a block again that it has set aside, before somebody writes the block
//! or the pool is started. The collector keeps references to such a block for as long. Requests of
//! clients for the block get the error of the device.

use env::{AlignedBuffer, BlockDevice, DeviceError};
use format::pool::superblock::SUPERBLOCKS;
use types::{BlockNumber, Lba};

use crate::core::Core;
use crate::error::Result;
use crate::shared::Shared;
use crate::volume::Volume;

/// More unreadable blocks than this, if they are most of a batch, are the device's fault.
const UNREADABLE_MAX: usize = 64;

/// Whether so many unreadable blocks of a batch are the device's fault.
pub(crate) const fn is_of_device(unreadable: usize, of: usize) -> bool {
    unreadable > UNREADABLE_MAX && unreadable > of / 2
}

/// Whether the error of a read is that of the block alone.
fn is_of_block(device: &dyn BlockDevice, error: &DeviceError) -> bool {
    let can_read = |block: u64| {
        let mut bytes = [0; format::pool::BLOCK_BYTES];
        device.read_at(block * env::BLOCK_BYTES, &mut bytes).is_ok()
    };
    matches!(error, DeviceError::Io { .. }) && SUPERBLOCKS.into_iter().any(can_read)
}

/// Reads blocks in a row. Returns the error if it is of a block.
pub(crate) fn read_or_error(
    device: &dyn BlockDevice,
    first: BlockNumber,
    out: &mut [u8],
) -> Result<Option<DeviceError>> {
    match device.read_at(Volume::at(first), out) {
        Ok(()) => Ok(None),
        Err(error) if is_of_block(device, &error) => Ok(Some(error)),
        Err(error) => Err(error.into()),
    }
}

/// Reads blocks in a row; `false` if the error is of a block.
pub(crate) fn try_read(device: &dyn BlockDevice, first: BlockNumber, out: &mut [u8]) -> Result<bool> {
    Ok(read_or_error(device, first, out)?.is_none())
}

impl Shared {
    /// Reads blocks in a row; `false` if the error is of a block.
    pub(crate) fn try_read(&self, first: BlockNumber, out: &mut [u8]) -> Result<bool> {
        try_read(&*self.device, first, out)
    }
}

impl Volume {
    /// Reads a block for the error that the device gives, which is the device's fault.
    ///
    /// # Errors
    /// That error, unless the device can read the block now.
    pub(crate) fn read_again(&self, block: BlockNumber) -> Result<()> {
        let mut bytes = AlignedBuffer::with_capacity(format::pool::BLOCK_BYTES);
        bytes.grow_to(format::pool::BLOCK_BYTES);
        self.shared.device.read_at(Self::at(block), &mut bytes)?;
        Ok(())
    }

    /// Sets aside a block that cannot be read. `lba` is the volume's block that refers to it, if
    /// one does.
    pub(crate) fn set_aside(&self, core: &mut Core, block: BlockNumber, lba: Option<Lba>) {
        if core.unreadable.insert(block) {
            let lba = lba.map_or_else(|| "none".to_owned(), |lba| lba.to_string());
            tracing::warn!(
                volume = %self.id, %lba, %block,
                "the device cannot read a block; it is left alone until it is written or the pool is \
                 started"
            );
        }
    }

    /// Notes that blocks in a row can be read.
    pub(crate) fn note_readable(&self, first: BlockNumber, count: usize) {
        let mut core = self.core();
        if !core.unreadable.is_empty() {
            let range = first.get()..first.get() + count as u64;
            core.unreadable.retain(|block| !range.contains(&block.get()));
        }
    }
}
