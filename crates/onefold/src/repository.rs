//! What backing up, listing, restoring and dumping need of a store, wherever it is.
//!
//! [`Store`](crate::Store) implements these traits for a store that this process has open, and a
//! client for one that a server has open. The operations are written once, in
//! [`operations`](crate::operations): the client's half runs here, and only the store's half is
//! elsewhere.

use std::sync::Arc;

use env::Clock;
use ingest::{BackupSession, ClientPools, Sent, Stream};
use recipe::StoreReader;
use restore::RestoreError;
use session::Filter;
use types::SessionId;

use crate::backup_options::BackupOptions;
use crate::backup_report::BackupReport;
use crate::calls::{Call, Report};
use crate::error::{Error, Result};
use crate::monitor::Monitor;
use crate::snapshots::{Snapshot, SnapshotList};

pub use format::manifest::SeriesName;

/// An operation that loses its repository so often is given up.
const ATTEMPTS_MAX: u32 = 100;

/// Runs an operation, and runs it again when it lost its repository and this can be used again.
/// `run` gets the number of the attempt, from 0.
///
/// # Errors
/// Of the last attempt.
pub fn retried<T>(
    repository: &dyn Repository,
    monitor: &Monitor,
    mut run: impl FnMut(u32) -> Result<T>,
) -> Result<T> {
    let mut attempt = 0;
    loop {
        match run(attempt) {
            Err(error) if attempt < ATTEMPTS_MAX && repository.recover(&error, attempt, monitor) => {
                monitor.counters.clear();
                attempt += 1;
            }
            done => return done,
        }
    }
}

/// A store with backups.
pub trait Repository: Send + Sync {
    /// The clock for durations.
    fn clock(&self) -> &Arc<dyn Clock>;

    /// All backups that were not forgotten, oldest first.
    ///
    /// # Errors
    /// Of the storage or the connection.
    fn snapshots(&self) -> Result<SnapshotList>;

    /// The backup that `text` names: an id, or `latest` for the latest one that passes the filter.
    ///
    /// # Errors
    /// If there is none, with the reason; of the storage or the connection.
    fn find(&self, text: &str, filter: &Filter) -> Result<Snapshot> {
        self.snapshots()?.find(text, filter).cloned()
    }

    /// Pins a backup in the revision that counts now, so that no prune removes its data while it is
    /// read. The monitor's cancel flag ends waits for the repository.
    ///
    /// # Errors
    /// `Forgotten`; of the storage or the connection.
    fn pin(&self, snapshot: &Snapshot, monitor: &Monitor) -> Result<Box<dyn Pinned + '_>>;

    /// Runs an operation where the store is, on all backups of the repository.
    /// [`operations`](crate::operations) has a function for each.
    ///
    /// # Errors
    /// Of the operation or the connection.
    fn call(&self, call: &Call, monitor: &Monitor) -> Result<Report>;

    /// Threads and buffers of the client's half of backups.
    fn client_pools(&self) -> &ClientPools;

    /// Waits until the repository can be used again, after an operation failed with this error.
    /// Returns whether it can: then the operation may begin anew. A store in this process has
    /// nothing to wait for.
    ///
    /// `attempt` counts from 0 within an operation.
    fn recover(&self, _: &Error, _attempt: u32, _: &Monitor) -> bool {
        false
    }

    /// How many bytes of a source that gives them only once a client keeps until they are durable,
    /// so that the backup can begin anew after [`Self::recover`]. `None`: it never does.
    fn spool_bytes(&self) -> Option<usize> {
        None
    }

    /// Begins a backup.
    ///
    /// # Errors
    /// If none can begin.
    fn begin(&self, how: &Beginning<'_>, monitor: &Monitor) -> Result<Box<dyn RunningBackup + '_>>;
}

/// A backup that is pinned while it is read. Dropping it releases it.
pub trait Pinned: Sync {
    /// The backup, in the revision that is read.
    fn snapshot(&self) -> &Snapshot;

    /// Reads the store. The first call may ask the storage.
    ///
    /// # Errors
    /// Of the storage or the connection.
    fn reader(&self) -> Result<&dyn StoreReader>;

    /// The error to report. If the backup was not pinned and has been forgotten since, the error
    /// says so.
    fn explain(&self, error: Error) -> Error {
        error
    }

    /// A backup that was not pinned and has been forgotten since. Missing data of it is no damage.
    fn forgotten(&self) -> Option<SessionId> {
        None
    }

    /// Records data that an error calls missing.
    fn note_missing(&self, _: &RestoreError) {}

    /// Releases the backup. Passes warnings to the monitor.
    fn end(self: Box<Self>, monitor: &Monitor);
}

/// How a backup begins.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Beginning<'a> {
    /// Its options.
    pub options: &'a BackupOptions,
    /// Its series.
    pub name: SeriesName,
    /// Its streams, in order.
    pub streams: Vec<Stream>,
    /// Data of the parent is known to have rotted.
    pub is_suspect: bool,
    /// An unreadable chunk of the previous backup ends this one.
    pub insists: bool,
    /// The backups from which it takes ranges.
    pub parents: ParentChoice<'a>,
    /// Which interrupted backup it continues, if there is one.
    pub resumes: Resume,
}

impl<'a> Beginning<'a> {
    /// A backup that takes ranges from no other one, and continues none.
    #[must_use]
    pub fn new(options: &'a BackupOptions, name: SeriesName, streams: Vec<Stream>) -> Self {
        Self {
            options,
            name,
            streams,
            is_suspect: false,
            insists: false,
            parents: ParentChoice::Named(&[]),
            resumes: Resume::Nothing,
        }
    }

    /// With `is_suspect`.
    #[must_use]
    pub fn is_suspect(self, is_suspect: bool) -> Self {
        Self { is_suspect, ..self }
    }

    /// With `insists`.
    #[must_use]
    pub fn insists(self, insists: bool) -> Self {
        Self { insists, ..self }
    }

    /// With `parents`.
    #[must_use]
    pub fn parents(self, parents: ParentChoice<'a>) -> Self {
        Self { parents, ..self }
    }

    /// With `resumes`.
    #[must_use]
    pub fn resumes(self, resumes: Resume) -> Self {
        Self { resumes, ..self }
    }
}

/// Which interrupted backup of its series a backup continues. Its source must give the same bytes
/// as that one's did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Resume {
    /// None.
    #[default]
    Nothing,
    /// One of these: attempts of the same operation, with the same source. A repository that is
    /// elsewhere knows the attempts, and adds them.
    Own(Vec<SessionId>),
    /// Any: the user has asked for it.
    Any,
}

impl Resume {
    /// Whether a backup may continue this session's.
    #[must_use]
    pub fn includes(&self, session: SessionId) -> bool {
        match self {
            Self::Nothing => false,
            Self::Own(own) => own.contains(&session),
            Self::Any => true,
        }
    }
}

/// The choice of the backups from which a backup takes ranges.
#[derive(Debug, Clone, Copy)]
pub enum ParentChoice<'a> {
    /// The newest of the series that is of a tree, if there is one.
    LatestTree,
    /// These, of any series.
    Named(&'a [SessionId]),
}

/// A running backup, as its client sees it.
pub trait RunningBackup {
    /// The session.
    fn session(&self) -> &dyn BackupSession;

    /// The chosen parents.
    fn parents(&self) -> &[Snapshot];

    /// Commits the backup after its streams were sent.
    ///
    /// # Errors
    /// If there is no backup. The next backup of the series takes over the stored data.
    fn commit(
        self: Box<Self>,
        options: &BackupOptions,
        sent: Sent,
        monitor: &Monitor,
    ) -> Result<BackupReport>;
}
