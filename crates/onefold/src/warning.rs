//! Warnings: facts that an operation reports besides its result.

use container::MirrorRead;
use session::SessionError;
use types::{ContainerId, ObjectName, SessionId};

/// An error that did not affect the result of an operation. A variant says what happened. Causes
/// are words, because a cause may come from any layer. `Display` gives the sentence for people, and
/// [`Warning::kind`] a stable word for programs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A prune or a rewrite could not do something.
    #[error(transparent)]
    Reclaim(#[from] reclaim::Warning),
    /// A part of the index cannot be used.
    #[error("{0}")]
    Index(index::Warning),
    /// The second copy of a container was read, because the first one is damaged.
    #[error(
        "container {container}: its first copy is damaged ({why}), the second one was read and nothing is missing; \
         `onefold check --read-data` finds what else is damaged"
    )]
    MirrorRead {
        /// The container.
        container: ContainerId,
        /// What is wrong with the first copy.
        why: String,
    },
    /// A container was found damaged for the first time.
    #[error(
        "{container} is damaged, and is listed as such: the next backup of what lay there stores it again, and heals the older \
         ones; `onefold check --read-data` names the files"
    )]
    ContainerDamaged {
        /// The container.
        container: ContainerId,
    },
    /// Damage of earlier backups could not be healed.
    #[error("what is damaged of earlier backups could not be healed: {why}; the next prune tries again")]
    NotHealed {
        /// Why not.
        why: String,
    },
    /// Damage that a reader met could not be listed for other commands.
    #[error("what could not be read could not be listed as damaged: {why}")]
    MetNotListed {
        /// Why not.
        why: String,
    },
    /// Damage that a check found could not be listed for other commands.
    #[error("what is damaged could not be listed for the next backup, which may refer to it: {why}")]
    FoundNotListed {
        /// Why not.
        why: String,
    },
    /// A revision of the settings of a series cannot be read.
    #[error("{why}")]
    SettingsUnread {
        /// What is wrong, with the object's name.
        why: String,
    },
    /// A manifest of the series that is backed up is lost.
    #[error(
        "{lost}; this may be the latest backup before this one, which was built upon an older one, or upon none"
    )]
    ManifestLost {
        /// The object, with what is wrong.
        lost: String,
    },
    /// A dead session could not be taken over, because an ending cannot be read.
    #[error("{why}")]
    NotAdopted {
        /// What is wrong, with the object's name.
        why: String,
    },
    /// The reserve for a full disk could not be made, or could not grow.
    #[error("the reserve could not be made: {why}")]
    NoReserve {
        /// Why not.
        why: String,
    },
    /// The disk is too full for the reserve.
    #[error("there is no room for the reserve yet; the next prune may need some free space")]
    NoRoomForReserve,
    /// The runs of the index could not be merged. The next backup tries again.
    #[error("{why}")]
    IndexNotMerged {
        /// Why not.
        why: String,
    },
    /// The hooks of a backup are not in the index yet. The next backup adds them.
    #[error("{why}")]
    IndexNotUpdated {
        /// Why not.
        why: String,
    },
    /// Small objects of ended sessions stay until a later session removes them.
    #[error("{why}")]
    TracesLeft {
        /// Why they stay.
        why: String,
    },
    /// A damaged copy of the config could not be replaced.
    #[error("{why}")]
    ConfigNotMended {
        /// Why not.
        why: String,
    },
    /// A warning of the server that has the store, in its words.
    #[error("{why}")]
    Server {
        /// What it says.
        why: String,
    },
    /// A reader works without a pin.
    #[error("what is read is not kept, should `forget` and `prune` run now: {why}")]
    NotPinned {
        /// Why not.
        why: String,
    },
    /// A reader's pin was ended while it read.
    #[error("what was read was not kept to the end: {how}; all that was read is verified")]
    PinLost {
        /// How it was ended.
        how: String,
    },
    /// A reader's session could not be ended.
    #[error("ending the read session failed; the next backup ends it: {why}")]
    PinNotEnded {
        /// Why not.
        why: String,
    },
    /// Paths were searched for without the fences of the listing.
    #[error(
        "the listing of backup {backup} was read up to the paths asked for, which takes longer: {why}; nothing of the \
         backup is missing for it"
    )]
    FencesUnread {
        /// The backup.
        backup: SessionId,
        /// What is wrong with the fences.
        why: String,
    },
    /// Restored files have the content of an earlier backup.
    #[error(
        "{files} of the files could not be read when backup {backup} was made and are of an earlier backup; `onefold ls --long {backup}` says which"
    )]
    OlderFiles {
        /// The backup.
        backup: SessionId,
        /// Number of files.
        files: u64,
    },
    /// The file that was read has the content of an earlier backup.
    #[error(
        "{}: could not be read when backup {backup} was made; this is the version of an earlier backup",
        String::from_utf8_lossy(path)
    )]
    OlderFile {
        /// The backup.
        backup: SessionId,
        /// The file.
        path: Vec<u8>,
    },
    /// A backup left the windows of its series before `optimize` failed.
    #[error("backup {backup} had left the windows of its series, and is forgotten all the same")]
    ExpiredAllTheSame {
        /// The backup.
        backup: SessionId,
    },
    /// A backup has left the window of its series, and may be held.
    #[error(
        "backup {backup} has left the window of its series and stays: its newest manifest revision cannot be read and may be a \
         hold"
    )]
    MayBeHeld {
        /// The backup.
        backup: SessionId,
    },
    /// A backup was held or tagged after the decision to forget it.
    #[error("backup {backup} was held or tagged by somebody meanwhile, and stays; the next run decides anew")]
    RevisedMeanwhile {
        /// The backup.
        backup: SessionId,
    },
    /// A backup is due and its newest manifest revision cannot be read.
    #[error("{why}: backup {backup} stays as it is for now")]
    BackupUnread {
        /// The backup.
        backup: SessionId,
        /// The revision.
        object: ObjectName,
        /// What is wrong with it.
        why: String,
    },
}

impl Warning {
    /// A stable word for the variant. For [`Self::Reclaim`] and [`Self::Index`], the word for the
    /// variant within.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Reclaim(warning) => warning.kind(),
            Self::Index(warning) => warning.kind(),
            Self::MirrorRead { .. } => "mirror_read",
            Self::ContainerDamaged { .. } => "container_damaged",
            Self::NotHealed { .. } => "not_healed",
            Self::MetNotListed { .. } | Self::FoundNotListed { .. } => "damage_not_listed",
            Self::SettingsUnread { .. } => "settings_unread",
            Self::ManifestLost { .. } => "manifest_lost",
            Self::NotAdopted { .. } => "not_adopted",
            Self::NoReserve { .. } | Self::NoRoomForReserve => "no_reserve",
            Self::IndexNotMerged { .. } => "index_not_merged",
            Self::IndexNotUpdated { .. } => "index_not_updated",
            Self::TracesLeft { .. } => "traces_left",
            Self::ConfigNotMended { .. } => "config_not_mended",
            Self::NotPinned { .. } => "not_pinned",
            Self::PinLost { .. } => "pin_lost",
            Self::PinNotEnded { .. } => "pin_not_ended",
            Self::FencesUnread { .. } => "fences_unread",
            Self::OlderFiles { .. } | Self::OlderFile { .. } => "older_files",
            Self::ExpiredAllTheSame { .. } => "expired_all_the_same",
            Self::MayBeHeld { .. } => "may_be_held",
            Self::RevisedMeanwhile { .. } => "revised_meanwhile",
            Self::BackupUnread { .. } => "backup_unread",
            Self::Server { .. } => "server",
        }
    }

    pub(crate) fn mirror_read(read: &MirrorRead) -> Self {
        Self::MirrorRead {
            container: read.container,
            why: read.why.clone(),
        }
    }

    pub(crate) fn traces_left(why: &SessionError) -> Self {
        Self::TracesLeft { why: why.to_string() }
    }

    pub(crate) fn container_damaged(container: ContainerId) -> Self {
        Self::ContainerDamaged { container }
    }
}
