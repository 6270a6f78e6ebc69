//! Backups that are pinned while they are read.
//!
//! A backup is pinned when something in it is asked for, and stays pinned until so many others were
//! asked for later. No prune removes data of a pinned backup, even if it is forgotten meanwhile.
//! Threads share the pins. One thread pins a backup, and those that want the same one wait for it;
//! no lock is held meanwhile, so the others go on. If the connection to a server breaks,
//! [`Pins::with`] pins again over another one.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use format::manifest::StreamRole;
use onefold::repository::{Pinned, Repository};
use onefold::{Error, Monitor, Snapshot};
use recipe::{RecipeError, StoreReader, TreeRoot};
use tree::TreeError;
use types::SessionId;

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
    _alive: Alive,
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
    }
}

/// Counts a pin from before it is made until after it has ended.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Held {
    /// The latest use first.
    pins: Vec<Arc<Pin>>,
    /// The backups that threads are pinning now.
    making: HashSet<SessionId>,
}

/// The turn to pin a backup. Dropping it ends the wait of others.
struct Turn<'a> {
    pins: &'a Pins,
    id: SessionId,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.pins.held().making.remove(&self.id);
        self.pins.made.notify_all();
    }
}

/// The pinned backups.
pub(crate) struct Pins {
    repository: &'static dyn Repository,
    monitor: Monitor,
    held: Mutex<Held>,
    /// Signals that a thread has pinned a backup, or failed to, and the end.
    made: Condvar,
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
            made: Condvar::new(),
            next: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            alive: Arc::default(),
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the pins that nothing uses, and waits for a server. Later calls fail. A pin that
    /// something uses ends when that is over.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        self.monitor.cancel().store(true, Ordering::SeqCst);
        let pins = std::mem::take(&mut self.held().pins);
        self.made.notify_all();
        drop(pins);
    }

    /// How many backups are pinned or being pinned.
    pub(crate) fn alive(&self) -> usize {
        self.alive.load(Ordering::SeqCst)
    }

    fn pin(&self, snapshot: &Snapshot) -> Result<Arc<Pin>, Error> {
        let id = snapshot.id;
        let mut held = self.held();
        loop {
            self.ensure_open()?;
            if let Some(at) = held.pins.iter().position(|pin| pin.snapshot.id == id) {
                held.pins[..=at].rotate_right(1);
                return Ok(Arc::clone(&held.pins[0]));
            }
            if held.making.insert(id) {
                break;
            }
            held = self.made.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        drop(held);
        let turn = Turn { pins: self, id };
        let alive = Alive::new(&self.alive);
        let pinned = self.repository.pin(snapshot, &self.monitor)?;
        let pin = Arc::new(Pin {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            snapshot: pinned.snapshot().clone(),
            listed: AtomicU32::new(0),
            pinned: Some(pinned),
            _alive: alive,
        });
        let mut held = self.held();
        if let Err(error) = self.ensure_open() {
            // The pin ends at the return, after the lock.
            drop(held);
            return Err(error);
        }
        held.pins.insert(0, Arc::clone(&pin));
        let kept = PINS_MAX.min(held.pins.len());
        let old = held.pins.split_off(kept);
        drop(held);
        // Nobody waits for the ends of the old ones.
        drop(turn);
        drop(old);
        Ok(pin)
    }

    fn ensure_open(&self) -> Result<(), Error> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(Error::NotFound("the file system has ended".to_owned()));
        }
        Ok(())
    }

    /// Drops a pin that cannot be used any more.
    fn drop_pin(&self, number: u64) {
        let mut held = self.held();
        let at = held.pins.iter().position(|pin| pin.number == number);
        let dropped = at.map(|at| held.pins.remove(at));
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
