//! What a command asks for, and what it is answered. Both travel as JSON over a server's control
//! socket.

use serde::{Deserialize, Serialize};
use volume::{VolumeError, VolumeSettings};

use super::figures::{PoolFigures, VolumeFigures};

/// What is to be done with a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Request {
    /// Tell the pool's figures.
    Stats,
    /// Give the pool so many bytes.
    Grow {
        /// The new size.
        bytes: u64,
    },
    /// Make a volume.
    Create {
        /// Its name.
        name: String,
        /// Its size.
        bytes: u64,
        /// Settings other than the default ones.
        change: Change,
    },
    /// Remove a volume.
    Remove {
        /// Its name.
        name: String,
        /// Also if it holds data.
        force: bool,
    },
    /// Give a volume another size.
    Resize {
        /// Its name.
        name: String,
        /// The new size.
        bytes: u64,
        /// Also if it gets smaller.
        force: bool,
    },
    /// Change settings of a volume.
    Set {
        /// Its name.
        name: String,
        /// The new settings.
        change: Change,
    },
    /// Share what is equal and free the rest.
    Drain {
        /// The volume; `None`: all that share blocks.
        name: Option<String>,
    },
}

/// Settings of a volume that are to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Change {
    pub(crate) deduplicate: Option<bool>,
    pub(crate) compare_bytes: Option<bool>,
    pub(crate) interval_s: Option<u32>,
    pub(crate) quiet_intervals: Option<u8>,
    pub(crate) finder_bytes_per_s: Option<u64>,
}

impl Change {
    /// The settings after the change.
    pub(crate) fn of(self, old: VolumeSettings) -> VolumeSettings {
        VolumeSettings {
            deduplicate: self.deduplicate.unwrap_or(old.deduplicate),
            compare_bytes: self.compare_bytes.unwrap_or(old.compare_bytes),
            interval_s: self.interval_s.unwrap_or(old.interval_s).max(1),
            quiet_intervals: self.quiet_intervals.unwrap_or(old.quiet_intervals),
            finder_bytes_per_s: self.finder_bytes_per_s.unwrap_or(old.finder_bytes_per_s),
        }
    }
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The pool in figures.
    Stats(PoolFigures),
    /// The pool has grown.
    Grown {
        /// Its bytes before.
        before_bytes: u64,
        /// Its bytes now.
        pool_bytes: u64,
    },
    /// A volume as it is now: made, resized or set.
    Volume(Box<VolumeFigures>),
    /// A volume was removed.
    Removed {
        /// The bytes of it that held data.
        mapped_bytes: u64,
    },
    /// The drain ended.
    Drained {
        /// Bytes that were examined.
        examined_bytes: u64,
        /// By so much the pool's shared bytes grew.
        shared_bytes: i64,
        /// By so much the pool's free bytes grew.
        freed_bytes: i64,
    },
}

/// What a program would do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// There is no pool.
    NoPool,
    /// There is no such volume.
    NoVolume,
    /// The name is taken.
    VolumeExists,
    /// A name or number cannot be used.
    Invalid,
    /// It needs `--force`.
    NeedsForce,
    /// A client or another process has it open.
    InUse,
    /// The pool is full.
    NoSpace,
    /// The references must be counted again.
    NeedsRecount,
    /// A newer program made it, or serves it.
    Newer,
    /// The user or the server ended the work.
    Interrupted,
    /// The other side broke the rules of the control socket.
    Protocol,
    /// Something else failed.
    #[serde(other)]
    Failed,
}

/// Why a request was not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Refusal {
    /// The kind.
    pub(crate) kind: Kind,
    /// What happened, to what, and what to do next.
    pub(crate) message: String,
}

impl Refusal {
    /// A refusal with this message.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

impl From<VolumeError> for Refusal {
    fn from(error: VolumeError) -> Self {
        let kind = match &error {
            VolumeError::NotAPool { .. } => Kind::NoPool,
            VolumeError::Newer { .. } => Kind::Newer,
            VolumeError::NoVolume { .. } => Kind::NoVolume,
            VolumeError::VolumeExists { .. } => Kind::VolumeExists,
            VolumeError::Invalid { .. } | VolumeError::OutOfRange { .. } => Kind::Invalid,
            VolumeError::NoSpace => Kind::NoSpace,
            VolumeError::NeedsRecount { .. } => Kind::NeedsRecount,
            _ => Kind::Failed,
        };
        Self::new(kind, error.to_string())
    }
}
