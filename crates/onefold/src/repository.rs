//! What backing up, listing, restoring and dumping need of a store, wherever it is.
//!
//! [`Store`](crate::Store) implements these traits for a store that this process has open, and a
//! client for one that a server has open. The operations are written once, in
//! [`operations`](crate::operations): the client's half runs here, and only the store's half is
//! elsewhere.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use env::Clock;
use format::config::Settings;
pub use format::manifest::SeriesName;
use format::manifest::ensure_tags_within_limits;
use format::series::SeriesSettings;
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
use crate::settings::SettingsChange;
use crate::snapshots::{Snapshot, SnapshotList};

/// An operation is given up if it loses its repository so often, and gets no further meanwhile, ...
const ATTEMPTS_MAX: u32 = 100;
/// ... or if it waits so long for it.
const AWAY_MAX: Duration = Duration::from_hours(1);

/// An attempt at an operation.
#[derive(Debug)]
pub struct Attempt {
    number: u32,
    begin: Cell<u64>,
}

impl Attempt {
    /// Whether it is the first one.
    #[must_use]
    pub fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Notes that it goes on behind so many bytes, which earlier attempts have stored.
    pub fn goes_on_at(&self, bytes: u64) {
        self.begin.set(bytes);
    }
}

/// Runs an operation, and runs it again when it lost its repository and this can be used again. An
/// attempt that gets further than all before it begins the count of attempts, and of the time that
/// they waited, anew.
///
/// # Errors
/// Of the last attempt.
pub fn retried<T>(
    repository: &dyn Repository,
    monitor: &Monitor,
    mut run: impl FnMut(&Attempt) -> Result<T>,
) -> Result<T> {
    let clock = repository.clock();
    let (mut furthest, mut vain, mut waited) = (0, 0, Duration::ZERO);
    for number in 0.. {
        let begin = Cell::new(0);
        let attempt = Attempt { number, begin };
        let error = match run(&attempt) {
            Err(error) => error,
            done => return done,
        };
        let far = attempt.begin.get() + monitor.counters.bytes_logical.get();
        if far > furthest {
            (furthest, vain, waited) = (far, 0, Duration::ZERO);
        }
        let began = clock.monotonic();
        let is_given_up = vain >= ATTEMPTS_MAX || waited >= AWAY_MAX;
        if is_given_up || !repository.recover(&error, vain, monitor) {
            return Err(error);
        }
        waited += clock.monotonic().saturating_sub(began);
        monitor.counters.clear();
        vain += 1;
    }
    unreachable!("numbers do not end")
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
    fn pin(&self, snapshot: &Snapshot, monitor: &Monitor) -> Result<Box<dyn Pinned + '_>> {
        let pinned = self.pin_all(std::slice::from_ref(snapshot), monitor)?;
        let (id, why) = (snapshot.id, None);
        match pinned.snapshots() {
            [] => Err(Error::Forgotten { id, why }),
            [..] => Ok(pinned),
        }
    }

    /// Pins several backups at once, as [`Self::pin`] does one. Backups that were forgotten
    /// meanwhile are left out. One reader reads all of them.
    ///
    /// # Errors
    /// Of the storage or the connection.
    fn pin_all(&self, snapshots: &[Snapshot], monitor: &Monitor) -> Result<Box<dyn Pinned + '_>>;

    /// Runs an operation where the store is, on all backups of the repository.
    /// [`operations`](crate::operations) has a function for each.
    ///
    /// # Errors
    /// Of the operation or the connection.
    fn call(&self, call: &Call, monitor: &Monitor) -> Result<Report>;

    /// Threads and buffers of the client's half of backups.
    fn client_pools(&self) -> &ClientPools;

    /// The settings that a series has of its own, if it has some and they can be read here.
    ///
    /// # Errors
    /// Of the storage.
    fn own_settings(&self, _: &SeriesName) -> Result<Option<SeriesSettings>> {
        Ok(None)
    }

    /// Gives a series settings of its own. A store elsewhere keeps those that it has.
    ///
    /// # Errors
    /// Settings that no series can have there; of the storage.
    fn set_own_settings(&self, _: &SeriesName, _: &SettingsChange) -> Result<()> {
        Ok(())
    }

    /// Waits until the repository can be used again, after an operation failed with this error.
    /// Returns whether it can: then the operation may begin anew. A store in this process has
    /// nothing to wait for.
    ///
    /// `attempt` counts the attempts of an operation that got no further, from 0.
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

/// Backups that are pinned while they are read. Dropping this releases them. Threads may share it.
pub trait Pinned: Send + Sync {
    /// The backups, in the revisions that are read, by id.
    fn snapshots(&self) -> &[Snapshot];

    /// The backup, if [`Repository::pin`] pinned it.
    ///
    /// # Panics
    /// If no backup is pinned.
    fn snapshot(&self) -> &Snapshot {
        self.snapshots().first().expect("a backup is pinned")
    }

    /// Reads the store. The first call may ask the storage.
    ///
    /// # Errors
    /// Of the storage or the connection.
    fn reader(&self) -> Result<&dyn StoreReader>;

    /// How the store cuts, if that is known here.
    fn settings(&self) -> Option<Settings> {
        None
    }

    /// The error to report. If a backup was not pinned and has been forgotten since, the error says
    /// so.
    fn explain(&self, error: Error) -> Error {
        error
    }

    /// A backup that was not pinned and has been forgotten since. Missing data of it is no damage.
    fn forgotten(&self) -> Option<SessionId> {
        None
    }

    /// Records data that an error calls missing.
    fn note_missing(&self, _: &RestoreError) {}

    /// Releases the backups. Passes warnings to the monitor.
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

    /// Refuses names and tags of which a backup on a server would have too much: all lists of
    /// backups have them in memory.
    ///
    /// # Errors
    /// `Setting`, with what to do.
    pub fn ensure_within_limits(&self) -> Result<()> {
        let tags = || ensure_tags_within_limits(&self.options.tags);
        let is_within = self.name.ensure_within_limits().and_then(|()| tags());
        is_within.map_err(|error| Error::Setting(error.to_string()))
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

#[cfg(test)]
mod tests {
    use env::ManualClock;

    use super::*;

    /// A repository that is back after a while, however often it is lost.
    struct Lost {
        clock: Arc<dyn Clock>,
        away: Duration,
    }

    impl Lost {
        fn for_each(away: Duration) -> Self {
            let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
            Self { clock, away }
        }
    }

    impl Repository for Lost {
        fn clock(&self) -> &Arc<dyn Clock> {
            &self.clock
        }

        fn recover(&self, _: &Error, _: u32, _: &Monitor) -> bool {
            self.clock.sleep(self.away);
            true
        }

        fn snapshots(&self) -> Result<SnapshotList> {
            unreachable!("only the retries are tested")
        }

        fn pin_all(&self, _: &[Snapshot], _: &Monitor) -> Result<Box<dyn Pinned + '_>> {
            unreachable!("only the retries are tested")
        }

        fn call(&self, _: &Call, _: &Monitor) -> Result<Report> {
            unreachable!("only the retries are tested")
        }

        fn client_pools(&self) -> &ClientPools {
            unreachable!("only the retries are tested")
        }

        fn begin(&self, _: &Beginning<'_>, _: &Monitor) -> Result<Box<dyn RunningBackup + '_>> {
            unreachable!("only the retries are tested")
        }
    }

    fn broken<T>() -> Result<T> {
        let why = "the connection broke".to_owned();
        let is_broken = true;
        Err(Error::Elsewhere { why, is_broken })
    }

    /// Runs attempts, of which each gets as far as `far` says. Returns how many ran.
    fn attempts(lost: &Lost, far: impl Fn(u32) -> (u64, u64)) -> u32 {
        let monitor = Monitor::default();
        let mut ran = 0;
        let ended = retried(lost, &monitor, |attempt| {
            assert_eq!(attempt.is_first(), ran == 0);
            let (begin, bytes) = far(ran);
            attempt.goes_on_at(begin);
            monitor.counters.bytes_logical.add(bytes);
            ran += 1;
            if ran < 1000 { broken() } else { Ok(()) }
        });
        assert_eq!(ended.is_ok(), ran == 1000);
        ran
    }

    #[test]
    fn attempts_that_get_further_are_not_counted() {
        let lost = Lost::for_each(Duration::from_mins(10));
        // A tree begins anew each time, and a stream goes on.
        assert_eq!(attempts(&lost, |ran| (0, u64::from(ran) + 1)), 1000);
        assert_eq!(attempts(&lost, |ran| (u64::from(ran), 7)), 1000);
        // One in fifty gets further.
        let lost = Lost::for_each(Duration::from_mins(1));
        assert_eq!(attempts(&lost, |ran| (0, u64::from(ran / 50))), 1000);
    }

    #[test]
    fn attempts_that_get_no_further_end() {
        let lost = Lost::for_each(Duration::from_secs(1));
        assert_eq!(attempts(&lost, |_| (0, 0)), ATTEMPTS_MAX + 1);
        assert_eq!(attempts(&lost, |_| (5, 5)), ATTEMPTS_MAX + 1);
        assert_eq!(
            attempts(&lost, |ran| (0, u64::from(ran % 50))),
            49 + ATTEMPTS_MAX + 1
        );
        let long = Lost::for_each(Duration::from_mins(10));
        assert_eq!(attempts(&long, |_| (5, 5)), 7, "an hour");
    }
}
