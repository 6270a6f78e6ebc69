//! The body of a trimmed generation: the object with its regions.

use types::Generation;

use crate::container::RegionRow;
use crate::container::row::encode_rows;
use crate::error::Result;
use crate::wire::{Reader, Writer};

/// Bytes of a body's record.
pub const BODY_BYTES: usize = 48;

const WHAT: &str = "body record";

/// The body of a trimmed generation. Its regions were sealed as those of the body's generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// The generation that was written with all regions.
    pub generation: Generation,
    /// Bytes of its object.
    pub len: u64,
    /// The salt in its header.
    pub salt: [u8; 32],
}

impl Body {
    fn put(&self, w: &mut Writer<'_>) {
        w.generation(self.generation);
        w.u32(0);
        w.u64(self.len);
        w.put(&self.salt);
    }

    /// # Errors
    /// `Malformed`.
    pub(super) fn read(r: &mut Reader<'_>) -> Result<Self> {
        let generation = r.generation()?;
        r.reserved::<4>()?;
        Ok(Self {
            generation,
            len: r.u64()?,
            salt: r.array()?,
        })
    }

    /// The inverse of the first part of [`encode_trailer`].
    ///
    /// # Errors
    /// `Malformed`.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(WHAT, bytes);
        let body = Self::read(&mut r)?;
        r.finish()?;
        Ok(body)
    }
}

/// The plain bytes between a container's catalog and its footer: the body's record, if there is
/// one, and the rows.
#[must_use]
pub fn encode_trailer(body: Option<&Body>, rows: &[RegionRow]) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(body) = body {
        body.put(&mut Writer::new(&mut out));
    }
    out.extend(encode_rows(rows));
    out
}
