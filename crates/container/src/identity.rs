//! The identity of an object: a container, a generation of it, and one of its copies.

use std::ops::Range;

use env::{AlignedBuffer, Storage, StorageError};
use format::container::ContainerHeader;
use format::names;
use types::{ByteRange, ContainerId, Generation, ObjectName, StoreId};

use crate::ContainerError;
use crate::error::Part;

/// One of the copies of a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CopyOf {
    /// The object in its kind's folder.
    Main,
    /// The identical object under `mirror/`, for kinds that have one.
    Mirror,
    /// The regions of a trimmed generation. After a crash they may still have their former name.
    Body,
}

/// The identity that a name means, and that a header must confirm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) id: ContainerId,
    pub(crate) generation: Generation,
    pub(crate) copy: CopyOf,
}

/// The region number under which the catalog is sealed; no region has it.
pub(crate) const CATALOG_NUMBER: u32 = u32::MAX;

/// Context of the key derivation.
const PURPOSE: &str = "container";

impl Identity {
    pub(crate) fn main(id: ContainerId, generation: Generation) -> Self {
        Self {
            id,
            generation,
            copy: CopyOf::Main,
        }
    }

    pub(crate) fn body(id: ContainerId, generation: Generation) -> Self {
        Self {
            id,
            generation,
            copy: CopyOf::Body,
        }
    }

    /// The mirror copy's identity, for kinds that have one.
    pub(crate) fn mirror(id: ContainerId, generation: Generation) -> Option<Self> {
        id.kind.is_mirrored().then_some(Self {
            id,
            generation,
            copy: CopyOf::Mirror,
        })
    }

    /// The other copy of the same generation.
    pub(crate) fn other(self) -> Option<Self> {
        match self.copy {
            CopyOf::Main => Self::mirror(self.id, self.generation),
            CopyOf::Mirror => Some(Self::main(self.id, self.generation)),
            CopyOf::Body => None,
        }
    }

    pub(crate) fn name(self) -> ObjectName {
        let mirror = match self.copy {
            CopyOf::Main => None,
            CopyOf::Body => Some(names::body(self.id, self.generation)),
            CopyOf::Mirror => names::mirror(self.id, self.generation),
        };
        mirror.unwrap_or_else(|| names::container(self.id, self.generation))
    }

    /// The names under which to look for its bytes, in order. The body is renamed only after the
    /// trimmed generation refers to it. So the former name is tried in between.
    pub(crate) fn names(self) -> impl Iterator<Item = ObjectName> {
        let former = (self.copy == CopyOf::Body).then(|| Self::main(self.id, self.generation).name());
        let again = former.is_some().then(|| self.name());
        std::iter::once(self.name()).chain(former).chain(again)
    }

    /// Reads a range of the object.
    pub(crate) fn read(
        self,
        storage: &dyn Storage,
        range: ByteRange,
        into: &mut AlignedBuffer,
    ) -> Result<Range<usize>, StorageError> {
        let mut missing = None;
        for name in self.names() {
            match storage.get_range_into(&name, range, into) {
                Err(error @ StorageError::NotFound { .. }) => missing = missing.or(Some(error)),
                other => return other,
            }
        }
        Err(missing.unwrap_or_else(|| StorageError::NotFound { name: self.name() }))
    }

    /// Checks that the header belongs under this name. Otherwise somebody swapped objects.
    pub(crate) fn confirm(self, header: &ContainerHeader, store: StoreId) -> Result<(), ContainerError> {
        if header.id == self.id && header.generation == self.generation && header.store == store {
            return Ok(());
        }
        let found = format!(
            "{} generation {} of store {}",
            header.id, header.generation, header.store
        );
        Err(ContainerError::WrongIdentity {
            container: self.id,
            generation: self.generation,
            found,
        })
    }

    /// The associated data of a seal: of a region or of the catalog.
    pub(crate) fn associated_data(self, store: StoreId, number: u32) -> [u8; 33] {
        let mut out = [0; 33];
        out[..16].copy_from_slice(store.as_bytes());
        out[16..24].copy_from_slice(&self.id.to_u64().to_le_bytes());
        out[24..28].copy_from_slice(&self.generation.get().to_le_bytes());
        out[28] = self.id.kind.number();
        out[29..].copy_from_slice(&number.to_le_bytes());
        out
    }

    /// The error for bytes of this object that cannot be decoded.
    pub(crate) fn refused(
        self,
        part: Part,
        offset: u64,
        object_len: u64,
        e: format::FormatError,
    ) -> ContainerError {
        use format::FormatError as F;
        let (container, generation) = (self.id, self.generation);
        match e {
            F::DigestMismatch { expected, found, .. } => ContainerError::DigestMismatch {
                container,
                generation,
                part,
                offset,
                expected,
                found,
            },
            F::NewerVersion { .. } => ContainerError::Incompatible {
                container,
                generation,
                source: e,
            },
            // A sealed catalog that breaks a rule was sealed like this. A trailer that breaks one
            // was cut short.
            other if part == Part::Catalog => ContainerError::Inconsistent {
                container,
                generation,
                part,
                why: other.to_string(),
            },
            other => ContainerError::Torn {
                container,
                generation,
                offset,
                object_len,
                why: other.to_string(),
            },
        }
    }
}

/// The key of one write attempt of a container.
pub(crate) fn seal_key(key: &crypto::EncryptionKey, salt: &[u8; 32]) -> crypto::SealKey {
    key.seal_key(PURPOSE, salt)
}
