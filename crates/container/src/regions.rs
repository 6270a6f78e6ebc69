//! Reading regions: one ranged read, seal, decompression; the mirror copy if the main one fails.
//!
//! The seal authenticates every byte. The digest finds rot without a key. This module checks it
//! only when a seal is broken, to distinguish rot from malice: checking it always would cost a
//! sixth of a restore's computing.
//!
//! Invariant: every byte that is returned was sealed by this store as this region of this
//! generation. (For INV-5 the caller then compares chunks with their fingerprints.) The entries
//! bound a region's plain length before anything is allocated (INV-8).

use std::ops::Range;

use crypto::TAG_BYTES;
use env::{AlignedBuffer, StorageError};
use format::container::{Codec, RegionRow};
use format::wire;
use types::{ByteRange, RegionIndex, Slot};

use crate::buffer::{BytesAt, Half, PlainBuffer, RegionBuffer};
use crate::compress::DECOMPRESSOR;
use crate::containers::Containers;
use crate::error::{ContainerError, Part};
use crate::generations::is_absent;
use crate::identity::{CopyOf, Identity};
use crate::view::CatalogView;

/// A region's plain bytes. They are authentic, but not yet compared with fingerprints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainRegion {
    index: RegionIndex,
    bytes: Vec<u8>,
}

impl PlainRegion {
    /// A region that a remote store has read and sent.
    #[must_use]
    pub const fn from_sent(index: RegionIndex, bytes: Vec<u8>) -> Self {
        Self { index, bytes }
    }

    /// The number of the region in its generation.
    #[must_use]
    pub fn index(&self) -> RegionIndex {
        self.index
    }

    /// The bytes of all entries, one after another.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes as a vector.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// The bytes of a slot of `view`'s container; `None` if it is not in this region. The region
    /// must have been read with this `view`.
    #[must_use]
    pub fn slot_bytes(&self, view: &CatalogView, slot: Slot) -> Option<&[u8]> {
        let place = view.place_of(slot).filter(|place| place.region == self.index)?;
        let offset = place.offset as usize;
        self.bytes.get(offset..offset + place.len as usize)
    }
}

/// The place of an opened region's bytes.
#[derive(Debug)]
pub(crate) enum Opened {
    /// So many bytes at the beginning of the place where the region was read.
    InPlace(usize),
    /// In the plain buffer.
    Plain(Range<usize>),
}

impl Opened {
    fn at(self, stored_at: usize) -> BytesAt {
        let (half, range) = match self {
            Self::InPlace(len) => (Half::Stored, stored_at..stored_at + len),
            Self::Plain(range) => (Half::Plain, range),
        };
        BytesAt { half, range }
    }

    /// The bytes.
    pub(crate) fn bytes<'a>(&self, stored: &'a [u8], plain: &'a PlainBuffer) -> &'a [u8] {
        match self {
            Self::InPlace(len) => &stored[..*len],
            Self::Plain(range) => plain.bytes(range.clone()),
        }
    }
}

impl Containers {
    /// Reads one region's plain bytes.
    ///
    /// # Errors
    /// `Vanished` if the generation was replaced: ask [`Self::newer`] and continue at the same
    /// slots. `BodyMissing` may mean the same. `NoRegion`; `DigestMismatch`, `Forged`, `Decompress`
    /// and others if no copy is good.
    pub fn read_region(
        &self,
        view: &CatalogView,
        region: RegionIndex,
    ) -> Result<PlainRegion, ContainerError> {
        let number = region.get() as usize;
        let mut regions = self.read_numbered(view, &[number])?;
        regions.pop().ok_or_else(|| no_region(view, region))
    }

    /// Reads the plain bytes of consecutive regions, in order, with one read.
    ///
    /// # Errors
    /// As [`Self::read_region`], for the first region without a good copy.
    pub fn read_regions(
        &self,
        view: &CatalogView,
        regions: Range<RegionIndex>,
    ) -> Result<Vec<PlainRegion>, ContainerError> {
        let numbers: Vec<usize> = (regions.start.get() as usize..regions.end.get() as usize).collect();
        self.read_numbered(view, &numbers)
    }

    fn read_numbered(
        &self,
        view: &CatalogView,
        numbers: &[usize],
    ) -> Result<Vec<PlainRegion>, ContainerError> {
        let mut buffer = RegionBuffer::default();
        let filled = self.fill(view, numbers, &mut buffer);
        filled.inspect_err(|error| self.note_damage(view.id(), error))?;
        let plain = |(index, bytes): (_, &[u8])| PlainRegion {
            index,
            bytes: bytes.to_vec(),
        };
        Ok(buffer.regions().map(plain).collect())
    }

    /// Reads the plain bytes of some regions, in ascending order, with one read, into reused
    /// memory. Bytes are copied only if the storage cannot return them otherwise, or if they are
    /// compressed. Regions in between are read but not opened.
    ///
    /// # Errors
    /// As [`Self::read_region`]. The buffer then holds no region.
    pub fn read_regions_into(
        &self,
        view: &CatalogView,
        regions: &[RegionIndex],
        buffer: &mut RegionBuffer,
    ) -> Result<(), ContainerError> {
        let numbers: Vec<usize> = regions.iter().map(|index| index.get() as usize).collect();
        let filled = self.fill(view, &numbers, buffer);
        if let Err(error) = &filled {
            self.note_damage(view.id(), error);
            buffer.clear();
        }
        filled
    }

    fn fill(
        &self,
        view: &CatalogView,
        numbers: &[usize],
        buffer: &mut RegionBuffer,
    ) -> Result<(), ContainerError> {
        buffer.clear();
        let mut wanted: Vec<(RegionIndex, &RegionRow)> = Vec::with_capacity(numbers.len());
        for number in numbers {
            let index = u32::try_from(*number).ok().and_then(|n| RegionIndex::new(n).ok());
            let index = index.unwrap_or(RegionIndex::MAX);
            debug_assert!(wanted.last().is_none_or(|(last, _)| *last < index), "ascending");
            let row = view.rows().get(*number).filter(|row| row.entry_count > 0);
            let row = row.ok_or_else(|| no_region(view, index))?;
            wanted.push((index, row));
        }
        let (Some((first, begin)), Some((_, last))) = (wanted.first(), wanted.last()) else {
            return Ok(());
        };
        let begin = begin.offset;
        let range = ByteRange {
            offset: begin,
            len: last.offset + u64::from(last.stored_len) - begin,
        };
        let at = view.contents().regions_at();
        let (at, place) = self.read_either(view, at, *first, range, &mut buffer.stored)?;
        let RegionBuffer {
            stored,
            plain,
            regions,
            packed,
        } = buffer;
        let compressed = wanted.iter().filter(|(_, row)| row.codec == Codec::Zstd);
        let plain_lens = compressed.map(|(index, _)| view.plain_len(*index));
        plain.reserve(usize::try_from(plain_lens.sum::<u64>()).unwrap_or(0));
        for (index, row) in wanted {
            // The length is within the bytes that were read into memory.
            let stored_at = place.start + usize::try_from(row.offset - begin).unwrap_or(usize::MAX);
            let end = stored_at + row.stored_len as usize;
            let opened = match self.open_region(view, index, row, &mut stored[stored_at..end], plain) {
                Ok(opened) => {
                    if matches!(opened, Opened::Plain(_)) {
                        packed.push((index, stored_at..end - TAG_BYTES));
                    }
                    opened
                }
                Err(error) => self.read_again(view, at, index, row, plain, error)?,
            };
            regions.push((index, opened.at(stored_at)));
        }
        Ok(())
    }

    /// Reads the range from the copy of the catalog, else from the other copy.
    fn read_either(
        &self,
        view: &CatalogView,
        at: Identity,
        first: RegionIndex,
        range: ByteRange,
        into: &mut AlignedBuffer,
    ) -> Result<(Identity, Range<usize>), ContainerError> {
        let error = match self.read_range(view, at, range, into) {
            Ok(place) => return Ok((at, place)),
            Err(error) if is_absent(&error) || error.is_damage() => error,
            Err(error) => return Err(error),
        };
        if let Some(other) = at.other() {
            match self.read_range(view, other, range, into) {
                Ok(place) => {
                    self.report_mirror(other, Part::Region(first), &error);
                    return Ok((other, place));
                }
                Err(silence) if silence.is_silence() => return Err(silence),
                Err(_) => {}
            }
        }
        if !is_absent(&error) {
            return Err(error);
        }
        let (container, generation) = (view.id(), view.generation());
        Err(match at.copy {
            CopyOf::Body => ContainerError::BodyMissing {
                container,
                generation,
                body: at.name(),
            },
            CopyOf::Main | CopyOf::Mirror => ContainerError::Vanished {
                container,
                generation,
            },
        })
    }

    fn read_range(
        &self,
        view: &CatalogView,
        at: Identity,
        range: ByteRange,
        into: &mut AlignedBuffer,
    ) -> Result<Range<usize>, ContainerError> {
        let torn = |object_len| ContainerError::Torn {
            container: at.id,
            generation: at.generation,
            offset: range.offset,
            object_len,
            why: "the object ends before its regions do".to_owned(),
        };
        match at.read(&*self.env().storage, range, into) {
            Ok(place) => {
                self.counters().read(place.len() as u64);
                if place.len() as u64 == range.len {
                    Ok(place)
                } else {
                    Err(torn(view.object_len()))
                }
            }
            Err(StorageError::PastEnd { len, .. }) => Err(torn(len)),
            Err(e) => Err(e.into()),
        }
    }

    /// Finds out whether rot broke a seal. Opening in place destroyed the bytes, so the region is
    /// read again.
    fn explain(
        &self,
        view: &CatalogView,
        at: Identity,
        index: RegionIndex,
        row: &RegionRow,
        error: ContainerError,
    ) -> ContainerError {
        if !matches!(error, ContainerError::Forged { .. }) {
            return error;
        }
        let range = ByteRange {
            offset: row.offset,
            len: u64::from(row.stored_len),
        };
        let mut again = AlignedBuffer::with_capacity(0);
        let read = self.read_range(view, at, range, &mut again);
        let rotten = read.and_then(|place| check_digest(at, index, row, &again[place]));
        match rotten {
            Err(rot @ ContainerError::DigestMismatch { .. }) => rot,
            _ => error,
        }
    }

    /// Reads one damaged region again: from the same copy if a cache had wrong bytes of it, else
    /// from the other copy of its generation. Returns the first error if that fails.
    fn read_again(
        &self,
        view: &CatalogView,
        at: Identity,
        index: RegionIndex,
        row: &RegionRow,
        plain: &mut PlainBuffer,
        error: ContainerError,
    ) -> Result<Opened, ContainerError> {
        let storage = &self.env().storage;
        let was_cached = at.names().filter(|name| storage.drop_cached(name)).count() > 0;
        if was_cached {
            match self.reread(view, at, index, row, plain) {
                Ok(opened) => return Ok(opened),
                Err(silence) if silence.is_silence() => return Err(silence),
                Err(_) => {}
            }
        }
        let error = self.explain(view, at, index, row, error);
        let Some(other) = at.other() else {
            return Err(error);
        };
        match self.reread(view, other, index, row, plain) {
            Ok(opened) => {
                self.report_mirror(other, Part::Region(index), &error);
                Ok(opened)
            }
            Err(silence) if silence.is_silence() => Err(silence),
            Err(_) => Err(error),
        }
    }

    /// Reads and opens one region into the plain buffer.
    fn reread(
        &self,
        view: &CatalogView,
        at: Identity,
        index: RegionIndex,
        row: &RegionRow,
        plain: &mut PlainBuffer,
    ) -> Result<Opened, ContainerError> {
        let range = ByteRange {
            offset: row.offset,
            len: u64::from(row.stored_len),
        };
        let mut again = AlignedBuffer::with_capacity(0);
        let place = self.read_range(view, at, range, &mut again)?;
        let opened = self.open_region(view, index, row, &mut again[place.clone()], plain)?;
        Ok(match opened {
            Opened::Plain(_) => opened,
            // The read buffer will be dropped, so the bytes are copied beside the others.
            Opened::InPlace(len) => {
                let copied = plain.add(len, |to| {
                    to.copy_from_slice(&again[place.start..place.start + len]);
                    Ok::<(), ContainerError>(())
                });
                Opened::Plain(copied?)
            }
        })
    }

    /// Opens the seal, decompresses, and checks the length. If the bytes are in `plain`, the
    /// compressed ones are still where they were read.
    pub(crate) fn open_region(
        &self,
        view: &CatalogView,
        index: RegionIndex,
        row: &RegionRow,
        stored: &mut [u8],
        plain: &mut PlainBuffer,
    ) -> Result<Opened, ContainerError> {
        let regions = view.contents().regions.as_ref();
        let regions = regions.ok_or_else(|| no_region(view, index))?;
        let at = regions.at;
        let (container, generation, offset) = (at.id, at.generation, row.offset);
        let part = Part::Region(index);
        let forged = || ContainerError::Forged {
            container,
            generation,
            part,
            offset,
        };
        let aad = at.associated_data(self.store(), index.get());
        let packed = regions
            .key
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
        let fits = |len: usize| {
            if len as u64 == expected_len {
                Ok(())
            } else {
                Err(wrong(format!("{len} bytes")))
            }
        };
        match row.codec {
            Codec::Raw => {
                fits(packed.len())?;
                Ok(Opened::InPlace(packed.len()))
            }
            Codec::Zstd => {
                let len = usize::try_from(expected_len).map_err(|e| wrong(e.to_string()))?;
                let range = plain.add(len, |to| {
                    let found = DECOMPRESSOR.with_borrow_mut(|zstd| zstd.decompress_to_buffer(packed, to));
                    found.map_err(|e| wrong(e.to_string())).and_then(fits)
                })?;
                Ok(Opened::Plain(range))
            }
        }
    }
}

/// Checks the digest of the stored bytes. This needs no key.
pub(crate) fn check_digest(
    at: Identity,
    index: RegionIndex,
    row: &RegionRow,
    stored: &[u8],
) -> Result<(), ContainerError> {
    let found = wire::digest(stored);
    if found == row.digest {
        return Ok(());
    }
    Err(ContainerError::DigestMismatch {
        container: at.id,
        generation: at.generation,
        part: Part::Region(index),
        offset: row.offset,
        expected: row.digest,
        found,
    })
}

fn no_region(view: &CatalogView, region: RegionIndex) -> ContainerError {
    ContainerError::NoRegion {
        container: view.id(),
        generation: view.generation(),
        region,
    }
}
