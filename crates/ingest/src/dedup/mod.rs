//! What of a backup is referred to and what is stored: the policy, without threads, bytes or
//! storage [Guo 3.2.1, Lillibridge 3.2, RevDedup 2.2] (G3, L3, L8, L9, R1).
//!
//! [`Segmenter`] cuts a stream's chunks into segments, [`Deduplicator`] says of each segment where
//! its chunks are. What it asks of a store is [`Holdings`], where its decisions go is an
//! [`Outlet`]: a running backup has an index, containers and a packer there, the laboratory's
//! simulator has none of them, and both run this code.
//!
//! Invariant: decisions follow from the order of segments, the index and the holdings alone,
//! never from timing. For one thread.

mod by_segment;
mod candidate;
mod cap;
mod decide;
mod granularity;
mod placed;
mod places;
mod segment;
mod session_chunks;
mod whole;
mod window;

use std::collections::BTreeSet;
use std::sync::Arc;

use format::node::Node;
use index::{CatalogSource, HookIndex, Resolver};
use recipe::KnownNode;
use types::{ChunkLocation, ContainerId, Fingerprint};

pub use cap::{Cap, Capping};
pub use granularity::{Granularity, LookupMemory};
pub use placed::{Lane, NewChunk, PlacedAt, PlacedChild, PlacedSegment, SegmentBody, StreamIndex};
pub use places::SharedPlaces;
pub use segment::{Bytes, Segment, SegmentChild, Segmenter};
pub use window::{Deduplicator, Lookups};

use crate::error::IngestError;

/// What a store holds, as one look-up sees it.
pub trait Holdings {
    /// The hooks.
    type Index: HookIndex;
    /// The catalogs that hooks lead to.
    type Catalogs: CatalogSource;

    /// Whether nothing may refer to this place.
    fn is_absent(&self, at: ChunkLocation) -> bool;

    /// The containers of chunks that sessions had put which this one took over: what a backup
    /// stored before it was interrupted.
    fn taken_over(&self) -> &BTreeSet<ContainerId>;

    /// Where a segment's node lies, and the node: one of a committed backup, all of whose places
    /// are there (INV-9).
    ///
    /// # Errors
    /// When the storage does not answer.
    fn find_segment(
        &self,
        segments: &mut Resolver<Self::Index, Self::Catalogs>,
        fingerprint: &Fingerprint,
    ) -> Result<Option<(KnownNode, Arc<Node>)>, IngestError>;
}

/// Where decisions go, in the order in which they are made.
pub trait Outlet<B> {
    /// Why it takes no more.
    type Error: From<IngestError>;

    /// Wants a new chunk under this number, the next of its lane. Its bytes may come later.
    ///
    /// # Errors
    /// When it takes no more.
    fn store(
        &mut self,
        new: NewChunk,
        fingerprint: &Fingerprint,
        len: u32,
        bytes: &B,
    ) -> Result<(), Self::Error>;

    /// The bytes of a chunk that an earlier backup stored, to be stored once more; `None` where
    /// they cannot be had.
    ///
    /// # Errors
    /// When the storage does not answer.
    fn fetch(&mut self, at: ChunkLocation, fingerprint: &Fingerprint) -> Result<Option<B>, Self::Error>;

    /// Takes a segment of which all is decided. Those of a stream come in its order.
    ///
    /// # Errors
    /// When it takes no more.
    fn place(&mut self, stream: StreamIndex, segment: PlacedSegment) -> Result<(), Self::Error>;
}
