//! From recipes to what the planner takes: verified references of parts of a stream.

use std::sync::Arc;

use container::ContainerError;
use env::StorageError;
use recipe::{ChunkRef, ChunkRefs, NodeCache, Place, RecipeError, TreeRoot, child_nodes};
use types::{ByteRange, Level};

use crate::error::RestoreError;
use crate::plan::{ChunkPart, Reference};

/// The references of the ranges, one after another. A node that cannot be opened, or verified for want of
/// a catalog, costs the bytes below it: [`RestoreError::LostPart`] says how many, and what follows them
/// comes next. Any other error is the last item.
pub fn references<'a>(
    nodes: &'a NodeCache,
    root: &'a TreeRoot,
    ranges: &'a [ByteRange],
) -> impl Iterator<Item = Result<Reference, RestoreError>> + Send + 'a {
    References {
        nodes,
        root,
        ranges: ranges.iter(),
        refs: None,
        at: 0,
        end: 0,
        failed: false,
    }
}

struct References<'a> {
    nodes: &'a NodeCache,
    root: &'a TreeRoot,
    ranges: std::slice::Iter<'a, ByteRange>,
    refs: Option<ChunkRefs<'a, NodeCache>>,
    /// Where in the stream the next reference begins, and where the range ends.
    at: u64,
    end: u64,
    failed: bool,
}

impl References<'_> {
    fn open(&mut self) -> Result<(), RestoreError> {
        let rest = self.end.saturating_sub(self.at);
        self.refs = Some(ChunkRefs::new(self.nodes, self.root, self.at, rest)?);
        Ok(())
    }

    /// Steps over what the error makes unreadable.
    fn step_over(&mut self, error: RecipeError) -> RestoreError {
        let lost = unreadable_end(self.nodes, self.root, self.at).min(self.end);
        let len = lost.saturating_sub(self.at);
        if stops(&error) || len == 0 {
            self.failed = true;
            return error.into();
        }
        self.at = lost;
        if let Err(error) = self.open() {
            self.failed = true;
            return error;
        }
        RestoreError::LostPart {
            len,
            error: Arc::new(error.into()),
        }
    }
}

impl Iterator for References<'_> {
    type Item = Result<Reference, RestoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            match self.refs.as_mut().and_then(Iterator::next) {
                Some(Ok(found)) => {
                    self.at = found.offset.saturating_add(found.len);
                    return Some(Ok(reference(found)));
                }
                Some(Err(error)) => return Some(Err(self.step_over(error))),
                None => {
                    let range = self.ranges.next()?;
                    (self.at, self.end) = (range.offset, range.end());
                    if let Err(error) = self.open() {
                        self.failed = true;
                        return Some(Err(error));
                    }
                }
            }
        }
        None
    }
}

/// Whether the storage refuses altogether, so that nothing else could be read either.
fn stops(error: &RecipeError) -> bool {
    matches!(
        error,
        RecipeError::Container(ContainerError::Storage(storage))
            if !matches!(storage, StorageError::NotFound { .. } | StorageError::Io { .. })
    )
}

/// Where the lowest node ends that holds the byte at `at` and can be found.
fn unreadable_end(nodes: &NodeCache, root: &TreeRoot, at: u64) -> u64 {
    let segment = Level::new(1).expect("level 1 is within the limit");
    let (mut node, mut begin) = (*root, 0u64);
    'down: while node.level > segment {
        let Ok(children) = child_nodes(nodes, &node) else {
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
