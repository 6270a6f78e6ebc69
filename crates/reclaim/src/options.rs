//! Options and reports of a prune.

use std::collections::BTreeMap;
use std::time::Duration;

use format::reclaim::GroupId;
use session::SessionPolicy;
use types::{ContainerId, Revision, SessionId};

use crate::heal::Healed;
use crate::plan::Limits;

/// How space is reclaimed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PruneOptions {
    /// How much may stay dead, how much may be copied.
    pub limits: Limits,
    /// Looks at every container, not only at those that may have lost something.
    pub all: bool,
    /// Lets backups go whose manifests are gone without having been forgotten.
    pub allow_missing_manifests: bool,
    /// The times that sessions go by; `None`: those that the store was opened with.
    pub policy: Option<SessionPolicy>,
    /// A session that lives and has not answered for so long is ended.
    pub answer_within: Duration,
    /// A dead session that nobody has taken up for so long is ended, by the storage's clock: what
    /// it left is swept.
    pub abandoned_after: Duration,
    /// Tombstones, and endings of dead sessions, are kept for so long by the storage's clock.
    pub keep_endings_for: Duration,
    /// Slots of marks that are held in memory, all groups' together; what is beyond that is read
    /// again where it is needed.
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

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PruneReport {
    /// Epochs finished, one left open by another among them.
    pub epochs: u64,
    /// Groups whose marks were made or extended.
    pub groups_marked: u64,
    /// Nodes read for that.
    pub nodes_read: u64,
    /// Containers that were deleted whole.
    pub containers_removed: u64,
    /// Containers that lost a part, and of which the rest was copied.
    pub containers_compacted: u64,
    /// Containers that lost a part without a copy.
    pub containers_trimmed: u64,
    /// Bytes of all objects that were deleted, old generations too.
    pub bytes_deleted: u64,
    /// Bytes written anew for it.
    pub bytes_copied: u64,
    /// Bytes that stay dead, about.
    pub bytes_left_dead: u64,
    /// Bytes that all containers take now, about.
    pub bytes_stored: u64,
    /// Sessions that were ended because they were dead or deaf.
    pub sessions_expired: Vec<SessionId>,
    /// Forgotten backups that stay stored, since an archival one refers forward to them: which one
    /// does.
    pub kept: BTreeMap<SessionId, SessionId>,
    /// Containers that stay as they are since they are damaged, and what is wrong.
    pub damaged: Vec<(String, String)>,
    /// Damaged containers that got chunks back from other places.
    pub healed: Vec<Healed>,
    /// Containers that are listed as damaged and could not be healed, and why.
    pub unhealed: Vec<(ContainerId, String)>,
    /// Containers that stay as they are since there is no room to rewrite them. A later prune does.
    pub given_up: Vec<String>,
    /// Second copies of containers that were missing, and were made.
    pub mirrors_made: u64,
}

impl PruneReport {
    /// Bytes that the store has got smaller by.
    #[must_use]
    pub const fn bytes_freed(&self) -> u64 {
        self.bytes_deleted.saturating_sub(self.bytes_copied)
    }
}

/// Groups and revisions, as lists name them.
pub(crate) type MarkRevisions = Vec<(GroupId, Revision)>;
