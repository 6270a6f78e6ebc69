//! The suite that every [`BackupSession`] must pass, over a store here or elsewhere.
//!
//! A case runs backups through sessions that a [`Host`] begins, on a store that is empty at first,
//! and returns what was made. If a session breaks a promise of [`BackupSession`], the case panics,
//! like a test's assertion. If a session fails, the case returns its error. So a case also serves
//! to cut connections: every error is fine, and what is made afterwards is the same.
//!
//! The result of a case does not depend on where the store is: run it over two hosts and compare.

mod cases;
mod messages;
mod player;

use format::manifest::BackupTotals;
use recipe::TreeRoot;
use types::{Fingerprint, Level, SessionId};

use crate::backup_session::{About, BackupSession, Committed, Stream};
use crate::dedup::Granularity;
use crate::error::IngestError;
use crate::options::IngestOptions;

/// Sessions on one store.
pub trait Host {
    /// Begins a session of the suite's series that may copy from these backups.
    ///
    /// # Errors
    /// When no session can be begun.
    fn begin(&self, streams: Vec<Stream>, upon: &[SessionId]) -> Result<Box<dyn Begun + '_>, IngestError>;

    /// How a client of these sessions cuts and compresses.
    fn options(&self) -> IngestOptions;

    /// What the sessions refer to.
    fn granularity(&self) -> Granularity;

    /// The facts for a commit, with these counts.
    fn about(&self, counted: BackupTotals) -> About;

    /// The backups that are visible, oldest first. Read from the store, by no session.
    fn backups(&self) -> Vec<SessionId>;

    /// The bytes of a stream of a backup. Read from the store, by no session.
    fn read(&self, backup: SessionId, stream: usize) -> Vec<u8>;
}

/// A session that a [`Host`] began. Dropped, it ends.
pub trait Begun {
    /// The session.
    fn session(&self) -> &dyn BackupSession;

    /// The streams of each backup that was named.
    fn parents(&self) -> Vec<Vec<TreeRoot>>;
}

/// What one backup became, wherever its store is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Made {
    /// Of each stream its fingerprint, level and length in bytes.
    pub streams: Vec<(Fingerprint, Level, u64)>,
    /// The counts. Stored bytes are 0, because they differ a little with the numbers of containers,
    /// which depend on threads.
    pub totals: BackupTotals,
    /// Containers that were put.
    pub containers: u64,
}

impl Made {
    fn of(committed: &Committed) -> Self {
        let streams = committed.streams.iter();
        Self {
            streams: streams
                .map(|stream| (stream.fingerprint, stream.level, stream.len))
                .collect(),
            totals: BackupTotals {
                bytes_stored: 0,
                ..committed.totals
            },
            containers: committed
                .containers
                .iter()
                .map(|span| u64::from(span.count))
                .sum(),
        }
    }
}

/// The backups that a case made, in order.
pub type Outcome = Result<Vec<Made>, IngestError>;

/// A case: its name, and the function that runs it on an empty store.
pub type Case = (&'static str, fn(&dyn Host) -> Outcome);

/// All cases.
pub const CASES: &[Case] = &[
    ("empty", cases::a_stream_may_be_empty),
    ("new-and-known", cases::what_is_known_is_not_wanted_again),
    ("repeats", cases::repeats_and_zeros_are_stored_once),
    ("three-streams", messages::streams_are_answered_each_in_its_order),
    ("any-order", messages::regions_may_come_in_any_order),
    ("patient", messages::a_patient_client_is_never_left_waiting),
    ("copies", cases::ranges_of_earlier_backups_are_copied),
    ("reads", cases::earlier_backups_are_read),
    ("dropped", cases::a_dropped_session_makes_no_backup),
    ("early-commit", messages::a_commit_before_the_end_makes_no_backup),
];
