//! Errors of recipes.

use container::ContainerError;
use format::FormatError;
use types::{ByteRange, ChunkLocation, Fingerprint, Level};

use crate::stream::StreamName;

/// An error of this crate. Errors that name a node mean damage or malice. The node cannot be used,
/// but other nodes are not affected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// A container or its catalog could not be read.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The bytes of a node cannot be decoded.
    #[error("the node in {node} is malformed")]
    Malformed {
        /// Its location.
        node: ChunkLocation,
        /// The error of decoding.
        source: FormatError,
    },
    /// A node, or a catalog's entry, has another level than the reference to it says.
    #[error("{found_at} is of level {found}, a node of level {expected} was expected (0: a chunk)")]
    WrongLevel {
        /// The node or chunk.
        found_at: ChunkLocation,
        /// The level in the reference.
        expected: Level,
        /// The level that was found.
        found: Level,
    },
    /// A node covers more or fewer bytes than the reference to it says.
    #[error("the node in {node} stands for {found} bytes, {expected} were expected")]
    WrongLength {
        /// The node.
        node: ChunkLocation,
        /// Bytes of the stream by the reference.
        expected: u64,
        /// Bytes of the stream by the node.
        found: u64,
    },
    /// A run's slots do not add up to its length.
    #[error("a run of the node in {node} from {first} on has {found} bytes, not {expected}")]
    WrongRunLength {
        /// The node.
        node: ChunkLocation,
        /// The run's first location.
        first: ChunkLocation,
        /// Bytes of the stream by the run.
        expected: u64,
        /// Bytes of the stream by the catalog.
        found: u64,
    },
    /// A node refers to a slot that its container does not have.
    #[error("the node in {node} refers to {missing}, which is not there")]
    MissingSlot {
        /// The node.
        node: ChunkLocation,
        /// The missing slot; the last possible slot if a run exceeds it.
        missing: ChunkLocation,
    },
    /// A node has a child, or a part, without bytes.
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
    /// A forward reference where it is not allowed: above level 1, or inside a stream whose
    /// references are not followed.
    #[error("the node in {node} refers forward to another backup, which is not expected here")]
    UnexpectedForward {
        /// The node.
        node: ChunkLocation,
    },
    /// A node refers forward to a later backup or stream that does not exist.
    #[error("the node in {node} refers forward to {name}, which is not there")]
    NoLaterBackup {
        /// The node.
        node: ChunkLocation,
        /// The stream.
        name: StreamName,
    },
    /// A forward reference does not fit the stream that it names.
    #[error("the node in {node} refers forward, and on the way {name} is {why}")]
    BrokenForward {
        /// The node.
        node: ChunkLocation,
        /// The stream that does not fit.
        name: StreamName,
        /// What does not fit.
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
    /// A node's children do not have the node's fingerprint (INV-5).
    #[error("the node in {node} has fingerprint {found}, {expected} was expected")]
    WrongFingerprint {
        /// The node.
        node: ChunkLocation,
        /// The fingerprint in its parent or the manifest.
        expected: Fingerprint,
        /// The fingerprint of its children, by the catalogs.
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
    /// A remote store says that it cannot read something, and why. Other data may be readable.
    #[error("{0}")]
    Unreadable(String),
    /// An error of the caller's own [`crate::NodeSink`] or [`crate::NodeSource`].
    #[error(transparent)]
    Other(Box<dyn std::error::Error + Send + Sync>),
}

impl RecipeError {
    /// Whether the error is in the data that was read, not in the storage:
    /// [`ContainerError::is_gone`], or a wrong node.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Container(error) => error.is_gone(),
            // The cause is unknown here.
            Self::Other(_) => false,
            _ => true,
        }
    }
}
