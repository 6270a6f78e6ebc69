//! Errors, sorted by what a caller would do.

use ::index::IndexError;
use container::ContainerError;
use env::StorageError;
use ingest::IngestError;
use object::ObjectError;
use recipe::RecipeError;
use reclaim::ReclaimError;
use restore::RestoreError;
use session::SessionError;

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
    /// Another error. The message has the details.
    Other,
}

/// The error of an operation on a store.
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
    /// Reclaiming space.
    #[error(transparent)]
    Reclaim(#[from] reclaim::ReclaimError),
    /// The index.
    #[error(transparent)]
    Index(#[from] index::IndexError),
    /// The user's files.
    #[error(transparent)]
    Tree(#[from] tree::TreeError),
    /// The storage.
    #[error(transparent)]
    Storage(#[from] env::StorageError),
    /// A policy that cannot be applied.
    #[error(transparent)]
    Retention(#[from] reclaim::retention::RetentionError),
    /// A backup that cannot be forgotten. The message has the reason and the next step.
    #[error("{0}")]
    Held(String),
    /// A setting that no store can have.
    #[error("{0}")]
    Setting(String),
    /// A backup that was forgotten while or before it was read, and was not pinned for the reader.
    #[error(
        "backup {id} has been forgotten{}. `onefold snapshots` lists the backups that are left",
        why.as_ref().map_or_else(String::new, |why| {
            format!(", and pruned while it was read without a pin ({why})")
        })
    )]
    Forgotten {
        /// The backup.
        id: types::SessionId,
        /// The error that this caused.
        why: Option<Box<Error>>,
    },
    /// A requested item does not exist.
    #[error("{0}")]
    NotFound(String),
    /// The slot of the password that opened the store is not removed.
    #[error(
        "the given password opens the store by slot {id}, which is therefore not removed. To remove it, give another \
         password of the store; to replace the given password, use `onefold key passwd`"
    )]
    CurrentKey {
        /// The slot's id.
        id: String,
    },
    /// The store to copy from refuses, or is gone. Its data may be whole.
    #[error(
        "the store to copy from cannot be read now: {why}. What was copied before is whole; run the command again when that \
         store can be read, and it resumes"
    )]
    SourceOutage {
        /// The error of that store.
        why: Box<Error>,
    },
    /// The server that has the store, or the connection to it.
    #[error("{why}")]
    Elsewhere {
        /// The reason.
        why: String,
        /// Another connection may do better.
        is_broken: bool,
    },
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether stored data could not be read.
    pub(crate) fn is_of_stored(&self) -> bool {
        match self {
            Self::Restore(error) => !matches!(
                error,
                RestoreError::Interrupted
                    | RestoreError::Full { .. }
                    | RestoreError::Target { .. }
                    | RestoreError::Tree(_)
            ),
            // The tree reads a listing from the store.
            Self::Container(_) | Self::Recipe(_) | Self::Tree(_) | Self::Storage(_) => true,
            _ => false,
        }
    }

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
            // If an object is missing, that is damage, whichever object it is.
            Self::Storage(StorageError::NoFolder { .. } | StorageError::NoBucket { .. }) => {
                ErrorKind::NoStore
            }
            Self::Ingest(IngestError::Interrupted)
            | Self::Restore(RestoreError::Interrupted)
            | Self::Reclaim(reclaim::ReclaimError::Interrupted) => ErrorKind::Interrupted,
            Self::SourceOutage { why } => why.kind(),
            _ => ErrorKind::Other,
        }
    }

    /// Whether the disk was full, in whichever layer the error began.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        self.of_storage()
            .is_some_and(|error| matches!(error, StorageError::NoSpace { .. }))
    }

    /// Whether the storage itself failed: it may do better later.
    #[must_use]
    pub fn is_of_storage(&self) -> bool {
        self.of_storage().is_some()
    }

    /// Whether the storage as a whole refused or was gone, in whichever layer of reading the error
    /// began.
    pub(crate) fn is_outage(&self) -> bool {
        let cause = match self {
            Self::Recipe(error) => of_recipe(error),
            Self::Restore(error) => of_restore(error),
            other => other.of_storage(),
        };
        cause.is_some_and(StorageError::is_outage)
    }

    /// The storage's own error, if it was the cause.
    fn of_storage(&self) -> Option<&StorageError> {
        match self {
            Self::Storage(error)
            | Self::Ingest(IngestError::Storage(error))
            | Self::Restore(RestoreError::Storage(error))
            | Self::Reclaim(ReclaimError::Storage(error)) => Some(error),
            Self::Object(error) | Self::Reclaim(ReclaimError::Object(error)) => of_object(error),
            Self::Session(error) | Self::Reclaim(ReclaimError::Session(error)) => of_session(error),
            Self::Container(error)
            | Self::Reclaim(ReclaimError::Container(error))
            | Self::Index(IndexError::Container(error))
            | Self::Reclaim(ReclaimError::Index(IndexError::Container(error))) => of_container(error),
            Self::Index(IndexError::Storage(error))
            | Self::Reclaim(ReclaimError::Index(IndexError::Storage(error))) => Some(error),
            _ => None,
        }
    }
}

fn of_session(error: &SessionError) -> Option<&StorageError> {
    match error {
        SessionError::Storage(error) => Some(error),
        SessionError::Object(error) => of_object(error),
        SessionError::Unconfirmed { source, .. } | SessionError::NotTakenBack { source, .. } => {
            of_session(source)
        }
        _ => None,
    }
}

fn of_object(error: &ObjectError) -> Option<&StorageError> {
    match error {
        ObjectError::Storage(error) => Some(error),
        _ => None,
    }
}

fn of_restore(error: &RestoreError) -> Option<&StorageError> {
    match error {
        RestoreError::Storage(error) => Some(error),
        RestoreError::Container(error) => of_container(error),
        RestoreError::Recipe(error) => of_recipe(error),
        RestoreError::LostPart { error, .. } | RestoreError::Lost { error, .. } => of_restore(error),
        _ => None,
    }
}

fn of_recipe(error: &RecipeError) -> Option<&StorageError> {
    match error {
        RecipeError::Container(error) => of_container(error),
        _ => None,
    }
}

fn of_container(error: &ContainerError) -> Option<&StorageError> {
    match error {
        ContainerError::Storage(error) => Some(error),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_is_missing_is_no_missing_store() -> std::result::Result<(), types::NameError> {
        for name in ["data/1/2.0", "backups/ab/1.0", "config/0.0"] {
            let name = types::ObjectName::new(name)?;
            let error = Error::from(StorageError::NotFound { name: name.clone() });
            assert_eq!(error.kind(), ErrorKind::Other);
            assert!(error.to_string().contains(name.as_str()), "{error}");
        }
        for action in ["open", "create"] {
            let gone = StorageError::Io {
                action,
                name: "data/1/2.0".to_owned(),
                source: std::io::ErrorKind::NotFound.into(),
            };
            assert_eq!(Error::from(gone).kind(), ErrorKind::Other);
        }
        let folder = "/backup".to_owned();
        let gone = Error::from(StorageError::NoFolder { folder });
        assert_eq!(gone.kind(), ErrorKind::NoStore);
        Ok(())
    }
}
