//! Memory for regions: the bytes as read, opened in place, and the decompressed bytes beside them.
//!
//! Invariant: a [`RegionBuffer`] returns bytes only of regions that were opened whole; after
//! an error it returns none. It keeps its memory for the next use, because fresh pages cost more
//! than filling them. One thread fills it; then any number may read it.

use std::ops::Range;

use env::AlignedBuffer;
use types::{RegionIndex, Slot};

use crate::view::CatalogView;

/// Some regions' plain bytes, authentic; not yet compared with fingerprints. Raw regions stand
/// where they were read, compressed ones where they were decompressed.
#[derive(Debug)]
pub struct RegionBuffer {
    pub(crate) stored: AlignedBuffer,
    pub(crate) plain: PlainBuffer,
    pub(crate) regions: Vec<(RegionIndex, BytesAt)>,
    /// Of regions that were decompressed from where they were read: what was.
    pub(crate) packed: Vec<(RegionIndex, Range<usize>)>,
}

/// Where in a [`RegionBuffer`] some bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BytesAt {
    pub(crate) half: Half,
    pub(crate) range: Range<usize>,
}

/// Which part of a [`RegionBuffer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Half {
    Stored,
    Plain,
}

impl BytesAt {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// `len` of the bytes, from `skip` on; `None` when there are not so many.
    #[must_use]
    pub fn part(&self, skip: usize, len: usize) -> Option<Self> {
        let begin = self.range.start.checked_add(skip)?;
        let end = begin.checked_add(len).filter(|end| *end <= self.range.end)?;
        Some(Self {
            half: self.half,
            range: begin..end,
        })
    }

    /// Takes in what follows directly, if it does.
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
    /// An empty one in memory that was another's.
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

    /// Its memory, for the next one: what was read into, and what was decompressed into.
    #[must_use]
    pub fn into_memory(self) -> (AlignedBuffer, PlainBuffer) {
        (self.stored, self.plain)
    }

    /// Takes away the memory in which no region stands: what was read into, where all were
    /// compressed, and what was decompressed into, where none was.
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

    /// Bytes that stand in it, wanted or not.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.stored.len() + self.plain.len
    }

    /// Memory that it holds, used or not.
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

    /// Plain bytes of all regions.
    #[must_use]
    pub fn plain_len(&self) -> usize {
        self.regions.iter().map(|(_, at)| at.len()).sum()
    }

    /// The regions in it, in order.
    pub fn regions(&self) -> impl Iterator<Item = (RegionIndex, &[u8])> {
        self.regions.iter().map(|(index, at)| (*index, self.bytes(at)))
    }

    /// What a region was decompressed from, authentic; `None` where it was not compressed, or that
    /// is not here any more.
    #[must_use]
    pub fn packed(&self, region: RegionIndex) -> Option<&[u8]> {
        let found = self.packed.binary_search_by_key(&region, |(index, _)| *index);
        let (_, range) = self.packed.get(found.ok()?)?;
        self.stored.get(range.clone())
    }

    /// Where a slot of `view`'s container is; `None` when its region is not here. `view` is the one
    /// that the regions were read with.
    #[must_use]
    pub fn slot(&self, view: &CatalogView, slot: Slot) -> Option<BytesAt> {
        let place = view.place_of(slot)?;
        let found = self
            .regions
            .binary_search_by_key(&place.region, |(index, _)| *index);
        let (_, region) = self.regions.get(found.ok()?)?;
        region.part(place.offset as usize, place.len as usize)
    }

    /// The bytes.
    ///
    /// # Panics
    /// When `at` is of another buffer, or of regions that are no longer here.
    #[must_use]
    pub fn bytes(&self, at: &BytesAt) -> &[u8] {
        match at.half {
            Half::Stored => &self.stored[at.range.clone()],
            Half::Plain => &self.plain.memory[at.range.clone()],
        }
    }
}

/// Bytes added one after another to memory that is never cleared: what regions are decompressed
/// into.
#[derive(Debug, Default)]
pub struct PlainBuffer {
    memory: Vec<u8>,
    len: usize,
}

impl PlainBuffer {
    /// Memory that it holds, used or not.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.memory.len()
    }

    /// Makes room for so many bytes more, at once.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        let wanted = self.len.saturating_add(bytes);
        if wanted > self.memory.len() {
            self.memory.truncate(self.len);
            self.memory.reserve_exact(bytes);
            self.memory.resize(wanted, 0);
        }
    }

    /// Lets `write` fill the next `bytes`; they count once it has said so.
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
