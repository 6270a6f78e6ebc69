//! Ids and units as bytes. Each reader refuses the values that its type refuses.

use types::{
    ContainerId, Epoch, Fingerprint, Generation, Level, Revision, SequenceNumber, SeriesId, SessionId,
};
use types::{FileTime, Slot, SlotRange, StoreId, UnixNanos};

use crate::error::Result;
use crate::wire::{Reader, Writer};

#[expect(
    clippy::missing_errors_doc,
    reason = "all: `Malformed` when cut off or out of the type's range"
)]
impl Reader<'_> {
    /// Varint.
    pub fn session(&mut self) -> Result<SessionId> {
        let here = self.fault("a session number is out of range");
        SessionId::new(self.varint()?).map_err(|_| here)
    }

    /// Varint.
    pub fn sequence(&mut self) -> Result<SequenceNumber> {
        let here = self.fault("a container sequence is out of range");
        SequenceNumber::new(self.varint32()?).map_err(|_| here)
    }

    /// Varint.
    pub fn slot(&mut self) -> Result<Slot> {
        let here = self.fault("a slot is out of range");
        Slot::new(self.varint32()?).map_err(|_| here)
    }

    /// Two varints: first and count.
    pub fn slot_range(&mut self) -> Result<SlotRange> {
        let here = self.fault("a slot range is empty or out of range");
        let first = self.slot()?;
        SlotRange::new(first, self.varint32()?).ok_or(here)
    }

    /// Varint.
    pub fn revision(&mut self) -> Result<Revision> {
        let here = self.fault("a revision is out of range");
        Revision::new(self.varint32()?).map_err(|_| here)
    }

    /// Varint.
    pub fn epoch(&mut self) -> Result<Epoch> {
        let here = self.fault("an epoch is out of range");
        Epoch::new(self.varint()?).map_err(|_| here)
    }

    /// Four bytes.
    pub fn generation(&mut self) -> Result<Generation> {
        let here = self.fault("a generation is out of range");
        Generation::new(self.u32()?).map_err(|_| here)
    }

    /// One byte.
    pub fn level(&mut self) -> Result<Level> {
        let here = self.fault("a level is out of range");
        Level::new(self.u8()?).map_err(|_| here)
    }

    /// Eight bytes.
    pub fn container(&mut self) -> Result<ContainerId> {
        let here = self.fault("a container id names no known kind");
        ContainerId::from_u64(self.u64()?).ok_or(here)
    }

    /// Sixteen bytes.
    pub fn series(&mut self) -> Result<SeriesId> {
        Ok(SeriesId::from_bytes(self.array()?))
    }

    /// Sixteen bytes.
    pub fn store(&mut self) -> Result<StoreId> {
        Ok(StoreId::from_bytes(self.array()?))
    }

    /// Thirty-two bytes.
    pub fn fingerprint(&mut self) -> Result<Fingerprint> {
        Ok(Fingerprint::from_bytes(self.array()?))
    }

    /// Eight bytes, two's complement.
    pub fn nanos(&mut self) -> Result<UnixNanos> {
        Ok(UnixNanos::new(i64::from_le_bytes(self.array()?)))
    }

    /// A varint of the seconds, their sign in the lowest bit, and four bytes of nanoseconds.
    pub fn file_time(&mut self) -> Result<FileTime> {
        let folded = self.varint()?;
        let seconds = (folded >> 1).cast_signed() ^ -(folded & 1).cast_signed();
        let here = self.fault("a time has a second or more of nanoseconds");
        let nanos = self.u32()?;
        let time = FileTime::new(seconds, nanos);
        if time.nanos() == nanos {
            Ok(time)
        } else {
            Err(here)
        }
    }
}

#[expect(
    missing_docs,
    reason = "each writes what the reader's method of the same name reads"
)]
impl Writer<'_> {
    pub fn session(&mut self, value: SessionId) {
        self.varint(value.get());
    }

    pub fn sequence(&mut self, value: SequenceNumber) {
        self.varint32(value.get());
    }

    pub fn slot(&mut self, value: Slot) {
        self.varint32(value.get());
    }

    pub fn slot_range(&mut self, value: SlotRange) {
        self.slot(value.first());
        self.varint32(value.count());
    }

    pub fn revision(&mut self, value: Revision) {
        self.varint32(value.get());
    }

    pub fn epoch(&mut self, value: Epoch) {
        self.varint(value.get());
    }

    pub fn generation(&mut self, value: Generation) {
        self.u32(value.get());
    }

    pub fn level(&mut self, value: Level) {
        self.u8(value.get());
    }

    pub fn container(&mut self, value: ContainerId) {
        self.u64(value.to_u64());
    }

    pub fn series(&mut self, value: SeriesId) {
        self.put(value.as_bytes());
    }

    pub fn store(&mut self, value: StoreId) {
        self.put(value.as_bytes());
    }

    pub fn fingerprint(&mut self, value: Fingerprint) {
        self.put(value.as_bytes());
    }

    pub fn nanos(&mut self, value: UnixNanos) {
        self.put(&value.get().to_le_bytes());
    }

    pub fn file_time(&mut self, value: FileTime) {
        let seconds = value.seconds();
        self.varint((seconds << 1 ^ seconds >> 63).cast_unsigned());
        self.u32(value.nanos());
    }
}
