//! The references of a byte range, one chunk after another: the input of a restore's plan.
//!
//! What must hold (INV-5): the root in the manifest authenticates every reference. Each node is
//! compared with its fingerprint when it is opened, from the root down, before anything below it is
//! returned. This holds for a range of one byte as for a whole stream. The reader of a chunk
//! compares its bytes with [`ChunkRef::fingerprint`].

use types::Fingerprint;

use crate::child::{CHUNK_LEVEL, Place};
use crate::error::RecipeError;
use crate::source::NodeSource;
use crate::tree_root::TreeRoot;
use crate::walker::{Piece, RangeWalker};

/// A part of a stream: a chunk, a part of one, or zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkRef {
    /// The place of the chunk, or zeros.
    pub place: Place,
    /// The chunk's fingerprint; for zeros that of a run of `len`.
    pub fingerprint: Fingerprint,
    /// Its offset in the stream, in bytes.
    pub offset: u64,
    /// The bytes of the stream that it covers, at least 1.
    pub len: u64,
    /// Offset of these bytes in the chunk; 0 unless the range begins inside it.
    pub skip: u64,
    /// The whole chunk's length in bytes; `len` unless an end of the range is inside it.
    pub chunk_len: u64,
}

/// Iterates over the references of a range. Ends after the first error.
#[derive(Debug)]
pub struct ChunkRefs<'a, S: ?Sized> {
    source: &'a S,
    walker: RangeWalker<'a, S>,
    failed: bool,
}

impl<'a, S: NodeSource + ?Sized> ChunkRefs<'a, S> {
    /// The references of `len` bytes of the stream from `offset` on. Reads nothing yet.
    ///
    /// # Errors
    /// [`RecipeError::OutOfStream`].
    pub fn new(source: &'a S, root: &TreeRoot, offset: u64, len: u64) -> Result<Self, RecipeError> {
        Ok(Self {
            source,
            walker: RangeWalker::new(source, root, offset, len)?,
            failed: false,
        })
    }

    /// The references of the whole stream.
    #[must_use]
    pub fn whole(source: &'a S, root: &TreeRoot) -> Self {
        Self::new(source, root, 0, root.len).expect("a stream is within itself")
    }

    fn reference(&self, piece: &Piece, offset: u64) -> ChunkRef {
        match *piece {
            Piece::Chunk(child) | Piece::Node(child) => ChunkRef {
                place: child.place,
                fingerprint: child.fingerprint,
                offset,
                len: child.logical_len,
                skip: 0,
                chunk_len: child.logical_len,
            },
            Piece::PartOfChunk { child, skip, len } => ChunkRef {
                place: child.place,
                fingerprint: child.fingerprint,
                offset,
                len,
                skip,
                chunk_len: child.logical_len,
            },
            Piece::Zeros { len } => ChunkRef {
                place: Place::Zeros,
                fingerprint: self.source.fingerprinter().zeros(len),
                offset,
                len,
                skip: 0,
                chunk_len: len,
            },
        }
    }
}

impl<S: NodeSource + ?Sized> Iterator for ChunkRefs<'_, S> {
    type Item = Result<ChunkRef, RecipeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let offset = self.walker.offset();
        // At level 0 the walk opens every node, and so returns no whole node.
        match self.walker.next_up_to(CHUNK_LEVEL) {
            Ok(piece) => Some(Ok(self.reference(&piece?, offset))),
            Err(error) => {
                self.failed = true;
                Some(Err(error))
            }
        }
    }
}

impl<S: NodeSource + ?Sized> std::iter::FusedIterator for ChunkRefs<'_, S> {}
