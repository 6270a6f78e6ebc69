//! What a check of a pool finds.

use types::{BlockNumber, Lba};

/// A use of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Use {
    /// None: a block of a free extent, or lost.
    None,
    /// A superblock, or the table of extents.
    Pool,
    /// A volume's header, its log, a page of its map or of its state.
    Metadata,
    /// Free, or about to be.
    Free,
    /// Mapped by one volume alone.
    Private,
    /// In the duplicates index.
    Registered,
    /// Set aside because of damage.
    Suspect,
}

/// Something that is wrong in a pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// A block has two uses.
    #[error("block {block} has two uses: {first:?} and {second:?}")]
    TwoUses {
        /// The block.
        block: BlockNumber,
        /// One use.
        first: Use,
        /// The other.
        second: Use,
    },
    /// A block of a volume's extent has no use. It is lost until the next recount of the pool.
    #[error("block {block} has no use: its space is lost")]
    Lost {
        /// The block.
        block: BlockNumber,
    },
    /// A block of a free extent is in use.
    #[error("block {block} is in use ({found:?}), but its extent is free")]
    InFreeExtent {
        /// The block.
        block: BlockNumber,
        /// The use.
        found: Use,
    },
    /// The index counts other references than there are.
    #[error("block {block} has {found} references, but the duplicates index counts {counted}")]
    References {
        /// The block.
        block: BlockNumber,
        /// References of maps, and those that the collector has to give back.
        found: u64,
        /// What the index counts; 0 if it does not know the block.
        counted: u64,
    },
    /// The content of a registered block is not the one that the index has.
    #[error("block {block} is rotten: its content is not the one that was registered")]
    Rotten {
        /// The block.
        block: BlockNumber,
        /// The blocks of volumes that refer to it, up to some.
        volumes: Vec<(String, Lba)>,
    },
    /// The device cannot read a block of a volume.
    #[error("block {block} cannot be read: {}", places(volumes))]
    UnreadableBlock {
        /// The block.
        block: BlockNumber,
        /// The blocks of volumes that refer to it, up to some.
        volumes: Vec<(String, Lba)>,
    },
    /// A page cannot be read.
    #[error("volume {volume:?}: {why}")]
    Unreadable {
        /// The volume.
        volume: String,
        /// The error.
        why: String,
    },
    /// A volume could not be recovered.
    #[error("volume number {volume} cannot be recovered: {why}")]
    Failed {
        /// The volume.
        volume: types::VolumeId,
        /// The error.
        why: String,
    },
    /// The index lost batches.
    #[error("{why}")]
    Mismatch {
        /// The error.
        why: String,
    },
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Blocks with a use.
    pub blocks: u64,
    /// Registered blocks.
    pub registered: u64,
    /// Registered blocks whose content was read.
    pub read: u64,
    /// What is wrong; at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
}

/// Findings that a check lists.
pub const FINDINGS_MAX: usize = 1000;

/// The blocks of volumes, for a message.
fn places(volumes: &[(String, Lba)]) -> String {
    if volumes.is_empty() {
        return "no volume refers to it".to_owned();
    }
    let places = volumes
        .iter()
        .map(|(volume, lba)| format!("block {lba} of volume {volume:?}"));
    places.collect::<Vec<_>>().join(", ")
}
