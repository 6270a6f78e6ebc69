//! Why bytes could not be restored.

use types::{ChunkLocation, Fingerprint};

/// A restore, or a part of one, that did not come about. Whatever was written before is right:
/// nothing leaves unverified (INV-5).
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
    /// The target could not be written, or a listing not be read.
    #[error(transparent)]
    Tree(#[from] tree::TreeError),
    /// The catalog has something else at this place than the recipe was verified against.
    #[error(
        "{location}: holds a chunk other than the recipe says; run `onefold check` to see what is affected"
    )]
    WrongSlot {
        /// The place.
        location: ChunkLocation,
    },
    /// The bytes are not those that were stored.
    #[error(
        "{location}: the chunk's fingerprint is {found}, expected {expected}; run `onefold check --read-data` to see what is affected"
    )]
    WrongBytes {
        /// The place.
        location: ChunkLocation,
        /// As the catalog and the recipe have it.
        expected: Fingerprint,
        /// Of the bytes that were read.
        found: Fingerprint,
    },
    /// A hard link leads to a name that the backup does not have.
    #[error("the entry it is a hard link to, {}, is not in the backup", String::from_utf8_lossy(.target))]
    NoLinkTarget {
        /// The name.
        target: Vec<u8>,
    },
    /// So many bytes of a stream cannot be had, because a node above them cannot be read or
    /// verified.
    #[error("{len} bytes cannot be had: {error}")]
    LostPart {
        /// How many.
        len: u64,
        /// Why.
        error: std::sync::Arc<RestoreError>,
    },
    /// A part of a single stream could not be had.
    #[error("{stream}: {error}")]
    Lost {
        /// The stream.
        stream: String,
        /// Why.
        error: std::sync::Arc<RestoreError>,
    },
    /// Where the bytes go refused them.
    #[error("writing to {target} failed: {source}")]
    Target {
        /// The file or stream.
        target: String,
        /// The system's words.
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
    /// Someone asked to stop.
    #[error("interrupted before its end")]
    Interrupted,
    /// A broken promise within the program.
    #[error("internal error, please report it: {0}")]
    Internal(&'static str),
}
