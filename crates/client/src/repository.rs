//! A namespace of a server as a repository.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crypto::Fingerprinter;
use env::{Clock, Entropy};
use format::manifest::{SeriesName, StreamRole};
use ingest::{BackupSession, ClientPools, Committed, IngestError, Sent};
use onefold::calls::{Call, Report};
use onefold::errors::RestoreError;
use onefold::repository::{Beginning, ParentChoice, Pinned, Repository, Resume, RunningBackup};
use onefold::{BackupOptions, BackupReport, Error, Monitor, Snapshot, SnapshotList, Warning};
use recipe::{RecipeError, StoreReader, TreeRoot};
use transport::Traffic;
use types::{ObjectName, SessionId, UnixNanos};
use wire::{
    Begin, Begun, CommittedBackup, Manifests, Parents, REPLACED_MAX, ReadBegun, SentManifest, Sought, Wire,
    request,
};

use crate::calls::{self, Called};
use crate::connection::Connection;
use crate::dial::Dialer;
use crate::error::ClientError;
use crate::link::{Link, Renewal};
use crate::listings::Listings;
use crate::reader::RemoteReader;
use crate::session::RemoteSession;

/// How often a request is asked again at once, if its connection breaks.
const ANSWER_ATTEMPTS_MAX: u32 = 3;
/// How often a client asks whether a backup was committed, while the connection breaks again.
const COMMIT_ATTEMPTS_MAX: u32 = 20;
/// How often a client asks again for an operation for which the server has no place.
const CALL_ATTEMPTS_MAX: u32 = 100;
/// Bytes of a pipe that stay in memory until they are durable, at most (B6).
const SPOOL_BYTES: usize = 256 << 20;

/// A namespace of a server. An operation has a connection of its own while it runs.
pub struct RemoteRepository {
    dialer: Arc<Dialer>,
    clock: Arc<dyn Clock>,
    /// Connections that no operation uses.
    idle: Mutex<Vec<Connection>>,
    pools: ClientPools,
    listings: Option<Listings>,
    entropy: Arc<dyn Entropy>,
    /// Backups that ended without a commit. The server may not know that yet.
    lost: Mutex<Lost>,
}

/// Attempts that ended without a commit.
#[derive(Debug, Default)]
struct Lost {
    /// Those that the server may still run.
    numbers: Vec<u64>,
    /// Those of the last operation on each series.
    sessions: Vec<(SeriesName, SessionId)>,
}

impl Lost {
    /// Adds an attempt. The server ends the oldest ones by itself.
    fn add(&mut self, number: u64) {
        let spare = (self.numbers.len() + 1).saturating_sub(REPLACED_MAX);
        self.numbers.drain(..spare);
        self.numbers.push(number);
    }
}

impl RemoteRepository {
    /// The namespace of a connection that has logged in.
    pub(crate) fn of(
        dialer: Dialer,
        first: Connection,
        clock: &Arc<dyn Clock>,
        entropy: &Arc<dyn Entropy>,
    ) -> Self {
        Self {
            dialer: Arc::new(dialer),
            clock: Arc::clone(clock),
            idle: Mutex::new(vec![first]),
            pools: ClientPools::new(clock),
            listings: None,
            entropy: Arc::clone(entropy),
            lost: Mutex::default(),
        }
    }

    /// Keeps the listings of backups here. So the next backup of a series reads none from the
    /// server.
    #[must_use]
    pub fn keeping(mut self, listings: Listings) -> Self {
        self.listings = Some(listings);
        self
    }

    /// Bytes that all connections have carried, without what TLS and the network add.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        &self.dialer.traffic
    }

    fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        self.entropy.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks over an idle connection, or over a new one if there is none or it broke meanwhile.
    fn first_answer<T>(
        &self,
        kind: u8,
        body: &impl Wire,
        decode: impl Fn(&[u8]) -> Result<T, format::FormatError>,
    ) -> Result<(Connection, T), ClientError> {
        while let Some(connection) = { self.idle().pop() } {
            match connection.ask(kind, body, &decode) {
                Err(error) if error.is_of_connection() => {}
                answer => return answer.map(|answer| (connection, answer)),
            }
        }
        let mut attempt = 0;
        loop {
            let connection = self.dialer.log_in()?;
            match connection.ask(kind, body, &decode) {
                Err(error) if error.is_of_connection() && attempt < ANSWER_ATTEMPTS_MAX => attempt += 1,
                answer => return answer.map(|answer| (connection, answer)),
            }
        }
    }

    fn lost(&self) -> MutexGuard<'_, Lost> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The earlier attempts of this operation. They are forgotten when another one begins.
    fn own_attempts(&self, how: &Beginning<'_>) -> Vec<SessionId> {
        let mut lost = self.lost();
        if !matches!(how.resumes, Resume::Own(_)) {
            lost.sessions.retain(|(name, _)| *name != how.name);
        }
        let own = lost.sessions.iter().filter(|(name, _)| *name == how.name);
        own.map(|(_, session)| *session).collect()
    }

    /// Waits until a connection can be made again. Returns whether it can.
    fn wait_for_server(&self, attempt: u32, cancel: &AtomicBool) -> bool {
        // All connections of a server that has ended are broken.
        self.idle().clear();
        let connection = self.dialer.log_in_again(&*self.clock, attempt, cancel);
        let is_back = connection.is_some();
        self.idle().extend(connection);
        is_back
    }

    /// The backup that the server committed before the connection broke, if it did.
    ///
    /// # Errors
    /// If the server does not say whether it did. The backup must not be made again then.
    fn find_committed(&self, sought: &Sought, cancel: &AtomicBool) -> onefold::Result<Option<Committed>> {
        let mut why = "the server does not answer".to_owned();
        for attempt in 0..COMMIT_ATTEMPTS_MAX {
            if !self.wait_for_server(attempt, cancel) {
                break;
            }
            match self.first_answer(request::COMMITTED, sought, Vec::<CommittedBackup>::from_bytes) {
                Ok((connection, mut found)) => {
                    self.idle().push(connection);
                    return Ok(found.pop().map(Committed::from));
                }
                Err(error) => {
                    why = error.to_string();
                    if !error.is_of_connection() {
                        break;
                    }
                }
            }
        }
        Err(Error::Elsewhere {
            is_broken: false,
            why: format!(
                "the connection broke at the end of the backup, and it is not known whether the backup exists ({why}); \
                 look at `onefold snapshots` before you make it again"
            ),
        })
    }

    fn give_back(&self, connection: Arc<Connection>) {
        if let Ok(connection) = Arc::try_unwrap(connection) {
            self.idle().push(connection);
        }
    }
}

impl fmt::Debug for RemoteRepository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteRepository")
            .field("dialer", &self.dialer)
            .finish_non_exhaustive()
    }
}

/// Whether another connection may do better.
fn is_recoverable(error: &Error) -> bool {
    let cause = match error {
        Error::Elsewhere { is_broken, .. } => return *is_broken,
        Error::Ingest(IngestError::Connection(cause)) | Error::Recipe(RecipeError::Other(cause)) => cause,
        // The parent could not be read over the connection.
        Error::Ingest(
            IngestError::Recipe(RecipeError::Other(cause)) | IngestError::Previous(RecipeError::Other(cause)),
        ) => cause,
        _ => return false,
    };
    cause
        .downcast_ref::<ClientError>()
        .is_some_and(ClientError::is_of_connection)
}

fn snapshot(sent: SentManifest) -> Snapshot {
    Snapshot::new(sent.session, sent.series, sent.revision, sent.backup)
}

impl Repository for RemoteRepository {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn snapshots(&self) -> onefold::Result<SnapshotList> {
        let (connection, told) = self.first_answer(request::LIST, &(), Manifests::from_bytes)?;
        self.idle().push(connection);
        let mut list = SnapshotList::default();
        list.store = told.store;
        list.snapshots = told.backups.into_iter().map(snapshot).collect();
        for (name, why) in told.damaged {
            let name = ObjectName::new(name).map_err(|error| ClientError::Protocol(error.to_string()))?;
            list.damaged.push(onefold::DamagedObject {
                name,
                why,
                is_unread: false,
            });
        }
        Ok(list)
    }

    fn pin_all(&self, wanted: &[Snapshot], monitor: &Monitor) -> onefold::Result<Box<dyn Pinned + '_>> {
        let ids: Vec<SessionId> = wanted.iter().map(|snapshot| snapshot.id).collect();
        let (connection, begun) = self.first_answer(request::READ, &ids, ReadBegun::from_bytes)?;
        let snapshots: Vec<Snapshot> = begun.backups.into_iter().map(snapshot).collect();
        let link = Link::renewed(
            connection,
            Renewal {
                dialer: Arc::clone(&self.dialer),
                clock: Arc::clone(&self.clock),
                cancel: monitor.cancel_handle(),
                backups: snapshots
                    .iter()
                    .map(|snapshot| (snapshot.id, snapshot.backup.streams.clone()))
                    .collect(),
            },
        );
        Ok(Box::new(RemotePinned {
            repository: self,
            snapshots,
            reader: RemoteReader::of_chunks(link, Fingerprinter::from_derived_keys(&begun.keys)),
        }))
    }

    fn client_pools(&self) -> &ClientPools {
        &self.pools
    }

    fn call(&self, call: &Call, monitor: &Monitor) -> onefold::Result<Report> {
        let mut attempt = 0;
        loop {
            let idle = { self.idle().pop() };
            let connection = idle.map_or_else(|| self.dialer.log_in(), Ok)?;
            match calls::call(&connection, call, monitor)? {
                Called::Done(report) => {
                    self.idle().push(connection);
                    return Ok(*report);
                }
                Called::Busy(why) => {
                    drop(connection);
                    let cancel = monitor.cancel();
                    calls::rest(&*self.clock, attempt, cancel);
                    let goes_on = attempt < CALL_ATTEMPTS_MAX && self.wait_for_server(attempt, cancel);
                    if cancel.load(Ordering::Relaxed) {
                        return Err(Error::Restore(RestoreError::Interrupted));
                    }
                    if !goes_on {
                        return Err(why.into());
                    }
                }
            }
            attempt += 1;
        }
    }

    fn recover(&self, error: &Error, attempt: u32, monitor: &Monitor) -> bool {
        if !is_recoverable(error) {
            return false;
        }
        let is_back = self.wait_for_server(attempt, monitor.cancel());
        if is_back {
            let why = format!("{error}; went on over another connection");
            monitor.add_note(Warning::Server { why });
        }
        is_back
    }

    fn spool_bytes(&self) -> Option<usize> {
        Some(SPOOL_BYTES)
    }

    fn begin(&self, how: &Beginning<'_>, _: &Monitor) -> onefold::Result<Box<dyn RunningBackup + '_>> {
        // The server would refuse them, the tags not before all is sent.
        how.ensure_within_limits()?;
        let (began, source_time) = (self.clock.monotonic(), self.clock.wall());
        let begin = Begin {
            name: how.name.clone(),
            streams: how.streams.clone(),
            parents: match how.parents {
                ParentChoice::LatestTree => Parents::LatestTree,
                ParentChoice::Named(named) => Parents::Named(named.to_vec()),
            },
            is_suspect: how.is_suspect,
            insists: how.insists,
            resumes: how.resumes == Resume::Any,
            continues: self.own_attempts(how),
            attempt: self.random(),
            replaces: self.lost().numbers.clone(),
        };
        // It may begin there and the answer may be lost.
        self.lost().add(begin.attempt);
        let (connection, begun) = self.first_answer(request::BEGIN, &begin, Begun::from_bytes)?;
        let id = begun.session;
        {
            let mut lost = self.lost();
            lost.numbers
                .retain(|number| !begin.replaces.contains(number) && *number != begin.attempt);
            lost.sessions.push((how.name.clone(), begun.session));
        }
        Ok(Box::new(RemoteBackup {
            repository: self,
            id,
            attempt: Attempt {
                number: begin.attempt,
                lost: &self.lost,
                is_over: false,
            },
            session: RemoteSession::new(
                begun.terms,
                Link::of(connection),
                self.listings.as_ref().map(|listings| {
                    let repository = self.dialer.to_string();
                    listings.series(&repository, &how.name)
                }),
                begun.streams,
                &self.clock,
            ),
            parents: begun.parents.into_iter().map(snapshot).collect(),
            name: how.name.clone(),
            began,
            source_time,
            warnings: begun.warnings,
        }))
    }
}

/// Backups that the server has pinned.
struct RemotePinned<'a> {
    repository: &'a RemoteRepository,
    snapshots: Vec<Snapshot>,
    reader: RemoteReader,
}

impl Pinned for RemotePinned<'_> {
    fn snapshots(&self) -> &[Snapshot] {
        &self.snapshots
    }

    fn reader(&self) -> onefold::Result<&dyn StoreReader> {
        Ok(&self.reader)
    }

    fn end(self: Box<Self>, monitor: &Monitor) {
        for why in self.reader.link.take_notes() {
            monitor.add_note(Warning::Server { why });
        }
        let connection = self.reader.link.connection();
        drop(self.reader);
        match connection.ask(request::END, &(), Vec::<String>::from_bytes) {
            Ok(notes) => {
                for why in notes {
                    monitor.add_note(Warning::Server { why });
                }
                self.repository.give_back(connection);
            }
            // The server ends the reading when the connection is gone.
            Err(error) => monitor.add_note(Warning::Server {
                why: error.to_string(),
            }),
        }
    }
}

/// The number of a running backup. If this is dropped before the backup is over, the next one ends
/// it.
struct Attempt<'a> {
    number: u64,
    lost: &'a Mutex<Lost>,
    is_over: bool,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            let mut lost = self.lost.lock().unwrap_or_else(PoisonError::into_inner);
            lost.add(self.number);
        }
    }
}

/// A running backup in a server's store.
struct RemoteBackup<'a> {
    repository: &'a RemoteRepository,
    /// The backup's number, if it is committed.
    id: SessionId,
    attempt: Attempt<'a>,
    session: RemoteSession,
    parents: Vec<Snapshot>,
    name: SeriesName,
    began: Duration,
    source_time: UnixNanos,
    warnings: Vec<String>,
}

impl RunningBackup for RemoteBackup<'_> {
    fn session(&self) -> &dyn BackupSession {
        &self.session
    }

    fn parents(&self) -> &[Snapshot] {
        &self.parents
    }

    fn commit(
        mut self: Box<Self>,
        options: &BackupOptions,
        sent: Sent,
        monitor: &Monitor,
    ) -> onefold::Result<BackupReport> {
        let elapsed = self.repository.clock.monotonic().saturating_sub(self.began);
        let elapsed_nanos = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        let about = options.about(self.name, self.source_time, elapsed_nanos, &monitor.counters);
        let sought = Sought {
            attempt: self.attempt.number,
            session: self.id,
            about: about.clone(),
        };
        let mut committed = match self.session.commit(about).map_err(Error::from) {
            Err(error) if is_recoverable(&error) => {
                let found = self.repository.find_committed(&sought, monitor.cancel())?;
                found.ok_or(error)?
            }
            done => done?,
        };
        self.attempt.is_over = true;
        let listing = committed
            .streams
            .iter()
            .find(|stream| stream.role == StreamRole::Listing);
        if let (Some(listings), Some(listing)) = (&self.session.listings, listing) {
            listings.finish(&TreeRoot::from(listing));
        }
        let told = std::mem::take(&mut committed.warnings);
        let told = told.iter().map(ToString::to_string);
        let warnings = self.warnings.into_iter().chain(told);
        let parent = self.parents.first().map(|parent: &Snapshot| parent.id);
        let resumed = self.session.terms.resumed.first().map(|stream| stream.len);
        self.repository.give_back(self.session.reader.into_connection());
        Ok(BackupReport::of(
            committed,
            sent,
            (parent, resumed),
            elapsed_nanos,
            warnings.map(|why| Warning::Server { why }).collect(),
            monitor,
        ))
    }
}
