//! Errors of sessions, sorted by what a caller would do.

use std::fmt;
use std::time::Duration;

use env::StorageError;
use format::FormatError;
use format::manifest::Manifest;
use format::names::{self, LeaseRole};
use object::ObjectError;
use types::SessionId;

use crate::damaged::DamagedObject;

/// How a session was ended, when it did not end itself.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndedBy {
    /// It was found dead, or did not answer an epoch.
    Expired {
        /// The session that ended it.
        by: SessionId,
    },
    /// A later session of the series took over its data.
    Adopted {
        /// The session that took over.
        by: SessionId,
        /// The checkpoint that was taken over, if there was one.
        checkpoint: Option<u32>,
    },
    /// It became a backup, though the caller took it for dead.
    Committed,
    /// The manifest that ended it cannot be read.
    Unreadable,
    /// It was found dead so long ago that even its ending was deleted.
    LongAgo,
}

impl EndedBy {
    pub(crate) fn of(manifest: &Manifest) -> Self {
        match manifest {
            Manifest::Expired { by } => Self::Expired { by: *by },
            Manifest::Adopted { by, checkpoint } => Self::Adopted {
                by: *by,
                checkpoint: *checkpoint,
            },
            Manifest::Commit(_) | Manifest::Forgotten | Manifest::Revised(_) => Self::Committed,
        }
    }
}

impl fmt::Display for EndedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { by } => write!(f, "session {by} took it for dead and expired it"),
            Self::Adopted {
                by,
                checkpoint: Some(k),
            } => {
                write!(
                    f,
                    "session {by} took it for dead and carries on from its checkpoint {k}"
                )
            }
            Self::Adopted { by, checkpoint: None } => {
                write!(f, "session {by} took it for dead and starts anew in its place")
            }
            Self::Committed => write!(f, "it is a backup already"),
            Self::Unreadable => write!(f, "the manifest that ends it exists and cannot be read"),
            Self::LongAgo => write!(
                f,
                "it was taken for dead, and so long ago by the storage's clock that its claim is gone; see that the \
                 clocks of this host and of the storage are right"
            ),
        }
    }
}

/// A session's or manifest's operation that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A sealed object could not be written.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// The storage failed. Retry if the storage's error says so.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The caller's values cannot be stored.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// Another session ended this one. Nothing more of it becomes a backup. A new session may
    /// begin.
    #[error("session {session} was ended: {how}. It stores nothing more; run the backup again")]
    EndedElsewhere {
        /// The session.
        session: SessionId,
        /// How it was ended, and by which session.
        how: EndedBy,
    },
    /// The session could put no heartbeat for so long that it must count as ended.
    #[error(
        "session {session} could not write a heartbeat for {} minutes and has given up; run the backup again",
        silent.as_secs() / 60
    )]
    GaveUp {
        /// The session.
        session: SessionId,
        /// How long it put no heartbeat.
        silent: Duration,
    },
    /// The storage failed when the manifest of a backup may have existed already.
    #[error(
        "backup {session} may be stored, but the storage did not confirm it: {source}. When the storage answers again, \
         run the backup again, even if `onefold snapshots` lists this one: what is stored is not stored twice"
    )]
    Unconfirmed {
        /// The session, and the backup's id.
        session: SessionId,
        /// What failed.
        source: Box<SessionError>,
    },
    /// The session counted as dead long ago, and the backup that it then became could not be
    /// forgotten.
    #[error(
        "backup {session} was made by a session that had been taken for dead, so that some of it may be gone, and it could \
         not be taken back: {source}. Forget it (`onefold forget {session}`), and run the backup again"
    )]
    NotTakenBack {
        /// The session, and the backup's id.
        session: SessionId,
        /// What failed.
        source: Box<SessionError>,
    },
    /// The session was used after its own end.
    #[error("session {session} has ended already")]
    Closed {
        /// The session.
        session: SessionId,
    },
    /// The caller broke a rule of the protocol; a defect of this program.
    #[error("session {session}: {rule}")]
    Misuse {
        /// The session.
        session: SessionId,
        /// Which rule.
        rule: &'static str,
    },
    /// There is no such backup.
    #[error("no backup {asked}{among}; list the backups to see what there is")]
    NoBackup {
        /// The requested backup.
        asked: String,
        /// The backups that were considered, in words.
        among: String,
    },
    /// The backup was forgotten.
    #[error("backup {session} is forgotten")]
    Forgotten {
        /// The backup.
        session: SessionId,
    },
    /// An object cannot be read: rot, a torn write, a foreign file, or a later format.
    #[error("{0}")]
    Damaged(DamagedObject),
    /// An unreadable manifest may be of a later backup than the latest readable one.
    #[error("{}", in_doubt(damaged, *latest, among))]
    LatestInDoubt {
        /// The manifest.
        damaged: DamagedObject,
        /// The latest readable one, if any.
        latest: Option<SessionId>,
        /// The backups that were considered, in words.
        among: String,
    },
    /// Other processes got ahead too many times.
    #[error("{name}: others create the same names all the time; run the command again")]
    Contended {
        /// The last name that another process took.
        name: String,
    },
    /// A running session holds the lease.
    #[error("{} is being done by session {holder}; wait for it, or run the command again later", role.word())]
    LeaseTaken {
        /// The role of the lease.
        role: LeaseRole,
        /// The holder.
        holder: SessionId,
    },
    /// The session cannot be adopted, or not by this one.
    #[error("session {session} cannot be taken over: {why}")]
    NotAdoptable {
        /// The session that would be adopted.
        session: SessionId,
        /// Why not.
        why: &'static str,
    },
    /// No number is left for a new session.
    #[error("the store has no session numbers left")]
    NumbersExhausted,
    /// No thread could be started.
    #[error("no thread for heartbeats: {source}")]
    Thread {
        /// The system's error.
        source: std::io::Error,
    },
}

/// Shorthand within this crate.
pub(crate) type Result<T, E = SessionError> = std::result::Result<T, E>;

fn in_doubt(damaged: &DamagedObject, latest: Option<SessionId>, among: &str) -> String {
    let what = if damaged.is_unread {
        "cannot be read now"
    } else {
        "is damaged"
    };
    let readable = match latest {
        Some(latest) => format!("of those that can be read, {latest} is the latest: name it by its number"),
        None => "no other can be read".to_owned(),
    };
    let besides = match (damaged.is_unread, names::parse_manifest(&damaged.name)) {
        (false, Some((_, session, _))) => format!("forget the damaged one (`onefold forget {session}`)"),
        _ => "run the command again".to_owned(),
    };
    format!("{damaged}: this may be the latest backup{among}, and {what}; {readable}, or {besides}")
}

impl SessionError {
    /// Whether the storage refused this client a right.
    #[must_use]
    pub fn is_no_right(&self) -> bool {
        match self {
            Self::Storage(error) | Self::Object(ObjectError::Storage(error)) => error.is_no_right(),
            _ => false,
        }
    }
}
