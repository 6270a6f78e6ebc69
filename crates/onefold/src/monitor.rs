//! Watches and stops a long operation.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ingest::Counters;
use reclaim::Waiting;
use restore::RestoreCounters;

use crate::warning::Warning;

/// The unit that an operation counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WorkUnit {
    /// Bytes.
    #[default]
    Bytes,
    /// Nodes of recipes.
    Nodes,
    /// Containers.
    Containers,
    /// Backups.
    Backups,
    /// Checks of a self-test.
    Checks,
}

impl WorkUnit {
    const ALL: [Self; 5] = [
        Self::Bytes,
        Self::Nodes,
        Self::Containers,
        Self::Backups,
        Self::Checks,
    ];

    /// Its number, for messages.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The unit with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// What a restore does with an entry, or would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreFate {
    /// Makes it.
    Make,
    /// Makes it in the place of an existing entry.
    Replace,
    /// Leaves the existing entry.
    Leave,
    /// Deletes the existing entry, with everything below it.
    Delete,
}

/// Is told of entries of a restore by their paths. It must return soon.
type RestoreObserver = dyn Fn(RestoreFate, &[u8]) + Send + Sync;

/// A place for an observer.
#[derive(Default)]
struct Observer(OnceLock<Box<RestoreObserver>>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "set" } else { "none" })
    }
}

/// Counters to read while an operation runs, and the flag that stops it. One monitor for each run.
#[derive(Debug, Default)]
pub struct Monitor {
    /// The counters of a backup.
    pub counters: Arc<Counters>,
    /// The counters of a restore.
    pub restore: RestoreCounters,
    cancel: Arc<AtomicBool>,
    unit: Mutex<WorkUnit>,
    done: AtomicU64,
    total: Arc<AtomicU64>,
    errors: AtomicU64,
    waiting: Mutex<Vec<Waiting>>,
    notes: Mutex<Vec<Warning>>,
    restored: Observer,
}

impl Monitor {
    /// A monitor whose operation stops when `cancel` is set.
    #[must_use]
    pub fn new(cancel: Arc<AtomicBool>) -> Self {
        Self {
            cancel,
            ..Self::default()
        }
    }

    /// Sets who is told what a preview of a restore has found, and what a restore deletes. Only the
    /// first call has an effect.
    pub fn observe_restore(&self, observer: impl Fn(RestoreFate, &[u8]) + Send + Sync + 'static) {
        drop(self.restored.0.set(Box::new(observer)));
    }

    pub(crate) fn tell_restored(&self, fate: RestoreFate, path: &[u8]) {
        if let Some(observer) = self.restored.0.get() {
            observer(fate, path);
        }
    }

    /// The flag that stops the operation.
    #[must_use]
    pub fn cancel(&self) -> &AtomicBool {
        &self.cancel
    }

    /// The same flag, for a value that outlives the monitor.
    #[must_use]
    pub fn cancel_handle(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.cancel)
    }

    /// The present unit. An operation may count several things one after another, each from 0.
    #[must_use]
    pub fn work_unit(&self) -> WorkUnit {
        *self.unit()
    }

    /// How many of them are done.
    #[must_use]
    pub fn work_done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// How many of them there are in all; 0 if unknown.
    #[must_use]
    pub fn work_total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Errors that did not end the operation.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.errors.load(Ordering::Relaxed)
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    pub(crate) fn add_done(&self, n: u64) {
        self.done.fetch_add(n, Ordering::Relaxed);
    }

    /// Raises the count of done ones to at least `n`.
    pub(crate) fn add_done_up_to(&self, n: u64) {
        self.done.fetch_max(n, Ordering::Relaxed);
    }

    /// Counts `n` more of this unit as done. If the unit changes, the count begins at 0, and the
    /// total is unknown.
    pub(crate) fn add_done_of(&self, unit: WorkUnit, n: u64) {
        if self.work_unit() != unit {
            self.begin_part(unit, 0);
        }
        self.add_done(n);
    }

    /// Sets the total number of bytes, if bytes are counted.
    pub fn set_total(&self, n: u64) {
        self.total.store(n, Ordering::Relaxed);
    }

    /// Shows the counts of an operation that runs elsewhere.
    pub fn follow(&self, unit: WorkUnit, done: u64, total: u64) {
        *self.unit() = unit;
        self.done.store(done, Ordering::Relaxed);
        self.set_total(total);
    }

    /// Begins another part of the operation, which counts from 0.
    pub(crate) fn begin_part(&self, unit: WorkUnit, total: u64) {
        let mut counted = self.unit();
        *counted = unit;
        self.done.store(0, Ordering::Relaxed);
        self.set_total(total);
    }

    fn unit(&self) -> MutexGuard<'_, WorkUnit> {
        self.unit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sessions that a prune waits for now. It cannot decide before they have answered, ended,
    /// or been ended.
    #[must_use]
    pub fn waiting(&self) -> Vec<Waiting> {
        self.waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set_waiting(&self, sessions: &[Waiting]) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.clear();
        waiting.extend_from_slice(sessions);
    }

    /// A handle by which a thread beside the operation can set the total.
    #[must_use]
    pub fn total_handle(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.total)
    }

    /// Errors that did not affect the operation's result. For example, a store that cannot be
    /// written pins no data for its reader. Show them when the operation is over.
    #[must_use]
    pub fn notes(&self) -> Vec<Warning> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a warning.
    pub fn add_note(&self, note: Warning) {
        self.notes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(note);
    }

    pub(crate) fn add_error(&self) {
        self.errors.fetch_add(1, Ordering::Relaxed);
    }
}
