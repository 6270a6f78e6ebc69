//! Errors; there are few, since an index may always forget (INV-4).

use container::ContainerError;
use env::StorageError;
use types::ObjectName;

/// An operation of the index that did not succeed. Damage of the index itself is not among these:
/// it is a [`Warning`], and costs only time or deduplication.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The storage of the index, or of the containers, does not answer.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// A container could not be read for a reason that is not its own damage.
    #[error(transparent)]
    Container(#[from] ContainerError),
    /// All numbers for runs over these sessions are in use.
    #[error("{name}: no free number for another run of the index; delete the folder index/ of the store")]
    TooManyRuns {
        /// The last name tried.
        name: ObjectName,
    },
}

/// Something that was ignored, and what it costs. Shown to the user; nothing stops because of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// A run cannot be used: damaged, truncated, another store's, or of a later format.
    BadRun {
        /// The object.
        name: ObjectName,
        /// What is wrong with it.
        why: String,
    },
    /// A container's catalog could not be read while its hooks were added; its chunks are not
    /// found.
    BadCatalog {
        /// The container.
        container: types::ContainerId,
        /// What is wrong with it.
        why: String,
    },
    /// The storage did not give a container's catalog. It is remembered, and later calls try again
    /// now and then.
    UnreadCatalog {
        /// The container.
        container: types::ContainerId,
        /// What the storage says.
        why: String,
    },
    /// A container that a manifest names is not there: reclaimed, as a rule, since no backup
    /// reached it.
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

    /// The container that it is about, and what is wrong with it.
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
