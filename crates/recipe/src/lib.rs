//! Recipes: nodes, trees, splicing.
//!
//! A stream is a tree of nodes. A level-1 node (a segment) lists chunks and runs of zeros, a higher
//! node lists nodes, up to one root. This crate builds such trees ([`TreeBuilder`]), walks byte
//! ranges of them ([`RangeWalker`], [`ChunkRefs`]), splices ranges of one into another ([`Splice`],
//! the virtual synthetics of DD Boost III), and measures the layout of a stream in its containers
//! ([`StreamLayout`]). None of that reads a data container: references come from nodes,
//! fingerprints and lengths from catalogs. [`StreamBytes`] reads small streams, such as listings,
//! in order.
//!
//! Invariants:
//! - A tree is a pure function of its sequence of children: chunks, and runs of zeros, joined as
//!   far as possible over the whole stream. Splicing gives the same tree as building from scratch.
//! - An opened node is compared with its fingerprint, top down from the root. So the manifest
//!   authenticates every returned reference (INV-5).
//! - Nodes and catalogs are untrusted input. A wrong one is an error that names container and slot
//!   (INV-8).
//!
//! A builder or walker belongs to one thread. Sources and caches are shared.

mod builder;
mod bytes;
mod cache;
mod child;
mod error;
mod forward;
mod layout;
mod open;
mod refs;
mod source;
mod splice;
mod stream;
mod walker;

pub use builder::TreeBuilder;
pub use bytes::StreamBytes;
pub use cache::NodeCache;
pub use child::{Child, Place, segment_node};
pub use error::RecipeError;
pub use layout::{LayoutMeter, StreamLayout};
pub use open::{child_nodes, open_node};
pub use refs::{ChunkRef, ChunkRefs};
pub use source::{KnownNode, NodeSink, NodeSource, StoreReader, StreamRoots, TreeRoot};
pub use splice::{PartOfChunk, Splice, SpliceCounts};
pub use stream::StreamName;
pub use walker::{Piece, RangeWalker};
