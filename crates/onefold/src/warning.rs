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
        "the first copy of container {container} is damaged ({why}). The second copy was read, so nothing is missing; \
         run `onefold check --read-data` to find other damage"
    )]
    MirrorRead {
        /// The container.
        container: ContainerId,
        /// What is wrong with the first copy.
        why: String,
    },
    /// A container was found damaged for the first time.
    #[error(
        "container {container} is damaged, and is now on the list of damage. The next backup of the same data stores it \
         again, and heals the older backups. `onefold check --read-data` names the files"
    )]
    ContainerDamaged {
        /// The container.
        container: ContainerId,
    },
    /// Damage of earlier backups could not be healed.
    #[error("the damage of earlier backups could not be healed: {why}. The next prune tries again")]
    NotHealed {
        /// Why not.
        why: String,
    },
    /// A repair keeps a backup and its copy.
    #[error("backup {copy}, a copy of backup {of}, stays: {why}")]
    CopyStays {
        /// The copy.
        copy: SessionId,
        /// The other one.
        of: SessionId,
        /// Why.
        why: &'static str,
    },
    /// Damage that a reader met could not be listed for other commands.
    #[error(
        "the damage that this command met could not be put on the list of damage: {why}. \
         Run `onefold check --read-data`, which lists it"
    )]
    MetNotListed {
        /// Why not.
        why: String,
    },
    /// Damage that a check found could not be listed for other commands.
    #[error(
        "the damage that was found could not be put on the list of damage: {why}. Run the check again before the next \
         backup, which may otherwise refer to damaged data"
    )]
    FoundNotListed {
        /// Why not.
        why: String,
    },
    /// A revision of the settings of a series cannot be read.
    #[error("{why}. So older settings or the default apply; set them again with `onefold series set`")]
    SettingsUnread {
        /// What is wrong, with the object's name.
        why: String,
    },
    /// A manifest of the series that is backed up is lost.
    #[error(
        "{lost}. It may be the latest backup of the series before this one. So this backup was built upon an older one, \
         or upon none. Run `onefold check`"
    )]
    ManifestLost {
        /// The object, with what is wrong.
        lost: String,
    },
    /// The newest revision of a backup is damaged, and a repair put another one above it, or a copy
    /// in the backup's place.
    #[error(
        "{why}. It was the newest manifest revision of backup {backup}, so the last change of its tags or hold may be \
         lost. Look at it with `onefold snapshots`, and set them again with `onefold tag` and `onefold hold`"
    )]
    RevisionLost {
        /// The backup.
        backup: SessionId,
        /// The object, with what is wrong.
        why: String,
    },
    /// A dead session could not be taken over, because an ending cannot be read.
    #[error("{why}. So this backup took over no data of that session, and may store some of it again")]
    NotAdopted {
        /// What is wrong, with the object's name.
        why: String,
    },
    /// The reserve for a full disk could not be made, or could not grow.
    #[error("the reserve for a full disk could not be made: {why}. The next backup or prune tries again")]
    NoReserve {
        /// Why not.
        why: String,
    },
    /// The disk is too full for the reserve.
    #[error("the disk has no room for the reserve yet. So the next prune may need some free space")]
    NoRoomForReserve,
    /// The runs of the index could not be merged. The next backup tries again.
    #[error("the runs of the index could not be merged: {why}. The next backup tries again")]
    IndexNotMerged {
        /// Why not.
        why: String,
    },
    /// The hooks of a backup are not in the index yet. The next backup adds them.
    #[error("this backup is not in the index yet: {why}. The next backup adds it")]
    IndexNotUpdated {
        /// Why not.
        why: String,
    },
    /// Small objects of ended sessions stay until a later session removes them.
    #[error("small objects of ended sessions could not be deleted: {why}. A later session deletes them")]
    TracesLeft {
        /// Why they stay.
        why: String,
    },
    /// A damaged copy of the config could not be replaced.
    #[error("a damaged copy of the config could not be replaced: {why}. The next backup tries again")]
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
    #[error(
        "the data that this command reads is not kept if `forget` and `prune` run meanwhile: {why}. \
         Do not run them before it has ended"
    )]
    NotPinned {
        /// Why not.
        why: String,
    },
    /// A reader's pin was ended while it read.
    #[error(
        "the data that this command read was not kept to the end: {how}. All bytes that it read are verified"
    )]
    PinLost {
        /// How it was ended.
        how: String,
    },
    /// A reader's session could not be ended.
    #[error("the read session could not be ended: {why}. The next backup ends it")]
    PinNotEnded {
        /// Why not.
        why: String,
    },
    /// Paths were searched for without the fences of the listing.
    #[error(
        "the fences of backup {backup}, which say where in its listing a path begins, could not be used: {why}. So the \
         command read all of the listing up to the requested paths, which takes longer; nothing of the backup is missing"
    )]
    FencesUnread {
        /// The backup.
        backup: SessionId,
        /// What is wrong with the fences.
        why: String,
    },
    /// Restored files have the content of an earlier backup.
    #[error(
        "{files} of the files are of an earlier backup, because they could not be read when backup {backup} was made. \
         `onefold ls --long {backup}` names them"
    )]
    OlderFiles {
        /// The backup.
        backup: SessionId,
        /// Number of files.
        files: u64,
    },
    /// The file that was read has the content of an earlier backup.
    #[error(
        "{}: this is the version of an earlier backup, because the file could not be read when backup {backup} was made",
        String::from_utf8_lossy(path)
    )]
    OlderFile {
        /// The backup.
        backup: SessionId,
        /// The file.
        path: Vec<u8>,
    },
    /// A backup left the windows of its series before `optimize` failed.
    #[error("backup {backup} had left the windows of its series, and `optimize` forgot it before it failed")]
    ExpiredAllTheSame {
        /// The backup.
        backup: SessionId,
    },
    /// A backup has left the window of its series, and may be held.
    #[error(
        "backup {backup} has left the window of its series, but stays: its newest manifest revision cannot be read, and \
         may be a hold. If it is not held, run `onefold unhold {backup}`"
    )]
    MayBeHeld {
        /// The backup.
        backup: SessionId,
    },
    /// A folder of a restore that deletes is on another mount.
    #[error(
        "{}: another file system is mounted there, or a folder is bound there, so nothing is deleted in it. The backup may \
         have this folder empty, because `backup -x` did not read that file system",
        String::from_utf8_lossy(path)
    )]
    MountSpared {
        /// The folder, as the backup has its path.
        path: Vec<u8>,
    },
    /// A backup was held or tagged after the decision to forget it.
    #[error("somebody held or tagged backup {backup} meanwhile, so it stays. The next run decides anew")]
    RevisedMeanwhile {
        /// The backup.
        backup: SessionId,
    },
    /// A backup is due and its newest manifest revision cannot be read.
    #[error("{why}. So backup {backup} stays as it is until that revision can be read")]
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
            Self::CopyStays { .. } => "copy_stays",
            Self::MetNotListed { .. } | Self::FoundNotListed { .. } => "damage_not_listed",
            Self::SettingsUnread { .. } => "settings_unread",
            Self::ManifestLost { .. } => "manifest_lost",
            Self::RevisionLost { .. } => "revision_lost",
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
            Self::MountSpared { .. } => "mount_spared",
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
