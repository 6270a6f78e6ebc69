//! All containers of a store: catalogs through the cache, regions through the catalogs, puts.
//!
//! Cheap to clone, used by any number of threads. Holds no lock while it reads, decrypts or writes.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crypto::{EncryptionKey, Fingerprinter, MasterKeys};
use env::{Env, StorageError};
use format::names;
use types::{ContainerId, Generation, StoreId};

use crate::ContainerError;
use crate::cache::{CatalogCache, Found};
use crate::error::Part;
use crate::identity::{CopyOf, Identity};
use crate::remembered::Generations;
use crate::sealed::SealedContainer;
use crate::stats::{ContainerStats, Counters, MirrorRead, add};
use crate::view::CatalogView;

/// How many damaged containers are noted at most.
const MET_MAX: usize = 4096;

/// The containers of one store.
#[derive(Debug, Clone)]
pub struct Containers {
    inner: Arc<Inner>,
}

type MirrorObserver = Box<dyn Fn(&MirrorRead) + Send + Sync>;

struct Inner {
    env: Env,
    store: StoreId,
    encryption: EncryptionKey,
    fingerprinter: Fingerprinter,
    cache: Arc<CatalogCache>,
    generations: Generations,
    counters: Counters,
    mirror_observer: OnceLock<MirrorObserver>,
    met: Mutex<BTreeSet<ContainerId>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "containers of store {}", self.store)
    }
}

impl Containers {
    /// The containers of a store, with a budget for cached catalogs.
    #[must_use]
    pub fn new(env: Env, store: StoreId, keys: &MasterKeys, catalog_cache_bytes: u64) -> Self {
        let inner = Inner {
            env,
            store,
            encryption: keys.encryption.clone(),
            fingerprinter: Fingerprinter::new(&keys.domain),
            cache: Arc::new(CatalogCache::new(catalog_cache_bytes)),
            generations: Generations::default(),
            counters: Counters::default(),
            mirror_observer: OnceLock::new(),
            met: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The store that these are the containers of.
    #[must_use]
    pub fn store(&self) -> StoreId {
        self.inner.store
    }

    /// The doors that it reads and writes through.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// The store's fingerprints.
    #[must_use]
    pub fn fingerprinter(&self) -> &Fingerprinter {
        &self.inner.fingerprinter
    }

    /// Counts since this was made.
    #[must_use]
    pub fn stats(&self) -> ContainerStats {
        self.inner.counters.snapshot()
    }

    /// The receiver of a report for every read that a mirror copy served; the first one set stays.
    /// Called on the reading thread.
    pub fn observe_mirror_reads(&self, observer: impl Fn(&MirrorRead) + Send + Sync + 'static) {
        drop(self.inner.mirror_observer.set(Box::new(observer)));
    }

    pub(crate) fn encryption(&self) -> &EncryptionKey {
        &self.inner.encryption
    }

    pub(crate) fn cache(&self) -> &CatalogCache {
        &self.inner.cache
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    pub(crate) fn known_generations(&self) -> &Generations {
        &self.inner.generations
    }

    pub(crate) fn report_mirror(&self, at: Identity, part: Part, why: &ContainerError) {
        add(&self.inner.counters.mirror_reads, 1);
        tracing::warn!(
            target: "onefold::mirror",
            container = %at.id, generation = %at.generation, ?part, error = %why,
            "the first copy could not be read, and the second one was"
        );
        if let Some(observer) = self.inner.mirror_observer.get() {
            let (container, generation) = (at.id, at.generation);
            observer(&MirrorRead {
                container,
                generation,
                part,
                why: why.to_string(),
            });
        }
    }

    /// Notes a container with something unreadable in it.
    pub fn note_met(&self, id: ContainerId) {
        let mut met = self.inner.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.len() < MET_MAX {
            met.insert(id);
        }
    }

    /// Notes the container if the error shows rotten bytes. A missing container may have been
    /// removed, so the caller that needs it decides about that.
    pub(crate) fn note_damage(&self, id: ContainerId, error: &ContainerError) {
        if error.is_damage() && !matches!(error, ContainerError::Missing { .. }) {
            self.note_met(id);
        }
    }

    /// The containers noted since the last call.
    #[must_use]
    pub fn take_met(&self) -> BTreeSet<ContainerId> {
        std::mem::take(&mut *self.inner.met.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The catalog of a container: cached, or loaded with one read if the container is neither
    /// compacted nor damaged.
    ///
    /// The generation may be one that a newer has replaced: while it exists, its slots hold what
    /// they always held (INV-2). Who must have the newest asks [`Self::newer`].
    ///
    /// # Errors
    /// `Missing`, or the error of the last copy that was tried.
    pub fn catalog(&self, id: ContainerId) -> Result<Arc<CatalogView>, ContainerError> {
        match self.inner.cache.get_or_load(id) {
            Found::Cached(view) => {
                add(&self.inner.counters.catalog_hits, 1);
                Ok(view)
            }
            Found::Load(loading) => {
                let loaded = self.load_contents(id);
                let loaded = loaded.inspect_err(|error| {
                    // The disk may give the catalog later. To list it now would hide the whole
                    // container.
                    if !matches!(error, ContainerError::Storage(_)) {
                        self.note_damage(id, error);
                    }
                });
                let view = Arc::new(CatalogView::of(loaded?));
                self.inner.cache.insert(Arc::clone(&view));
                drop(loading);
                Ok(view)
            }
        }
    }

    /// The catalog, if it is in the cache; never reads.
    #[must_use]
    pub fn cached_catalog(&self, id: ContainerId) -> Option<Arc<CatalogView>> {
        self.inner.cache.peek(id)
    }

    /// Adds a catalog to the cache, or replaces the one of an older generation.
    pub fn insert_catalog(&self, view: Arc<CatalogView>) {
        self.inner.cache.insert(view);
    }

    /// Drops every cached catalog.
    pub fn clear_catalogs(&self) {
        self.inner.cache.clear();
    }

    /// Memory that cached catalogs take.
    #[must_use]
    pub fn catalog_cache_bytes(&self) -> u64 {
        self.inner.cache.bytes()
    }

    /// After an error with `view`: the catalog of a newer generation, if there is one. A reader
    /// continues with it at the same slots. Costs a listing.
    ///
    /// # Errors
    /// Of the storage, or what is wrong with the newer generation.
    pub fn newer(&self, view: &CatalogView) -> Result<Option<Arc<CatalogView>>, ContainerError> {
        let highest = self.list_generations(view.id(), CopyOf::Main)?.pop();
        if highest.is_none_or(|highest| highest <= view.generation()) {
            return Ok(None);
        }
        let fresh = CatalogView::of(self.load_contents(view.id())?);
        if fresh.generation() <= view.generation() {
            return Ok(None);
        }
        let fresh = Arc::new(fresh);
        self.inner.cache.forget(view);
        self.inner.cache.insert(Arc::clone(&fresh));
        Ok(Some(fresh))
    }

    /// Writes a sealed generation, and its mirror copy where its kind has one; caches its catalog.
    /// Not durable before the storage's next barrier.
    ///
    /// # Errors
    /// `AlreadyExists` when a rival wrote this generation first: start again from the winner's.
    /// After any other error the object may exist or not, whole.
    pub fn put(&self, sealed: &SealedContainer) -> Result<(), ContainerError> {
        let (container, generation) = (sealed.id(), sealed.generation());
        let storage = &self.inner.env.storage;
        let name = names::container(container, generation);
        match storage.put(&name, &[sealed.bytes()]) {
            Ok(()) => self.inner.counters.put(sealed.bytes().len() as u64),
            Err(StorageError::AlreadyExists { .. }) => {
                return Err(ContainerError::AlreadyExists {
                    container,
                    generation,
                });
            }
            Err(e) => return Err(e.into()),
        }
        if let Some(mirror) = Identity::mirror(container, generation) {
            self.put_mirror(mirror, sealed)?;
        }
        self.inner.generations.remember(container, generation);
        self.insert_catalog(sealed.catalog());
        Ok(())
    }

    /// The creator of the main copy owns the mirror's name. An object there is left of an attempt
    /// whose main copy a crash undid; no reader needs it.
    fn put_mirror(&self, mirror: Identity, sealed: &SealedContainer) -> Result<(), ContainerError> {
        let storage = &self.inner.env.storage;
        let name = mirror.name();
        let mut put = storage.put(&name, &[sealed.bytes()]);
        if matches!(put, Err(StorageError::AlreadyExists { .. })) {
            if storage.get(&name)? == sealed.bytes() {
                return Ok(());
            }
            storage.delete(&name)?;
            put = storage.put(&name, &[sealed.bytes()]);
        }
        put?;
        self.inner.counters.put(sealed.bytes().len() as u64);
        Ok(())
    }

    /// The generations of a container's main copies that the storage lists, in ascending order.
    ///
    /// # Errors
    /// Of the storage.
    pub fn generations(&self, id: ContainerId) -> Result<Vec<Generation>, ContainerError> {
        self.list_generations(id, CopyOf::Main)
    }
}
