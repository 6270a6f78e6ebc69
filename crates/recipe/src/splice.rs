//! Copies a byte range of a stream into a builder by reference: virtual synthetics (DD Boost III,
//! B3), unchanged files, snapshots of volumes.
//!
//! Invariant: the builder has the same tree as after pushing the range's chunks and zeros one
//! by one. It takes whole nodes at the highest level at which builder and stream are both aligned,
//! and cuts only the edges again. No data container is read.

use crate::builder::TreeBuilder;
use crate::child::Child;
use crate::error::RecipeError;
use crate::source::{NodeSink, NodeSource, TreeRoot};
use crate::walker::{Piece, RangeWalker};

/// An edge of the range inside a chunk. The caller reads these bytes, cuts them into chunks of
/// their own and pushes those (or zeros, if they are zeros) before it continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartOfChunk {
    /// The chunk.
    pub child: Child,
    /// Where the part begins in it, in bytes.
    pub skip: u64,
    /// The part's length in bytes.
    pub len: u64,
}

/// What a splice has taken so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpliceCounts {
    /// Whole nodes, of any level.
    pub nodes: u64,
    /// Bytes of stream below them.
    pub node_bytes: u64,
    /// Chunks one by one.
    pub chunks: u64,
    /// Bytes in edges that the caller had to cut again.
    pub edge_bytes: u64,
}

/// One range on its way into a builder.
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

    /// Copies until the range's end (`None`), or until an edge that the caller must push the bytes
    /// of before it calls again. There are at most two edges.
    ///
    /// # Errors
    /// Those of the walk and those of the builder; both are of no use afterwards.
    pub fn advance(
        &mut self,
        builder: &mut TreeBuilder,
        sink: &mut dyn NodeSink,
    ) -> Result<Option<PartOfChunk>, RecipeError> {
        loop {
            // Zeros held back keep the builder from being aligned; here it is known that none
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

    /// What was taken so far.
    #[must_use]
    pub const fn counts(&self) -> SpliceCounts {
        self.counts
    }
}
