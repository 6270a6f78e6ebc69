//! Memory for regions: the bytes as read, opened in place, and the decompressed bytes beside them.
//!
//! Invariant: a [`RegionBuffer`] returns bytes only of regions that were opened whole; after
//! an error it returns none. It keeps its memory for the next use, because fresh pages cost more
//! than filling them. One thread fills it; then any number may read it.

use std::ops::Range;

use env::AlignedBuffer;
use types::{RegionIndex, Slot};

use crate::compress::CompressedRegion;
use crate::view::CatalogView;

/// Some regions' plain bytes. They are authentic, but not yet compared with fingerprints. Raw
/// regions are where they were read, compressed ones where they were decompressed.
#[derive(Debug)]
pub struct RegionBuffer {
    pub(crate) stored: AlignedBuffer,
    pub(crate) plain: PlainBuffer,
    pub(crate) regions: Vec<(RegionIndex, BytesAt)>,
    /// For each decompressed region: where its compressed bytes are.
    pub(crate) packed: Vec<(RegionIndex, Range<usize>)>,
}

/// The place of some bytes in a [`RegionBuffer`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BytesAt {
    pub(crate) half: Half,
    pub(crate) range: Range<usize>,
}

/// The two parts of a [`RegionBuffer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Stored,
    Plain,
}

impl BytesAt {
    /// The number of bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// `len` of the bytes, from `skip` on; `None` if there are not so many.
    #[must_use]
    pub fn part(&self, skip: usize, len: usize) -> Option<Self> {
        let begin = self.range.start.checked_add(skip)?;
        let end = begin.checked_add(len).filter(|end| *end <= self.range.end)?;
        Some(Self {
            half: self.half,
            range: begin..end,
        })
    }

    /// Extends this place by `next`, if that follows directly. Returns whether it did.
    pub fn join(&mut self, next: &Self) -> bool {
        let follows = self.half == next.half && self.range.end == next.range.start;
        if follows {
            self.range.end = next.range.end;
        }
        follows
    }
}

impl Default for RegionBuffer {
    fn default() -> Self {
        Self {
            stored: AlignedBuffer::with_capacity(0),
            plain: PlainBuffer::default(),
            regions: Vec::new(),
            packed: Vec::new(),
        }
    }
}

impl RegionBuffer {
    /// An empty buffer that reuses this memory.
    #[must_use]
    pub fn of(mut stored: AlignedBuffer, mut plain: PlainBuffer) -> Self {
        stored.clear();
        plain.clear();
        Self {
            stored,
            plain,
            regions: Vec::new(),
            packed: Vec::new(),
        }
    }

    /// Its memory for reuse: the part for reading, and the part for decompressing.
    #[must_use]
    pub fn into_memory(self) -> (AlignedBuffer, PlainBuffer) {
        (self.stored, self.plain)
    }

    /// Takes away memory without any region: the part for reading if all regions were compressed,
    /// and the part for decompressing if none was.
    pub fn take_unused(&mut self) -> (Option<AlignedBuffer>, Option<PlainBuffer>) {
        let is_used = |half| self.regions.iter().any(|(_, at)| at.half == half);
        let (stored, plain) = (is_used(Half::Stored), is_used(Half::Plain));
        if !stored {
            self.packed.clear();
        }
        (
            (!stored).then(|| std::mem::replace(&mut self.stored, AlignedBuffer::with_capacity(0))),
            (!plain).then(|| std::mem::take(&mut self.plain)),
        )
    }

    /// Bytes of all regions in it, wanted or not.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.stored.len() + self.plain.len
    }

    /// All memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.stored.capacity() + self.plain.memory.len()
    }

    /// Forgets the regions.
    pub fn clear(&mut self) {
        self.stored.clear();
        self.plain.len = 0;
        self.regions.clear();
        self.packed.clear();
    }

    /// Holds these regions from now on, which a remote store has read and sent, in ascending order.
    /// `None`, and no region, if one of them does not decompress.
    pub fn hold_sent(&mut self, regions: &[(RegionIndex, CompressedRegion)]) -> Option<()> {
        self.clear();
        self.plain
            .reserve(regions.iter().map(|(_, region)| region.plain_len()).sum());
        for (index, region) in regions {
            let open = |room: &mut [u8]| region.decompress_into(room).ok_or(());
            let Ok(range) = self.plain.add(region.plain_len(), open) else {
                self.clear();
                return None;
            };
            let at = BytesAt {
                half: Half::Plain,
                range,
            };
            self.regions.push((*index, at));
        }
        Some(())
    }

    /// Plain bytes of all regions.
    #[must_use]
    pub fn plain_len(&self) -> usize {
        self.regions.iter().map(|(_, at)| at.len()).sum()
    }

    /// The regions in it, in order.
    pub fn regions(&self) -> impl Iterator<Item = (RegionIndex, &[u8])> {
        self.regions.iter().map(|(index, at)| (*index, self.bytes(at)))
    }

    /// The compressed bytes of a region, authentic; `None` if it was not compressed, or if they are
    /// not in the buffer any more.
    #[must_use]
    pub fn packed(&self, region: RegionIndex) -> Option<&[u8]> {
        let found = self.packed.binary_search_by_key(&region, |(index, _)| *index);
        let (_, range) = self.packed.get(found.ok()?)?;
        self.stored.get(range.clone())
    }

    /// The place of a slot of `view`'s container; `None` if its region is not in the buffer. The
    /// regions must have been read with this `view`.
    #[must_use]
    pub fn slot(&self, view: &CatalogView, slot: Slot) -> Option<BytesAt> {
        let place = view.place_of(slot)?;
        let found = self
            .regions
            .binary_search_by_key(&place.region, |(index, _)| *index);
        let (_, region) = self.regions.get(found.ok()?)?;
        region.part(place.offset as usize, place.len as usize)
    }

    /// The bytes at a place.
    ///
    /// # Panics
    /// If `at` belongs to another buffer, or to regions that were cleared.
    #[must_use]
    pub fn bytes(&self, at: &BytesAt) -> &[u8] {
        match at.half {
            Half::Stored => &self.stored[at.range.clone()],
            Half::Plain => &self.plain.memory[at.range.clone()],
        }
    }
}

/// Growing memory for decompressed regions. It is never filled with zeros first.
#[derive(Debug, Default)]
pub struct PlainBuffer {
    memory: Vec<u8>,
    len: usize,
}

impl PlainBuffer {
    /// All memory that it holds.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory.len()
    }

    /// Reserves room for so many more bytes at once.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        let wanted = self.len.saturating_add(bytes);
        if wanted > self.memory.len() {
            self.memory.truncate(self.len);
            self.memory.reserve_exact(bytes);
            self.memory.resize(wanted, 0);
        }
    }

    /// Lets `write` fill the next `bytes`. They count only if `write` succeeds.
    pub(crate) fn add<E>(
        &mut self,
        bytes: usize,
        write: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Range<usize>, E> {
        self.reserve(bytes);
        let range = self.len..self.len + bytes;
        write(&mut self.memory[range.clone()])?;
        self.len = range.end;
        Ok(range)
    }

    /// Forgets the bytes.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.memory[range]
    }
}
