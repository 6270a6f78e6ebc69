//! From recipes to the planner's input: verified references of parts of a stream.
//!
//! The iterator walks the nodes above segments. Each segment is opened separately: when it is
//! needed ([`references`]), or ahead by other threads ([`crate::recipe_prefetch`]).

use std::sync::Arc;

use container::ContainerError;
use env::StorageError;
use recipe::{ChunkRef, ChunkRefs, Place, RangeWalker, RecipeError, StoreReader, TreeRoot, child_nodes};
use types::{ByteRange, Level};

use crate::error::RestoreError;
use crate::plan::{ChunkPart, Reference};

/// The references of the ranges, one after another. If a node cannot be opened, or cannot be
/// verified without a catalog, the bytes below it are lost: [`RestoreError::LostPart`] says how
/// many, and the references behind them follow. Any other error is the last item.
pub fn references<'a>(
    reader: &'a dyn StoreReader,
    root: &'a TreeRoot,
    ranges: &'a [ByteRange],
) -> impl Iterator<Item = Result<Reference, RestoreError>> + Send + 'a {
    one_by_one(Parts::new(reader, root, ranges).map(|part| part.open(reader)))
}

/// The references of opened parts, one after another. Any error other than a lost part ends them.
pub(crate) fn one_by_one<I>(opened: I) -> OneByOne<I>
where
    I: Iterator<Item = Opened>,
{
    OneByOne {
        opened,
        of_part: Vec::new().into_iter(),
        has_failed: false,
    }
}

pub(crate) struct OneByOne<I> {
    opened: I,
    of_part: std::vec::IntoIter<Reference>,
    has_failed: bool,
}

impl<I: Iterator<Item = Opened>> Iterator for OneByOne<I> {
    type Item = Result<Reference, RestoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.has_failed {
            if let Some(reference) = self.of_part.next() {
                return Some(Ok(reference));
            }
            match self.opened.next()? {
                Ok(references) => self.of_part = references.into_iter(),
                Err(error) => {
                    self.has_failed = !matches!(error, RestoreError::LostPart { .. });
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// The references of a part, or the error.
pub(crate) type Opened = Result<Vec<Reference>, RestoreError>;

/// A part of the ranges, in order.
#[derive(Debug)]
pub(crate) enum Part {
    /// Some bytes of a segment.
    Segment(SegmentPart),
    /// The next part has no segment, for this reason.
    Failed(RestoreError),
}

/// Some bytes of a segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SegmentPart {
    segment: TreeRoot,
    /// The range in the segment.
    bytes: ByteRange,
}

impl Part {
    /// The bytes of the stream that its references cover.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Segment(part) => part.bytes.len,
            Self::Failed(_) => 0,
        }
    }

    /// Opens the part.
    pub(crate) fn open(self, reader: &dyn StoreReader) -> Opened {
        match self {
            Self::Segment(part) => part.open(reader),
            Self::Failed(error) => Err(error),
        }
    }
}

impl SegmentPart {
    /// Opens the segment: reads and verifies its node, and the catalogs of all containers that it
    /// names.
    pub(crate) fn open(&self, reader: &dyn StoreReader) -> Opened {
        let ByteRange { offset, len } = self.bytes;
        let found = ChunkRefs::new(reader, &self.segment, offset, len)
            .and_then(|refs| refs.map(|found| found.map(reference)).collect());
        found.map_err(|error| lost_or_over(len, error))
    }
}

/// The parts of the ranges. The iterator opens nodes above segments.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    reader: &'a dyn StoreReader,
    root: &'a TreeRoot,
    ranges: std::slice::Iter<'a, ByteRange>,
    walker: Option<RangeWalker<'a, dyn StoreReader + 'a>>,
    /// Where in the stream the next part begins, and where the range ends.
    at: u64,
    end: u64,
    has_failed: bool,
}

impl<'a> Parts<'a> {
    pub(crate) fn new(reader: &'a dyn StoreReader, root: &'a TreeRoot, ranges: &'a [ByteRange]) -> Self {
        Self {
            reader,
            root,
            ranges: ranges.iter(),
            walker: None,
            at: 0,
            end: 0,
            has_failed: false,
        }
    }

    fn next_segment(&mut self) -> Result<Option<SegmentPart>, RecipeError> {
        if self.walker.is_none() {
            let rest = self.end.saturating_sub(self.at);
            self.walker = Some(RangeWalker::new(self.reader, self.root, self.at, rest)?);
        }
        let walker = self.walker.as_mut().expect("made above");
        let Some((segment, begin)) = walker.next_segment()? else {
            return Ok(None);
        };
        let bytes = ByteRange {
            offset: self.at - begin,
            len: walker.offset() - self.at,
        };
        self.at = walker.offset();
        Ok(Some(SegmentPart { segment, bytes }))
    }

    /// Skips the bytes that the error makes unreadable.
    fn step_over(&mut self, error: RecipeError) -> Part {
        let lost = unreadable_end(self.reader, self.root, self.at).min(self.end);
        let len = lost.saturating_sub(self.at);
        let error = match error {
            // The caller passed a stream of another kind without checking it.
            RecipeError::OutOfStream { .. } => error.into(),
            error => lost_or_over(len, error),
        };
        self.has_failed = !matches!(error, RestoreError::LostPart { .. });
        (self.walker, self.at) = (None, lost);
        Part::Failed(error)
    }
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        while !self.has_failed {
            match self.next_segment() {
                Ok(Some(part)) => return Some(Part::Segment(part)),
                Err(error) => return Some(self.step_over(error)),
                Ok(None) => {
                    let range = self.ranges.next()?;
                    (self.at, self.end) = (range.offset, range.end());
                    self.walker = None;
                }
            }
        }
        None
    }
}

/// The error for `len` lost bytes, or the error that ends everything.
fn lost_or_over(len: u64, error: RecipeError) -> RestoreError {
    if stops(&error) || len == 0 {
        return error.into();
    }
    RestoreError::LostPart {
        len,
        error: Arc::new(error.into()),
    }
}

/// Whether the storage or the reader fails altogether, so that nothing else could be read either.
fn stops(error: &RecipeError) -> bool {
    match error {
        RecipeError::Container(ContainerError::Storage(storage)) => {
            !matches!(storage, StorageError::NotFound { .. }) && !storage.is_of_medium()
        }
        RecipeError::Other(_) => true,
        _ => false,
    }
}

/// The end of the lowest node that can be found and holds the byte at `at`.
fn unreadable_end(reader: &dyn StoreReader, root: &TreeRoot, at: u64) -> u64 {
    let segment = Level::new(1).expect("level 1 is within the limit");
    let (mut node, mut begin) = (*root, 0u64);
    'down: while node.level > segment {
        let Ok(children) = child_nodes(reader, &node) else {
            break;
        };
        let mut child_begin = begin;
        for child in children {
            let child_end = child_begin.saturating_add(child.len);
            if at < child_end {
                (node, begin) = (child, child_begin);
                continue 'down;
            }
            child_begin = child_end;
        }
        break;
    }
    begin.saturating_add(node.len)
}

fn reference(of: ChunkRef) -> Reference {
    let chunk = match of.place {
        Place::Zeros => None,
        Place::At(location) => Some(ChunkPart {
            location,
            fingerprint: of.fingerprint,
            chunk_len: of.chunk_len,
            skip: of.skip,
        }),
    };
    Reference { chunk, len: of.len }
}
