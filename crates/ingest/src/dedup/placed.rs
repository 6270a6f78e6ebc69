//! The decisions about a segment.

use recipe::KnownNode;
use types::{ChunkLocation, Fingerprint};

/// The stream of the backup: its position in the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamIndex(pub u16);

/// Containers are filled by lane, so that the chunks of files lie together and those of listings
/// too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// Files and whole streams.
    Content,
    /// Listings and fences.
    Metadata,
}

impl Lane {
    /// How many there are.
    pub const COUNT: usize = 2;

    /// 0 or 1.
    #[must_use]
    pub const fn number(self) -> usize {
        match self {
            Self::Content => 0,
            Self::Metadata => 1,
        }
    }
}

/// A new chunk's number within its lane, before it has a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewChunk {
    /// The lane.
    pub lane: Lane,
    /// How many new chunks of the lane came before it.
    pub ordinal: u64,
}

/// A segment whose chunks all have a place, or a number that will become one.
#[derive(Debug)]
pub struct PlacedSegment {
    /// Of the segment's node.
    pub fingerprint: Fingerprint,
    /// Bytes of stream.
    pub len: u64,
    /// Its place.
    pub body: SegmentBody,
}

impl PlacedSegment {
    /// How many children it has in memory. A segment without children in memory counts as one.
    pub(crate) fn children(&self) -> usize {
        match &self.body {
            SegmentBody::Known(_) | SegmentBody::Repeated(_) => 1,
            SegmentBody::Fresh { children, .. } => children.len(),
        }
    }
}

/// The place of a segment.
#[derive(Debug)]
pub enum SegmentBody {
    /// A committed backup has the node.
    Known(KnownNode),
    /// It equals the fresh segment of this number.
    Repeated(u64),
    /// Its node must be written.
    Fresh {
        /// Fresh segments are numbered in the order in which they are decided.
        number: u64,
        /// In stream order.
        children: Vec<PlacedChild>,
    },
}

/// A chunk, or a run of zeros, of a fresh segment.
#[derive(Debug, Clone, Copy)]
pub struct PlacedChild {
    /// Of the chunk, or of the run.
    pub fingerprint: Fingerprint,
    /// Bytes of stream.
    pub len: u64,
    /// Where it is.
    pub place: PlacedAt,
}

/// The present or future place of a chunk.
#[derive(Debug, Clone, Copy)]
pub enum PlacedAt {
    /// A place from before this backup.
    Stored(ChunkLocation),
    /// A new chunk of this backup.
    New(NewChunk),
    /// No place: it is zeros.
    Zeros,
}
