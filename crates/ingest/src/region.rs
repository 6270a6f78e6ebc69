//! Regions on their way into containers: new chunks gathered to some 128 KiB, then compressed by a worker.

use container::{CompressedRegion, Compression, PendingEntry, compress_region};

use crate::queue::Closed;
use crate::workers::{Ticket, Workers};

/// Containers are filled by lane, so that the chunks of files lie together and those of listings too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// Files and whole streams.
    Content,
    /// Listings and fences.
    Metadata,
}

impl Lane {
    pub(crate) const COUNT: usize = 2;

    pub(crate) const fn number(self) -> usize {
        match self {
            Self::Content => 0,
            Self::Metadata => 1,
        }
    }
}

/// A new chunk's number within its lane, before it has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NewChunk {
    pub(crate) lane: Lane,
    pub(crate) ordinal: u64,
}

/// A closed region: its chunks are the next ordinals of its lane.
#[derive(Debug)]
pub(crate) struct ClosedRegion {
    pub(crate) lane: Lane,
    pub(crate) entries: Vec<PendingEntry>,
    pub(crate) compressed: Ticket<CompressedRegion>,
}

/// The open region of a lane.
#[derive(Debug)]
pub(crate) struct RegionBuilder {
    lane: Lane,
    limit: usize,
    compression: Compression,
    plain: Vec<u8>,
    entries: Vec<PendingEntry>,
    next_ordinal: u64,
}

impl RegionBuilder {
    pub(crate) fn new(lane: Lane, limit: usize, compression: Compression) -> Self {
        Self {
            lane,
            limit,
            compression,
            plain: Vec::new(),
            entries: Vec::new(),
            next_ordinal: 0,
        }
    }

    /// Adds a chunk.
    pub(crate) fn push(&mut self, entry: PendingEntry, bytes: &[u8]) -> NewChunk {
        if self.plain.is_empty() {
            self.plain.reserve(self.limit + bytes.len());
        }
        self.plain.extend_from_slice(bytes);
        self.entries.push(entry);
        let ordinal = self.next_ordinal;
        self.next_ordinal += 1;
        NewChunk {
            lane: self.lane,
            ordinal,
        }
    }

    /// Whether the region should be closed.
    pub(crate) fn is_full(&self) -> bool {
        self.plain.len() >= self.limit
    }

    /// Closes the region and hands it to a worker; `None` when it is empty.
    pub(crate) fn close(&mut self, workers: &Workers) -> Result<Option<ClosedRegion>, Closed> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let plain = std::mem::take(&mut self.plain);
        let entries = std::mem::take(&mut self.entries);
        let compression = self.compression;
        let compressed = workers.submit(move || compress_region(plain, compression))?;
        Ok(Some(ClosedRegion {
            lane: self.lane,
            entries,
            compressed,
        }))
    }
}
