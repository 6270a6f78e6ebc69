//! The frame around every small sealed object (docs/format.md, "Frame").
//!
//! A frame is a plain header, the sealed payload with its tag, and a digest of everything before
//! it, so rot is found without a key. The `object` crate seals. It derives the key from the
//! encryption key, [`SEAL_PURPOSE`] and the header's salt. The nonce is 0. The associated data is
//! [`associated_data`], so that an object moved to another name or store does not open. Pure.

use types::{ObjectName, StoreId};

use crate::error::{FormatError, Result};
use crate::wire::{Reader, Writer, digest};

/// The first bytes of every frame.
pub const FRAME_MAGIC: [u8; 8] = *b"1FOLDobj";
/// The version of the frame that this code writes; payloads have versions of their own.
pub const FRAME_VERSION: u16 = 1;
/// Bytes of the plain header.
pub const FRAME_HEADER_BYTES: usize = 48;
/// Bytes of the AES-256-GCM tag at the end of all sealed data.
pub const TAG_BYTES: usize = 16;
/// Bytes of a digest.
pub const DIGEST_BYTES: usize = 16;
/// Bytes that a frame adds to its payload.
pub const FRAME_OVERHEAD_BYTES: usize = FRAME_HEADER_BYTES + TAG_BYTES + DIGEST_BYTES;
/// The purpose of a frame's key in its derivation.
pub const SEAL_PURPOSE: &str = "object";

const WHAT: &str = "sealed object";

/// The kind of object in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// A manifest revision.
    Manifest,
    /// A session's claim.
    Claim,
    /// A session's heartbeat.
    Heartbeat,
    /// A session's checkpoint.
    Checkpoint,
    /// A claim on a lease.
    Lease,
    /// A group's marks.
    Marks,
    /// An epoch's condemned slots.
    Condemned,
    /// An epoch's final list.
    Removed,
    /// A container's damaged slots.
    Damaged,
    /// A run of the index, in stores that seal it.
    IndexRun,
    /// The settings of a series.
    Series,
}

impl ObjectKind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::Manifest,
        Self::Claim,
        Self::Heartbeat,
        Self::Checkpoint,
        Self::Lease,
        Self::Marks,
        Self::Condemned,
        Self::Removed,
        Self::Damaged,
        Self::IndexRun,
        Self::Series,
    ];

    /// Its number in headers; never reused.
    #[must_use]
    pub const fn number(self) -> u16 {
        match self {
            Self::Manifest => 1,
            Self::Claim => 2,
            Self::Heartbeat => 3,
            Self::Checkpoint => 4,
            Self::Lease => 5,
            Self::Marks => 6,
            Self::Condemned => 7,
            Self::Removed => 8,
            Self::Damaged => 9,
            Self::IndexRun => 10,
            Self::Series => 11,
        }
    }

    /// The inverse of [`Self::number`].
    #[must_use]
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }
}

/// The plain header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// The kind of its object.
    pub kind: ObjectKind,
    /// Fresh for every write attempt; the frame's key is derived from it.
    pub salt: [u8; 32],
}

impl FrameHeader {
    /// The header's bytes: the beginning of the object, and part of the associated data.
    #[must_use]
    pub fn encode(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut out = Vec::with_capacity(FRAME_HEADER_BYTES);
        let mut w = Writer::new(&mut out);
        w.put(&FRAME_MAGIC);
        w.u16(FRAME_VERSION);
        w.u16(self.kind.number());
        w.u32(0);
        w.put(&self.salt);
        out.try_into().expect("the fields add up to the header's length")
    }
}

/// The parts of a frame. Its digest was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The header.
    pub header: FrameHeader,
    /// The header's bytes in the object, for [`associated_data`].
    pub header_bytes: &'a [u8],
    /// Ciphertext and tag.
    pub sealed: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Splits an object into its parts, and verifies its digest. Needs no key.
    ///
    /// # Errors
    /// `Malformed` if it is no frame or is torn; `DigestMismatch`; `NewerVersion`.
    pub fn split(object: &'a [u8]) -> Result<Self> {
        let mut r = Reader::new(WHAT, object);
        r.require(
            object.len() >= FRAME_OVERHEAD_BYTES,
            "the object is shorter than an empty frame",
        )?;
        let magic: [u8; 8] = r.array()?;
        if magic != FRAME_MAGIC {
            return Err(FormatError::Malformed {
                what: WHAT,
                offset: 0,
                why: "the magic bytes are missing",
            });
        }
        verify_digest(WHAT, object)?;
        let version = r.u16()?;
        if version > FRAME_VERSION {
            return Err(FormatError::NewerVersion {
                what: WHAT,
                found: version,
                known: FRAME_VERSION,
            });
        }
        r.require(version != 0, "version 0 was never written")?;
        let here = r.fault("the object kind is not known");
        let kind = ObjectKind::from_number(r.u16()?).ok_or(here)?;
        r.reserved::<4>()?;
        let salt = r.array()?;
        let sealed = r.take_all_but(DIGEST_BYTES)?;
        let header_bytes = object.get(..FRAME_HEADER_BYTES).unwrap_or_default();
        Ok(Self {
            header: FrameHeader { kind, salt },
            header_bytes,
            sealed,
        })
    }
}

/// Completes a frame: appends the digest of header, ciphertext and tag, which must be in `object`.
pub fn append_digest(object: &mut Vec<u8>) {
    let value = digest(object);
    Writer::new(object).u128(value);
}

/// Verifies the digest at the end of an object.
///
/// # Errors
/// `Malformed` if there is no room for a digest; `DigestMismatch`.
pub fn verify_digest(what: &'static str, object: &[u8]) -> Result<()> {
    let mut r = Reader::new(what, object);
    let covered = r.take_all_but(DIGEST_BYTES)?;
    let expected = r.u128()?;
    let found = digest(covered);
    if found == expected {
        Ok(())
    } else {
        Err(FormatError::DigestMismatch {
            what,
            expected,
            found,
        })
    }
}

/// The associated data of a frame: store, header, name.
#[must_use]
pub fn associated_data(store: StoreId, header_bytes: &[u8], name: &ObjectName) -> Vec<u8> {
    [
        store.as_bytes().as_slice(),
        header_bytes,
        name.as_str().as_bytes(),
    ]
    .concat()
}
