//! Recipe nodes (docs/format.md, "Node").

use types::{ContainerId, Level, SeriesId, SessionId, Slot};

/// One entry of a node, in stream order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeEntry {
    /// `count` consecutive slots of one container: chunks below a level-1 node, nodes of the level
    /// below otherwise.
    Run {
        /// The container.
        container: ContainerId,
        /// The first slot.
        first: Slot,
        /// How many slots, at least 1.
        count: u32,
        /// The bytes of stream they stand for.
        logical_len: u64,
    },
    /// A run of zero bytes, neither stored nor read (RevDedup 3.3, R8). Level 1 only; coalesced.
    Zeros {
        /// How many, at least 1.
        len: u64,
    },
    /// The same bytes at a place of a later backup of the series (archival recipes only, R2).
    Forward {
        /// The later backup's series.
        series: SeriesId,
        /// The later backup.
        backup: SessionId,
        /// Which of its streams, by position in its manifest.
        stream: u16,
        /// Where in the stream.
        offset: u64,
        /// How many bytes.
        len: u64,
    },
}

impl NodeEntry {
    /// The bytes of stream the entry stands for.
    #[must_use]
    pub const fn logical_len(&self) -> u64 {
        match *self {
            Self::Run { logical_len, .. } => logical_len,
            Self::Zeros { len } | Self::Forward { len, .. } => len,
        }
    }
}

/// A node of a recipe: a segment at level 1, a run of nodes above.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// 1 to 8.
    pub level: Level,
    /// The bytes of stream below it: the sum of its entries'.
    pub logical_len: u64,
    /// An upper bound on the distinct data containers below it, exact at level 1; capping counts with it.
    pub containers_max: u32,
    /// In stream order.
    pub entries: Vec<NodeEntry>,
}
