//! Reading numbers and strings from the front of bytes.

use crate::STRING_BYTES_MAX;
use crate::fault::OptionFault;

/// Takes numbers and strings from the front.
pub(crate) struct Taker<'a>(pub(crate) &'a [u8]);

impl<'a> Taker<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string with its length of 32 bits before it.
    pub(crate) fn string(&mut self) -> Result<String, OptionFault> {
        let len = self.u32().ok_or(OptionFault::Short)?;
        let bytes = self.bytes(length(len)).ok_or(OptionFault::Short)?;
        string(bytes)
    }
}

/// A length of 32 bits.
pub(crate) fn length(len: u32) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}

/// The length of bytes that are sent. They are our own, and shorter than 4 GiB.
pub(crate) fn length_of(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("what is sent is shorter than 4 GiB")
}

/// A string of the protocol.
pub(crate) fn string(bytes: &[u8]) -> Result<String, OptionFault> {
    if bytes.len() > STRING_BYTES_MAX {
        return Err(OptionFault::LongString { len: bytes.len() });
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        _ => Err(OptionFault::NoText),
    }
}

/// Appends a string with its length of 32 bits before it.
pub(crate) fn put_string(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(&length_of(text.len()).to_be_bytes());
    out.extend_from_slice(text.as_bytes());
}

/// The longest beginning of a string that the protocol allows.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
