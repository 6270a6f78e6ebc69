//! From a fingerprint to the place of its bytes [Guo 3.2.1]: catalogs in use first, then the index.
//!
//! A stream's chunks lie together, so a hit's catalog answers for its neighbours: the views used last are
//! asked before anything else, and most chunks of a known stream cost no index read. What must hold: only
//! the full fingerprint in a checked catalog decides, never a hook; nothing is returned for which the
//! caller's `is_absent` is true (condemned, damaged, or a node of an uncommitted session: INV-9). Damage
//! of a container costs its deduplication, never the backup. May be used from many threads.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use container::{CatalogView, Containers};
use format::container::CatalogEntry;
use types::{ChunkLocation, ContainerId, Fingerprint};

use crate::error::IndexError;
use crate::hook::{HookIndex, HookKind};
use crate::session::stops;

/// Catalogs asked before the index.
const RECENT_MAX: usize = 8;
/// Catalogs loaded for one look-up at most.
const LOADS_MAX: usize = 3;

/// A fingerprint found.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Where: in the container that holds it now, if it was merged.
    pub location: ChunkLocation,
    /// Its entry.
    pub entry: CatalogEntry,
    /// The catalog, whose other entries are likely next.
    pub view: Arc<CatalogView>,
}

/// Counts; a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResolverStats {
    /// Fingerprints asked for.
    pub lookups: u64,
    /// Found in a catalog used a moment ago.
    pub hits_recent: u64,
    /// Look-ups that went to the index.
    pub index_reads: u64,
    /// Found in a catalog that was in the cache.
    pub hits_cached: u64,
    /// Catalogs loaded.
    pub catalog_loads: u64,
    /// Catalogs loaded that did not have the fingerprint, or had it only where it is absent.
    pub false_loads: u64,
    /// Catalogs that could not be loaded: missing or damaged.
    pub failed_loads: u64,
}

#[derive(Debug, Default)]
struct Counters {
    lookups: AtomicU64,
    hits_recent: AtomicU64,
    index_reads: AtomicU64,
    hits_cached: AtomicU64,
    catalog_loads: AtomicU64,
    false_loads: AtomicU64,
    failed_loads: AtomicU64,
}

/// Look-ups through hooks and catalogs. One a stream keeps the streams' locality apart.
#[derive(Debug)]
pub struct Resolver<I> {
    index: I,
    containers: Containers,
    recent: Mutex<VecDeque<Arc<CatalogView>>>,
    counters: Counters,
}

impl<I: HookIndex> Resolver<I> {
    /// A resolver with nothing used yet.
    #[must_use]
    pub fn new(index: I, containers: Containers) -> Self {
        Self {
            index,
            containers,
            recent: Mutex::default(),
            counters: Counters::default(),
        }
    }

    /// The hooks.
    #[must_use]
    pub fn index(&self) -> &I {
        &self.index
    }

    /// The containers.
    #[must_use]
    pub fn containers(&self) -> &Containers {
        &self.containers
    }

    /// Where the chunk or node is: in the catalogs used last, else in the newest candidate of the index,
    /// candidates in the cache before others. `None` means: store it.
    ///
    /// # Errors
    /// When the storage does not answer.
    pub fn resolve(
        &self,
        fingerprint: &Fingerprint,
        kind: HookKind,
        is_absent: &dyn Fn(ChunkLocation) -> bool,
    ) -> Result<Option<Resolved>, IndexError> {
        count(&self.counters.lookups);
        if let Some(found) = self.find_recent(fingerprint, kind, is_absent) {
            count(&self.counters.hits_recent);
            return Ok(Some(found));
        }
        count(&self.counters.index_reads);
        let mut candidates = Vec::new();
        self.index.candidates(fingerprint, kind, &mut candidates);
        let mut others = Vec::new();
        for id in candidates {
            match self.containers.cached_catalog(id) {
                None => others.push(id),
                Some(view) => {
                    if let Some(found) = look(&view, fingerprint, kind, is_absent) {
                        count(&self.counters.hits_cached);
                        self.use_view(&found.view);
                        return Ok(Some(found));
                    }
                }
            }
        }
        for id in others.into_iter().take(LOADS_MAX) {
            let Some(view) = self.load(id)? else { continue };
            if let Some(found) = look(&view, fingerprint, kind, is_absent) {
                self.use_view(&found.view);
                return Ok(Some(found));
            }
            count(&self.counters.false_loads);
        }
        Ok(None)
    }

    fn load(&self, id: ContainerId) -> Result<Option<Arc<CatalogView>>, IndexError> {
        count(&self.counters.catalog_loads);
        match self.containers.catalog(id) {
            Ok(view) => Ok(Some(view)),
            Err(e) if stops(&e) => Err(e.into()),
            Err(_) => {
                count(&self.counters.failed_loads);
                Ok(None)
            }
        }
    }

    fn find_recent(
        &self,
        fingerprint: &Fingerprint,
        kind: HookKind,
        is_absent: &dyn Fn(ChunkLocation) -> bool,
    ) -> Option<Resolved> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let found = recent
            .iter()
            .enumerate()
            .find_map(|(at, view)| look(view, fingerprint, kind, is_absent).map(|found| (at, found)));
        let (at, found) = found?;
        if at > 0
            && let Some(view) = recent.remove(at)
        {
            recent.push_front(view);
        }
        Some(found)
    }

    /// Adds a catalog to those asked first: for a parent backup's containers, before their first chunk.
    pub fn use_view(&self, view: &Arc<CatalogView>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|held| held.requested() != view.requested());
        recent.push_front(Arc::clone(view));
        recent.truncate(RECENT_MAX);
    }

    /// Forgets the catalogs used last: after an epoch, when what they hold may have been removed.
    pub fn forget_recent(&self) {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> ResolverStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let c = &self.counters;
        ResolverStats {
            lookups: get(&c.lookups),
            hits_recent: get(&c.hits_recent),
            index_reads: get(&c.index_reads),
            hits_cached: get(&c.hits_cached),
            catalog_loads: get(&c.catalog_loads),
            false_loads: get(&c.false_loads),
            failed_loads: get(&c.failed_loads),
        }
    }
}

fn look(
    view: &Arc<CatalogView>,
    fingerprint: &Fingerprint,
    kind: HookKind,
    is_absent: &dyn Fn(ChunkLocation) -> bool,
) -> Option<Resolved> {
    let container = view.id();
    view.find_all(fingerprint)
        .filter(|entry| (entry.level.get() == 0) == (kind == HookKind::Data))
        .map(|entry| {
            (
                ChunkLocation {
                    container,
                    slot: entry.slot,
                },
                *entry,
            )
        })
        .find(|(location, _)| !is_absent(*location))
        .map(|(location, entry)| Resolved {
            location,
            entry,
            view: Arc::clone(view),
        })
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
