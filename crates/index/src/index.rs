//! The index on disk: memory-mapped runs, sampled as the budget allows, and the hooks that this
//! process has sealed since.
//!
//! Invariant: opening reads only the fronts of runs. A look-up reads a resident summary and at most
//! one leaf of each run. All runs together fit the budget after a merge, and every run is written
//! at the rates in force. A bad run is ignored, and is never an error (INV-4). Runs are immutable:
//! readers keep the mapping of a run that a merge deleted, and lose nothing. Many threads may call
//! all methods. The list of runs is locked only while it is read or swapped.
//!
//! With a memory budget, look-ups use [`ResidentHooks`] instead of the runs.
//!
//! The index is in the store's storage on local disks. For a remote store it is in a local cache
//! folder, because mapping a remote object reads it whole.

mod reload;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use env::{Moment, Storage};
use format::names;
use types::{ContainerId, Fingerprint, ObjectName, SessionId, StoreId};

use crate::candidates::chosen_of;
use crate::error::{IndexError, Warning};
use crate::hook::HookIndex;
use crate::kind::HookKind;
use crate::lists::CandidateLists;
use crate::memory::MemoryHooks;
use crate::part::Part;
use crate::rates::{self, Load};
use crate::resident::ResidentHooks;
use crate::run::RUNS_MAX;
use crate::run::Run;
use crate::sampling::SamplingRates;
use crate::session_ranges;
use crate::summary::key_of;
use crate::writer::{PART_ENTRIES_MAX, RunId};

/// How the index uses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexOptions {
    /// Memory for hooks that are not yet in a run, for each session and for a rebuild, in bytes.
    /// Beyond it they are written early, as a run.
    pub pending_bytes_max: usize,
    /// Bytes of all runs together, on disk (M). Beyond it R halves. A quarter of them becomes
    /// resident by use: the filter, 11 bits for each hook. A hook takes some 6 bytes in all.
    pub bytes_max: u64,
    /// The most entries of one object of a run, not above 1 Mi.
    pub part_entries_max: usize,
    /// A budget in bytes for holding the hooks of all runs in memory. Look-ups then read no run.
    /// Opening reads all runs, or an image of that memory. `None`: look-ups read the runs.
    pub memory_bytes_max: Option<usize>,
}

impl IndexOptions {
    /// The default budget for runs, in bytes: 40 million hooks, 350 GiB of chunks at R = 1.
    pub const BYTES_MAX: u64 = 256 << 20;
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            pending_bytes_max: 128 << 20,
            bytes_max: Self::BYTES_MAX,
            part_entries_max: PART_ENTRIES_MAX,
            memory_bytes_max: None,
        }
    }
}

/// The hooks of a store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Index {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    storage: Arc<dyn Storage>,
    store: StoreId,
    options: IndexOptions,
    runs: RwLock<Vec<Arc<Run>>>,
    /// The hooks of these runs in memory, if that is wanted.
    held: Option<ResidentHooks>,
    /// Counts changes by [`Index::replace`], so that an older listing is not taken for the truth.
    changes: AtomicU64,
    /// Hooks to chunks of this process's running sessions.
    pending: RwLock<Vec<Arc<RwLock<MemoryHooks>>>>,
    /// Whether the last listing showed remembered catalogs that could not be read.
    has_unread: AtomicBool,
    /// Useless objects, which the next merge deletes.
    bad: Mutex<Vec<ObjectName>>,
    /// A moment before the last listing of runs.
    listed_since: Mutex<Moment>,
    warnings: Mutex<Vec<Warning>>,
    lookups: AtomicU64,
}

impl Index {
    /// Opens the runs of a store. Bad runs give warnings.
    ///
    /// # Errors
    /// Errors of the storage.
    pub fn open(
        storage: Arc<dyn Storage>,
        store: StoreId,
        options: IndexOptions,
    ) -> Result<Self, IndexError> {
        let since = storage.moment();
        Self::open_since(storage, store, options, since)
    }

    /// Like [`Self::open`], with the runs that exist at any moment after `since`.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn open_since(
        storage: Arc<dyn Storage>,
        store: StoreId,
        options: IndexOptions,
        since: Moment,
    ) -> Result<Self, IndexError> {
        let inner = Inner {
            storage,
            store,
            options,
            runs: RwLock::default(),
            held: None,
            changes: AtomicU64::new(0),
            pending: RwLock::default(),
            has_unread: AtomicBool::new(false),
            bad: Mutex::default(),
            listed_since: Mutex::default(),
            warnings: Mutex::default(),
            lookups: AtomicU64::new(0),
        };
        let held = options.memory_bytes_max.map(|bytes| {
            let (held, bad) = ResidentHooks::open(&*inner.storage, store, bytes)?;
            Ok::<_, IndexError>((held, bad))
        });
        let (held, bad) = held.transpose()?.unzip();
        let index = Self {
            inner: Arc::new(Inner { held, ..inner }),
        };
        for (name, why) in bad.into_iter().flatten() {
            index.note_bad(name, why);
        }
        index.reload_since(since)?;
        Ok(index)
    }

    pub(crate) fn has_unread(&self) -> bool {
        self.inner.has_unread.load(Ordering::Acquire)
    }

    pub(crate) fn set_has_unread(&self, has: bool) {
        self.inner.has_unread.store(has, Ordering::Release);
    }

    /// Opens a run that this process has just written.
    pub(crate) fn open_run(&self, id: RunId, names: &[ObjectName]) -> Result<Arc<Run>, IndexError> {
        let mut parts = Vec::with_capacity(names.len());
        for name in names {
            parts.extend(self.open_part(name)?);
        }
        Ok(Arc::new(Run::new(id, parts)))
    }

    pub(crate) fn note_bad(&self, name: ObjectName, why: String) {
        let mut bad = self.bad();
        if !bad.contains(&name) {
            bad.push(name.clone());
            drop(bad);
            self.warn(Warning::BadRun { name, why });
        }
    }

    /// Notes once that a part has a bad block.
    pub(crate) fn note_damaged(&self, part: &Part) {
        self.note_bad(
            names::index_run(part.meta().name),
            "a block of it is damaged".to_owned(),
        );
    }

    pub(crate) fn warn(&self, warning: Warning) {
        let mut warnings = self.inner.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.push(warning);
    }

    /// The warnings since the last call.
    #[must_use]
    pub fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut self.inner.warnings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether all hooks of a session are in sound runs.
    #[must_use]
    pub fn covers(&self, session: SessionId) -> bool {
        self.runs()
            .iter()
            .any(|run| session_ranges::holds(run.covered(), session))
    }

    /// The sessions whose hooks are not all in sound runs, in the given order. A crash preceded
    /// their hooks, or a bad run lost them. [`Self::catch_up`] adds them.
    #[must_use]
    pub fn uncovered(&self, committed: impl IntoIterator<Item = SessionId>) -> Vec<SessionId> {
        let covered = session_ranges::join(self.runs().iter().flat_map(|run| run.covered().iter().copied()));
        committed
            .into_iter()
            .filter(|session| !session_ranges::holds(&covered, *session))
            .collect()
    }

    /// The rates in force: the next run is written at these.
    #[must_use]
    pub fn rates(&self) -> SamplingRates {
        self.rates_of(&self.runs())
    }

    /// The rates at which look-ups find hooks: those of memory if it holds all hooks, else
    /// [`Self::rates`].
    #[must_use]
    pub fn rates_of_answers(&self) -> SamplingRates {
        let held = self.held().map(|held| held.memory().rates());
        held.unwrap_or_else(|| self.rates())
    }

    pub(crate) fn rates_of(&self, runs: &[Arc<Run>]) -> SamplingRates {
        let loads: Vec<Load> = runs.iter().map(|run| run.load()).collect();
        rates::in_force(&loads, self.inner.options.bytes_max)
    }

    /// Whether [`Self::merge`] would do something.
    #[must_use]
    pub fn wants_merge(&self) -> bool {
        let loads: Vec<Load> = self.settled_runs().iter().map(|run| run.load()).collect();
        let budget = self.inner.options.bytes_max;
        loads.len() > RUNS_MAX
            || !self.bad().is_empty()
            || !rates::too_large(&loads, rates::in_force(&loads, budget), budget).is_empty()
    }

    pub(crate) fn lookups(&self) -> u64 {
        self.inner.lookups.load(Ordering::Relaxed)
    }

    pub(crate) fn held(&self) -> Option<&ResidentHooks> {
        self.inner.held.as_ref()
    }

    pub(crate) fn storage(&self) -> &dyn Storage {
        &*self.inner.storage
    }

    pub(crate) fn store(&self) -> StoreId {
        self.inner.store
    }

    pub(crate) fn options(&self) -> IndexOptions {
        self.inner.options
    }

    pub(crate) fn runs(&self) -> RwLockReadGuard<'_, Vec<Arc<Run>>> {
        self.inner.runs.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs that may be merged: all except those that another process is writing.
    pub(crate) fn settled_runs(&self) -> Vec<Arc<Run>> {
        let runs = self.runs();
        runs.iter().filter(|run| run.is_settled()).cloned().collect()
    }

    fn runs_mut(&self) -> RwLockWriteGuard<'_, Vec<Arc<Run>>> {
        self.inner.runs.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn bad(&self) -> MutexGuard<'_, Vec<ObjectName>> {
        self.inner.bad.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a run into use, in place of others. Memory gets the hooks only of runs that cover a
    /// session. A run that a session writes early is also in the run that it publishes, and the
    /// time of the early write must not affect look-ups.
    pub(crate) fn replace(&self, new: Option<Arc<Run>>, old: &[RunId]) {
        if let Some(held) = self.held() {
            if let Some(run) = new.as_ref().filter(|run| !run.covered().is_empty()) {
                // If the run cannot be read now, its hooks are missing until the next reload.
                if let Ok(Some(damaged)) = held.fill(run) {
                    self.note_damaged(damaged);
                }
            }
            held.forget_runs(old);
        }
        let mut runs = self.runs_mut();
        self.inner.changes.fetch_add(1, Ordering::Release);
        // A reload between the run's writing and now has found the run too.
        runs.retain(|run| !old.contains(&run.id) && new.as_ref().is_none_or(|new| new.id != run.id));
        runs.extend(new);
    }

    pub(crate) fn pending(&self) -> RwLockReadGuard<'_, Vec<Arc<RwLock<MemoryHooks>>>> {
        self.inner.pending.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_pending(&self) -> Arc<RwLock<MemoryHooks>> {
        let hooks = Arc::<RwLock<MemoryHooks>>::default();
        let mut pending = self.inner.pending.write().unwrap_or_else(PoisonError::into_inner);
        pending.push(Arc::clone(&hooks));
        hooks
    }

    pub(crate) fn drop_pending(&self, hooks: &Arc<RwLock<MemoryHooks>>) {
        let mut pending = self.inner.pending.write().unwrap_or_else(PoisonError::into_inner);
        pending.retain(|held| !Arc::ptr_eq(held, hooks));
    }
}

pub(crate) fn read(hooks: &RwLock<MemoryHooks>) -> RwLockReadGuard<'_, MemoryHooks> {
    hooks.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write(hooks: &RwLock<MemoryHooks>) -> RwLockWriteGuard<'_, MemoryHooks> {
    hooks.write().unwrap_or_else(PoisonError::into_inner)
}

impl HookIndex for Index {
    fn candidates_without(
        &self,
        apart: Option<SessionId>,
        fingerprint: &Fingerprint,
        kind: HookKind,
        out: &mut Vec<ContainerId>,
    ) {
        self.inner.lookups.fetch_add(1, Ordering::Relaxed);
        out.clear();
        let bits = fingerprint.index_bits();
        if kind == HookKind::Data {
            for hooks in self.pending().iter() {
                read(hooks).find(bits, out);
            }
        }
        let key = key_of(bits);
        if let Some(held) = self.held() {
            held.memory().find(fingerprint, kind, out);
        } else {
            for run in self.runs().iter() {
                if let Some(damaged) = run.find(kind, key, out) {
                    self.note_damaged(damaged);
                }
            }
        }
        chosen_of(out, apart);
    }

    fn lookups_together(&self) -> usize {
        self.held().map_or(1, |held| held.memory().lookups_together())
    }

    fn candidates_together(
        &self,
        apart: Option<SessionId>,
        fingerprints: &[Fingerprint],
        kind: HookKind,
        out: &mut CandidateLists,
    ) {
        let Some(held) = self.held().filter(|_| fingerprints.len() > 1) else {
            return self.candidates_one_by_one(apart, fingerprints, kind, out);
        };
        self.inner
            .lookups
            .fetch_add(fingerprints.len() as u64, Ordering::Relaxed);
        let (mut found, mut list) = (Vec::new(), Vec::new());
        // Pending hooks first: publishing adds hooks to memory before it removes them from here.
        if kind == HookKind::Data {
            for hooks in self.pending().iter() {
                let hooks = read(hooks);
                for (number, fingerprint) in fingerprints.iter().enumerate() {
                    hooks.find(fingerprint.index_bits(), &mut list);
                    found.extend(list.drain(..).map(|id| (number, id)));
                }
            }
        }
        held.memory().find_together(fingerprints, kind, &mut found);
        found.sort_by_key(|(number, _)| *number);
        out.fill(fingerprints.len(), apart, found);
    }
}

#[cfg(test)]
mod tests {
    use env::fault::FaultStorage;

    use super::*;

    /// A run occurs once, even if a reload finds it before its writer takes it into use.
    #[test]
    fn no_run_is_there_twice() {
        let storage = Arc::new(FaultStorage::new());
        let index =
            Index::open(storage, StoreId::from_bytes([7; 16]), IndexOptions::default()).expect("opens");
        let session = SessionId::new(1).expect("a session");
        index.add_session(session, []).expect("the storage is sound");
        index.reload().expect("the storage is sound");
        let found = Arc::clone(&index.runs()[0]);
        index.replace(Some(found), &[]);
        assert_eq!(index.runs().len(), 1);
    }
}
