//! Makes and opens a store.
//!
//! A [`Store`] may be used from many threads, and many processes may have the same store open. None
//! waits for another (docs/protocol.md).

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use container::Containers;
use crypto::Argon2Cost;
use env::{CachedStorage, Env, Moment, StorageError};
use format::config::Settings;
use index::{Index, IndexOptions};
use ingest::{ClientPools, StorePools};
use object::config::{self, NewSlot, OpenConfig};
use object::{ObjectError, Sealer};
use recipe::NodeCache;
use session::{HeartbeatThread, Manifests, ReclaimView, SessionPolicy};
use tracing::info;
use types::{Epoch, StoreId};

use crate::cache::{CacheOptions, with_cache};
use crate::credential::Credential;
use crate::error::{Error, Result};
use crate::first_listings::FirstListings;
use crate::settings::{SettingsChange, check_cutting};
use crate::warning::Warning;

/// Memory for hooks that are not in a run yet.
const PENDING_HOOKS_BYTES_MAX: usize = 32 << 20;

/// Memory for containers that backups are filling: four of the usual size, with 1 MiB more each.
const OPEN_CONTAINERS_BYTES: u64 = 68 << 20;

/// What shapes a new store for good.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InitOptions {
    /// Average length of a content-defined chunk in bytes, a power of two.
    pub chunk_avg_bytes: u32,
    /// Plain bytes of a region: the unit that is compressed and read together.
    pub region_bytes: u32,
    /// Stored bytes at which a container closes.
    pub container_bytes: u32,
    /// Average number of children of a recipe node, a power of two. The children of a segment are
    /// its chunks.
    pub node_avg_children: u32,
    /// Who makes the first password's slot; for people only.
    pub label: String,
    /// The cost of one guess at the password.
    pub cost: Argon2Cost,
    /// Bytes of the reserve, which is deleted when the disk is full. 0: none, for a storage that
    /// does not fill up.
    pub reserve_bytes: usize,
    /// Settings for series without settings of their own. These may be changed later, unlike the
    /// other options.
    pub series: SettingsChange,
}

types::setters!(InitOptions {
    chunk_avg_bytes: u32,
    region_bytes: u32,
    container_bytes: u32,
    node_avg_children: u32,
    label: String,
    cost: Argon2Cost,
    reserve_bytes: usize,
    series: SettingsChange,
});

impl Default for InitOptions {
    fn default() -> Self {
        Self {
            chunk_avg_bytes: 8 << 10,
            region_bytes: 128 << 10,
            container_bytes: 16 << 20,
            node_avg_children: 512,
            label: String::new(),
            cost: Argon2Cost::default(),
            reserve_bytes: 0,
            series: SettingsChange::default(),
        }
    }
}

/// The options of this process for a store.
///
/// ```
/// let options = onefold::OpenOptions::default()
///     .node_cache_bytes(64 << 20)
///     .pin_reads(false);
/// assert!(!options.pin_reads);
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Memory for cached catalogs, in bytes.
    pub catalog_cache_bytes: u64,
    /// Memory for cached nodes, in bytes.
    pub node_cache_bytes: u64,
    /// The most bytes of the index on disk. Beyond it R halves.
    pub index_bytes_max: u64,
    /// The most bytes of memory for the whole index. `None`: it is read from disk. It is useful for
    /// a process that writes hundreds of streams at once. Opening the store then reads the whole
    /// index.
    pub index_memory_bytes_max: Option<usize>,
    /// Memory for containers that backups of this process are filling, in bytes. Where that is less
    /// than a container and 1 MiB for each backup that runs, containers are closed earlier.
    pub open_containers_bytes: u64,
    /// Memory for what a backup adds to the index, in bytes; beyond it that goes to the storage
    /// before its end.
    pub index_pending_bytes_max: usize,
    /// The timing of sessions.
    pub policy: SessionPolicy,
    /// The process id that sessions show, for messages only.
    pub process: u32,
    /// Whether a reader of a backup (restore, dump, listing, check, layout) pins it, so that no
    /// prune removes its data meanwhile. This writes a few small objects. Without it, reading
    /// writes nothing.
    pub pin_reads: bool,
    /// Whether the storage gives this process the content of containers. If not, it gives catalogs
    /// and nodes alone, as a vault does to a client that may only write. Then a backup has no
    /// parent, and verifies no chunks that it finds stored.
    pub reads_content: bool,
    /// A cache on this machine, for a store far away.
    pub cache: Option<CacheOptions>,
}

types::setters!(OpenOptions {
    catalog_cache_bytes: u64,
    node_cache_bytes: u64,
    index_bytes_max: u64,
    index_memory_bytes_max: Option<usize>,
    open_containers_bytes: u64,
    index_pending_bytes_max: usize,
    policy: SessionPolicy,
    process: u32,
    pin_reads: bool,
    reads_content: bool,
    cache: Option<CacheOptions>,
});

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            catalog_cache_bytes: 48 << 20,
            node_cache_bytes: 16 << 20,
            index_bytes_max: IndexOptions::BYTES_MAX,
            index_memory_bytes_max: None,
            open_containers_bytes: OPEN_CONTAINERS_BYTES,
            index_pending_bytes_max: PENDING_HOOKS_BYTES_MAX,
            policy: SessionPolicy::default(),
            process: std::process::id(),
            pin_reads: true,
            reads_content: true,
            cache: None,
        }
    }
}

/// An open store.
pub struct Store {
    pub(crate) env: Env,
    /// `env` reads through it.
    pub(crate) cache: Option<Arc<CachedStorage>>,
    pub(crate) config: OpenConfig,
    pub(crate) options: OpenOptions,
    pub(crate) sealer: Sealer,
    pub(crate) containers: Containers,
    pub(crate) manifests: Manifests,
    nodes: NodeCache,
    pub(crate) client_pools: ClientPools,
    pub(crate) store_pools: StorePools,
    /// Ticks the sessions of backups and readers.
    pub(crate) heartbeats: HeartbeatThread,
    /// Opened by the first who needs it.
    index: Mutex<Option<Index>>,
    /// The oldest epoch whose list was kept when the caches were last empty.
    cached_since: Mutex<Option<Epoch>>,
    pub(crate) first_listings: FirstListings,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Calls the observer once for each container whose first copy could not be read and whose
    /// second copy was read. The reading thread makes the call. Only the first observer counts.
    pub fn observe_mirror_reads(&self, observer: impl Fn(&Warning) + Send + Sync + 'static) {
        let told = Mutex::new(BTreeSet::new());
        self.containers.observe_mirror_reads(move |read| {
            let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.insert(read.container) {
                observer(&Warning::mirror_read(read));
            }
        });
    }

    /// Makes a store. With `domain_of`, it uses the fingerprint key of that store.
    ///
    /// # Errors
    /// If there is one already; settings that no store can have; of the storage.
    pub fn init(
        env: &Env,
        credential: &Credential,
        options: &InitOptions,
        domain_of: Option<&Self>,
    ) -> Result<Self> {
        let env = &env.logged();
        let avg = options.chunk_avg_bytes;
        let settings = Settings {
            chunk_avg_bytes: avg,
            chunk_min_bytes: avg / 2,
            chunk_max_bytes: avg.saturating_mul(8),
            node_avg_children: options.node_avg_children,
            region_bytes: options.region_bytes,
            container_bytes: options.container_bytes,
        };
        check_cutting(&settings)?;
        options.series.check(avg)?;
        let slot = NewSlot {
            credential: credential.as_crypto(),
            label: &options.label,
            cost: options.cost,
        };
        let domain = domain_of.map(|store| store.config.keys.domain.clone());
        // Put the reserve before the config: if there is no room for it, there is no store, and
        // init can run again. In an existing store nothing is made.
        let is_new = || matches!(probe(env), Err(Error::Object(ObjectError::NotAStore)));
        if options.reserve_bytes > 0 && is_new() {
            reclaim::reserve::make(env, options.reserve_bytes)?;
        }
        let config = config::create(env, &settings, &[slot], domain)?;
        let store = Self::assemble(env, config, OpenOptions::default());
        if options.series != SettingsChange::default() {
            store.set_default_series_settings(&options.series)?;
        }
        Ok(store)
    }

    /// The storage in a local folder that holds a store. Opens nothing, and needs no password.
    ///
    /// # Errors
    /// Those of [`Self::probe`]. If there is no such folder, there is no store either.
    pub fn find_local(folder: &Path) -> Result<Env> {
        let env = match Env::local(folder) {
            Err(StorageError::NoFolder { .. }) => return Err(ObjectError::NotAStore.into()),
            other => other?,
        };
        Self::probe(&env)?;
        Ok(env)
    }

    /// Whether there is a store, without opening it.
    ///
    /// # Errors
    /// If there is none, or one without its config; of the storage.
    pub fn probe(env: &Env) -> Result<()> {
        probe(&env.logged())
    }

    /// Opens a store.
    ///
    /// # Errors
    /// No store, a wrong password, a newer format, damage. [`Error::kind`] or the message
    /// distinguishes them.
    pub fn open(env: &Env, credential: &Credential, options: &OpenOptions) -> Result<Self> {
        let env = &env.logged();
        let first_listings = FirstListings::begin(env);
        let config = config::open(env, credential.as_crypto())?;
        info!(target: "onefold::store", store = %config.store(), "opened");
        Ok(Self {
            first_listings,
            ..Self::assemble(env, config, options.clone())
        })
    }

    fn assemble(env: &Env, config: OpenConfig, options: OpenOptions) -> Self {
        let cache = options
            .cache
            .as_ref()
            .map(|cache| cache.over(env, config.store()));
        let env = &with_cache(env, cache.as_ref());
        let sealer = config.sealer(env);
        let containers = Containers::new(
            env.clone(),
            config.store(),
            &config.keys,
            options.catalog_cache_bytes,
        );
        let manifests = Manifests::new(&sealer);
        let nodes = NodeCache::new(containers.clone(), options.node_cache_bytes);
        let container_bytes = config.settings.container_bytes;
        let store_pools = StorePools::new(container_bytes, options.open_containers_bytes, &env.clock);
        Self {
            client_pools: ClientPools::new(&env.clock),
            store_pools,
            heartbeats: HeartbeatThread::default(),
            env: env.clone(),
            cache,
            config,
            options,
            sealer,
            containers,
            manifests,
            nodes,
            index: Mutex::default(),
            cached_since: Mutex::default(),
            first_listings: FirstListings::default(),
        }
    }

    /// The store's id.
    #[must_use]
    pub fn id(&self) -> StoreId {
        self.config.store()
    }

    /// The permanent settings of the store.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.config.settings
    }

    /// Fails if a newer version of the program has added a requirement for writers that this one
    /// does not know.
    pub(crate) fn ensure_writable(&self) -> Result<()> {
        match self.config.unknown_to_write() {
            0 => Ok(()),
            unknown => Err(object::ObjectError::ReadOnly { unknown }.into()),
        }
    }

    pub(crate) fn index_options(&self) -> IndexOptions {
        IndexOptions {
            pending_bytes_max: self.options.index_pending_bytes_max,
            bytes_max: self.options.index_bytes_max,
            memory_bytes_max: self.options.index_memory_bytes_max,
            ..IndexOptions::default()
        }
    }

    /// The store's cache of nodes.
    pub(crate) fn nodes(&self) -> NodeCache {
        self.nodes.clone()
    }

    /// The nodes, without the cache: read from the storage again.
    pub(crate) fn fresh_nodes(&self) -> NodeCache {
        NodeCache::new(self.containers.clone(), self.options.node_cache_bytes)
    }

    /// The index. It is opened once, as of any moment after `since`, and then follows the changes
    /// of other processes.
    pub(crate) fn index_since(&self, since: Moment) -> Result<Index> {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(index) = &*index {
            index.reload()?;
            return Ok(index.clone());
        }
        let storage = Arc::clone(&self.env.storage);
        let opened = Index::open_since(storage, self.id(), self.index_options(), since)?;
        Ok(index.insert(opened).clone())
    }

    /// Drops cached values that are older than the lists of removed slots.
    ///
    /// A session honours all lists of removed slots that are kept. Lists are kept for running
    /// sessions, not for caches. So values that were cached before the oldest list may name removed
    /// slots (docs/protocol-model.md, `ListEpochs`).
    pub(crate) fn refresh_caches(&self, view: &ReclaimView) {
        self.enter_period(view);
        let mut since = self.cached_since.lock().unwrap_or_else(PoisonError::into_inner);
        let is_known = match (view.oldest_epoch(), *since) {
            (None, None) => true,
            (Some(oldest), Some(since)) => oldest <= since,
            _ => false,
        };
        if !is_known || view.is_blind() {
            self.containers.clear_catalogs();
            self.nodes.clear();
            // A cached container may have slots of any list that is kept.
            *since = view.oldest_epoch();
        }
    }
}

/// Like [`Store::probe`].
fn probe(env: &Env) -> Result<()> {
    if !env.storage.list(format::names::CONFIG_FOLDER)?.is_empty() {
        return Ok(());
    }
    match config::open(env, crypto::Credential::NoPassword) {
        // The store was made meanwhile.
        Ok(_) | Err(ObjectError::PasswordNeeded) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
