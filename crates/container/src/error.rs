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
    /// The object ends early or its parts do not fit its length: a write that a crash cut short.
    #[error("container {container} generation {generation}: torn at byte {offset} of {object_len}: {why}")]
    Torn {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// Where the fault was seen.
        offset: u64,
        /// The object's length.
        object_len: u64,
        /// What does not fit.
        why: String,
    },
    /// Stored bytes are not those that were written: rot.
    #[error(
        "container {container} generation {generation}: {part} at byte {offset} is damaged \
         (digest {found:032x}, expected {expected:032x})"
    )]
    DigestMismatch {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// What is damaged.
        part: Part,
        /// Its offset in the object.
        offset: u64,
        /// The digest on record.
        expected: u128,
        /// The digest of what was read.
        found: u128,
    },
    /// The digest is right and the seal is not: malice, another store's bytes, or the wrong key.
    #[error(
        "container {container} generation {generation}: the seal of {part} at byte {offset} is not ours \
         (forged bytes, or the wrong key)"
    )]
    Forged {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// Whose seal.
        part: Part,
        /// Its offset in the object.
        offset: u64,
    },
    /// No generation of the container exists, nor a mirror copy where its kind has one.
    #[error("container {container}: missing from the store")]
    Missing {
        /// The container.
        container: ContainerId,
    },
    /// The generation that a view describes is gone; ask for the catalog again and go on at the
    /// same slots (INV-2).
    #[error("container {container}: generation {generation} has been replaced")]
    Vanished {
        /// The container.
        container: ContainerId,
        /// The generation that is gone.
        generation: Generation,
    },
    /// Of a trimmed container nothing is left but where its chunks were: the object that they are
    /// in is gone.
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
        /// The object.
        body: ObjectName,
    },
    /// The object under this name says that it is another one.
    #[error("container {container} generation {generation}: the object under this name is {found}")]
    WrongIdentity {
        /// The container that the name means.
        container: ContainerId,
        /// The generation that the name means.
        generation: Generation,
        /// What the header says: container, generation, store.
        found: String,
    },
    /// A region's bytes are authentic and do not decompress to what the catalog says.
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
        /// The decompressor's words, or the length found.
        why: String,
    },
    /// A chunk's bytes are not those that its fingerprint names.
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
    /// Catalog and region rows are authentic, one by one, and contradict each other or the format.
    #[error("container {container} generation {generation}: inconsistent {part}: {why}")]
    Inconsistent {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// Where.
        part: Part,
        /// What does not fit.
        why: String,
    },
    /// The container does not have this slot (any more).
    #[error("container {container} generation {generation}: no slot {slot}")]
    NoSlot {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// The slot asked for.
        slot: Slot,
    },
    /// The view has no such region.
    #[error("container {container} generation {generation}: no region {region}")]
    NoRegion {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// The region asked for.
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
    /// Written by a later program.
    #[error("container {container} generation {generation}: {source}")]
    Incompatible {
        /// The container.
        container: ContainerId,
        /// Its generation.
        generation: Generation,
        /// Which version was found and which is known.
        source: FormatError,
    },
    /// The name is not one of a container or its mirror copy.
    #[error("{name}: not a container's name")]
    NotAContainer {
        /// The name.
        name: ObjectName,
    },
    /// A chunk of a catalog container is not a catalog's copy.
    #[error("container {container} slot {slot}: {source}")]
    BadCatalogCopy {
        /// The catalog container.
        container: ContainerId,
        /// The chunk.
        slot: Slot,
        /// What is wrong with it.
        source: FormatError,
    },
    /// The storage's own trouble.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl ContainerError {
    /// Whether another copy or a newer generation may still have what this one does not. A sector
    /// that the disk no longer gives is damage as rot is; a storage that refuses or has gone is
    /// not.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Torn { .. }
                | Self::DigestMismatch { .. }
                | Self::Forged { .. }
                | Self::Missing { .. }
                | Self::BodyMissing { .. }
                | Self::WrongIdentity { .. }
                | Self::Decompress { .. }
                | Self::FingerprintMismatch { .. }
                | Self::Inconsistent { .. }
                | Self::Incompatible { .. }
                | Self::Storage(StorageError::Io { .. })
        )
    }

    /// Whether what was asked for is damaged, or was pruned: nobody had pinned it, and who referred
    /// to it was rewritten or forgotten meanwhile, or a revision that rewrote it has rotted.
    /// Otherwise the storage is to be asked again.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.is_damage() || matches!(self, Self::NoSlot { .. })
    }
}
