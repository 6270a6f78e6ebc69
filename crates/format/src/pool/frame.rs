//! The frame of a metadata block: magic, digest, length, version, payload, zeros to the end.
//!
//! The digest covers all that follows it, so a torn or rotten block is never taken for a whole one,
//! nor for one of a later version. The version is that of the frame, and of the payloads that have
//! none of their own: pages of the table and of a state, blocks of log.

use super::BLOCK_BYTES;
use crate::error::{FormatError, Result};
use crate::wire::{Reader, digest};

/// The version of the frame that this code writes.
pub const BLOCK_FRAME_VERSION: u16 = 1;
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
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Superblock,
        Self::Table,
        Self::Header,
        Self::State,
        Self::Log,
    ];

    /// The first bytes of its blocks.
    #[must_use]
    pub const fn magic(self) -> [u8; 8] {
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

/// The id of a pool, random. It is mixed into the digests of the pool's blocks, so that a block
/// that an earlier pool left on the device is never taken for one of this pool.
pub type PoolId = [u8; 16];

/// Writes a whole block that belongs to no pool yet: a superblock, which has the pool's id inside.
///
/// # Panics
/// As [`seal_in`].
pub fn seal(kind: BlockKind, payload: &[u8], block: &mut [u8]) {
    seal_in([0; 16], kind, payload, block);
}

/// Writes a whole block of a pool.
///
/// # Panics
/// If the payload is longer than [`FRAMED_BYTES_MAX`], or `block` is no block.
pub fn seal_in(pool: PoolId, kind: BlockKind, payload: &[u8], block: &mut [u8]) {
    assert_eq!(block.len(), BLOCK_BYTES, "a frame fills a block");
    assert!(payload.len() <= FRAMED_BYTES_MAX, "the payload fits a block");
    let len = u32::try_from(payload.len()).expect("it fits a block");
    block[..8].copy_from_slice(&kind.magic());
    block[24..28].copy_from_slice(&len.to_le_bytes());
    block[28..30].copy_from_slice(&BLOCK_FRAME_VERSION.to_le_bytes());
    block[30..32].fill(0);
    let end = FRAME_BYTES + payload.len();
    block[FRAME_BYTES..end].copy_from_slice(payload);
    block[end..].fill(0);
    let digest = digest(&block[24..]) ^ u128::from_le_bytes(pool);
    block[8..24].copy_from_slice(&digest.to_le_bytes());
}

/// The payload of a whole block of this kind that belongs to no pool.
///
/// # Errors
/// As [`open_in`].
pub fn open(kind: BlockKind, block: &[u8]) -> Result<&[u8]> {
    open_in([0; 16], kind, block)
}

/// The payload of a whole block of this kind.
///
/// # Errors
/// [`FormatError::Malformed`] if it is a block of something else; `DigestMismatch` if it is torn,
/// rotten, or of another pool; `NewerVersion`.
pub fn open_in(pool: PoolId, kind: BlockKind, block: &[u8]) -> Result<&[u8]> {
    let what = kind.name();
    let mut r = Reader::new(what, block);
    r.require(block.len() == BLOCK_BYTES, "it is not a whole block")?;
    let here = r.fault("it begins with another magic");
    if r.array::<8>()? != kind.magic() {
        return Err(here);
    }
    let expected = r.u128()?;
    let found = digest(r.clone().take(r.remaining())?) ^ u128::from_le_bytes(pool);
    if expected != found {
        return Err(FormatError::DigestMismatch {
            what,
            expected,
            found,
        });
    }
    let too_long = r.fault("the payload is longer than the block");
    let len = r.u32()? as usize;
    let version = r.u16()?;
    if version > BLOCK_FRAME_VERSION {
        return Err(FormatError::NewerVersion {
            what,
            found: version,
            known: BLOCK_FRAME_VERSION,
        });
    }
    r.require(version != 0, "version 0 was never written")?;
    r.reserved::<2>()?;
    if len > FRAMED_BYTES_MAX {
        return Err(too_long);
    }
    let payload = r.take(len)?;
    let rest = r.take(r.remaining())?;
    r.require(
        rest.iter().all(|byte| *byte == 0),
        "a byte behind the payload is not zero",
    )?;
    Ok(payload)
}
