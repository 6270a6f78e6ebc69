//! From recipes to what the planner takes: verified references of parts of a stream.

use recipe::{ChunkRef, ChunkRefs, NodeCache, Place, TreeRoot};
use types::ByteRange;

use crate::error::RestoreError;
use crate::plan::{ChunkPart, Reference};

/// The references of the ranges, one after another.
pub fn references<'a>(
    nodes: &'a NodeCache,
    root: &'a TreeRoot,
    ranges: &'a [ByteRange],
) -> impl Iterator<Item = Result<Reference, RestoreError>> + 'a {
    ranges.iter().flat_map(move |range| {
        let (refs, failed) = match ChunkRefs::new(nodes, root, range.offset, range.len) {
            Ok(refs) => (Some(refs), None),
            Err(error) => (None, Some(Err(RestoreError::from(error)))),
        };
        let refs = refs.into_iter().flatten();
        failed
            .into_iter()
            .chain(refs.map(|item| item.map(reference).map_err(RestoreError::from)))
    })
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
