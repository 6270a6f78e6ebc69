//! A chunk that a container lacks.

use format::container::{CatalogCopyEntry, CatalogEntry};
use types::Fingerprint;

/// The known part of a wanted chunk: the beginning of its fingerprint, and its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Wanted {
    pub(super) prefix: [u8; 16],
    pub(super) len: u32,
}

impl Wanted {
    pub(super) fn of(entry: &CatalogEntry) -> Self {
        Self {
            prefix: entry.fingerprint.prefix16(),
            len: entry.len,
        }
    }

    pub(super) fn of_copy(entry: &CatalogCopyEntry) -> Self {
        Self {
            prefix: entry.fingerprint_prefix,
            len: entry.len,
        }
    }

    /// A fingerprint for a look-up in the index, which compares the first 16 bytes.
    pub(super) fn fingerprint(self) -> Fingerprint {
        let mut bytes = [0; Fingerprint::BYTES];
        bytes[..16].copy_from_slice(&self.prefix);
        Fingerprint::from_bytes(bytes)
    }
}
