//! Bytes to chunks, and child fingerprints to node boundaries; values only, no I/O.
//!
//! Everything here is a pure function of its arguments. Chunk boundaries depend on the bytes and
//! the gear table, and node boundaries on the child fingerprints. So equal content gives equal
//! chunks and equal nodes, whatever process wrote it and however it was buffered. (RevDedup 2.2.2
//! cuts two levels in one pass. Here the upper levels follow from fingerprints, so that trees are
//! cut again without data.)
//!
//! All types are plain values: they are safe to share between threads, and nothing can fail after
//! construction. Bytes are hashed with the processor's SIMD instructions, chosen at run time.
//! Results never depend on them.

mod cdc;
mod chunker;
mod error;
mod fixed;
mod gear;
mod node;
mod zero;

pub use cdc::{Cdc, CdcSizes};
pub use chunker::{CHUNK_BYTES_MAX, Chunker};
pub use error::ChunkingError;
pub use fixed::Fixed;
pub use gear::{GEAR_TABLE_WORDS, GEAR_WINDOW_BYTES, Isa};
pub use node::{NODE_AVG_CHILDREN_MAX, NODE_AVG_CHILDREN_MIN, NodeCutter};
pub use zero::is_zero;
