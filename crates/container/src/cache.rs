//! The catalog cache: whole catalogs by container, within a byte budget [Guo 3.2.1].
//!
//! The cache drops the least recently used catalog first. What must hold: only the newest catalog
//! may exceed the budget (INV-7). When several threads miss the same container, one loads it and
//! the others wait. If the load fails, each waiter tries for itself. All methods may be called from
//! many threads.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use types::ContainerId;

use crate::view::CatalogView;

#[derive(Debug)]
pub(crate) struct CatalogCache {
    budget_bytes: u64,
    state: Mutex<State>,
    loaded: Condvar,
}

#[derive(Debug, Default)]
struct State {
    held: HashMap<ContainerId, CachedCatalog>,
    /// Use order.
    order: BTreeMap<u64, ContainerId>,
    loading: HashSet<ContainerId>,
    next_use: u64,
    bytes: u64,
    clears: u64,
}

#[derive(Debug)]
struct CachedCatalog {
    view: Arc<CatalogView>,
    bytes: u64,
    used: u64,
}

/// The result of a look-up.
pub(crate) enum Found<'a> {
    Cached(Arc<CatalogView>),
    /// The caller must load the catalog. Others wait until this is dropped.
    Load(Loading<'a>),
}

/// The duty to load one catalog.
pub(crate) struct Loading<'a> {
    cache: &'a CatalogCache,
    id: ContainerId,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.cache.lock().loading.remove(&self.id);
        self.cache.loaded.notify_all();
    }
}

impl CatalogCache {
    pub(crate) fn new(budget_bytes: u64) -> Self {
        Self {
            budget_bytes,
            state: Mutex::default(),
            loaded: Condvar::new(),
        }
    }

    /// The state is consistent after each statement, so a panic under the lock does no harm.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The catalog, or the duty to load it.
    pub(crate) fn get_or_load(&self, id: ContainerId) -> Found<'_> {
        let mut state = self.lock();
        loop {
            if let Some(view) = state.touch(id) {
                return Found::Cached(view);
            }
            if state.loading.insert(id) {
                return Found::Load(Loading { cache: self, id });
            }
            state = self.loaded.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds a catalog, or replaces one of an older generation.
    pub(crate) fn insert(&self, view: Arc<CatalogView>) {
        let mut state = self.lock();
        state.insert(view);
        state.evict(self.budget_bytes);
    }

    /// Like [`Self::insert`], of a catalog whose load began when the cache had been cleared so
    /// often ([`Self::clears`]). Since then it may have become stale: then nothing is added.
    pub(crate) fn insert_loaded(&self, view: Arc<CatalogView>, clears: u64) {
        let mut state = self.lock();
        if state.clears == clears {
            state.insert(view);
            state.evict(self.budget_bytes);
        }
    }

    /// How often the cache was cleared.
    pub(crate) fn clears(&self) -> u64 {
        self.lock().clears
    }

    /// Drops a catalog that turned out stale.
    pub(crate) fn forget(&self, stale: &CatalogView) {
        let mut state = self.lock();
        let id = stale.id();
        let same = state
            .held
            .get(&id)
            .is_some_and(|held| held.view.is_same_generation(stale));
        if same {
            state.remove(id);
        }
    }

    /// Drops a container's catalog.
    pub(crate) fn forget_id(&self, id: ContainerId) {
        self.lock().remove(id);
    }

    /// Drops every catalog.
    pub(crate) fn clear(&self) {
        let mut state = self.lock();
        state.clears += 1;
        state.evict(0);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }
}

impl State {
    fn touch(&mut self, id: ContainerId) -> Option<Arc<CatalogView>> {
        let held = self.held.get_mut(&id)?;
        self.order.remove(&held.used);
        held.used = self.next_use;
        self.next_use += 1;
        self.order.insert(held.used, id);
        Some(Arc::clone(&held.view))
    }

    fn insert(&mut self, view: Arc<CatalogView>) {
        let id = view.id();
        self.remove(id);
        let bytes = view.bytes_in_memory();
        self.bytes += bytes;
        self.held.insert(
            id,
            CachedCatalog {
                view,
                bytes,
                used: self.next_use,
            },
        );
        self.order.insert(self.next_use, id);
        self.next_use += 1;
    }

    fn remove(&mut self, id: ContainerId) {
        let Some(held) = self.held.remove(&id) else { return };
        self.order.remove(&held.used);
        self.bytes -= held.bytes;
    }

    /// Drops catalogs until the rest fits the budget. Keeps the newest one even if it alone exceeds
    /// the budget: its user is about to read it.
    fn evict(&mut self, budget_bytes: u64) {
        let keep = usize::from(budget_bytes > 0);
        while self.bytes > budget_bytes && self.order.len() > keep {
            let Some((_, oldest)) = self.order.first_key_value() else {
                return;
            };
            let oldest = *oldest;
            self.remove(oldest);
        }
    }
}
