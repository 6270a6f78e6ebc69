//! The head of a volume on the device: two copies, written one behind the other.
//!
//! Both copies say the same before anything is freed that an earlier header refers to. So a copy
//! that was torn, that is rotten, or that the device cannot read, is replaced by the other one.

use env::{BlockDevice, DeviceError};
use format::FormatError;
use format::pool::BLOCK_BYTES;
use format::pool::frame::{self, BlockKind, PoolId};
use format::pool::header::VolumeHeader;
use types::{BlockNumber, ExtentNumber, VolumeId};

use crate::error::{Result, VolumeError};
use crate::free::block_at;
use crate::volume::{Head, Volume};

/// Blocks of the extent that the header's copies take.
pub(crate) const HEADER_BLOCKS: usize = 2;

fn copy_of(extent: ExtentNumber, counter: u64) -> BlockNumber {
    block_at(extent, usize::from(!counter.is_multiple_of(2)))
}

/// Writes both copies durably, one behind the other: this one has the first counter.
pub(crate) fn write_copies(
    device: &dyn BlockDevice,
    pool: PoolId,
    extent: ExtentNumber,
    header: &mut VolumeHeader,
) -> Result<()> {
    write_copy(device, pool, extent, header)?;
    header.counter += 1;
    write_copy(device, pool, extent, header)
}

/// Writes the copy that this counter belongs to, durably.
fn write_copy(
    device: &dyn BlockDevice,
    pool: PoolId,
    extent: ExtentNumber,
    header: &VolumeHeader,
) -> Result<()> {
    let mut page = [0; BLOCK_BYTES];
    frame::seal_in(pool, BlockKind::Header, &header.to_bytes(), &mut page);
    let block = copy_of(extent, header.counter);
    device.write_at(block.get() * env::BLOCK_BYTES, &page)?;
    device.flush()?;
    Ok(())
}

/// Reads the newer one of the copies that are whole.
///
/// # Errors
/// [`VolumeError::Damaged`] if none is; the error of the device if that is why.
pub(crate) fn read_header(
    device: &dyn BlockDevice,
    pool: PoolId,
    extent: ExtentNumber,
    volume: VolumeId,
) -> Result<VolumeHeader> {
    let (mut best, mut unreadable): (Option<VolumeHeader>, _) = (None, None);
    let mut fault = FormatError::Invalid {
        what: "volume header",
        why: "it is of another volume",
    };
    for counter in 0..HEADER_BLOCKS as u64 {
        let mut page = [0; BLOCK_BYTES];
        let block = copy_of(extent, counter);
        match device.read_at(block.get() * env::BLOCK_BYTES, &mut page) {
            Ok(()) => {}
            Err(error @ DeviceError::Io { .. }) => {
                unreadable = Some(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        match frame::open_in(pool, BlockKind::Header, &page).and_then(VolumeHeader::decode) {
            Ok(found) if found.volume == volume => {
                if best.as_ref().is_none_or(|best| best.counter < found.counter) {
                    best = Some(found);
                }
            }
            Ok(_) => {}
            Err(error @ FormatError::NewerVersion { .. }) => return Err(VolumeError::Newer { why: error }),
            Err(error) => fault = error,
        }
    }
    match (best, unreadable) {
        (Some(best), _) => Ok(best),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(VolumeError::Damaged {
            what: "the header of a volume",
            block: copy_of(extent, 0),
            why: fault,
        }),
    }
}

impl Volume {
    /// Replaces the header, durably. All that an earlier header refers to may be freed then.
    pub(crate) fn write_header(&self, head: &mut Head, header: VolumeHeader) -> Result<()> {
        let mut header = VolumeHeader {
            counter: head.header.counter + 1,
            ..header
        };
        write_copies(&*self.shared.device, self.shared.pool, head.extent, &mut header)?;
        head.stored_epoch = header.epoch;
        head.header = header;
        Ok(())
    }
}
