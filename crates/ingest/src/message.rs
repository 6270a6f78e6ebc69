//! What the two halves of a backup say to each other.
//!
//! The client reads the source: it cuts chunks, fingerprints them and builds segments, and offers
//! these in stream order. The store decides and answers, segment by segment, which chunks it wants.
//! The client sends those in regions. Every chunk that the store wants has a number ([`NewChunk`]),
//! so a region says where it belongs, and the order of arrival decides nothing.
//!
//! Invariant: for each offered segment of a stream, read or copied, one [`Verdict::Segment`]
//! comes back, in the order of the stream.

use recipe::KnownNode;
use types::{ChunkLocation, Fingerprint};

use crate::dedup::{Lane, NewChunk, StreamIndex};
use crate::region::OfferedRegion;

/// What a client says, in order.
#[derive(Debug)]
pub enum Offer {
    /// The next segment of a stream, read from the source.
    Segment {
        /// The stream.
        stream: StreamIndex,
        /// What it consists of.
        segment: OfferedSegment,
    },
    /// The next segment of a stream is a whole segment of an earlier backup (B3).
    Copy {
        /// The stream.
        stream: StreamIndex,
        /// Of its node.
        fingerprint: Fingerprint,
        /// Bytes of stream.
        len: u64,
        /// Its node.
        node: KnownNode,
    },
    /// Chunks that the store wants.
    Region(OfferedRegion),
    /// A stream is complete.
    End(StreamIndex),
}

/// A segment by its fingerprints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedSegment {
    /// Of the segment's node.
    pub fingerprint: Fingerprint,
    /// Bytes of stream.
    pub len: u64,
    /// In stream order.
    pub children: Vec<OfferedChild>,
}

/// A chunk of an offered segment, or a run of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferedChild {
    /// Of the chunk, or of the run.
    pub fingerprint: Fingerprint,
    /// Bytes of stream.
    pub len: u64,
    /// Where its bytes are.
    pub place: OfferedPlace,
}

/// Where the bytes of an offered chunk are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OfferedPlace {
    /// The client has them.
    Client,
    /// The store has them: an earlier backup refers to this place.
    Stored(ChunkLocation),
    /// Nowhere: they are zeros.
    Zeros,
}

/// What the store answers, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The next offered segment of a stream has its place. The store needs these of its chunks.
    Segment {
        /// The stream.
        stream: StreamIndex,
        /// Which chunks, in order; none of a segment that is known.
        wanted: Vec<Wanted>,
    },
    /// The client sends the regions that it has begun: a stream has ended, or a checkpoint waits
    /// for them.
    Flush(Option<Lane>),
    /// All streams have ended. Nothing more comes.
    Done,
}

/// A chunk that the store wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Its position in its segment.
    pub child: u32,
    /// Its number.
    pub new: NewChunk,
}
