//! What can go wrong, by what a caller would do about it.

use ingest::IngestError;
use object::ObjectError;
use restore::RestoreError;

/// What a caller would do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no store there: make one, or name another.
    NoStore,
    /// Try another password.
    WrongPassword,
    /// A newer version of the program is needed.
    Newer,
    /// Someone asked to stop.
    Interrupted,
    /// Anything else: the message says what and where.
    Other,
}

/// An operation on a store that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The config, a manifest or another small object.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// A backup.
    #[error(transparent)]
    Ingest(#[from] IngestError),
    /// A restore.
    #[error(transparent)]
    Restore(#[from] RestoreError),
    /// Sessions and manifests.
    #[error(transparent)]
    Session(#[from] session::SessionError),
    /// A container.
    #[error(transparent)]
    Container(#[from] container::ContainerError),
    /// A recipe.
    #[error(transparent)]
    Recipe(#[from] recipe::RecipeError),
    /// The index.
    #[error(transparent)]
    Index(#[from] index::IndexError),
    /// The user's files.
    #[error(transparent)]
    Tree(#[from] tree::TreeError),
    /// The storage.
    #[error(transparent)]
    Storage(#[from] env::StorageError),
    /// A setting that no store can have.
    #[error("{0}")]
    Setting(String),
    /// Something that is not there.
    #[error("{0}")]
    NotFound(String),
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// What a caller would do about it.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Object(ObjectError::NotAStore) => ErrorKind::NoStore,
            Self::Object(
                ObjectError::WrongPassword | ObjectError::PasswordNeeded | ObjectError::PasswordNotTaken,
            ) => ErrorKind::WrongPassword,
            Self::Object(
                ObjectError::NewerFormat { .. }
                | ObjectError::UnknownFeatures { .. }
                | ObjectError::ReadOnly { .. }
                | ObjectError::Newer { .. },
            ) => ErrorKind::Newer,
            Self::Storage(env::StorageError::NotFound { .. }) => ErrorKind::NoStore,
            // Of the folder itself: an object that is missing has a name of its own.
            Self::Storage(env::StorageError::Io { source, .. })
                if source.kind() == std::io::ErrorKind::NotFound =>
            {
                ErrorKind::NoStore
            }
            Self::Ingest(IngestError::Interrupted) | Self::Restore(RestoreError::Interrupted) => {
                ErrorKind::Interrupted
            }
            _ => ErrorKind::Other,
        }
    }
}
