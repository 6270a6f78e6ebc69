//! The messages between the two halves of a backup.
//!
//! The client reads the source: it cuts chunks, fingerprints them and builds segments, and offers
//! these in stream order. The store decides and answers, segment by segment, which chunks it wants.
//! The client sends these in regions. Every wanted chunk has a number ([`NewChunk`]). So a region
//! states where it belongs, and the order of arrival decides nothing.
//!
//! A client that sends messages over a network may offer a segment without its chunks
//! ([`Offer::Brief`]). The store asks for them if it does not know the segment whole (B1). If it
//! knows the segment, and decides on it later, it reads the chunks' fingerprints itself.
//!
//! Invariant: for each offered segment of a stream, read or copied, the store returns one
//! [`Verdict::Segment`], in the order of the stream. It sends one [`Verdict::Waits`] for each
//! segment on which it decides later. If it has sent neither for the last ones that were offered,
//! it has sent [`Verdict::Unknown`] after them.

use recipe::KnownNode;
use types::{ChunkLocation, Fingerprint};

use crate::dedup::{Lane, NewChunk, StreamIndex};
use crate::region::OfferedRegion;

/// A message of a client, in order.
#[derive(Debug)]
pub enum Offer {
    /// The next segment of a stream, read from the source.
    Segment {
        /// The stream.
        stream: StreamIndex,
        /// Its fingerprints.
        segment: OfferedSegment,
    },
    /// The next segment of a stream, read from the source, without its chunks. The client has the
    /// bytes of all of them, except zeros.
    Brief {
        /// The stream.
        stream: StreamIndex,
        /// Of the segment's node.
        fingerprint: Fingerprint,
        /// Bytes of stream.
        len: u64,
    },
    /// The chunks of the segment for which the store has asked.
    Children {
        /// The stream.
        stream: StreamIndex,
        /// In stream order.
        children: Vec<OfferedChild>,
    },
    /// The next segment of a stream is a whole segment of an earlier backup (B3).
    Copy {
        /// The stream.
        stream: StreamIndex,
        /// The fingerprint of its node.
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

/// A segment, described by its fingerprints.
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
    /// In the client.
    Client,
    /// In the store: an earlier backup refers to this place.
    Stored(ChunkLocation),
    /// No bytes: they are zeros.
    Zeros,
}

/// An answer of the store, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The next offered segment of a stream has its place. The store needs these of its chunks.
    Segment {
        /// The stream.
        stream: StreamIndex,
        /// The wanted chunks, in order; none if the segment is known.
        wanted: Vec<Wanted>,
    },
    /// The store decides on the next segment of a stream, which has neither a verdict nor this
    /// message, when more of the stream has come. It asks for the segment's chunks no more. A
    /// client that waits for the verdict would wait for ever.
    Waits(StreamIndex),
    /// The store does not know the first brief segment of the stream that has neither a verdict nor
    /// [`Self::Waits`]. It decides on nothing more before the segment's chunks have come.
    Unknown(StreamIndex),
    /// A request to send the regions that the client has begun, because a stream has ended, or a
    /// checkpoint waits for them.
    Flush(Option<Lane>),
    /// All streams have ended, and each segment has its verdict.
    Done,
}

/// A chunk that the store wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// Its position in its segment.
    pub child: u32,
    /// Its number.
    pub new: NewChunk,
    /// Fingerprint and length, if the store has read them itself. The server compares the client's
    /// bytes with them. They do not travel to the client, which knows them.
    pub chunk: Option<(Fingerprint, u64)>,
}
