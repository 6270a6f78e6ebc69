//! Errors of reclaiming space.

use container::ContainerError;
use env::StorageError;
use object::ObjectError;
use recipe::RecipeError;
use session::SessionError;
use types::SessionId;

/// Reclaiming failed. The store is as readable as before, and another run continues.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReclaimError {
    /// The storage.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A small object.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// Sessions, manifests, the lease.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A container.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// The index.
    #[error(transparent)]
    Index(#[from] index::IndexError),
    /// It is not known what a backup reaches.
    #[error(
        "which data backup {backup} needs is not known, so nothing may be removed: {source}. Run `onefold check`, and \
         forget the backups that it names as damaged"
    )]
    Unmarkable {
        /// The backup, or the session that refers to it.
        backup: SessionId,
        /// What is wrong.
        source: RecipeError,
    },
    /// A backup cannot be rewritten as an archival one.
    #[error("backup {backup} cannot be made archival: {source}. Run `onefold check`")]
    NotRewritten {
        /// The backup.
        backup: SessionId,
        /// What is wrong.
        source: RecipeError,
    },
    /// The layout of a backup cannot be repaired, or a backup that shares chunks with it cannot be
    /// read.
    #[error(
        "backup {backup} cannot be rewritten, so the layout is not repaired: {source}. Run `onefold check`"
    )]
    NotRepaired {
        /// The backup.
        backup: SessionId,
        /// What is wrong.
        source: RecipeError,
    },
    /// Rewriting needs more chunks or nodes than one session may write.
    #[error(
        "backup {backup} cannot be rewritten, because that needs more containers than one session may write"
    )]
    TooLarge {
        /// The backup.
        backup: SessionId,
    },
    /// Manifests that cannot be read.
    #[error(
        "{what}. Which data it needs is not known, so nothing may be removed. Run `onefold check`, and forget that \
         backup if it is lost"
    )]
    DamagedManifest {
        /// Which, and what is wrong with it.
        what: String,
    },
    /// The storage does not give a manifest, now or for good.
    #[error(
        "{what}. Which data it needs is not known now, so nothing may be removed. Run the command again when the storage \
         can be read. If that manifest is lost for good, run `onefold forget --force-unreadable`"
    )]
    UnreadManifest {
        /// Which, and what the storage says.
        what: String,
    },
    /// An object that reclamation needs cannot be read.
    #[error("{what}. Nothing was removed")]
    Damaged {
        /// Which, and what is wrong with it.
        what: String,
    },
    /// Another reclaimer got ahead.
    #[error("another prune works on this store. Run the command again when that one has ended")]
    Overtaken,
    /// The caller asked to stop.
    #[error("interrupted. The next prune finishes the work that was begun")]
    Interrupted,
}

impl ReclaimError {
    /// Whether the storage had no room.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(
            self,
            Self::Storage(StorageError::NoSpace { .. })
                | Self::Object(ObjectError::Storage(StorageError::NoSpace { .. }))
                | Self::Container(ContainerError::Storage(StorageError::NoSpace { .. }))
                | Self::Index(index::IndexError::Storage(StorageError::NoSpace { .. }))
                | Self::Session(
                    SessionError::Storage(StorageError::NoSpace { .. })
                        | SessionError::Object(ObjectError::Storage(StorageError::NoSpace { .. }))
                )
        )
    }

    /// Whether a stored object is missing or cannot be read, so that it is not known what is in
    /// use.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Unmarkable { .. }
                | Self::DamagedManifest { .. }
                | Self::UnreadManifest { .. }
                | Self::Damaged { .. }
                | Self::Session(SessionError::Damaged(_) | SessionError::NoBackup { .. })
        )
    }
}

/// Results of this crate.
pub type Result<T, E = ReclaimError> = std::result::Result<T, E>;
