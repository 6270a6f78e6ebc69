//! Blocks of a volume's log (D8).
//!
//! Blocks have successive sequence numbers, and fill one extent after another. The last block of an
//! extent names the next one. The log ends before the first block that is not whole, or is of
//! another volume, epoch or sequence.

use types::{ExtentNumber, VolumeId};

use super::frame::FRAMED_BYTES_MAX;
use super::record::Record;
use crate::error::Result;
use crate::wire::{Reader, Writer};

/// Bytes before the records.
const HEAD_BYTES_MAX: usize = 24;
/// Bytes of records that fit a block.
pub const RECORDS_BYTES_MAX: usize = FRAMED_BYTES_MAX - HEAD_BYTES_MAX;

/// The head of a block of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogBlockHead {
    /// The volume.
    pub volume: VolumeId,
    /// The owner's epoch.
    pub epoch: u32,
    /// The block's number in the log.
    pub sequence: u64,
    /// The extent with the block that follows; only in the last block of an extent.
    pub next: Option<ExtentNumber>,
}

impl LogBlockHead {
    /// The payload of the block with these encoded records.
    #[must_use]
    pub fn with_records(&self, records: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES_MAX + records.len());
        let mut w = Writer::new(&mut out);
        w.u32(self.volume.get());
        w.u32(self.epoch);
        w.u64(self.sequence);
        w.u32(self.next.map_or(u32::MAX, types::ExtentNumber::get));
        w.put(records);
        out
    }

    /// The head and the records of a payload.
    ///
    /// # Errors
    /// `Malformed` if it is none.
    pub fn read(payload: &[u8]) -> Result<(Self, Vec<Record>)> {
        let mut r = Reader::new("log block", payload);
        let here = r.fault("a number is out of range");
        let (volume, epoch, sequence, next) = (r.u32()?, r.u32()?, r.u64()?, r.u32()?);
        let head = Self {
            volume: VolumeId::new(volume).map_err(|_| here.clone())?,
            epoch,
            sequence,
            next: match next {
                u32::MAX => None,
                number => Some(ExtentNumber::new(number).map_err(|_| here)?),
            },
        };
        let mut records = Vec::new();
        while r.remaining() > 0 {
            records.push(Record::read(&mut r)?);
        }
        Ok((head, records))
    }
}
