//! Backups that are pinned while they are read.
//!
//! A backup is pinned when something in it is asked for, and stays pinned until so many others were
//! asked for later. No prune removes data of a pinned backup, even if it is forgotten meanwhile.
//! Threads share the pins. If the connection to a server breaks, [`Pins::with`] pins again over
//! another one.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use format::manifest::StreamRole;
use onefold::repository::{Pinned, Repository};
use onefold::{Error, Monitor, Snapshot};
use recipe::{RecipeError, StoreReader, TreeRoot};
use tree::TreeError;

use crate::content::Stream;

/// How many backups are pinned at once. On a server each takes a connection.
const PINS_MAX: usize = 8;
/// How often a read is tried over further connections.
const ATTEMPTS_MAX: u32 = 8;

/// A pinned backup.
pub(crate) struct Pin {
    /// The number of the pin in this process.
    number: u64,
    snapshot: Snapshot,
    /// How many folders of it were listed.
    pub(crate) listed: AtomicU32,
    pinned: Option<Box<dyn Pinned>>,
    /// How many pins there are.
    alive: Arc<AtomicUsize>,
}

impl Pin {
    fn pinned(&self) -> &dyn Pinned {
        &**self.pinned.as_ref().expect("a pin is ended when it is dropped")
    }

    /// The backup, in the revision that is read.
    pub(crate) fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Reads the store.
    pub(crate) fn reader(&self) -> Result<&dyn StoreReader, Error> {
        self.pinned().reader()
    }

    /// The root of the stream with this role.
    pub(crate) fn root(&self, role: StreamRole) -> Option<TreeRoot> {
        let mut streams = self.snapshot.backup.streams.iter();
        streams.find(|stream| stream.role == role).map(TreeRoot::from)
    }

    /// The stream with the bytes of files: of all files of a tree, or the only one.
    pub(crate) fn content(&self) -> Option<Stream> {
        let root = self
            .root(StreamRole::Content)
            .or_else(|| self.root(StreamRole::Whole))?;
        Some(Stream {
            pin: self.number,
            root,
        })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let monitor = Monitor::default();
        if let Some(pinned) = self.pinned.take() {
            pinned.end(&monitor);
        }
        for note in monitor.notes() {
            tracing::warn!(target: crate::TARGET, "{note}");
        }
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The pinned backups.
pub(crate) struct Pins {
    repository: &'static dyn Repository,
    monitor: Monitor,
    /// The latest use first.
    held: Mutex<Vec<Arc<Pin>>>,
    next: AtomicU64,
    is_closed: AtomicBool,
    alive: Arc<AtomicUsize>,
}

impl Pins {
    pub(crate) fn new(repository: &'static dyn Repository) -> Self {
        Self {
            repository,
            monitor: Monitor::default(),
            held: Mutex::default(),
            next: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            alive: Arc::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, Vec<Arc<Pin>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the pins that nothing uses, and waits for a server. Later calls fail. A pin that
    /// something uses ends when that is over.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.monitor.cancel().store(true, Ordering::SeqCst);
        let held = std::mem::take(&mut *self.held());
        drop(held);
    }

    /// How many backups are pinned.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    fn pin(&self, snapshot: &Snapshot) -> Result<Arc<Pin>, Error> {
        // The lock is held while a backup is pinned, so that no backup is pinned twice. This takes
        // moments, once for each backup.
        let mut held = self.held();
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::NotFound("the file system has ended".to_owned()));
        }
        if let Some(at) = held.iter().position(|pin| pin.snapshot.id == snapshot.id) {
            held[..=at].rotate_right(1);
            return Ok(Arc::clone(&held[0]));
        }
        let pinned = self.repository.pin(snapshot, &self.monitor)?;
        self.alive.fetch_add(1, Ordering::SeqCst);
        let pin = Arc::new(Pin {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            snapshot: pinned.snapshot().clone(),
            listed: AtomicU32::new(0),
            pinned: Some(pinned),
            alive: Arc::clone(&self.alive),
        });
        held.insert(0, Arc::clone(&pin));
        let kept = PINS_MAX.min(held.len());
        let old = held.split_off(kept);
        drop(held);
        drop(old);
        Ok(pin)
    }

    /// Drops a pin that cannot be used any more.
    fn drop_pin(&self, number: u64) {
        let mut held = self.held();
        let at = held.iter().position(|pin| pin.number == number);
        let dropped = at.map(|at| held.remove(at));
        drop(held);
        drop(dropped);
    }

    /// Reads something of a backup while it is pinned.
    ///
    /// # Errors
    /// Of the last attempt.
    pub(crate) fn with<T>(
        &self,
        snapshot: &Snapshot,
        read: impl Fn(&Arc<Pin>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        for attempt in 0.. {
            let pinned = self.pin(snapshot);
            let (error, pin) = match pinned {
                Ok(pin) => match read(&pin) {
                    Ok(done) => return Ok(done),
                    Err(error) => (of_reader(error), Some(pin)),
                },
                Err(error) => (error, None),
            };
            let may_recover = attempt < ATTEMPTS_MAX;
            if may_recover && self.repository.recover(&error, attempt, &self.monitor) {
                if let Some(pin) = pin {
                    self.drop_pin(pin.number);
                }
                continue;
            }
            return Err(match pin {
                Some(pin) => pin.pinned().explain(error),
                None => error,
            });
        }
        unreachable!("the attempts end")
    }
}

/// The error of the reader, if the error of a listing has one in it: that says whether the
/// connection broke.
fn of_reader(error: Error) -> Error {
    match error {
        Error::Tree(TreeError::Stream {
            stream,
            offset,
            source,
        }) => match source.downcast::<RecipeError>() {
            Ok(error) => error.into(),
            Err(source) => Error::Tree(TreeError::Stream {
                stream,
                offset,
                source,
            }),
        },
        error => error,
    }
}
