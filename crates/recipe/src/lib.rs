//! Recipes: nodes and trees.
//!
//! A stream is a tree of nodes. A level-1 node (a segment) lists chunks and runs of zeros, a higher
//! node lists nodes, up to one root. This crate builds such trees ([`TreeBuilder`]), walks byte
//! ranges of them ([`RangeWalker`], [`ChunkRefs`]), and measures how a stream lies in its
//! containers ([`StreamLayout`]). A range that a walker reads may be pushed into another tree by
//! reference (the virtual synthetics of DD Boost III, B3). None of that reads a data container:
//! references come from nodes, fingerprints and lengths from catalogs. [`StreamBytes`] reads small
//! streams, such as listings, in order. [`Gaps`] finds where two streams differ, and [`SameBytes`]
//! whether ranges of them do.
//!
//! Invariants:
//! - A tree is a pure function of its sequence of children: chunks, and runs of zeros coalesced as
//!   far as possible over the whole stream. Whole nodes that are pushed give the identical tree as
//!   building from scratch.
//! - An open node was compared with its fingerprint, top down from the root: so the manifest
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
mod gaps;
mod layout;
mod open;
mod refs;
mod same_bytes;
mod source;
mod stream;
mod tree_root;
mod walker;

pub use builder::TreeBuilder;
pub use bytes::StreamBytes;
pub use cache::NodeCache;
pub use child::{Child, Place, SEGMENT_LEVEL, segment_node};
pub use error::RecipeError;
pub use gaps::{Gap, Gaps};
pub use layout::{LayoutMeter, StreamLayout};
pub use open::{child_nodes, open_node};
pub use refs::{ChunkRef, ChunkRefs};
pub use same_bytes::SameBytes;
pub use source::{KnownNode, NodeSink, NodeSource, StoreReader, StreamRoots};
pub use stream::StreamName;
pub use tree_root::TreeRoot;
pub use walker::{Piece, RangeWalker};
