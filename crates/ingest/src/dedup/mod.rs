//! The policy of deduplication: which parts of a backup are references, and which are stored. It
//! has no threads, bytes or storage [Guo 3.2.1, Lillibridge 3.2, RevDedup 2.2] (G3, L3, L8, L9,
//! R1).
//!
//! [`Segmenter`] cuts a stream's chunks into segments, and [`Deduplicator`] finds a place for the
//! chunks of each segment. It reads a store through [`Holdings`], and sends its decisions to an
//! [`Outlet`]. A running backup implements these by an index, containers and a packer. The
//! laboratory's simulator has none of these, and runs the same code.
//!
//! Invariant: decisions follow from the order of segments, the index and the holdings alone, never
//! from timing. For one thread.

mod by_segment;
mod candidate;
mod cap;
mod decide;
mod granularity;
mod known;
mod placed;
mod places;
mod segment;
mod session_chunks;
mod waiting;
mod whole;
mod window;

use std::collections::BTreeSet;
use std::sync::Arc;

use format::node::Node;
use index::{CatalogSource, HookIndex, Resolver};
use recipe::KnownNode;
use types::{ChunkLocation, ContainerId, Fingerprint};

pub use cap::{Cap, Capping};
pub use granularity::{Granularity, LookupMemory, Lookups};
pub use placed::{Lane, NewChunk, PlacedAt, PlacedChild, PlacedSegment, SegmentBody, StreamIndex};
pub use places::SharedPlaces;
pub use segment::{Bytes, Segment, SegmentChild, Segmenter};
pub use window::Deduplicator;

use crate::error::IngestError;

/// The content of a store, as one look-up sees it.
pub trait Holdings {
    /// The hooks.
    type Index: HookIndex;
    /// The catalogs that hooks lead to.
    type Catalogs: CatalogSource;

    /// Whether a backup must not refer to this place.
    fn is_absent(&self, at: ChunkLocation) -> bool;

    /// Whether reclamation has removed the chunk at this place, or may. A client that names a place
    /// of an earlier backup may lie, or that backup may be forgotten meanwhile.
    fn is_removed(&self, at: ChunkLocation) -> bool;

    /// Whether a segment has its node at this place, and reclamation leaves the node and all that
    /// it refers to (INV-9).
    fn keeps_segment(&self, at: ChunkLocation) -> bool;

    /// The data containers that this session has taken over: those that a backup stored before it
    /// was interrupted.
    fn taken_over(&self) -> &BTreeSet<ContainerId>;

    /// The place of a segment's node, and the node. It is of a committed backup, and all slots that
    /// it refers to exist (INV-9).
    ///
    /// # Errors
    /// If the storage does not answer.
    fn find_segment(
        &self,
        segments: &mut Resolver<Self::Index, Self::Catalogs>,
        fingerprint: &Fingerprint,
    ) -> Result<Option<(KnownNode, Arc<Node>)>, IngestError>;
}

/// Receives decisions, in the order in which they are made.
pub trait Outlet<B> {
    /// Why it accepts no more.
    type Error: From<IngestError>;

    /// Stores a new chunk under this number, the next of its lane. Its bytes may come later.
    ///
    /// # Errors
    /// If it accepts no more.
    fn store(
        &mut self,
        new: NewChunk,
        fingerprint: &Fingerprint,
        len: u32,
        bytes: &B,
    ) -> Result<(), Self::Error>;

    /// The bytes of a chunk that an earlier backup stored, for storing it again. `None`: they
    /// cannot be read.
    ///
    /// # Errors
    /// If the storage does not answer.
    fn fetch(&mut self, at: ChunkLocation, fingerprint: &Fingerprint) -> Result<Option<B>, Self::Error>;

    /// Takes a segment with all decisions. Segments of a stream come in its order.
    ///
    /// # Errors
    /// If it accepts no more.
    fn place(&mut self, stream: StreamIndex, segment: PlacedSegment) -> Result<(), Self::Error>;
}
