//! Blocks of a volume's log (D8).
//!
//! Blocks have successive sequence numbers, and fill one extent after another. The last block of an
//! extent names the next one. The log ends before the first block that is not whole, or is of
//! another volume, epoch or sequence.

use types::{ExtentNumber, VolumeId};

use super::frame::FRAMED_BYTES_MAX;
use super::ids::{PoolId, are_in_range};
use super::record::Record;
use crate::error::Result;
use crate::wire::{Reader, Writer};

/// Bytes before the records.
pub const LOG_HEAD_BYTES: usize = 20;
/// Instead of the next extent, in blocks that are not the last one of theirs.
const NO_EXTENT: u32 = u32::MAX;
/// Bytes of records that fit a block.
pub const RECORDS_BYTES_MAX: usize = FRAMED_BYTES_MAX - LOG_HEAD_BYTES;

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
    ///
    /// # Panics
    /// If there is no record, or they do not fit a block, or a number of the head is none that
    /// [`Self::read`] accepts.
    #[must_use]
    pub fn with_records(&self, records: &[u8]) -> Vec<u8> {
        assert!(!records.is_empty(), "a block of log has a record");
        assert!(records.len() <= RECORDS_BYTES_MAX, "the records fit a block");
        let has_numbers = self.volume.is_in_range() && are_in_range(self.next);
        assert!(has_numbers, "the numbers of a log can be read back");
        let mut out = Vec::with_capacity(LOG_HEAD_BYTES + records.len());
        let mut w = Writer::new(&mut out);
        w.u32(self.volume.get());
        w.u32(self.epoch);
        w.u64(self.sequence);
        w.u32(self.next.map_or(NO_EXTENT, ExtentNumber::get));
        w.put(records);
        out
    }

    /// The head alone of a payload. Its records may be damaged.
    ///
    /// # Errors
    /// `Malformed` if it is none.
    pub fn read_head(payload: &[u8]) -> Result<Self> {
        Self::read_from(&mut Reader::new("log block", payload))
    }

    /// The head and the records of a payload.
    ///
    /// # Errors
    /// `Malformed` if it is none; `Invalid` if a record breaks a rule.
    pub fn read(payload: &[u8]) -> Result<(Self, Vec<Record>)> {
        let mut r = Reader::new("log block", payload);
        r.require(
            payload.len() <= FRAMED_BYTES_MAX,
            "the records are longer than a block",
        )?;
        let head = Self::read_from(&mut r)?;
        let mut records = Vec::new();
        while r.remaining() > 0 {
            records.push(Record::read(&mut r)?);
        }
        Ok((head, records))
    }

    fn read_from(r: &mut Reader<'_>) -> Result<Self> {
        let here = r.fault("a number is out of range");
        let (volume, epoch, sequence, next) = (r.u32()?, r.u32()?, r.u64()?, r.u32()?);
        let head = Self {
            volume: VolumeId::new(volume).map_err(|_| here.clone())?,
            epoch,
            sequence,
            next: match next {
                NO_EXTENT => None,
                number => Some(ExtentNumber::new(number).map_err(|_| here.clone())?),
            },
        };
        if !head.volume.is_in_range() || !are_in_range(head.next) {
            return Err(here);
        }
        r.require(r.remaining() > 0, "a block has no record")?;
        Ok(head)
    }
}
