//! Copies of data catalogs. They show what a lost container held (decision 48).
//!
//! A copy is one chunk of a container of kind `catalog`: slots, 16-byte fingerprints and lengths.
//! Copies are written after the containers that they describe, and can be rebuilt from these
//! (INV-4). A builder belongs to one thread.

use format::container::{CatalogCopy, CatalogCopyEntry};
use types::{ContainerId, ContainerKind, Generation, Slot};

use crate::builder::{ContainerBuilder, PendingEntry};
use crate::compress::{CompressedRegion, Compression, compress_region};
use crate::containers::Containers;
use crate::error::ContainerError;
use crate::sealed::SealedContainer;
use crate::view::CatalogView;

/// A region of copies is closed at so many plain bytes: some ten catalogs of 2,000 chunks.
pub const MAX_COPIES_REGION_BYTES: usize = 512 << 10;

/// Collects copies of catalogs into one container of kind `catalog`.
#[derive(Debug)]
pub struct CatalogCopies {
    builder: ContainerBuilder,
    fingerprinter: crypto::Fingerprinter,
    compression: Compression,
    plain: Vec<u8>,
    entries: Vec<PendingEntry>,
}

impl CatalogCopies {
    /// An empty container of copies; the kind of `id` must be `Catalog`.
    #[must_use]
    pub fn new(containers: &Containers, id: ContainerId, compression: Compression) -> Self {
        Self::again(containers, (id, Generation::FIRST), compression)
    }

    /// A later generation of a container of copies, empty.
    #[must_use]
    pub fn again(
        containers: &Containers,
        (id, generation): (ContainerId, Generation),
        compression: Compression,
    ) -> Self {
        debug_assert_eq!(id.kind, ContainerKind::Catalog);
        Self {
            builder: ContainerBuilder::new(id, generation),
            fingerprinter: containers.fingerprinter().clone(),
            compression,
            plain: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Adds the copy of one container's catalog.
    pub fn add(&mut self, view: &CatalogView) {
        self.add_copy(&copy_of(view));
    }

    /// Adds a copy that was read.
    pub fn add_copy(&mut self, copy: &CatalogCopy) {
        let before = self.plain.len();
        copy.encode(&mut self.plain);
        let bytes = &self.plain[before..];
        let len = u32::try_from(bytes.len()).expect("at most 2^20 entries of some 20 bytes");
        self.entries
            .push(PendingEntry::chunk(self.fingerprinter.chunk(bytes), len));
        if self.plain.len() >= MAX_COPIES_REGION_BYTES {
            self.close_region();
        }
    }

    /// The number of copies so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.builder.entry_count() + self.entries.len()
    }

    /// Whether there is nothing to seal.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The approximate size of the container, before the open region is compressed.
    #[must_use]
    pub fn stored_len(&self) -> u64 {
        self.builder.stored_len() + self.plain.len() as u64
    }

    fn close_region(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let region: CompressedRegion = compress_region(std::mem::take(&mut self.plain), self.compression);
        self.builder.append(region, &std::mem::take(&mut self.entries));
    }

    /// Seals the container.
    ///
    /// # Errors
    /// As [`ContainerBuilder::seal`].
    pub fn seal(mut self, containers: &Containers) -> Result<SealedContainer, ContainerError> {
        self.close_region();
        self.builder.seal(containers)
    }
}

/// The copy of a catalog.
fn copy_of(view: &CatalogView) -> CatalogCopy {
    let entries = view.entries().iter().map(|entry| CatalogCopyEntry {
        slot: entry.slot,
        fingerprint_prefix: entry.fingerprint.prefix16(),
        len: entry.len,
    });
    CatalogCopy {
        container: view.id(),
        generation: view.generation(),
        entries: entries.collect(),
    }
}

impl Containers {
    /// Passes to `each` the copies in a container of kind `catalog`, in order, with one region in
    /// memory at a time. Each copy is compared with its fingerprint. The first error ends the
    /// calls.
    ///
    /// # Errors
    /// As [`Self::catalog`] and [`Self::read_region`]; `BadCatalogCopy`.
    pub fn catalog_copies(
        &self,
        id: ContainerId,
        mut each: impl FnMut(CatalogCopy),
    ) -> Result<(), ContainerError> {
        let view = self.catalog(id)?;
        let mut region = None;
        for entry in view.entries() {
            let slot: Slot = entry.slot;
            let no_slot = || ContainerError::NoSlot {
                container: id,
                generation: view.generation(),
                slot,
            };
            let place = view.place_of(slot).ok_or_else(no_slot)?;
            let held = match region.take() {
                Some(held) if crate::PlainRegion::index(&held) == place.region => held,
                _ => self.read_region(&view, place.region)?,
            };
            let bytes = held.slot_bytes(&view, slot).ok_or_else(no_slot)?;
            self.verify_chunk(&view, slot, bytes)?;
            let copy = CatalogCopy::decode(bytes);
            each(copy.map_err(|source| ContainerError::BadCatalogCopy {
                container: id,
                slot,
                source,
            })?);
            region = Some(held);
        }
        Ok(())
    }
}
