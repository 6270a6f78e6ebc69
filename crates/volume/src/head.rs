//! The head of a volume on the device: two copies, written in turn.

use env::BlockDevice;
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

/// Writes the copy that this counter belongs to, durably.
pub(crate) fn write_copy(
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

/// Reads the newer whole copy.
pub(crate) fn read_header(
    device: &dyn BlockDevice,
    pool: PoolId,
    extent: ExtentNumber,
    volume: VolumeId,
) -> Result<VolumeHeader> {
    let mut best: Option<VolumeHeader> = None;
    let mut fault = FormatError::Invalid {
        what: "volume header",
        why: "it is of another volume",
    };
    for counter in 0..HEADER_BLOCKS as u64 {
        let mut page = [0; BLOCK_BYTES];
        let block = copy_of(extent, counter);
        device.read_at(block.get() * env::BLOCK_BYTES, &mut page)?;
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
    best.ok_or_else(|| VolumeError::Damaged {
        what: "the header of a volume",
        block: copy_of(extent, 0),
        why: fault,
    })
}

impl Volume {
    /// Replaces the header, durably.
    pub(crate) fn write_header(&self, head: &mut Head, header: VolumeHeader) -> Result<()> {
        let header = VolumeHeader {
            counter: head.header.counter + 1,
            ..header
        };
        write_copy(&*self.shared.device, self.shared.pool, head.extent, &header)?;
        head.stored_epoch = header.epoch;
        head.header = header;
        Ok(())
    }
}
