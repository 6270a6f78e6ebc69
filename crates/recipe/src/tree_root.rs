//! The root of a tree.

use types::{ChunkLocation, Fingerprint, Level};

/// The root of a stream's tree, as a manifest keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeRoot {
    /// The location of the root node.
    pub location: ChunkLocation,
    /// Its level, at least 1.
    pub level: Level,
    /// Its fingerprint. Everything below is checked up to it (INV-5).
    pub fingerprint: Fingerprint,
    /// The stream's length in bytes.
    pub len: u64,
}

impl From<&format::manifest::StreamRoot> for TreeRoot {
    fn from(root: &format::manifest::StreamRoot) -> Self {
        Self {
            location: root.location,
            level: root.level,
            fingerprint: root.fingerprint,
            len: root.len,
        }
    }
}
