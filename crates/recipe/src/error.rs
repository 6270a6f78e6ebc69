//! Errors of recipes.

use container::ContainerError;
use format::FormatError;
use types::{ByteRange, ChunkLocation, Fingerprint, Level};

use crate::stream::StreamName;

/// An error of this crate. Those that name a node mean damage or malice; the node is of no use,
/// other nodes are not touched by it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// A container or its catalog could not be read.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// A node's bytes are not a node.
    #[error("the node in {node} is malformed")]
    Malformed {
        /// Where it lies.
        node: ChunkLocation,
        /// What is wrong with its bytes.
        source: FormatError,
    },
    /// A node, or a catalog's entry, is of another level than the reference to it says.
    #[error("{found_at} is of level {found}, a node of level {expected} was expected (0: a chunk)")]
    WrongLevel {
        /// The node or chunk.
        found_at: ChunkLocation,
        /// What the reference says.
        expected: Level,
        /// What is there.
        found: Level,
    },
    /// A node stands for more or fewer bytes than the reference to it says.
    #[error("the node in {node} stands for {found} bytes, {expected} were expected")]
    WrongLength {
        /// The node.
        node: ChunkLocation,
        /// Bytes of stream by the reference.
        expected: u64,
        /// Bytes of stream by the node.
        found: u64,
    },
    /// A run's slots do not add up to its length.
    #[error("a run of the node in {node} from {first} on has {found} bytes, not {expected}")]
    WrongRunLength {
        /// The node.
        node: ChunkLocation,
        /// Where the run begins.
        first: ChunkLocation,
        /// Bytes of stream by the run.
        expected: u64,
        /// Bytes of stream by the catalog.
        found: u64,
    },
    /// A node refers to a slot that its container does not have.
    #[error("the node in {node} refers to {missing}, which is not there")]
    MissingSlot {
        /// The node.
        node: ChunkLocation,
        /// Its target; the last possible slot if a run exceeds it.
        missing: ChunkLocation,
    },
    /// A node has a child, or a part, that stands for no bytes.
    #[error("the node in {node} has an empty part")]
    EmptyPart {
        /// The node.
        node: ChunkLocation,
    },
    /// Zeros in a node above level 1.
    #[error("the node in {node} of level {level} has zeros among its nodes")]
    ZerosAboveChunks {
        /// The node.
        node: ChunkLocation,
        /// Its level.
        level: Level,
    },
    /// A forward reference where none may stand: above level 1, or where they are not followed.
    #[error("the node in {node} refers forward to another backup, which is not expected here")]
    UnexpectedForward {
        /// The node.
        node: ChunkLocation,
    },
    /// A later backup, or its stream, that a node refers forward to and that is not there.
    #[error("the node in {node} refers forward to {name}, which is not there")]
    NoLaterBackup {
        /// The node.
        node: ChunkLocation,
        /// The stream.
        name: StreamName,
    },
    /// A forward reference leads to a stream that does not go on as it says.
    #[error("the node in {node} refers forward, and on the way {name} is {why}")]
    BrokenForward {
        /// The node.
        node: ChunkLocation,
        /// The stream that is otherwise.
        name: StreamName,
        /// How.
        why: &'static str,
    },
    /// More children than any writer puts into a node.
    #[error("the node in {node} has more than {max} children")]
    TooManyChildren {
        /// The node.
        node: ChunkLocation,
        /// The most allowed.
        max: u32,
    },
    /// A node's children are not those that its fingerprint vouches for (INV-5).
    #[error("the node in {node} has fingerprint {found}, {expected} was expected")]
    WrongFingerprint {
        /// The node.
        node: ChunkLocation,
        /// By its parent or the manifest.
        expected: Fingerprint,
        /// Of its children as the catalogs have them.
        found: Fingerprint,
    },
    /// A range that is not within its stream.
    #[error("{} bytes from {} on are not within a stream of {stream_len} bytes", .range.len, .range.offset)]
    OutOfStream {
        /// The range.
        range: ByteRange,
        /// Bytes of the stream.
        stream_len: u64,
    },
    /// A stream that would need more than 8 levels, or more than 2^64 bytes.
    #[error("the stream is too long for {} levels of nodes", Level::MAX)]
    TooLong,
    /// What a [`crate::NodeSink`] or [`crate::NodeSource`] of the caller's own failed with.
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl RecipeError {
    /// Whether what is wrong is of what was read, not of the storage: [`ContainerError::is_gone`],
    /// or nodes that are not as they should be.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Container(error) => error.is_gone(),
            // Nobody knows here what that is of.
            Self::Other(_) => false,
            _ => true,
        }
    }
}
