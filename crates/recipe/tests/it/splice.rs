//! Copies a byte range of a stream into a builder by reference (B3), by the builder and the walker
//! alone.
//!
//! Invariant: the builder has the same tree as after pushing the range's chunks and zeros one by
//! one. The splice takes whole nodes at the highest level at which builder and stream are both
//! aligned, and cuts only the edges again. No data container is read.

use recipe::{Child, NodeSink, NodeSource, Piece, RangeWalker, RecipeError, TreeBuilder, TreeRoot};

/// An edge of the range inside a chunk. Before it continues, the caller reads these bytes, cuts
/// them into new chunks, and pushes these (or zeros, if the bytes are zeros).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartOfChunk {
    /// The chunk.
    pub(crate) child: Child,
    /// Where the part begins in it, in bytes.
    pub(crate) skip: u64,
    /// The part's length in bytes.
    pub(crate) len: u64,
}

/// A range that is being copied into a builder.
#[derive(Debug)]
pub(crate) struct Splice<'a, S: ?Sized> {
    walker: RangeWalker<'a, S>,
    node_bytes: u64,
}

impl<'a, S: NodeSource + ?Sized> Splice<'a, S> {
    /// `len` bytes of the stream from `offset` on.
    ///
    /// # Errors
    /// [`RecipeError::OutOfStream`].
    pub(crate) fn new(source: &'a S, root: &TreeRoot, offset: u64, len: u64) -> Result<Self, RecipeError> {
        let walker = RangeWalker::new(source, root, offset, len)?;
        Ok(Self {
            walker,
            node_bytes: 0,
        })
    }

    /// The builder's stream ends with this range.
    pub(crate) fn ends_stream(self, ends: bool) -> Self {
        Self {
            walker: self.walker.ends_stream(ends),
            ..self
        }
    }

    /// Copies up to the range's end (`None`), or up to an edge. The caller must push the edge's
    /// bytes before the next call. There are at most two edges.
    ///
    /// # Errors
    /// Those of the walk and those of the builder; both are of no use afterwards.
    pub(crate) fn advance(
        &mut self,
        builder: &mut TreeBuilder,
        sink: &mut dyn NodeSink,
    ) -> Result<Option<PartOfChunk>, RecipeError> {
        loop {
            let Some(piece) = self.walker.next_up_to(builder.aligned_level())? else {
                return Ok(None);
            };
            match piece {
                Piece::Node(node) => {
                    self.node_bytes += node.logical_len;
                    builder.push_node(node, sink)?;
                }
                Piece::Chunk(chunk) => builder.push(chunk, sink)?,
                Piece::Zeros { len } => builder.push_zeros(len)?,
                Piece::PartOfChunk { child, skip, len } => {
                    return Ok(Some(PartOfChunk { child, skip, len }));
                }
            }
        }
    }

    /// Bytes of stream below the whole nodes that were taken so far.
    pub(crate) const fn node_bytes(&self) -> u64 {
        self.node_bytes
    }
}
