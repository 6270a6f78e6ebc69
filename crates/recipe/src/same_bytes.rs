//! Compares ranges of two streams, and reads as little of them as possible.
//!
//! Chunks with equal fingerprints at equal offsets are equal. Only where the chunks of the two
//! streams begin and end at different places are bytes read (INV-5: verified, as for any reader).
//! One thread. Ranges in ascending order cost each node once.

use std::io::{self, Read};

use crate::bytes::StreamBytes;
use crate::child::{CHUNK_LEVEL, Place};
use crate::error::RecipeError;
use crate::source::StoreReader;
use crate::tree_root::TreeRoot;
use crate::walker::{Piece, RangeWalker};

/// Bytes that are compared at once.
const COMPARED_BYTES: usize = 64 << 10;

/// Two streams whose ranges are compared.
#[derive(Debug)]
pub struct SameBytes<'a, R: ?Sized> {
    reader: &'a R,
    before: Cursor<'a, R>,
    after: Cursor<'a, R>,
}

/// A position in a stream.
#[derive(Debug)]
struct Cursor<'a, R: ?Sized> {
    root: TreeRoot,
    walker: RangeWalker<'a, R>,
}

impl<R: StoreReader + ?Sized> Cursor<'_, R> {
    /// The piece from `offset` on. The stream must have that byte.
    fn piece(&mut self, offset: u64) -> Result<Option<Piece>, RecipeError> {
        self.walker.seek(offset);
        self.walker.next_up_to(CHUNK_LEVEL)
    }
}

impl<'a, R: StoreReader + ?Sized> SameBytes<'a, R> {
    /// Compares ranges of these streams. Reads nothing yet.
    #[must_use]
    pub fn new(reader: &'a R, before: &TreeRoot, after: &TreeRoot) -> Self {
        let cursor = |root: &TreeRoot| Cursor {
            root: *root,
            walker: RangeWalker::new(reader, root, 0, root.len).expect("a stream is within itself"),
        };
        Self {
            reader,
            before: cursor(before),
            after: cursor(after),
        }
    }

    /// Whether `len` bytes from these offsets on are the same.
    ///
    /// # Errors
    /// [`RecipeError::OutOfStream`], also if the other stream is too short; every error of this
    /// crate that names a node or a chunk.
    pub fn are_equal(&mut self, before: u64, after: u64, len: u64) -> Result<bool, RecipeError> {
        // Fails unless the streams have these ranges.
        RangeWalker::new(self.reader, &self.before.root, before, len)?;
        RangeWalker::new(self.reader, &self.after.root, after, len)?;
        let mut at = 0;
        while at < len {
            let pieces = (self.before.piece(before + at)?, self.after.piece(after + at)?);
            let (Some(a), Some(b)) = pieces else {
                return Ok(false);
            };
            let both = a.len().min(b.len()).min(len - at);
            let is_equal = match known(&a, &b, both) {
                Some(known) => known,
                None => self.are_read_equal(before + at, after + at, both)?,
            };
            if !is_equal {
                return Ok(false);
            }
            at += both;
        }
        Ok(true)
    }

    fn are_read_equal(&self, before: u64, after: u64, len: u64) -> Result<bool, RecipeError> {
        let mut a = StreamBytes::new(self.reader, &self.before.root, before, len)?;
        let mut b = StreamBytes::new(self.reader, &self.after.root, after, len)?;
        let (mut left, mut of_a, mut of_b) = (len, vec![0; COMPARED_BYTES], vec![0; COMPARED_BYTES]);
        while left > 0 {
            let now = COMPARED_BYTES.min(usize::try_from(left).unwrap_or(usize::MAX));
            fill(&mut a, &mut of_a[..now])?;
            fill(&mut b, &mut of_b[..now])?;
            if of_a[..now] != of_b[..now] {
                return Ok(false);
            }
            left -= now as u64;
        }
        Ok(true)
    }
}

fn fill<R: StoreReader + ?Sized>(from: &mut StreamBytes<'_, R>, out: &mut [u8]) -> Result<(), RecipeError> {
    from.read_exact(out).map_err(|error| {
        let is_recipe = error.get_ref().is_some_and(|source| source.is::<RecipeError>());
        match error.into_inner() {
            Some(source) if is_recipe => *source.downcast().expect("looked at above"),
            other => RecipeError::Other(other.unwrap_or_else(|| io::Error::other("cut off").into())),
        }
    })
}

/// Whether the first `len` bytes of two pieces are the same, if that is known without reading them.
fn known(a: &Piece, b: &Piece, len: u64) -> Option<bool> {
    let part = |piece: &Piece| match *piece {
        Piece::Zeros { .. } => None,
        Piece::Chunk(child) | Piece::Node(child) => Some((child, 0)),
        Piece::PartOfChunk { child, skip, .. } => Some((child, skip)),
    };
    match (part(a), part(b)) {
        (None, None) => Some(true),
        (Some((a, skip_a)), Some((b, skip_b))) => {
            let are_same = a.fingerprint == b.fingerprint && a.logical_len == b.logical_len;
            let are_whole = skip_a == 0 && skip_b == 0 && a.logical_len == len && b.logical_len == len;
            debug_assert!(
                a.place != Place::Zeros && b.place != Place::Zeros,
                "zeros are a piece"
            );
            match are_same {
                true if skip_a == skip_b => Some(true),
                false if are_whole => Some(false),
                _ => None,
            }
        }
        _ => None,
    }
}
