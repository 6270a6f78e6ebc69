//! Errors of restoring bytes.

use recipe::RecipeError;
use types::{ChunkLocation, Fingerprint};

/// A restore, or a part of one, failed. Everything that was written before is right: nothing leaves
/// unverified (INV-5).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A container could not be read.
    #[error(transparent)]
    Container(#[from] container::ContainerError),
    /// A recipe could not be followed.
    #[error(transparent)]
    Recipe(#[from] recipe::RecipeError),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] env::StorageError),
    /// The target could not be written, or a listing could not be read.
    #[error(transparent)]
    Tree(#[from] tree::TreeError),
    /// The catalog has another chunk at this location than the one in the verified recipe.
    #[error(
        "{location}: holds a chunk other than the recipe says; run `onefold check` to see what is affected"
    )]
    WrongSlot {
        /// The location.
        location: ChunkLocation,
    },
    /// The bytes differ from those that were stored.
    #[error(
        "{location}: the chunk's fingerprint is {found}, expected {expected}; run `onefold check --read-data` to see what is affected"
    )]
    WrongBytes {
        /// The location.
        location: ChunkLocation,
        /// The fingerprint in the catalog and the recipe.
        expected: Fingerprint,
        /// The fingerprint of the bytes that were read.
        found: Fingerprint,
    },
    /// A hard link refers to a name that the backup does not have.
    #[error("the entry it is a hard link to, {}, is not in the backup", String::from_utf8_lossy(.target))]
    NoLinkTarget {
        /// The name.
        target: Vec<u8>,
    },
    /// Bytes of a stream are lost, because a node above them cannot be read or verified.
    #[error("{len} bytes cannot be had: {error}")]
    LostPart {
        /// The number of lost bytes.
        len: u64,
        /// The cause.
        error: std::sync::Arc<RestoreError>,
    },
    /// A part of a single stream is lost.
    #[error("{stream}: {error}")]
    Lost {
        /// The stream.
        stream: String,
        /// The cause.
        error: std::sync::Arc<RestoreError>,
    },
    /// Nothing more can be read: the reader of the store failed, for example because its connection
    /// broke.
    #[error("the store cannot be read any more: {0}")]
    NoMore(std::sync::Arc<RestoreError>),
    /// The target of the bytes refused them.
    #[error("writing to {target} failed: {source}")]
    Target {
        /// The file or stream.
        target: String,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// The system gave no thread.
    #[error("the system starts no more threads ({0}): end other programs, or raise the limit (`ulimit -u`)")]
    NoThread(#[source] std::io::Error),
    /// The target has no room left, so no further file can be restored.
    #[error(
        "{fault}; {files} files were restored before that and are whole; make room, then go on with `--overwrite if-changed`, which reads only what is missing"
    )]
    Full {
        /// The fault of the first file without room.
        fault: tree::TreeError,
        /// How many files were restored.
        files: u64,
    },
    /// The user asked to stop.
    #[error("interrupted before its end")]
    Interrupted,
    /// A broken invariant within the program.
    #[error("internal error, please report it: {0}")]
    Internal(&'static str),
}

impl RestoreError {
    /// Whether the reader failed, or the storage does not answer, so that nothing else can be read
    /// either.
    pub(crate) fn is_of_whole_store(&self) -> bool {
        match self {
            Self::Recipe(RecipeError::Other(_)) => true,
            Self::Storage(error) => error.is_silence(),
            Self::Container(error) | Self::Recipe(RecipeError::Container(error)) => error.is_silence(),
            _ => false,
        }
    }
}
