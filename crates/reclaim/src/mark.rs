//! Marking: from roots down through nodes, to ranges of slots [Guo 3.3] (G8).
//!
//! Invariant: a node is read once for each group, because its own bit says whether it was
//! visited. No catalog of a data container is read, because a segment names its chunks as ranges of
//! slots.
//!
//! Memory: the marks so far, one or a few ranges for each container, and one path from the root.

use format::manifest::Backup;
use format::node::NodeEntry;
use recipe::{NodeSource, RecipeError, StreamName};
use types::{ChunkLocation, ContainerId, Level, SessionId, Slot, SlotRange};

use crate::error::{ReclaimError, Result};
use crate::progress::Progress;
use crate::slots::SlotMap;

/// The level of a segment, which lists chunks.
const SEGMENT_LEVEL: u8 = 1;

/// Called by a walk over nodes for each reference.
pub(crate) trait Visit {
    /// A node that is referred to. Returns whether the walk continues below it.
    fn node(&mut self, at: ChunkLocation) -> bool;
    /// Chunks that a segment refers to.
    fn chunks(&mut self, container: ContainerId, slots: SlotRange);
}

/// One reference of a node.
pub(crate) enum Below {
    Node(ChunkLocation, Level),
    Chunks(ContainerId, SlotRange),
}

/// Walks nodes, for marking and for finding slots in use.
pub(crate) struct Walk<'a> {
    nodes: &'a dyn NodeSource,
    progress: &'a dyn Progress,
    /// Number of nodes read.
    pub(crate) read: u64,
    /// The one backup that nodes may refer forward to, if it is known.
    forward_to: Option<Option<SessionId>>,
}

impl<'a> Walk<'a> {
    pub(crate) fn new(nodes: &'a dyn NodeSource, progress: &'a dyn Progress) -> Self {
        Self {
            nodes,
            progress,
            read: 0,
            forward_to: None,
        }
    }

    /// Visits a node and everything below it.
    pub(crate) fn from(
        &mut self,
        root: ChunkLocation,
        level: Level,
        visit: &mut dyn Visit,
    ) -> Result<(), WalkError> {
        let mut stack = vec![(root, level)];
        while let Some((at, level)) = stack.pop() {
            if visit.node(at) {
                self.node(at, level, &mut |below| match below {
                    Below::Node(at, level) => stack.push((at, level)),
                    Below::Chunks(container, slots) => visit.chunks(container, slots),
                })?;
            }
        }
        Ok(())
    }

    /// Reads one node, and passes its references to the visitor, last first.
    pub(crate) fn node(
        &mut self,
        at: ChunkLocation,
        level: Level,
        each: &mut dyn FnMut(Below),
    ) -> Result<(), WalkError> {
        if self.progress.is_cancelled() {
            return Err(WalkError::Interrupted);
        }
        let node = self.nodes.node(at)?;
        self.read += 1;
        self.progress.add_nodes(1);
        if node.level != level || level.get() < SEGMENT_LEVEL {
            let (expected, found) = (level, node.level);
            return Err(WalkError::Recipe(RecipeError::WrongLevel {
                found_at: at,
                expected,
                found,
            }));
        }
        for entry in node.entries.iter().rev() {
            self.entry(at, level, entry, each)?;
        }
        Ok(())
    }

    fn entry(
        &self,
        at: ChunkLocation,
        level: Level,
        entry: &NodeEntry,
        each: &mut dyn FnMut(Below),
    ) -> Result<(), WalkError> {
        let (container, first, count) = match *entry {
            NodeEntry::Zeros { .. } => return Ok(()),
            // The target is marked with the backup that it belongs to, which is always marked, even
            // if it is forgotten ([`crate::forward_pins`]).
            NodeEntry::Forward {
                series,
                backup,
                stream,
                ..
            } => {
                if self.forward_to.is_none_or(|next| next == Some(backup)) {
                    return Ok(());
                }
                let name = StreamName {
                    series,
                    backup,
                    stream,
                };
                let why = "not the backup that its manifest says is referred to";
                return Err(RecipeError::BrokenForward { node: at, name, why }.into());
            }
            NodeEntry::Run {
                container,
                first,
                count,
                ..
            } => (container, first, count),
        };
        let missing = || {
            WalkError::Recipe(RecipeError::MissingSlot {
                node: at,
                missing: ChunkLocation {
                    container,
                    slot: Slot::MAX,
                },
            })
        };
        let slots = SlotRange::new(first, count).ok_or_else(missing)?;
        if level.get() == SEGMENT_LEVEL {
            each(Below::Chunks(container, slots));
            return Ok(());
        }
        let below = Level::new(level.get() - 1).expect("a level below a level is one");
        for n in (0..slots.count()).rev() {
            let slot = first.checked_add(n).ok_or_else(missing)?;
            each(Below::Node(ChunkLocation { container, slot }, below));
        }
        Ok(())
    }
}

/// Why a walk ended early.
#[derive(Debug)]
pub(crate) enum WalkError {
    Recipe(RecipeError),
    Interrupted,
}

impl From<RecipeError> for WalkError {
    fn from(error: RecipeError) -> Self {
        Self::Recipe(error)
    }
}

impl WalkError {
    /// The error of a run: `broken` makes it from an unreadable node.
    pub(crate) fn or(self, broken: impl FnOnce(RecipeError) -> ReclaimError) -> ReclaimError {
        match self {
            Self::Interrupted => ReclaimError::Interrupted,
            Self::Recipe(source) => broken(source),
        }
    }

    /// The error of a run: this backup cannot be marked. A failing storage has an error of its own.
    pub(crate) fn of(self, backup: types::SessionId) -> ReclaimError {
        match self {
            Self::Interrupted => ReclaimError::Interrupted,
            Self::Recipe(source) => unmarkable(backup, source),
        }
    }
}

/// The error for a node of this backup, or of this session, that cannot be read.
pub(crate) fn unmarkable(backup: types::SessionId, source: RecipeError) -> ReclaimError {
    match source {
        RecipeError::Container(error) if error.is_silence() => error.into(),
        source => ReclaimError::Unmarkable { backup, source },
    }
}

/// Marks all slots that a walk reaches.
#[derive(Debug, Default)]
pub(crate) struct Marker {
    pub(crate) marks: SlotMap,
}

impl Visit for Marker {
    fn node(&mut self, at: ChunkLocation) -> bool {
        self.marks.insert(at.container, SlotRange::one(at.slot))
    }

    fn chunks(&mut self, container: ContainerId, slots: SlotRange) {
        self.marks.insert(container, slots);
    }
}

/// Visits everything that a backup's roots reach.
pub(crate) fn backup(walk: &mut Walk<'_>, backup: &Backup, visit: &mut dyn Visit) -> Result<(), WalkError> {
    walk.forward_to = Some(backup.next);
    for stream in &backup.streams {
        walk.from(stream.location, stream.level, visit)?;
    }
    walk.forward_to = None;
    Ok(())
}
