//! Why a backup could not be made.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use types::ByteRange;

use crate::queue::Closed;

/// No backup was made. Data stored before stays, and the next backup of the series takes it over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IngestError {
    /// A container could not be written or read.
    #[error(transparent)]
    Container(#[from] container::ContainerError),
    /// A recipe could not be read or written.
    #[error(transparent)]
    Recipe(#[from] recipe::RecipeError),
    /// The stored data of an unchanged file could not be read.
    #[error(
        "the previous backup cannot be built upon: {0}; run this with --force, which reads all files again"
    )]
    Previous(recipe::RecipeError),
    /// The index failed in a way that rebuilding does not explain.
    #[error(transparent)]
    Index(#[from] index::IndexError),
    /// The session could not continue, or another session ended it.
    #[error(transparent)]
    Session(#[from] session::SessionError),
    /// The storage failed.
    #[error(transparent)]
    Storage(#[from] env::StorageError),
    /// The directory walk could not begin.
    #[error(transparent)]
    Tree(#[from] tree::TreeError),
    /// The source of a single stream could not be read.
    #[error("reading {name} failed after {offset} bytes: {source}")]
    Source {
        /// The source.
        name: String,
        /// The bytes read so far.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// A stream copies a range of an earlier backup to which a backup must not refer.
    #[error(
        "{name} takes {} bytes at {} of an earlier backup as its bytes from {offset} on, and what is stored \
         there is damaged; read them from the source instead",
        range.len, range.offset
    )]
    UnsoundCopy {
        /// The stream.
        name: String,
        /// Where in it.
        offset: u64,
        /// The earlier stream's bytes.
        range: ByteRange,
    },
    /// Chunk lengths that no chunker takes.
    #[error(transparent)]
    Chunking(#[from] chunking::ChunkingError),
    /// The system gave no thread.
    #[error("the system starts no more threads ({0}): end other programs, or raise the limit (`ulimit -u`)")]
    NoThread(#[source] io::Error),
    /// A limit of the format.
    #[error("the backup is too large: {0}")]
    TooLarge(&'static str),
    /// The store's half of the backup has ended; why was said elsewhere.
    #[error("the store ended the backup without saying why")]
    StoreEnded,
    /// The connection to a store elsewhere broke, or the other end does not keep to the protocol.
    #[error("the connection to the store: {0}")]
    Connection(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// A store elsewhere says this.
    #[error("{0}")]
    Elsewhere(String),
    /// The caller asked to stop.
    #[error("interrupted; what was stored so far is kept, and the next backup goes on from there")]
    Interrupted,
    /// A broken promise within the program.
    #[error("internal error, please report it: {0}")]
    Internal(&'static str),
}

impl IngestError {
    /// Whether data of the previous backup has rotted, which was unknown until it was needed. The
    /// caller can make the backup again from [a suspect parent](crate::StoreSession::suspecting):
    /// it then reads the files on bad containers again.
    #[must_use]
    pub fn is_of_previous(&self) -> bool {
        match self {
            Self::Previous(recipe::RecipeError::Container(error)) => error.is_damage(),
            Self::Previous(_) => true,
            _ => false,
        }
    }
}

/// Why a stage stopped early.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It failed.
    Failed(IngestError),
    /// A neighbour has ended. Its reason is the one to report.
    Closed,
}

impl From<IngestError> for Halt {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::StoreEnded => Self::Closed,
            error => Self::Failed(error),
        }
    }
}

impl From<Closed> for Halt {
    fn from(_: Closed) -> Self {
        Self::Closed
    }
}

impl std::fmt::Display for Halt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed(error) => error.fmt(f),
            Self::Closed => f.write_str("a stage of the pipeline stopped"),
        }
    }
}

impl std::error::Error for Halt {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(error) => error.source(),
            Self::Closed => None,
        }
    }
}

/// Runs a part of a backup. A panic is a failure of it: the stages beside it must end, too.
pub(crate) fn caught(run: impl FnOnce() -> Result<(), Halt>) -> Result<(), Halt> {
    let ended = panic::catch_unwind(AssertUnwindSafe(run));
    ended.unwrap_or_else(|_| Err(IngestError::Internal("a thread of the backup panicked").into()))
}

/// The first failure of any stage.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    first: Mutex<Option<IngestError>>,
    failed: AtomicBool,
}

impl Failure {
    /// Keeps the reason, if it is the first.
    pub(crate) fn note(&self, result: Result<(), Halt>) {
        if let Err(Halt::Failed(error)) = result {
            self.first
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .get_or_insert(error);
            self.failed.store(true, Ordering::Release);
        }
    }

    /// Whether a stage has failed: the others may stop.
    #[must_use]
    pub(crate) fn is_noted(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// The reason, once all stages have ended.
    pub(crate) fn take(&self) -> Option<IngestError> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
