//! Chunks of one length, for disk images and other data that changes in place.

use crate::chunker::{CHUNK_BYTES_MAX, Chunker};
use crate::error::ChunkingError;

const BYTES_MIN: u32 = 4 << 10;

/// Cuts after every `n` bytes. A stream's last chunk may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fixed {
    bytes: u32,
}

impl Fixed {
    /// Chunks of `bytes` bytes, 4 KiB to 1 MiB.
    ///
    /// # Errors
    /// [`ChunkingError::FixedLength`] outside that range.
    pub const fn new(bytes: u32) -> Result<Self, ChunkingError> {
        if bytes < BYTES_MIN || bytes > CHUNK_BYTES_MAX {
            return Err(ChunkingError::FixedLength { bytes });
        }
        Ok(Self { bytes })
    }
}

impl Chunker for Fixed {
    fn first_cut(&self, bytes: &[u8], last: bool) -> Option<u32> {
        match u32::try_from(bytes.len()) {
            Ok(0) => None,
            Ok(len) if len < self.bytes => last.then_some(len),
            _ => Some(self.bytes),
        }
    }

    fn chunk_bytes_max(&self) -> u32 {
        self.bytes
    }
}
