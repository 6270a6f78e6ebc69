//! The findings of a check.

use types::{ContainerId, ObjectName, SessionId};

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// The object, or the container, and which copy of it.
    pub object: String,
    /// What is wrong with it.
    pub what: Damage,
    /// Whether a second copy covers it, so that nothing is lost yet.
    pub is_covered: bool,
}

/// The damage of an object or a container. Causes are words, because they come from any layer.
/// `Display` gives the sentence for people, and [`Damage::kind`] a stable word for programs.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error, serde::Serialize, serde::Deserialize,
)]
#[non_exhaustive]
pub enum Damage {
    /// A copy of the config is damaged or missing.
    #[error("{why}")]
    ConfigCopy {
        /// What is wrong.
        why: String,
    },
    /// A change of passwords has left the config that it replaced.
    #[error(
        "a change of passwords ended before it deleted this: a password that was removed still opens it; \
         `onefold repair` deletes it"
    )]
    ConfigOld,
    /// A small object cannot be read.
    #[error("{why}")]
    ObjectUnread {
        /// What is wrong.
        why: String,
    },
    /// A manifest revision cannot be read, for good.
    #[error("{why}")]
    ManifestDamaged {
        /// What is wrong.
        why: String,
    },
    /// A manifest revision was torn by a crash before anybody could read it.
    #[error("{why}")]
    ManifestTorn {
        /// What is wrong.
        why: String,
    },
    /// A manifest revision of a backup that is forgotten for good cannot be read.
    #[error("{why}; the backup is forgotten all the same, and `onefold forget {backup}` says so again")]
    TombstoneDamaged {
        /// The backup.
        backup: SessionId,
        /// What is wrong.
        why: String,
    },
    /// The storage does not give a manifest revision now.
    #[error("could not be read now: {why}; {advice}")]
    ManifestUnread {
        /// What the storage says.
        why: String,
        /// The consequence, and what to do.
        advice: String,
    },
    /// A backup has lost its manifest.
    #[error(
        "the backup's manifest is missing; bring it back from a copy of the store, or let the backup go: `onefold forget \
         {backup}`"
    )]
    ManifestMissing {
        /// The backup.
        backup: SessionId,
    },
    /// The manifest revision that forgot a backup is lost.
    #[error("missing: backup {backup} was forgotten by it, and `onefold prune` puts it again")]
    TombstoneMissing {
        /// The backup.
        backup: SessionId,
    },
    /// A manifest revision is lost, and an older one counts.
    #[error(
        "missing: backup {backup} is what it was before this revision, which may have said otherwise of tags, a hold, and \
         where its data are"
    )]
    RevisionMissing {
        /// The backup.
        backup: SessionId,
    },
    /// A session left containers, and neither a heartbeat nor a manifest.
    #[error(
        "missing, and session {session} left {containers} containers and no heartbeat: a power cut ended it, or the \
         backup's manifest was lost"
    )]
    SessionWithoutEnd {
        /// The session.
        session: SessionId,
        /// Containers that it stored.
        containers: u64,
    },
    /// An epoch of reclamation is open.
    #[error(
        "reclamation has not ended: a prune is running, or was interrupted; then run `onefold prune` again"
    )]
    EpochOpen,
    /// A container that a backup names does not exist.
    #[error("the container is missing")]
    ContainerMissing,
    /// A container has one copy where it should have two.
    #[error("the container's mirror copy is missing")]
    MirrorMissing,
    /// The two copies of a container differ.
    #[error("the mirror copy and {main} differ")]
    MirrorDiffers {
        /// The first copy.
        main: ObjectName,
    },
    /// The object with the chunks of a trimmed container is missing.
    #[error("the object that its chunks are in is missing: {body}")]
    BodyMissing {
        /// Its name.
        body: ObjectName,
    },
    /// A container cannot be read, in whole or in part.
    #[error("{why}")]
    ContainerDamaged {
        /// What is wrong, with the slots.
        why: String,
    },
    /// A node of a recipe cannot be read, or differs from the references to it.
    #[error("{why}")]
    NodeDamaged {
        /// What is wrong.
        why: String,
    },
    /// The second copy of a catalog differs from the catalog.
    #[error("the copy of {container}'s catalog differs from it")]
    CatalogCopyDiffers {
        /// The container of the catalog.
        container: ContainerId,
    },
}

impl Damage {
    /// A stable word for the variant.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::ConfigCopy { .. } => "config_copy",
            Self::ConfigOld => "config_old",
            Self::ObjectUnread { .. } => "object_unread",
            Self::ManifestDamaged { .. } => "manifest_damaged",
            Self::ManifestTorn { .. } => "manifest_torn",
            Self::TombstoneDamaged { .. } => "tombstone_damaged",
            Self::ManifestUnread { .. } => "manifest_unread",
            Self::ManifestMissing { .. } => "manifest_missing",
            Self::TombstoneMissing { .. } => "tombstone_missing",
            Self::RevisionMissing { .. } => "revision_missing",
            Self::SessionWithoutEnd { .. } => "session_without_end",
            Self::EpochOpen => "epoch_open",
            Self::ContainerMissing => "container_missing",
            Self::MirrorMissing => "mirror_missing",
            Self::MirrorDiffers { .. } => "mirror_differs",
            Self::BodyMissing { .. } => "body_missing",
            Self::ContainerDamaged { .. } => "container_damaged",
            Self::NodeDamaged { .. } => "node_damaged",
            Self::CatalogCopyDiffers { .. } => "catalog_copy_differs",
        }
    }

    pub(super) fn container(why: impl ToString) -> Self {
        Self::ContainerDamaged { why: why.to_string() }
    }
}
