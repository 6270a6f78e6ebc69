//! The encoding of messages: fields in order, little endian, lists and texts behind their lengths.
//! The receiver checks every length before it allocates.

use format::FormatError;
use format::wire::{Reader, Writer};
use recipe::{StreamName, TreeRoot};
use types::{ByteRange, ChunkLocation, ContainerId, SessionId};

use crate::frame::{ANSWER_BYTES_MAX, FRAME_BYTES_MAX};

pub(crate) type Result<T> = std::result::Result<T, FormatError>;

/// Bytes of a text, at most.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 10;

/// Bytes of a list's elements in memory, at most.
const LIST_BYTES_MAX: usize = 4 * FRAME_BYTES_MAX;

/// A value that can be sent.
pub trait Wire: Sized {
    /// Appends it.
    fn write(&self, w: &mut Writer<'_>);
    /// Reads it.
    ///
    /// # Errors
    /// The rule that the bytes break.
    fn read(r: &mut Reader<'_>) -> std::result::Result<Self, FormatError>;

    /// Its bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.append_to(&mut out);
        out
    }

    /// Appends its bytes.
    fn append_to(&self, out: &mut Vec<u8>) {
        self.write(&mut Writer::new(out));
    }

    /// The value that these bytes are, all of them.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn from_bytes(bytes: &[u8]) -> std::result::Result<Self, FormatError> {
        let mut r = Reader::new("message", bytes);
        let value = Self::read(&mut r)?;
        r.finish()?;
        Ok(value)
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn write(&self, w: &mut Writer<'_>) {
        w.list(self, |w, each| each.write(w));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        // An element in memory may be many times as long as its encoding.
        let mut left = LIST_BYTES_MAX / size_of::<T>().max(1);
        r.list(1, |r| {
            let too_many = r.fault("a list is too long for one message");
            left = left.checked_sub(1).ok_or(too_many)?;
            T::read(r)
        })
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn write(&self, w: &mut Writer<'_>) {
        self.0.write(w);
        self.1.write(w);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok((A::read(r)?, B::read(r)?))
    }
}

impl Wire for Vec<u8> {
    fn write(&self, w: &mut Writer<'_>) {
        w.bytes(self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        // The receiver has the bytes: an answer may have several frames.
        Ok(r.bytes(ANSWER_BYTES_MAX)?.to_vec())
    }
}

impl Wire for u64 {
    fn write(&self, w: &mut Writer<'_>) {
        w.u64(*self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.u64()
    }
}

impl Wire for String {
    fn write(&self, w: &mut Writer<'_>) {
        w.text(self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.text(TEXT_BYTES_MAX)
    }
}

impl Wire for SessionId {
    fn write(&self, w: &mut Writer<'_>) {
        w.session(*self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.session()
    }
}

impl Wire for ContainerId {
    fn write(&self, w: &mut Writer<'_>) {
        w.container(*self);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        r.container()
    }
}

impl Wire for ChunkLocation {
    fn write(&self, w: &mut Writer<'_>) {
        w.container(self.container);
        w.slot(self.slot);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            container: r.container()?,
            slot: r.slot()?,
        })
    }
}

impl Wire for ByteRange {
    fn write(&self, w: &mut Writer<'_>) {
        w.u64(self.offset);
        w.u64(self.len);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            offset: r.u64()?,
            len: r.u64()?,
        })
    }
}

impl Wire for TreeRoot {
    fn write(&self, w: &mut Writer<'_>) {
        self.location.write(w);
        w.level(self.level);
        w.fingerprint(self.fingerprint);
        w.u64(self.len);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            location: Wire::read(r)?,
            level: r.level()?,
            fingerprint: r.fingerprint()?,
            len: r.u64()?,
        })
    }
}

impl Wire for StreamName {
    fn write(&self, w: &mut Writer<'_>) {
        w.series(self.series);
        w.session(self.backup);
        w.u16(self.stream);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            series: r.series()?,
            backup: r.session()?,
            stream: r.u16()?,
        })
    }
}
