//! Reading regions: one ranged read, digest, seal, decompression; mirror copies where the main one fails.
//!
//! What must hold: no byte leaves here that was not sealed by this store as this region of this
//! generation (INV-5 goes on from there: chunks are compared with their fingerprints). A region's plain
//! length is bounded by its entries before anything is allocated (INV-8).

use std::cell::RefCell;
use std::ops::Range;

use env::StorageError;
use format::container::{Codec, RegionRow};
use format::wire;
use types::{ByteRange, ChunkLocation, Fingerprint, RegionIndex, Slot};
use zstd::bulk::Decompressor;

use crate::containers::Containers;
use crate::error::{ContainerError, Part};
use crate::generations::is_absent;
use crate::identity::Identity;
use crate::view::CatalogView;

thread_local! {
    static DECOMPRESSOR: RefCell<Decompressor<'static>> = RefCell::new(Decompressor::default());
}

/// A region's plain bytes, authentic; not yet compared with fingerprints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainRegion {
    index: RegionIndex,
    bytes: Vec<u8>,
}

impl PlainRegion {
    /// Which region of its generation.
    #[must_use]
    pub fn index(&self) -> RegionIndex {
        self.index
    }

    /// All entries' bytes, one after another.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes as a vector.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes of a slot of `view.requested()`; `None` when it does not lie in this region. `view` is
    /// the one that the region was read with.
    #[must_use]
    pub fn slot_bytes(&self, view: &CatalogView, slot: Slot) -> Option<&[u8]> {
        let place = view.place_of(slot).filter(|place| place.region == self.index)?;
        let offset = place.offset as usize;
        self.bytes.get(offset..offset + place.len as usize)
    }
}

impl Containers {
    /// One region's plain bytes.
    ///
    /// # Errors
    /// `Vanished` when the generation was replaced (ask [`Self::newer`] and go on at the same slots);
    /// `NoRegion`; `DigestMismatch`, `Forged`, `Decompress` and others when no copy is good.
    pub fn read_region(
        &self,
        view: &CatalogView,
        region: RegionIndex,
    ) -> Result<PlainRegion, ContainerError> {
        let number = region.get() as usize;
        let mut regions = self.read_numbered(view, number..number + 1)?;
        regions.pop().ok_or_else(|| no_region(view, region))
    }

    /// The plain bytes of consecutive regions, in order, by one read.
    ///
    /// # Errors
    /// As [`Self::read_region`]: the first region that no copy has whole.
    pub fn read_regions(
        &self,
        view: &CatalogView,
        regions: Range<RegionIndex>,
    ) -> Result<Vec<PlainRegion>, ContainerError> {
        self.read_numbered(view, regions.start.get() as usize..regions.end.get() as usize)
    }

    fn read_numbered(
        &self,
        view: &CatalogView,
        numbers: Range<usize>,
    ) -> Result<Vec<PlainRegion>, ContainerError> {
        let numbered = |n: usize| u32::try_from(n).ok().and_then(|n| RegionIndex::new(n).ok());
        let first = numbered(numbers.start).unwrap_or(RegionIndex::MAX);
        let rows = view
            .rows()
            .get(numbers.clone())
            .ok_or_else(|| no_region(view, first))?;
        let Some(last) = rows.last() else {
            return Ok(Vec::new());
        };
        let len = last.offset + u64::from(last.stored_len) - rows[0].offset;
        let range = ByteRange {
            offset: rows[0].offset,
            len,
        };

        let at = view.contents().at;
        let (at, mut stored) = self.read_either(view, at, first, range)?;
        let mut out = Vec::with_capacity(rows.len());
        let mut rest = stored.as_mut_slice();
        for (row, number) in rows.iter().zip(numbers) {
            let (own, after) = rest.split_at_mut(row.stored_len as usize);
            rest = after;
            let index = numbered(number).ok_or_else(|| no_region(view, first))?;
            let bytes = match self.open_region(view, index, row, own) {
                Ok(bytes) => bytes,
                Err(error) => self.reread_elsewhere(view, at, index, row, error)?,
            };
            out.push(PlainRegion { index, bytes });
        }
        Ok(out)
    }

    /// The range from the copy that the catalog came from, else from the other.
    fn read_either(
        &self,
        view: &CatalogView,
        at: Identity,
        first: RegionIndex,
        range: ByteRange,
    ) -> Result<(Identity, Vec<u8>), ContainerError> {
        let error = match self.read_range(view, at, range) {
            Ok(bytes) => return Ok((at, bytes)),
            Err(error) if is_absent(&error) || error.is_damage() => error,
            Err(error) => return Err(error),
        };
        if let Some(other) = at.other()
            && let Ok(bytes) = self.read_range(view, other, range)
        {
            self.report_mirror(other, Part::Region(first), &error);
            return Ok((other, bytes));
        }
        let (container, generation) = (at.id, at.generation);
        Err(if is_absent(&error) {
            ContainerError::Vanished {
                container,
                generation,
            }
        } else {
            error
        })
    }

    fn read_range(
        &self,
        view: &CatalogView,
        at: Identity,
        range: ByteRange,
    ) -> Result<Vec<u8>, ContainerError> {
        let torn = |object_len| ContainerError::Torn {
            container: at.id,
            generation: at.generation,
            offset: range.offset,
            object_len,
            why: "the object ends before its regions do".to_owned(),
        };
        match self.env().storage.get_range(&at.name(), range) {
            Ok(bytes) => {
                self.counters().read(bytes.len() as u64);
                if bytes.len() as u64 == range.len {
                    Ok(bytes)
                } else {
                    Err(torn(view.object_len()))
                }
            }
            Err(StorageError::PastEnd { len, .. }) => Err(torn(len)),
            Err(e) => Err(e.into()),
        }
    }

    /// One damaged region from the other copy of its generation; the first error where that has none.
    fn reread_elsewhere(
        &self,
        view: &CatalogView,
        at: Identity,
        index: RegionIndex,
        row: &RegionRow,
        error: ContainerError,
    ) -> Result<Vec<u8>, ContainerError> {
        let Some(other) = at.other() else {
            return Err(error);
        };
        let range = ByteRange {
            offset: row.offset,
            len: u64::from(row.stored_len),
        };
        let again = self.read_range(view, other, range);
        match again.and_then(|mut stored| self.open_region(view, index, row, &mut stored)) {
            Ok(bytes) => {
                self.report_mirror(other, Part::Region(index), &error);
                Ok(bytes)
            }
            Err(_) => Err(error),
        }
    }

    /// Digest, seal, decompression, length.
    pub(crate) fn open_region(
        &self,
        view: &CatalogView,
        index: RegionIndex,
        row: &RegionRow,
        stored: &mut [u8],
    ) -> Result<Vec<u8>, ContainerError> {
        let at = view.contents().at;
        let (container, generation, offset) = (at.id, at.generation, row.offset);
        let part = Part::Region(index);
        let found = wire::digest(stored);
        if found != row.digest {
            let expected = row.digest;
            return Err(ContainerError::DigestMismatch {
                container,
                generation,
                part,
                offset,
                expected,
                found,
            });
        }
        let forged = || ContainerError::Forged {
            container,
            generation,
            part,
            offset,
        };
        let key = view
            .contents()
            .key
            .as_ref()
            .ok_or_else(|| no_region(view, index))?;
        let aad = at.associated_data(self.store(), index.get());
        let packed = key
            .open(u64::from(index.get()), &aad, stored)
            .map_err(|_| forged())?;

        let expected_len = view.plain_len(index);
        let wrong = |why: String| ContainerError::Decompress {
            container,
            generation,
            region: index,
            offset,
            expected_len,
            why,
        };
        let plain = match row.codec {
            Codec::Raw => packed.to_vec(),
            Codec::Zstd => {
                let capacity = usize::try_from(expected_len).map_err(|e| wrong(e.to_string()))?;
                let plain = DECOMPRESSOR.with_borrow_mut(|zstd| zstd.decompress(packed, capacity));
                plain.map_err(|e| wrong(e.to_string()))?
            }
        };
        if plain.len() as u64 != expected_len {
            return Err(wrong(format!("{} bytes", plain.len())));
        }
        Ok(plain)
    }

    /// One chunk's bytes, compared with its fingerprint; or one encoded node's, whose fingerprint is its
    /// reader's to compute. Reads its whole region; follows newer generations by itself.
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
            match self.newer(&view)? {
                Some(newer) => view = newer,
                None if gone => {
                    let container = view.id();
                    return Err(ContainerError::Missing { container });
                }
                None => return Err(error),
            }
        }
        Err(ContainerError::Vanished {
            container: view.id(),
            generation: view.generation(),
        })
    }

    fn read_slot(&self, view: &CatalogView, slot: Slot) -> Result<Vec<u8>, ContainerError> {
        let no_slot = || ContainerError::NoSlot {
            container: view.requested(),
            generation: view.generation(),
            slot,
        };
        let place = view.place_of(slot).ok_or_else(no_slot)?;
        let region = self.read_region(view, place.region)?;
        let bytes = region.slot_bytes(view, slot).ok_or_else(no_slot)?;
        self.verify_chunk(view, slot, bytes)?;
        Ok(bytes.to_vec())
    }

    /// Compares a chunk's bytes with its fingerprint in the catalog (INV-5). Nodes pass: their
    /// fingerprints are over their children's.
    ///
    /// # Errors
    /// `FingerprintMismatch`, `NoSlot`.
    pub fn verify_chunk(&self, view: &CatalogView, slot: Slot, bytes: &[u8]) -> Result<(), ContainerError> {
        let (container, generation) = (view.requested(), view.generation());
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
        let (expected, found): (Fingerprint, _) = (entry.fingerprint, self.fingerprinter().chunk(bytes));
        if expected == found {
            return Ok(());
        }
        let region = place.region;
        Err(ContainerError::FingerprintMismatch {
            container,
            generation,
            region,
            slot,
            expected,
            found,
        })
    }
}

fn no_region(view: &CatalogView, region: RegionIndex) -> ContainerError {
    ContainerError::NoRegion {
        container: view.id(),
        generation: view.generation(),
        region,
    }
}
