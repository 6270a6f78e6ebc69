//! Warnings of a run: what it could not do, or did besides, while the rest continued.

use container::ContainerError;
use types::{ContainerId, SeriesId, SessionId};

/// A fact that a run reports besides its result. A variant says what happened. Causes are words,
/// because a cause may come from any layer. `Display` gives the sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A full disk has no room for the list of containers whose generations are to be united.
    #[error(
        "the disk has no room for the list of containers whose generations are to be united. Free some space, and run \
         `onefold prune` again"
    )]
    NoRoomToList,
    /// A rewritten container is not in the index.
    #[error("{why}. So the rewritten containers are not in the index; `onefold index rebuild` adds them")]
    NotIndexed {
        /// Why not.
        why: String,
    },
    /// A list of removed slots cannot be read.
    #[error("{why}. So all containers are examined instead, which takes longer")]
    RemovedListUnread {
        /// What is wrong, with the object's name.
        why: String,
    },
    /// Marks of a group of backups cannot be read.
    #[error(
        "the marks of the backups from {first} on of series {series} cannot be read. So all containers are examined \
         instead, which takes longer"
    )]
    MarksUnread {
        /// The group's series.
        series: SeriesId,
        /// The first backup of the group.
        first: SessionId,
    },
    /// A lost tombstone was put again.
    #[error(
        "backup {backup} was forgotten, and the manifest revision that said so was lost. This run put it again"
    )]
    TombstoneRestored {
        /// The backup.
        backup: SessionId,
    },
    /// Another prune held the lease, and no lock showed whether it lives: it is on another host, or
    /// the storage has no locks. So this one waited to see whether it is dead.
    #[error(
        "waited for the prune of session {session}: no lock shows here whether it lives, so it counts as dead after \
         {minutes} minutes of silence"
    )]
    WaitedForPrune {
        /// The other prune's session.
        session: SessionId,
        /// How long it must be silent.
        minutes: u64,
    },
    /// A committed rewrite of a dead process could not be completed.
    #[error("an `optimize` died, and its work could not be completed: {why}. The next prune tries again")]
    RewriteNotCompleted {
        /// Why not.
        why: String,
    },
    /// A rewrite is committed, and a backup cannot get its new roots yet.
    #[error(
        "backup {backup} is rewritten, but its newest manifest revision cannot be read now. When it can, run \
         `onefold prune`, which completes the rewrite of session {session}"
    )]
    RewriteWaits {
        /// The backup.
        backup: SessionId,
        /// The session of the rewrite.
        session: SessionId,
    },
    /// A backup cannot be rewritten with the one whose layout is repaired.
    #[error(
        "backup {backup} still refers to the chunks that were copied, because it cannot be rewritten: {why}. \
         Run `onefold check`"
    )]
    BackupNotRewritten {
        /// The backup.
        backup: SessionId,
        /// What cannot be read.
        why: String,
    },
    /// A backup cannot be walked, so what it shares with an archival one is stored twice.
    #[error(
        "which data backup {backup} shares is not known, so some of it may be stored twice: {why}. Run `onefold check`"
    )]
    SharingUnknown {
        /// The backup.
        backup: SessionId,
        /// What cannot be read.
        why: String,
    },
    /// A container's catalog cannot be read, so nothing of it is removed.
    #[error("container {container} stays as it is: {why}. Run `onefold check`")]
    ContainerUnread {
        /// The container.
        container: ContainerId,
        /// What is wrong with it.
        why: String,
    },
}

impl Warning {
    /// A stable word for the variant.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::NoRoomToList => "no_room_to_list",
            Self::NotIndexed { .. } => "not_indexed",
            Self::RemovedListUnread { .. } => "removed_list_unread",
            Self::MarksUnread { .. } => "marks_unread",
            Self::TombstoneRestored { .. } => "tombstone_restored",
            Self::WaitedForPrune { .. } => "waited_for_prune",
            Self::RewriteNotCompleted { .. } => "rewrite_not_completed",
            Self::RewriteWaits { .. } => "rewrite_waits",
            Self::BackupNotRewritten { .. } => "backup_not_rewritten",
            Self::SharingUnknown { .. } => "sharing_unknown",
            Self::ContainerUnread { .. } => "container_unread",
        }
    }

    /// The warning for a container whose catalog cannot be read.
    pub(crate) fn container_unread(container: ContainerId, error: &ContainerError) -> Self {
        Self::ContainerUnread {
            container,
            why: error.to_string(),
        }
    }

    /// The warning for an unreadable removed list.
    pub(crate) fn removed_list_unread(why: &impl ToString) -> Self {
        Self::RemovedListUnread { why: why.to_string() }
    }
}
