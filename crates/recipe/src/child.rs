//! A node's children, one by one, and their run-length encoding.

use std::collections::HashSet;

use format::node::{Node, NodeEntry};
use format::session::SpineNode;
use types::{ChunkLocation, ContainerId, Fingerprint, Level, Slot};

use crate::tree_root::TreeRoot;

/// Level 0: chunks and zeros.
pub(crate) const CHUNK_LEVEL: Level = level(0);
/// The level of segments' nodes: 1.
pub const SEGMENT_LEVEL: Level = level(1);

const fn level(n: u8) -> Level {
    match Level::new(n) {
        Ok(level) => level,
        Err(_) => panic!("a level within the limit"),
    }
}

/// One level up; `None` above the highest.
pub(crate) fn level_above(level: Level) -> Option<Level> {
    Level::new(level.get() + 1).ok()
}

/// One level down; `None` below chunks.
pub(crate) fn level_below(level: Level) -> Option<Level> {
    Level::new(level.get().checked_sub(1)?).ok()
}

/// The place of a child's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// In a container.
    At(ChunkLocation),
    /// Nowhere: a run of zeros (RevDedup 3.3, R8). Level 0 only.
    Zeros,
}

/// A chunk, a run of zeros or a node, as its parent describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Child {
    /// The fingerprint of the chunk, of the run of zeros, or of the node.
    pub fingerprint: Fingerprint,
    /// The bytes of the stream that it covers, at least 1.
    pub logical_len: u64,
    /// The level: 0 for chunks and zeros.
    pub level: Level,
    /// Its place.
    pub place: Place,
    /// An upper bound of the distinct data containers below it: for a node its own bound, 1 for a
    /// chunk, 0 for zeros.
    pub containers_max: u32,
}

impl Child {
    /// A stored chunk of `len` bytes.
    #[must_use]
    pub const fn chunk(fingerprint: Fingerprint, len: u64, at: ChunkLocation) -> Self {
        Self {
            fingerprint,
            logical_len: len,
            level: CHUNK_LEVEL,
            place: Place::At(at),
            containers_max: 1,
        }
    }

    /// A run of zeros. `fingerprint` is that of a run of this length.
    #[must_use]
    pub const fn zeros(fingerprint: Fingerprint, len: u64) -> Self {
        Self {
            fingerprint,
            logical_len: len,
            level: CHUNK_LEVEL,
            place: Place::Zeros,
            containers_max: 0,
        }
    }

    /// Its location, unless it is zeros.
    #[must_use]
    pub const fn location(&self) -> Option<ChunkLocation> {
        match self.place {
            Place::At(location) => Some(location),
            Place::Zeros => None,
        }
    }

    /// The tree below it; `None` of chunks and zeros.
    #[must_use]
    pub fn as_root(&self) -> Option<TreeRoot> {
        let location = self.location().filter(|_| self.level != CHUNK_LEVEL)?;
        Some(TreeRoot {
            location,
            level: self.level,
            fingerprint: self.fingerprint,
            len: self.logical_len,
        })
    }
}

impl From<&SpineNode> for Child {
    fn from(node: &SpineNode) -> Self {
        Self {
            fingerprint: node.fingerprint,
            logical_len: node.len,
            level: node.level,
            place: Place::At(node.location),
            containers_max: node.containers_max,
        }
    }
}

/// The node of these children, which must be of one level. Consecutive slots of one container
/// become one run, so the number of entries shows the fragmentation.
///
/// Without children, this is the root of the empty stream, at level 1.
///
/// # Panics
/// If the children are of the highest level, or their lengths exceed 64 bits together. The builder
/// checks both before.
#[must_use]
pub fn segment_node(children: &[Child]) -> Node {
    let below = children.first().map_or(CHUNK_LEVEL, |child| child.level);
    let level = level_above(below).expect("children are below the highest level");
    let mut entries: Vec<NodeEntry> = Vec::new();
    let mut logical_len = 0u64;
    for child in children {
        debug_assert_eq!(child.level, below, "children of one level");
        logical_len = logical_len
            .checked_add(child.logical_len)
            .expect("a stream has less than 2^64 bytes");
        if !extend(entries.last_mut(), child) {
            entries.push(entry(child));
        }
    }
    Node {
        level,
        logical_len,
        containers_max: containers_max(children),
        entries,
    }
}

fn entry(child: &Child) -> NodeEntry {
    match child.place {
        Place::At(ChunkLocation { container, slot }) => NodeEntry::Run {
            container,
            first: slot,
            count: 1,
            logical_len: child.logical_len,
        },
        Place::Zeros => NodeEntry::Zeros {
            len: child.logical_len,
        },
    }
}

/// Adds the child to the previous run, if it continues that run.
fn extend(last: Option<&mut NodeEntry>, child: &Child) -> bool {
    let (
        Some(NodeEntry::Run {
            container,
            first,
            count,
            logical_len,
        }),
        Place::At(at),
    ) = (last, child.place)
    else {
        return false;
    };
    let goes_on = *container == at.container && follows(*first, *count, at.slot);
    if goes_on {
        *count += 1;
        *logical_len += child.logical_len;
    }
    goes_on
}

fn follows(first: Slot, count: u32, slot: Slot) -> bool {
    first.checked_add(count) == Some(slot)
}

fn containers_max(children: &[Child]) -> u32 {
    if children.iter().any(|child| child.level != CHUNK_LEVEL) {
        return children
            .iter()
            .fold(0, |sum, child| sum.saturating_add(child.containers_max));
    }
    let distinct: HashSet<ContainerId> = children
        .iter()
        .filter_map(Child::location)
        .map(|location| location.container)
        .collect();
    u32::try_from(distinct.len()).unwrap_or(u32::MAX)
}
