//! The memory and the unit of look-ups.

use chunking::{NODE_AVG_CHILDREN_MAX, NODE_AVG_CHILDREN_MIN};
use index::{Eviction, Resolver};

use super::cap::Capping;

/// The memory for look-ups of one backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LookupMemory {
    /// For the fingerprints of prefetched catalogs of chunks, in bytes; 42 for each.
    pub catalog_bytes: u64,
    /// For those of segments' nodes, in bytes.
    pub node_bytes: u64,
    /// For the fingerprints of what the backup itself has stored, in bytes.
    pub own_bytes: u64,
    /// Segments of its own that a backup recognises whole; some 64 bytes each.
    pub own_segments_max: usize,
    /// Which catalogs leave memory first.
    pub eviction: Eviction,
}

impl LookupMemory {
    /// So many bytes in all, besides [`Self::own_segments_max`].
    #[must_use]
    pub fn within(bytes: u64) -> Self {
        let node_bytes = bytes / 16;
        let catalog_bytes = bytes / 2;
        Self {
            catalog_bytes,
            node_bytes,
            own_bytes: bytes - catalog_bytes - node_bytes,
            own_segments_max: 1 << 15,
            eviction: Eviction::ContainerLru,
        }
    }
}

impl Default for LookupMemory {
    fn default() -> Self {
        Self::within(32 << 20)
    }
}

/// The look-ups of one backup, and their settings.
#[derive(Debug)]
pub struct Lookups<I, C> {
    /// Look-ups of chunks.
    pub chunks: Resolver<I, C>,
    /// Look-ups of segments' nodes.
    pub segments: Resolver<I, C>,
    /// The index has the hook of one chunk in 2^n when the backup begins. Its later sampling rate
    /// depends on when containers are sealed.
    pub hooks_halved: u8,
    /// Memory of the rest.
    pub memory: LookupMemory,
    /// The unit of references.
    pub unit: Granularity,
    /// How many containers a window may refer to. Without effect for references to segments.
    pub capping: Capping,
    /// The bytes of a full container.
    pub container_bytes: u64,
}

/// The unit that a backup refers to if the store has it already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Granularity {
    /// Chunks: each is stored once (layout `inline`).
    #[default]
    Chunk,
    /// Segments: if a segment is not known whole, all its chunks are stored, in order, including
    /// those that the store has already (layout `hybrid`) [RevDedup 2.3] (R1).
    Segment {
        /// Bytes of a segment on average.
        avg_bytes: u32,
    },
}

impl Granularity {
    /// How many chunks of this length a segment has on average, if the store's nodes have
    /// `children_avg`. It is a power of two within the limits of a node.
    #[must_use]
    pub(crate) fn segment_children(self, chunk_bytes: u32, children_avg: u32) -> u32 {
        match self {
            Self::Chunk => children_avg,
            Self::Segment { avg_bytes } => {
                let children = (avg_bytes / chunk_bytes.max(1)).max(1);
                (1 << children.ilog2()).clamp(NODE_AVG_CHILDREN_MIN, NODE_AVG_CHILDREN_MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_the_set_length_for_chunks_of_any_length() {
        let unit = Granularity::Segment { avg_bytes: 4 << 20 };
        assert_eq!(unit.segment_children(8 << 10, 512), 512);
        assert_eq!(unit.segment_children(4 << 10, 512), 1024);
        assert_eq!(unit.segment_children(64 << 10, 512), 64);
        // No more than fit, of blocks of an odd length.
        assert_eq!(unit.segment_children(5000, 512), 512);
        assert_eq!(unit.segment_children(4 << 20, 512), NODE_AVG_CHILDREN_MIN);
        assert_eq!(unit.segment_children(1, 512), NODE_AVG_CHILDREN_MAX);
        assert_eq!(Granularity::Chunk.segment_children(4 << 10, 512), 512);
    }
}
