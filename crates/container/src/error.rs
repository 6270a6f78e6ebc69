//! Errors of containers, sorted by what a caller would do.

use std::fmt;

use env::StorageError;
use format::FormatError;
use types::{ContainerId, Fingerprint, Generation, ObjectName, RegionIndex, Slot};

/// A part of a container's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The plain header at offset 0.
    Header,
    /// One region.
    Region(RegionIndex),
    /// The sealed catalog.
    Catalog,
    /// Region rows and footer.
    Trailer,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header => f.write_str("header"),
            Self::Region(region) => write!(f, "region {region}"),
            Self::Catalog => f.write_str("catalog"),
            Self::Trailer => f.write_str("trailer"),
        }
    }
}

/// A container that cannot be read, written or understood.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContainerError {
    /// The object ends early, or its parts do not fit its length: a crash cut a write short.
    #[error("container {container} generation {generation}: torn at byte {offset} of {object_len}: {why}")]
    Torn {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// The offset of the fault.
        offset: u64,
        /// The object's length.
        object_len: u64,
        /// What does not fit.
        why: String,
    },
    /// Stored bytes differ from those that were written: rot.
    #[error(
        "container {container} generation {generation}: {part} at byte {offset} is damaged \
         (digest {found:032x}, expected {expected:032x})"
    )]
    DigestMismatch {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// The damaged part.
        part: Part,
        /// Its offset in the object.
        offset: u64,
        /// The recorded digest.
        expected: u128,
        /// The digest of the bytes that were read.
        found: u128,
    },
    /// The digest is right, but the seal is not: malice, another store's bytes, or the wrong key.
    #[error(
        "container {container} generation {generation}: the seal of {part} at byte {offset} is not ours \
         (forged bytes, or the wrong key)"
    )]
    Forged {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// The part with the seal.
        part: Part,
        /// Its offset in the object.
        offset: u64,
    },
    /// No generation of the container exists, and no mirror copy if its kind has one.
    #[error("container {container}: missing from the store")]
    Missing {
        /// The container.
        container: ContainerId,
    },
    /// The generation of a view is gone. Request the catalog again, and continue at the same slots
    /// (INV-2).
    #[error("container {container}: generation {generation} has been replaced")]
    Vanished {
        /// The container.
        container: ContainerId,
        /// The generation that is gone.
        generation: Generation,
    },
    /// The body of a trimmed container is gone. Nothing is left of its chunks.
    #[error(
        "container {container} generation {generation}: {body}, the object that its chunks are in, is missing from the \
         store; bring it back from a copy of the store, or run `onefold check`, which names the files that are lost with \
         it: a backup stores again what its source still has"
    )]
    BodyMissing {
        /// The container.
        container: ContainerId,
        /// The trimmed generation.
        generation: Generation,
        /// The name of the body.
        body: ObjectName,
    },
    /// The header says that this is another object than the name says.
    #[error("container {container} generation {generation}: the object under this name is {found}")]
    WrongIdentity {
        /// The container by the name.
        container: ContainerId,
        /// The generation by the name.
        generation: Generation,
        /// What the header says: container, generation, store.
        found: String,
    },
    /// A region's bytes are authentic, but do not decompress to the length in the catalog.
    #[error(
        "container {container} generation {generation}: region {region} at byte {offset} does not \
         decompress to {expected_len} bytes: {why}"
    )]
    Decompress {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// The region.
        region: RegionIndex,
        /// The region's offset in the object.
        offset: u64,
        /// Plain bytes by the catalog.
        expected_len: u64,
        /// The decompressor's error, or the length that was found.
        why: String,
    },
    /// A chunk's bytes do not have its fingerprint.
    #[error(
        "container {container} generation {generation}: slot {slot} in region {region} holds other \
         bytes than its fingerprint names (found {found}, expected {expected})"
    )]
    FingerprintMismatch {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// The region.
        region: RegionIndex,
        /// The slot.
        slot: Slot,
        /// The catalog's fingerprint.
        expected: Fingerprint,
        /// The bytes' fingerprint.
        found: Fingerprint,
    },
    /// Catalog and region rows are authentic, but contradict each other or the format.
    #[error("container {container} generation {generation}: inconsistent {part}: {why}")]
    Inconsistent {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// The part with the contradiction.
        part: Part,
        /// What does not fit.
        why: String,
    },
    /// The container does not have this slot, or not any more.
    #[error("container {container} generation {generation}: no slot {slot}")]
    NoSlot {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// The requested slot.
        slot: Slot,
    },
    /// The view has no such region.
    #[error("container {container} generation {generation}: no region {region}")]
    NoRegion {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// The requested region.
        region: RegionIndex,
    },
    /// The name is taken: a rival wrote this generation first.
    #[error("container {container}: generation {generation} was written by another process first")]
    AlreadyExists {
        /// The container.
        container: ContainerId,
        /// The generation.
        generation: Generation,
    },
    /// The object was written by a later program.
    #[error("container {container} generation {generation}: {source}")]
    Incompatible {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// The version that was found, and the known one.
        source: FormatError,
    },
    /// The name does not belong to a container or a mirror copy.
    #[error("{name}: not a container's name")]
    NotAContainer {
        /// The name.
        name: ObjectName,
    },
    /// A chunk of a catalog container is no catalog copy.
    #[error("container {container} slot {slot}: {source}")]
    BadCatalogCopy {
        /// The catalog container.
        container: ContainerId,
        /// The chunk.
        slot: Slot,
        /// What is wrong with it.
        source: FormatError,
    },
    /// An error of the storage.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl ContainerError {
    /// Whether another copy or a newer generation may still have the data. A sector that the disk
    /// cannot read is damage like rot. A storage that refuses or is gone is not damage.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Torn { .. }
            | Self::DigestMismatch { .. }
            | Self::Forged { .. }
            | Self::Missing { .. }
            | Self::BodyMissing { .. }
            | Self::WrongIdentity { .. }
            | Self::Decompress { .. }
            | Self::FingerprintMismatch { .. }
            | Self::Inconsistent { .. }
            | Self::Incompatible { .. } => true,
            Self::Storage(error) => error.is_of_medium(),
            _ => false,
        }
    }

    /// Whether the storage does not answer, so that another copy may be whole or damaged.
    #[must_use]
    pub fn is_silence(&self) -> bool {
        matches!(self, Self::Storage(error) if error.is_silence())
    }

    /// Whether the requested data is damaged or was pruned. It may be pruned if it was not pinned,
    /// and the backup that referred to it was rewritten or forgotten meanwhile, or the revision
    /// that rewrote it has rotted. For other errors, retry with the storage.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_damage() || matches!(self, Self::NoSlot { .. })
    }
}
