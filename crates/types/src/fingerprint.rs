//! The name of a chunk or node: 32 bytes of keyed BLAKE3.

use std::fmt;

/// A 32-byte fingerprint of a chunk's plaintext or of a node's children [Guo 2.1].
///
/// Disjoint bits serve disjoint purposes, so that no choice made by one biases another:
/// bytes 0-3 node boundaries, 4-7 sampling, 8-15 the index's bucket and tag.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Length in bytes.
    pub const BYTES: usize = 32;

    /// Wraps 32 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The first 16 bytes, which catalog copies keep.
    #[must_use]
    pub fn prefix16(&self) -> [u8; 16] {
        let mut out = [0; 16];
        out.copy_from_slice(&self.0[..16]);
        out
    }

    /// The bits that decide whether the fingerprint is a hook (bytes 4-7, little-endian).
    #[must_use]
    pub fn sample_bits(&self) -> u32 {
        u32::from_le_bytes([self.0[4], self.0[5], self.0[6], self.0[7]])
    }

    /// The bits by which the index sorts and tags (bytes 8-15, big-endian, so that order by number
    /// is order by bytes).
    #[must_use]
    pub fn index_bits(&self) -> u64 {
        let mut b = [0; 8];
        b.copy_from_slice(&self.0[8..16]);
        u64::from_be_bytes(b)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for b in self.0 {
            write!(f, "{b:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for b in &self.0[..6] {
            write!(f, "{b:02x}")?;
        }
        write!(f, "..")
    }
}
