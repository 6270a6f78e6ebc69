//! Bounds-checked reading and writing of primitives.
//!
//! Integers are little-endian. Counts and lengths are LEB128 varints in their shortest form. A byte
//! string is a varint length and the bytes. Every value has exactly one encoding: a reader refuses
//! overlong varints, flags other than 0 and 1, and leftover bytes. So an accepted encoding is the
//! one that the encoder writes. A reader never indexes past its input, and never reserves memory
//! for more elements than the remaining input could hold (INV-8). Plain values: no state is shared.

mod ids;
#[cfg(test)]
mod tests;

use crate::error::{FormatError, Result};

/// The longest varint: 64 bits in groups of seven.
pub const VARINT_BYTES_MAX: usize = 10;

/// Bytes of a varint's encoding.
#[must_use]
pub const fn varint_len(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

/// The keyless digest that every stored object carries: XXH3-128.
#[must_use]
pub fn digest(bytes: &[u8]) -> u128 {
    twox_hash::XxHash3_128::oneshot(bytes)
}

/// Reads primitives off the front of a slice.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    what: &'static str,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Starts at the first byte; `what` names the structure in errors.
    #[must_use]
    pub const fn new(what: &'static str, bytes: &'a [u8]) -> Self {
        Self { what, bytes, at: 0 }
    }

    /// Bytes consumed so far.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Bytes not yet consumed.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// An error at the present position.
    #[must_use]
    pub const fn fault(&self, why: &'static str) -> FormatError {
        FormatError::Malformed {
            what: self.what,
            offset: self.at as u64,
            why,
        }
    }

    /// `Ok` when the condition holds.
    ///
    /// # Errors
    /// `Malformed` with `why` otherwise. All methods below return it too, each for its own reason.
    pub fn require(&self, condition: bool, why: &'static str) -> Result<()> {
        if condition { Ok(()) } else { Err(self.fault(why)) }
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// `Malformed` if fewer remain.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.get(..len) else {
            return Err(self.fault("the bytes end too early"));
        };
        self.at += len;
        Ok(taken)
    }

    /// All remaining bytes except the last `keep`.
    ///
    /// # Errors
    /// `Malformed` if fewer than `keep` remain.
    pub fn take_all_but(&mut self, keep: usize) -> Result<&'a [u8]> {
        let Some(len) = self.remaining().checked_sub(keep) else {
            return Err(self.fault("the bytes end too early"));
        };
        self.take(len)
    }

    /// The next `N` bytes as an array.
    ///
    /// # Errors
    /// `Malformed` if fewer remain.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    /// One byte.
    ///
    /// # Errors
    /// `Malformed` at the end.
    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes, little-endian.
    ///
    /// # Errors
    /// `Malformed` if fewer remain.
    pub fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes, little-endian.
    ///
    /// # Errors
    /// `Malformed` if fewer remain.
    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes, little-endian.
    ///
    /// # Errors
    /// `Malformed` if fewer remain.
    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Sixteen bytes, little-endian: a digest.
    ///
    /// # Errors
    /// `Malformed` if fewer remain.
    pub fn u128(&mut self) -> Result<u128> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// Bytes that must be zero in this version.
    ///
    /// # Errors
    /// `Malformed` if one is not.
    pub fn reserved<const N: usize>(&mut self) -> Result<()> {
        let here = self.fault("a reserved byte is not zero");
        if self.array::<N>()? == [0; N] {
            Ok(())
        } else {
            Err(here)
        }
    }

    /// A flag: 0 or 1.
    ///
    /// # Errors
    /// `Malformed` for any other byte.
    pub fn flag(&mut self) -> Result<bool> {
        let here = self.fault("a flag is neither 0 nor 1");
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(here),
        }
    }

    /// A varint in its shortest form.
    ///
    /// # Errors
    /// `Malformed` if it is cut off, overlong or beyond 64 bits.
    pub fn varint(&mut self) -> Result<u64> {
        let here = self.fault("a varint is overlong or out of range");
        let mut value = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && byte > 1 {
                return Err(here);
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return if byte == 0 && shift > 0 {
                    Err(here)
                } else {
                    Ok(value)
                };
            }
        }
        Err(here)
    }

    /// A varint that fits 32 bits.
    ///
    /// # Errors
    /// As [`Self::varint`]; `Malformed` if it is larger.
    pub fn varint32(&mut self) -> Result<u32> {
        let here = self.fault("a number does not fit 32 bits");
        u32::try_from(self.varint()?).map_err(|_| here)
    }

    /// A varint that counts elements of at least `bytes_each_min` encoded bytes.
    ///
    /// # Errors
    /// As [`Self::varint`]; `Malformed` if the rest of the input cannot hold so many.
    pub fn count(&mut self, bytes_each_min: usize) -> Result<usize> {
        let here = self.fault("a count is more than the rest of the bytes can hold");
        let count = self.varint()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.remaining() / bytes_each_min.max(1) => Ok(count),
            _ => Err(here),
        }
    }

    /// A counted list of elements of at least `bytes_each_min` encoded bytes.
    ///
    /// # Errors
    /// As [`Self::count`]; errors of `element`.
    pub fn list<T>(
        &mut self,
        bytes_each_min: usize,
        mut element: impl FnMut(&mut Self) -> Result<T>,
    ) -> Result<Vec<T>> {
        let count = self.count(bytes_each_min)?;
        (0..count).map(|_| element(self)).collect()
    }

    /// A flag, and a value if the flag is set.
    ///
    /// # Errors
    /// As [`Self::flag`]; errors of `value`.
    pub fn option<T>(&mut self, value: impl FnOnce(&mut Self) -> Result<T>) -> Result<Option<T>> {
        if self.flag()? {
            value(self).map(Some)
        } else {
            Ok(None)
        }
    }

    /// A varint length of at most `cap` and as many bytes.
    ///
    /// # Errors
    /// `Malformed` if it is longer or cut off.
    pub fn bytes(&mut self, cap: usize) -> Result<&'a [u8]> {
        let here = self.fault("a byte string is longer than allowed");
        let len = self.count(1)?;
        if len > cap {
            return Err(here);
        }
        self.take(len)
    }

    /// Like [`Self::bytes`], as UTF-8.
    ///
    /// # Errors
    /// `Malformed` if it is longer, cut off or not UTF-8.
    pub fn text(&mut self, cap: usize) -> Result<String> {
        let here = self.fault("a text is not UTF-8");
        std::str::from_utf8(self.bytes(cap)?)
            .map(str::to_owned)
            .map_err(|_| here)
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// `Malformed` if bytes are left over.
    pub fn finish(self) -> Result<()> {
        self.require(self.remaining() == 0, "bytes are left over")
    }
}

/// Appends primitives to a vector; the inverse of [`Reader`].
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

#[expect(
    missing_docs,
    reason = "each writes what the reader's method of the same name reads"
)]
impl<'a> Writer<'a> {
    #[must_use]
    pub const fn new(out: &'a mut Vec<u8>) -> Self {
        Self { out }
    }

    pub fn put(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    pub fn u8(&mut self, value: u8) {
        self.out.push(value);
    }

    pub fn u16(&mut self, value: u16) {
        self.put(&value.to_le_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.put(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.put(&value.to_le_bytes());
    }

    pub fn u128(&mut self, value: u128) {
        self.put(&value.to_le_bytes());
    }

    pub fn flag(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.u8((value & 0x7f) as u8);
    }

    pub fn varint32(&mut self, value: u32) {
        self.varint(u64::from(value));
    }

    pub fn count(&mut self, count: usize) {
        self.varint(count as u64);
    }

    pub fn list<T>(&mut self, elements: &[T], mut element: impl FnMut(&mut Self, &T)) {
        self.count(elements.len());
        for e in elements {
            element(self, e);
        }
    }

    pub fn option<T: Copy>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.flag(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.put(bytes);
    }

    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }
}
