//! A sealed generation.

use std::sync::Arc;

use types::{ContainerId, Generation};

use crate::view::{CatalogView, Contents};
use env::AlignedBuffer;

/// A sealed generation, ready to be put.
#[derive(Debug)]
pub struct SealedContainer {
    bytes: AlignedBuffer,
    catalog: Arc<CatalogView>,
}

impl SealedContainer {
    pub(crate) fn new(bytes: AlignedBuffer, contents: Contents) -> Self {
        let catalog = Arc::new(CatalogView::of(contents));
        Self { bytes, catalog }
    }

    /// The container.
    #[must_use]
    pub fn id(&self) -> ContainerId {
        self.catalog.id()
    }

    /// The generation.
    #[must_use]
    pub fn generation(&self) -> Generation {
        self.catalog.generation()
    }

    /// The object's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its catalog, as a reader would load it.
    #[must_use]
    pub fn catalog(&self) -> Arc<CatalogView> {
        Arc::clone(&self.catalog)
    }

    /// Bytes that are written when it is put, the mirror copy included.
    #[must_use]
    pub fn stored_bytes_total(&self) -> u64 {
        let copies = if self.id().kind.is_mirrored() { 2 } else { 1 };
        self.bytes.len() as u64 * copies
    }
}
