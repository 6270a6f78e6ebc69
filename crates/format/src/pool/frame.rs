//! The frame of a metadata block: magic, digest, length, payload, zeros to the end.
//!
//! The digest covers all that follows it, so a torn or rotten block is never taken for a whole one.

use super::BLOCK_BYTES;
use crate::error::{FormatError, Result};
use crate::wire::digest;

/// Bytes of the frame.
pub const FRAME_BYTES: usize = 32;
/// Bytes of payload that fit.
pub const FRAMED_BYTES_MAX: usize = BLOCK_BYTES - FRAME_BYTES;

/// The kinds of framed blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockKind {
    /// The head of the pool.
    Superblock,
    /// A page of the table of extents.
    Table,
    /// The head of a volume.
    Header,
    /// A page of a volume's state at a checkpoint.
    State,
    /// A block of a volume's log.
    Log,
}

impl BlockKind {
    const fn magic(self) -> [u8; 8] {
        match self {
            Self::Superblock => *b"1F-POOL\n",
            Self::Table => *b"1F-TABL\n",
            Self::Header => *b"1F-HEAD\n",
            Self::State => *b"1F-STAT\n",
            Self::Log => *b"1F-LOGB\n",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Superblock => "superblock",
            Self::Table => "table page",
            Self::Header => "volume header",
            Self::State => "state page",
            Self::Log => "log block",
        }
    }
}

/// Writes the whole block.
///
/// # Panics
/// If the payload is longer than [`FRAMED_BYTES_MAX`], or `block` is no block.
pub fn seal(kind: BlockKind, payload: &[u8], block: &mut [u8]) {
    assert_eq!(block.len(), BLOCK_BYTES, "a frame fills a block");
    assert!(payload.len() <= FRAMED_BYTES_MAX, "the payload fits a block");
    let len = u32::try_from(payload.len()).expect("it fits a block");
    block[..8].copy_from_slice(&kind.magic());
    block[24..28].copy_from_slice(&len.to_le_bytes());
    block[28..32].fill(0);
    let end = FRAME_BYTES + payload.len();
    block[FRAME_BYTES..end].copy_from_slice(payload);
    block[end..].fill(0);
    let digest = digest(&block[24..]);
    block[8..24].copy_from_slice(&digest.to_le_bytes());
}

/// The payload of a whole block of this kind.
///
/// # Errors
/// [`FormatError::Malformed`] if it is a block of something else; `DigestMismatch` if it is torn or
/// rotten.
pub fn open(kind: BlockKind, block: &[u8]) -> Result<&[u8]> {
    let what = kind.name();
    let malformed = |offset, why| FormatError::Malformed { what, offset, why };
    if block.len() != BLOCK_BYTES {
        return Err(malformed(block.len() as u64, "it is not a whole block"));
    }
    if block[..8] != kind.magic() {
        return Err(malformed(0, "it begins with another magic"));
    }
    let expected = u128::from_le_bytes(block[8..24].try_into().expect("sixteen bytes"));
    let found = digest(&block[24..]);
    if expected != found {
        return Err(FormatError::DigestMismatch {
            what,
            expected,
            found,
        });
    }
    let len = u32::from_le_bytes(block[24..28].try_into().expect("four bytes")) as usize;
    let payload = block[FRAME_BYTES..].get(..len);
    let payload = payload.ok_or_else(|| malformed(24, "the payload is longer than the block"))?;
    if block[28..32] != [0; 4] || block[FRAME_BYTES + len..].iter().any(|byte| *byte != 0) {
        return Err(malformed(28, "a reserved byte is not zero"));
    }
    Ok(payload)
}
