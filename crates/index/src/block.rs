//! Blocks of 4 KiB: the unit in which a part of a run is read and checked.
//!
//! A block's last 16 bytes are the digest of the others. A [`Block`] exists only for bytes with the
//! right digest. Its content is parsed, not trusted: its readers accept any bytes (INV-8). Plain
//! values.

use format::wire::{Writer, digest};

pub(crate) const BLOCK_BYTES: usize = 4096;
pub(crate) const DIGEST_BYTES: usize = 16;
/// Bytes of a block without its digest.
pub(crate) const BODY_BYTES: usize = BLOCK_BYTES - DIGEST_BYTES;

/// Ends a block: pads it and appends its digest.
pub(crate) fn close_block(out: &mut Vec<u8>) {
    let begin = (out.len() - 1) / BLOCK_BYTES * BLOCK_BYTES;
    out.resize(begin + BODY_BYTES, 0);
    let value = digest(&out[begin..]);
    Writer::new(out).u128(value);
}

/// A block whose digest is right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Block<'a>(&'a [u8; BLOCK_BYTES]);

impl<'a> Block<'a> {
    /// The bytes of the block with this number.
    pub(crate) fn bytes_at(object: &'a [u8], number: usize) -> Option<&'a [u8; BLOCK_BYTES]> {
        let begin = number.checked_mul(BLOCK_BYTES)?;
        object.get(begin..)?.first_chunk()
    }

    /// Checks the digest.
    pub(crate) fn check(bytes: &'a [u8; BLOCK_BYTES]) -> Option<Self> {
        let (body, stored) = bytes.split_at(BODY_BYTES);
        (digest(body).to_le_bytes() == stored).then_some(Self(bytes))
    }

    /// A block that was checked before. Its object must be immutable.
    pub(crate) fn checked_before(bytes: &'a [u8; BLOCK_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes without the digest.
    pub(crate) fn body(self) -> &'a [u8] {
        &self.0[..BODY_BYTES]
    }

    pub(crate) fn u16_at(self, at: usize) -> Option<u16> {
        let bytes = self.body().get(at..)?.first_chunk()?;
        Some(u16::from_le_bytes(*bytes))
    }

    pub(crate) fn u32_at(self, at: usize) -> Option<u32> {
        let bytes = self.body().get(at..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    pub(crate) fn u64_at(self, at: usize) -> Option<u64> {
        let bytes = self.body().get(at..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// Sixteen bytes from any place of the body on. They may include bytes of the digest.
    pub(crate) fn u128_at(self, at: usize) -> Option<u128> {
        let bytes = self.0.get(at..)?.first_chunk()?;
        Some(u128::from_le_bytes(*bytes))
    }
}
