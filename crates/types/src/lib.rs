//! Ids and units of Onefold as newtypes; no I/O.
//!
//! Every id, count and length that crosses a function boundary is one of these, so that a slot is
//! never taken for a sequence number. The words are those of `docs/glossary.md`. All types are
//! plain values: `Copy` if small, ordered by number, safe to share.

mod fingerprint;
mod ids;
mod location;
mod name;
mod setters;
mod units;
mod words;

pub use fingerprint::Fingerprint;
pub use ids::{
    BatchSequence, BlockNumber, ContainerId, ContainerKind, Epoch, ExtentNumber, Generation, Lba, Level,
    RegionIndex, Revision, SequenceNumber, SeriesId, SessionId, Slot, StoreId, VolumeId,
};
pub use location::{ChunkLocation, SlotRange};
pub use name::{NameError, OBJECT_NAME_BYTES_MAX, ObjectName};
pub use units::{ByteLen, ByteRange, FileTime, UnixNanos};
pub use words::{shell_word, shell_words};

/// A number that does not fit its id or unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value} is out of range for a {what} (at most {max})")]
pub struct OutOfRange {
    /// The type that refused the number.
    pub what: &'static str,
    /// The number.
    pub value: u64,
    /// The largest number that fits.
    pub max: u64,
}
