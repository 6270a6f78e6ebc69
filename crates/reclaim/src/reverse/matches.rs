//! Which chunks of an older backup a later one has too [RevDedup 2.4.1] (R2).
//!
//! Segments come first: if the later backup has the segment, none of its chunks is compared. The
//! chunks of the other segments are searched among all chunks of the later backup. The paper keeps
//! an index of the later backup's chunks in memory. Here only chunks of the older backup that are
//! in no common segment are in memory, so memory follows the difference of the two backups.

use std::collections::HashMap;

use format::node::NodeEntry;
use recipe::{ChunkRefs, NodeSource, Place, RecipeError, TreeRoot, child_nodes, open_node};
use session::ReclaimView;
use types::{ChunkLocation, Fingerprint, SlotRange};

use super::sound::Sound;
use crate::mark::WalkError;
use crate::progress::Progress;

/// The places in a later stream of the segments and chunks of an older one.
#[derive(Debug, Default)]
pub(super) struct Matches {
    segments: HashMap<Fingerprint, Option<u64>>,
    /// Chunks that are in no common segment.
    chunks: HashMap<Fingerprint, Match>,
}

/// A chunk of the older stream.
#[derive(Debug, Clone, Copy)]
struct Match {
    /// The place of the chunk in the older stream. `None`: it has several.
    old: Option<Place>,
    /// The offset in the later stream, if the chunk is there.
    offset: Option<u64>,
}

/// The places of equal segments in a stream. Nearly always there is one.
struct Places {
    first: ChunkLocation,
    others: Vec<ChunkLocation>,
}

impl Places {
    fn iter(&self) -> impl Iterator<Item = ChunkLocation> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// Calls `each` with every segment of a stream and its offset, in order. Counts the bytes of the
/// stream.
fn segments(
    nodes: &dyn NodeSource,
    root: &TreeRoot,
    progress: &dyn Progress,
    each: &mut dyn FnMut(u64, &TreeRoot) -> Result<(), RecipeError>,
) -> Result<(), WalkError> {
    // The last entry is the next one.
    let mut todo = vec![*root];
    let mut offset = 0;
    while let Some(node) = todo.pop() {
        if progress.is_cancelled() {
            return Err(WalkError::Interrupted);
        }
        if node.level.get() == 1 {
            each(offset, &node)?;
            offset += node.len;
            progress.add_done(node.len);
        } else {
            todo.extend(child_nodes(nodes, &node)?.into_iter().rev());
        }
    }
    Ok(())
}

/// Whether no chunk that a segment leads to is known to be damaged. A segment of an archival backup
/// may refer forward in turn. Its chunks are then at the end of the chain.
fn is_whole(nodes: &dyn NodeSource, segment: &TreeRoot, view: &ReclaimView) -> Result<bool, RecipeError> {
    let mut is_forward = false;
    for entry in &nodes.node(segment.location)?.entries {
        match *entry {
            NodeEntry::Run {
                container,
                first,
                count,
                ..
            } => {
                let slots = SlotRange::new(first, count);
                if !slots.is_some_and(|slots| view.is_whole(container, slots)) {
                    return Ok(false);
                }
            }
            NodeEntry::Zeros { .. } => {}
            NodeEntry::Forward { .. } => is_forward = true,
        }
    }
    if !is_forward {
        return Ok(true);
    }
    let children = open_node(nodes, segment)?;
    Ok(children.iter().all(|child| is_there(child.place, view)))
}

/// Whether the chunk at a place is not known to be damaged.
fn is_there(place: Place, view: &ReclaimView) -> bool {
    match place {
        Place::At(place) => !view.is_absent(place),
        Place::Zeros => true,
    }
}

impl Matches {
    /// Finds the matches of two streams. Without a later stream nothing matches. Chunks that are
    /// absent in `view` do not match: a damaged chunk of the later backup must not become the only
    /// one. Nor do chunks that `sound` cannot read, if the older backup has a copy of its own. The
    /// bytes of both streams are counted, at most twice.
    ///
    /// # Errors
    /// Of nodes and catalogs; `Interrupted`.
    pub(super) fn find(
        nodes: &dyn NodeSource,
        old: &TreeRoot,
        new: Option<&TreeRoot>,
        (view, sound): (&ReclaimView, &Sound<'_>),
        progress: &dyn Progress,
    ) -> Result<Self, WalkError> {
        let mut found = Self::default();
        // An older stream may have a segment or a chunk in several places, and drops all of them.
        let mut of_old: HashMap<Fingerprint, Places> = HashMap::new();
        segments(nodes, old, progress, &mut |_, segment| {
            found.segments.insert(segment.fingerprint, None);
            let first = Places {
                first: segment.location,
                others: Vec::new(),
            };
            let places = of_old.entry(segment.fingerprint).or_insert(first);
            if places.iter().all(|place| place != segment.location) {
                places.others.push(segment.location);
            }
            Ok(())
        })?;
        if let Some(new) = new {
            segments(nodes, new, progress, &mut |offset, segment| {
                if let Some(known) = found.segments.get_mut(&segment.fingerprint)
                    && known.is_none()
                    && is_whole(nodes, segment, view)?
                    && let Some(places) = of_old.get(&segment.fingerprint)
                    && sound.segment(nodes, segment, places.iter())?
                {
                    *known = Some(offset);
                }
                Ok(())
            })?;
        }
        drop(of_old);
        segments(nodes, old, progress, &mut |_, segment| {
            if found.segment(&segment.fingerprint).is_some() {
                return Ok(());
            }
            for child in open_node(nodes, segment)? {
                if child.place != Place::Zeros {
                    let (old, offset) = (Some(child.place), None);
                    let first = Match { old, offset };
                    let known = found.chunks.entry(child.fingerprint).or_insert(first);
                    known.old = known.old.filter(|place| *place == child.place);
                }
            }
            Ok(())
        })?;
        if let Some(new) = new.filter(|_| !found.chunks.is_empty()) {
            for reference in ChunkRefs::whole(nodes, new) {
                let reference = reference?;
                if progress.is_cancelled() {
                    return Err(WalkError::Interrupted);
                }
                progress.add_done(reference.len);
                if let Some(chunk) = found.chunks.get_mut(&reference.fingerprint)
                    && chunk.offset.is_none()
                    && is_there(reference.place, view)
                    && sound.stands_in(reference.place, chunk.old)
                {
                    chunk.offset = Some(reference.offset);
                }
            }
        }
        Ok(found)
    }

    /// The offset of a segment in the later stream.
    pub(super) fn segment(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.segments.get(fingerprint).copied().flatten()
    }

    /// The offset in the later stream of a chunk that is in no common segment.
    pub(super) fn chunk(&self, fingerprint: &Fingerprint) -> Option<u64> {
        self.chunks.get(fingerprint).and_then(|chunk| chunk.offset)
    }

    /// Whether there are chunks that the later stream lacks.
    pub(super) fn has_unmatched(&self) -> bool {
        self.chunks.values().any(|chunk| chunk.offset.is_none())
    }
}
