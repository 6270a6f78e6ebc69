//! Options and reports of a prune.

use std::collections::BTreeMap;
use std::time::Duration;

use format::reclaim::GroupId;
use session::SessionPolicy;
use types::{ContainerId, Revision, SessionId};

use crate::heal::Healed;
use crate::plan::Limits;

/// Options of a prune.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PruneOptions {
    /// How much may stay dead, and how much may be copied.
    pub limits: Limits,
    /// Whether to sweep every container, not only those that may have lost slots.
    pub all: bool,
    /// Lets prune remove the data of backups that lost their manifests without being forgotten.
    pub allow_missing_manifests: bool,
    /// The times that sessions go by; `None`: those that the store was opened with.
    pub policy: Option<SessionPolicy>,
    /// A session that lives and has not answered for so long is ended.
    pub answer_within: Duration,
    /// A dead session that no later backup has adopted for so long, by the storage's clock, is
    /// ended. Its data is swept.
    pub abandoned_after: Duration,
    /// Tombstones, and endings of dead sessions, are kept for so long by the storage's clock.
    pub keep_endings_for: Duration,
    /// Bytes of marked slots kept in memory, for all groups together. Marks beyond it are read
    /// again when they are needed.
    pub marks_bytes_max: u64,
    /// The disk is full, and nothing is left to be given up for room: data that finds none to be
    /// rewritten stays as it is.
    pub is_full: bool,
}

types::setters!(PruneOptions {
    limits: Limits,
    all: bool,
    allow_missing_manifests: bool,
    policy: Option<SessionPolicy>,
    answer_within: Duration,
    abandoned_after: Duration,
    keep_endings_for: Duration,
    marks_bytes_max: u64,
    is_full: bool,
});

impl Default for PruneOptions {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            all: false,
            allow_missing_manifests: false,
            policy: None,
            answer_within: Duration::from_secs(30 * 60),
            abandoned_after: Duration::from_secs(24 * 60 * 60),
            keep_endings_for: Duration::from_secs(30 * 24 * 60 * 60),
            marks_bytes_max: 32 << 20,
            is_full: false,
        }
    }
}

/// What a prune did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneReport {
    /// Finished epochs, including one that another process left open.
    pub epochs: u64,
    /// Groups whose marks were made or extended.
    pub groups_marked: u64,
    /// Nodes read to make them.
    pub nodes_read: u64,
    /// Containers that were deleted whole.
    pub containers_removed: u64,
    /// Containers that lost slots, and whose survivors were copied.
    pub containers_compacted: u64,
    /// Containers that lost slots without a copy.
    pub containers_trimmed: u64,
    /// Bytes of all deleted objects, old generations included.
    pub bytes_deleted: u64,
    /// Bytes of new generations.
    pub bytes_copied: u64,
    /// About how many bytes stay dead.
    pub bytes_left_dead: u64,
    /// About how many bytes all containers take now.
    pub bytes_stored: u64,
    /// Sessions that were ended because they were dead or did not answer.
    pub sessions_expired: Vec<SessionId>,
    /// Forgotten backups that stay stored, each with an archival backup that refers forward to it.
    pub kept: BTreeMap<SessionId, SessionId>,
    /// Containers that stay as they are because they are damaged, and the damage.
    pub damaged: Vec<(String, String)>,
    /// Damaged containers that got chunks back from other places.
    pub healed: Vec<Healed>,
    /// Containers that are listed as damaged and could not be healed, and why.
    pub unhealed: Vec<(ContainerId, String)>,
    /// Containers that stay as they are because there is no room to rewrite them. A later prune
    /// rewrites them.
    pub given_up: Vec<String>,
    /// Missing second copies of containers that were made.
    pub mirrors_made: u64,
}

impl PruneReport {
    /// By how many bytes the store has shrunk.
    #[must_use]
    pub const fn bytes_freed(&self) -> u64 {
        self.bytes_deleted.saturating_sub(self.bytes_copied)
    }
}

/// Groups and revisions, as lists name them.
pub(crate) type MarkRevisions = Vec<(GroupId, Revision)>;
