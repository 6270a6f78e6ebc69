//! Errors. There are few, since an index may forget at any time (INV-4).

use container::ContainerError;
use env::StorageError;
use types::ObjectName;

/// A failed operation of the index. Damage of the index itself is no error: it is a [`Warning`],
/// and costs only time or deduplication.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The storage of the index, or of the containers, does not answer.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A container could not be read for another reason than its own damage.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// All numbers for runs over these sessions are in use.
    #[error("{name}: no free number for another run of the index; delete the folder index/ of the store")]
    TooManyRuns {
        /// The last name tried.
        name: ObjectName,
    },
}

/// A problem that was ignored, and its cost. The user sees it, but no operation fails because of
/// it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A run cannot be used: it is damaged, truncated, of another store, or of a later format.
    BadRun {
        /// The object.
        name: ObjectName,
        /// The problem.
        why: String,
    },
    /// A container's catalog could not be read when its hooks were added. Its chunks are not found.
    BadCatalog {
        /// The container.
        container: types::ContainerId,
        /// The problem.
        why: String,
    },
    /// The storage could not read a container's catalog. The index remembers it, and tries again
    /// from time to time.
    UnreadCatalog {
        /// The container.
        container: types::ContainerId,
        /// The storage's error.
        why: String,
    },
    /// A container in a manifest does not exist. Usually it was reclaimed, since no backup reached
    /// it.
    MissingContainer {
        /// The container.
        container: types::ContainerId,
    },
}

impl Warning {
    /// A stable word for the variant.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::BadRun { .. } => "index_run_damaged",
            Self::BadCatalog { .. } => "catalog_damaged",
            Self::UnreadCatalog { .. } => "catalog_unread",
            Self::MissingContainer { .. } => "container_missing",
        }
    }

    /// The container of the warning, and the problem.
    #[must_use]
    pub fn of_container(&self) -> Option<(types::ContainerId, String)> {
        match self {
            Self::BadRun { .. } => None,
            Self::BadCatalog { container, why } | Self::UnreadCatalog { container, why } => {
                Some((*container, why.clone()))
            }
            Self::MissingContainer { container } => Some((*container, "missing from the store".to_owned())),
        }
    }
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BadRun { name, why } => write!(f, "{name}: ignored and rebuilt: {why}"),
            Self::BadCatalog { container, why } => {
                write!(f, "{container}: not in the index until it is repaired: {why}")
            }
            Self::UnreadCatalog { container, why } => {
                write!(f, "{container}: not in the index until it can be read: {why}")
            }
            Self::MissingContainer { container } => write!(f, "{container}: missing from the store"),
        }
    }
}
