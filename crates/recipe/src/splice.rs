//! Copies a byte range of a stream into a builder by reference: virtual synthetics (DD Boost III,
//! B3), unchanged files, snapshots of volumes.
//!
//! Invariant: the builder has the same tree as after pushing the range's chunks and zeros one by
//! one. The splice takes whole nodes at the highest level at which builder and stream are both
//! aligned, and cuts only the edges again. No data container is read.

use crate::builder::TreeBuilder;
use crate::child::Child;
use crate::error::RecipeError;
use crate::source::{NodeSink, NodeSource, TreeRoot};
use crate::walker::{Piece, RangeWalker};

/// An edge of the range inside a chunk. Before it continues, the caller reads these bytes, cuts
/// them into new chunks, and pushes these (or zeros, if the bytes are zeros).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartOfChunk {
    /// The chunk.
    pub child: Child,
    /// Offset of the part in the chunk, in bytes.
    pub skip: u64,
    /// The part's length in bytes.
    pub len: u64,
}

/// Counts of a splice so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpliceCounts {
    /// Whole nodes, of any level.
    pub nodes: u64,
    /// Bytes of the stream below them.
    pub node_bytes: u64,
    /// Single chunks.
    pub chunks: u64,
    /// Bytes in edges that the caller had to cut again.
    pub edge_bytes: u64,
}

/// A range that is being copied into a builder.
#[derive(Debug)]
pub struct Splice<'a, S: ?Sized> {
    walker: RangeWalker<'a, S>,
    counts: SpliceCounts,
}

impl<'a, S: NodeSource + ?Sized> Splice<'a, S> {
    /// `len` bytes of the stream from `offset` on.
    ///
    /// # Errors
    /// [`RecipeError::OutOfStream`].
    pub fn new(source: &'a S, root: &TreeRoot, offset: u64, len: u64) -> Result<Self, RecipeError> {
        let walker = RangeWalker::new(source, root, offset, len)?;
        Ok(Self {
            walker,
            counts: SpliceCounts::default(),
        })
    }

    /// Copies up to the range's end (`None`), or up to an edge. The caller must push the edge's
    /// bytes before the next call. There are at most two edges.
    ///
    /// # Errors
    /// Errors of the walk and of the builder. Neither can be used afterwards.
    pub fn advance(
        &mut self,
        builder: &mut TreeBuilder,
        sink: &mut dyn NodeSink,
    ) -> Result<Option<PartOfChunk>, RecipeError> {
        loop {
            // Held-back zeros keep the builder from being aligned. Here it is known that no zeros
            // follow.
            if builder.has_open_zeros() && self.walker.next_is_chunk()? {
                builder.close_zeros(sink)?;
            }
            let Some(piece) = self.walker.next_up_to(builder.aligned_level())? else {
                return Ok(None);
            };
            match piece {
                Piece::Node(node) => {
                    self.counts.nodes += 1;
                    self.counts.node_bytes += node.logical_len;
                    builder.push_node(node, sink)?;
                }
                Piece::Chunk(chunk) => {
                    self.counts.chunks += 1;
                    builder.push(chunk, sink)?;
                }
                Piece::Zeros { len } => builder.push_zeros(len)?,
                Piece::PartOfChunk { child, skip, len } => {
                    self.counts.edge_bytes += len;
                    return Ok(Some(PartOfChunk { child, skip, len }));
                }
            }
        }
    }

    /// The counts so far.
    #[must_use]
    pub const fn counts(&self) -> SpliceCounts {
        self.counts
    }
}
