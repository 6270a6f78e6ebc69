//! The log of a volume as a start finds it: its blocks up to the end, and what shows that it does
//! not end there.
//!
//! The log ends at the first block that is not whole, or not the next one. A power cut may leave a
//! block that the device cannot read: that is an end, too. It is damage if a later block has a mark
//! that covers it, because then it was flushed. A mark is durable with the flush behind its own, so
//! rot of a block of the last flush looks like a block that a power cut tore.

use env::{AlignedBuffer, BLOCK_BYTES, BlockDevice, DeviceError};
use format::FormatError;
use format::pool::EXTENT_BLOCKS;
use format::pool::frame::{self, BlockKind, PoolId};
use format::pool::header::{LogPosition, VolumeHeader};
use format::pool::log::LogBlockHead;
use format::pool::record::Record;
use types::ExtentNumber;

use crate::error::{Result, VolumeError};
use crate::free::block_at;
use crate::log::EXTENT_END;
use crate::unreadable::{is_of_device, read_or_error, try_read};

const BLOCK_LEN: usize = format::pool::BLOCK_BYTES;
/// Blocks of one read.
const AT_ONCE: u32 = 64;
/// A block that cannot be read is read so many times more before the log may end there: the fault
/// may pass.
const READ_AGAIN: usize = 3;

/// The log behind a checkpoint.
pub(crate) struct FoundLog {
    /// Its extents, in order.
    pub(crate) extents: Vec<ExtentNumber>,
    pub(crate) blocks: Vec<(u64, Vec<Record>)>,
    /// Where the log goes on: behind the last block, and behind one that cannot be read.
    pub(crate) next: LogPosition,
    /// The end of the room in the last extent.
    pub(crate) limit: u32,
    /// Blocks before `next` that the next checkpoint frees.
    pub(crate) len: u64,
    /// Blocks before this one are covered by a mark.
    pub(crate) marked: u64,
}

/// Reads the log up to its end.
///
/// # Errors
/// [`VolumeError::Damaged`] or [`VolumeError::UnreadableLog`] if the block at which the log would
/// end was flushed; errors of the device that are not of a block.
pub(crate) fn read_log(device: &dyn BlockDevice, pool: PoolId, header: &VolumeHeader) -> Result<FoundLog> {
    let Some(begin) = header.log else {
        let extent = ExtentNumber::MAX;
        return Ok(FoundLog {
            extents: Vec::new(),
            blocks: Vec::new(),
            next: LogPosition {
                extent,
                index: 0,
                sequence: 1,
            },
            limit: EXTENT_END,
            len: 0,
            marked: 0,
        });
    };
    let mut found = FoundLog {
        extents: vec![begin.extent],
        blocks: Vec::new(),
        next: begin,
        limit: EXTENT_END,
        len: 0,
        marked: begin.sequence,
    };
    let mut error = read_blocks(device, pool, header, begin, &mut found)?;
    for _ in 0..READ_AGAIN {
        if error.is_some() {
            error = read_blocks(device, pool, header, begin, &mut found)?;
        }
    }
    let search = Search {
        device,
        pool,
        header,
        end: found.next,
    };
    found.len = found.blocks.len() as u64;
    let is_end = search.is_end(error.is_some())?;
    if let Some(error) = error {
        let block = block_at(found.next.extent, found.next.index as usize);
        if !is_end {
            return Err(VolumeError::UnreadableLog { block, error });
        }
        tracing::error!(
            volume = %header.name, %block, %error,
            "the device cannot read a block at the end of the log, as after a power cut; changes of the last \
             seconds before the pool stopped may be lost"
        );
        if found.next.index + 1 < found.limit {
            found.next.index += 1;
            found.len += 1;
        }
    } else if !is_end {
        return Err(VolumeError::Damaged {
            what: "the log of a volume",
            block: block_at(found.next.extent, found.next.index as usize),
            why: FormatError::Invalid {
                what: "log block",
                why: "a later block says that it was flushed",
            },
        });
    }
    Ok(found)
}

/// Reads blocks of log up to the end. Returns the error of the device if it cannot read the block
/// there.
fn read_blocks(
    device: &dyn BlockDevice,
    pool: PoolId,
    header: &VolumeHeader,
    begin: LogPosition,
    found: &mut FoundLog,
) -> Result<Option<DeviceError>> {
    let mut buffer = AlignedBuffer::with_capacity(AT_ONCE as usize * BLOCK_LEN);
    'all: loop {
        let count = AT_ONCE.min(EXTENT_END - found.next.index);
        for block in read_run(device, found.next.extent, found.next.index, count, &mut buffer)? {
            let block = match block {
                Ok(block) => block,
                Err(error) => return Ok(Some(error)),
            };
            let Some((head, records)) = read_block(pool, header, &found.next, block)? else {
                return Ok(None);
            };
            for record in &records {
                if let Record::FlushMark { covers } = record {
                    found.marked = found.marked.max(*covers);
                }
            }
            found.blocks.push((head.sequence, records));
            found.next.sequence += 1;
            found.next.index += 1;
            let is_last = found.next.index >= EXTENT_END;
            match head.next {
                Some(next) => {
                    if next == found.next.extent {
                        // The log turned round in its first extent.
                        found.limit = begin.index;
                    } else {
                        found.extents.push(next);
                        found.limit = EXTENT_END;
                    }
                    found.next.extent = next;
                    found.next.index = 0;
                    continue 'all;
                }
                None if !is_last => {}
                None => {
                    return Err(VolumeError::Contradiction {
                        volume: header.name.clone(),
                        why: format!("block {} of its log names no extent", head.sequence),
                    });
                }
            }
        }
    }
}

/// A block, or the error of the device for it.
type ReadBlock<'a> = Result<&'a [u8], DeviceError>;

/// Reads blocks in a row: at once, and one by one if that fails.
fn read_run<'a>(
    device: &dyn BlockDevice,
    extent: ExtentNumber,
    index: u32,
    count: u32,
    buffer: &'a mut AlignedBuffer,
) -> Result<Vec<ReadBlock<'a>>> {
    let at = |n: usize| block_at(extent, index as usize + n);
    buffer.grow_to(count as usize * BLOCK_LEN);
    let bytes = &mut buffer[..count as usize * BLOCK_LEN];
    if try_read(device, at(0), bytes)? {
        return Ok(bytes.chunks_exact(BLOCK_LEN).map(Ok).collect());
    }
    let mut blocks = Vec::with_capacity(count as usize);
    for (n, block) in bytes.chunks_exact_mut(BLOCK_LEN).enumerate() {
        let error = read_or_error(device, at(n), block)?;
        blocks.push(error.map_or(Ok(&*block), Err));
    }
    Ok(blocks)
}

/// The block of log if it is the next one. A whole block of this log that cannot be read is damage,
/// or of a newer program: to end the log there would lose what was answered.
fn read_block(
    pool: PoolId,
    header: &VolumeHeader,
    next: &LogPosition,
    block: &[u8],
) -> Result<Option<(LogBlockHead, Vec<Record>)>> {
    let payload = match frame::open_in(pool, BlockKind::Log, block) {
        Ok(payload) => payload,
        Err(error @ FormatError::NewerVersion { .. }) => return Err(VolumeError::Newer { why: error }),
        Err(_) => return Ok(None),
    };
    let is_next = |head: &LogBlockHead| {
        head.volume == header.volume && head.epoch == header.epoch && head.sequence == next.sequence
    };
    match LogBlockHead::read_head(payload) {
        Ok(head) if is_next(&head) => {}
        _ => return Ok(None),
    }
    let read = LogBlockHead::read(payload).map_err(|why| VolumeError::Damaged {
        what: "the log of a volume",
        block: block_at(next.extent, next.index as usize),
        why,
    })?;
    Ok(Some(read))
}

/// Looks for blocks of a log behind its end.
struct Search<'a> {
    device: &'a dyn BlockDevice,
    pool: PoolId,
    header: &'a VolumeHeader,
    end: LogPosition,
}

impl Search<'_> {
    /// Whether the log ends there: no later block says that the block there was flushed.
    ///
    /// Later blocks are in the same extent, and in those that they name. If the block at the end
    /// cannot be read, nobody knows where the log went on: then the first block of each extent of
    /// the device is read, at which a log goes on. If most of the extent cannot be read, nobody
    /// knows what was flushed: a power cut tears less.
    fn is_end(&self, is_unreadable: bool) -> Result<bool> {
        let count = self.device.len() / (EXTENT_BLOCKS * BLOCK_BYTES);
        let mut extents = vec![self.end.extent];
        let mut done = 0;
        while let Some(extent) = extents.get(done) {
            let seen = self.look_at(*extent)?;
            if seen.is_flushed || is_unreadable && is_of_device(seen.unreadable, EXTENT_END as usize) {
                return Ok(false);
            }
            for extent in seen.named {
                if u64::from(extent.get()) < count && !extents.contains(&extent) {
                    extents.push(extent);
                }
            }
            done += 1;
        }
        if !is_unreadable {
            return Ok(true);
        }
        let mut block = AlignedBuffer::with_capacity(BLOCK_LEN);
        block.grow_to(BLOCK_LEN);
        for number in 0..u32::try_from(count).unwrap_or(u32::MAX) {
            let Ok(extent) = ExtentNumber::new(number) else {
                break;
            };
            let is_read = try_read(self.device, block_at(extent, 0), &mut block)?;
            let is_of_log = is_read && self.later(&block).is_some();
            if is_of_log && !extents.contains(&extent) && self.look_at(extent)?.is_flushed {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A block of the log behind the end.
    fn later(&self, block: &[u8]) -> Option<(LogBlockHead, Vec<Record>)> {
        let read = frame::open_in(self.pool, BlockKind::Log, block).and_then(LogBlockHead::read);
        read.ok().filter(|(head, _)| {
            head.volume == self.header.volume
                && head.epoch == self.header.epoch
                && head.sequence > self.end.sequence
        })
    }

    /// Looks for later blocks in one extent.
    fn look_at(&self, extent: ExtentNumber) -> Result<Seen> {
        let mut seen = Seen::default();
        let mut buffer = AlignedBuffer::with_capacity(AT_ONCE as usize * BLOCK_LEN);
        for index in (0..EXTENT_END).step_by(AT_ONCE as usize) {
            for block in read_run(self.device, extent, index, AT_ONCE, &mut buffer)? {
                let Ok(block) = block else {
                    seen.unreadable += 1;
                    continue;
                };
                let Some((head, records)) = self.later(block) else {
                    continue;
                };
                seen.named.extend(head.next);
                seen.is_flushed |= records.iter().any(|record| match record {
                    Record::FlushMark { covers } => *covers > self.end.sequence,
                    _ => false,
                });
            }
        }
        Ok(seen)
    }
}

/// What was found in an extent behind the end of a log.
#[derive(Debug, Default)]
struct Seen {
    /// A mark covers the block at the end.
    is_flushed: bool,
    /// Extents that later blocks name.
    named: Vec<ExtentNumber>,
    /// Blocks that the device cannot read.
    unreadable: usize,
}
