//! All containers of a store: catalogs through the cache, regions through the catalogs, puts.
//!
//! Cheap to clone. Any number of threads may use it. It holds no lock while it reads, decrypts or
//! writes.

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
use crate::load::TailGuess;
use crate::mirror_watch::{MirrorWatch, MirrorWatches};
use crate::remembered::Generations;
use crate::sealed::SealedContainer;
use crate::stats::{ContainerStats, Counters, MirrorRead, add};
use crate::view::CatalogView;

/// The most damaged containers that are noted.
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
    tail_guess: TailGuess,
    mirror_observer: OnceLock<MirrorObserver>,
    mirror_watches: MirrorWatches,
    met: Mutex<BTreeSet<ContainerId>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "containers of store {}", self.store)
    }
}

impl Containers {
    /// The containers of a store, with a budget of bytes for cached catalogs.
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
            tail_guess: TailGuess::default(),
            mirror_observer: OnceLock::new(),
            mirror_watches: MirrorWatches::default(),
            met: Mutex::default(),
        };
        Self {
            inner: Arc::new(inner),
        }
    }

    /// The id of the store.
    #[must_use]
    pub fn store(&self) -> StoreId {
        self.inner.store
    }

    /// The environment for reading and writing.
    #[must_use]
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// The store's fingerprinter.
    #[must_use]
    pub fn fingerprinter(&self) -> &Fingerprinter {
        &self.inner.fingerprinter
    }

    /// Counts since this value was made.
    #[must_use]
    pub fn stats(&self) -> ContainerStats {
        self.inner.counters.snapshot()
    }

    /// Sets the receiver of reports about reads that a mirror copy served. The first receiver
    /// stays. The reading thread calls it.
    pub fn observe_mirror_reads(&self, observer: impl Fn(&MirrorRead) + Send + Sync + 'static) {
        drop(self.inner.mirror_observer.set(Box::new(observer)));
    }

    /// Notes from now on the containers of which a mirror copy serves a read because the first copy
    /// is damaged.
    #[must_use]
    pub fn watch_mirror_reads(&self) -> MirrorWatch {
        self.inner.mirror_watches.add()
    }

    pub(crate) fn encryption(&self) -> &EncryptionKey {
        &self.inner.encryption
    }

    pub(crate) fn tail_guess(&self) -> &TailGuess {
        &self.inner.tail_guess
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
        if shows_rot(why) {
            self.inner.mirror_watches.note(at.id);
        }
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

    /// Notes a container with an unreadable part.
    pub fn note_met(&self, id: ContainerId) {
        let mut met = self.inner.met.lock().unwrap_or_else(PoisonError::into_inner);
        if met.len() < MET_MAX {
            met.insert(id);
        }
    }

    /// Notes the container if the error shows rot. A missing container may have been removed, so
    /// the caller that needs it decides about that.
    pub(crate) fn note_damage(&self, id: ContainerId, error: &ContainerError) {
        if shows_rot(error) {
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
    /// A newer generation may have replaced this one. While this one exists, its slots have the
    /// same content (INV-2). A caller that needs the newest one calls [`Self::newer`].
    ///
    /// # Errors
    /// `Missing`, or the error of the last copy that was tried.
    pub fn catalog(&self, id: ContainerId) -> Result<Arc<CatalogView>, ContainerError> {
        let clears = self.inner.cache.clears();
        match self.inner.cache.get_or_load(id) {
            Found::Cached(view) => {
                add(&self.inner.counters.catalog_hits, 1);
                Ok(view)
            }
            Found::Load(loading) => {
                let loaded = self.load_contents(id);
                let loaded = loaded.inspect_err(|error| {
                    // The disk may return the catalog later. A note now would hide the whole
                    // container.
                    if !matches!(error, ContainerError::Storage(_)) {
                        self.note_damage(id, error);
                    }
                });
                let view = Arc::new(CatalogView::of(loaded?));
                self.inner.cache.insert_loaded(Arc::clone(&view), clears);
                drop(loading);
                Ok(view)
            }
        }
    }

    /// Adds a catalog to the cache, or replaces the one of an older generation.
    pub fn insert_catalog(&self, view: Arc<CatalogView>) {
        self.inner.cache.insert(view);
    }

    /// Drops every cached catalog.
    pub fn clear_catalogs(&self) {
        self.inner.cache.clear();
    }

    /// Memory of the cached catalogs.
    #[must_use]
    pub fn catalog_cache_bytes(&self) -> u64 {
        self.inner.cache.bytes()
    }

    /// After an error with `view`: the catalog of a newer generation, if there is one. A reader
    /// continues with it at the same slots. This costs a listing.
    ///
    /// # Errors
    /// Errors of the storage, or of the newer generation.
    pub fn newer(&self, view: &CatalogView) -> Result<Option<Arc<CatalogView>>, ContainerError> {
        let clears = self.inner.cache.clears();
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
        self.inner.cache.insert_loaded(Arc::clone(&fresh), clears);
        Ok(Some(fresh))
    }

    /// Writes a sealed generation, and its mirror copy if its kind has one. Caches its catalog. It
    /// is durable after the storage's next barrier.
    ///
    /// # Errors
    /// `AlreadyExists` if a rival wrote this generation first: start again from the rival's. After
    /// any other error the whole object may exist or not.
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

    /// Writes the mirror copy. The creator of the main copy owns the mirror's name. An object under
    /// that name comes from an attempt whose main copy a crash undid. No reader needs it.
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
    /// Errors of the storage.
    pub fn generations(&self, id: ContainerId) -> Result<Vec<Generation>, ContainerError> {
        self.list_generations(id, CopyOf::Main)
    }
}

/// Whether the error shows damage of an object that exists.
fn shows_rot(error: &ContainerError) -> bool {
    error.is_damage() && !matches!(error, ContainerError::Missing { .. })
}
