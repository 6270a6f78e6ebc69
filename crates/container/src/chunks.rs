//! Single chunks: read with their regions, compared with their fingerprints.
//!
//! Invariant: every chunk that is returned has the fingerprint that its catalog gives (INV-5).
//! Reads follow newer generations at the same slots (INV-2). Any number of threads.

use format::container::CatalogEntry;
use types::{ChunkLocation, Fingerprint, RegionIndex, Slot};

use crate::containers::Containers;
use crate::error::ContainerError;
use crate::view::CatalogView;

impl Containers {
    /// Reads the bytes of one chunk, and compares them with its fingerprint; or of one encoded
    /// node, whose fingerprint the caller computes. Reads the whole region, and follows newer
    /// generations.
    ///
    /// # Errors
    /// `NoSlot`; `FingerprintMismatch`; as [`Self::catalog`] and [`Self::read_region`].
    pub fn read_chunk(&self, at: ChunkLocation) -> Result<Vec<u8>, ContainerError> {
        let mut view = self.catalog(at.container)?;
        for _ in 0..4 {
            let error = match self.read_slot(&view, at.slot) {
                Ok(bytes) => return Ok(bytes),
                Err(error) => error,
            };
            let gone = matches!(error, ContainerError::Vanished { .. });
            if !gone && !error.is_damage() {
                return Err(error);
            }
            match self.newer(&view) {
                Ok(Some(newer)) => view = newer,
                Ok(None) if gone => {
                    let container = view.id();
                    return Err(ContainerError::Missing { container });
                }
                Err(newer) if gone => return Err(newer),
                // The first error says more than the failure to find a newer generation.
                Ok(None) | Err(_) => return Err(error),
            }
        }
        Err(ContainerError::Vanished {
            container: view.id(),
            generation: view.generation(),
        })
    }

    fn read_slot(&self, view: &CatalogView, slot: Slot) -> Result<Vec<u8>, ContainerError> {
        let no_slot = || ContainerError::NoSlot {
            container: view.id(),
            generation: view.generation(),
            slot,
        };
        let place = view.place_of(slot).ok_or_else(no_slot)?;
        let region = self.read_region(view, place.region)?;
        let bytes = region.slot_bytes(view, slot).ok_or_else(no_slot)?;
        self.verify_chunk(view, slot, bytes)?;
        Ok(bytes.to_vec())
    }

    /// Compares a chunk's bytes with its fingerprint in the catalog (INV-5). Nodes pass unchecked:
    /// their fingerprints cover their children's.
    ///
    /// # Errors
    /// `FingerprintMismatch`, `NoSlot`.
    pub fn verify_chunk(&self, view: &CatalogView, slot: Slot, bytes: &[u8]) -> Result<(), ContainerError> {
        let (container, generation) = (view.id(), view.generation());
        let (Some(entry), Some(place)) = (view.entry(slot), view.place_of(slot)) else {
            return Err(ContainerError::NoSlot {
                container,
                generation,
                slot,
            });
        };
        if entry.level.get() > 0 {
            return Ok(());
        }
        let compared = compare(view, entry, place.region, self.fingerprinter().chunk(bytes));
        compared.inspect_err(|error| self.note_damage(view.id(), error))
    }
}

/// Compares the computed fingerprint of a chunk with the one in its catalog.
pub(crate) fn compare(
    view: &CatalogView,
    entry: &CatalogEntry,
    region: RegionIndex,
    found: Fingerprint,
) -> Result<(), ContainerError> {
    let expected = entry.fingerprint;
    if expected == found {
        return Ok(());
    }
    Err(ContainerError::FingerprintMismatch {
        container: view.id(),
        generation: view.generation(),
        region,
        slot: entry.slot,
        expected,
        found,
    })
}
