//! The only access to time, randomness, storage and block devices.
//!
//! [`Storage`] is the create-only object interface. [`LocalStorage`] and [`MemoryStorage`]
//! implement it, and with the feature `remote` `ObjectStoreStorage`. [`Clock`] and [`Entropy`] are
//! time and randomness. Each has an implementation by the system, and one for tests.
//! [`BlockDevice`] is a file or a disk of blocks, which are overwritten in place.
//! [`socket::listen`] makes a socket in the file system, on which a server accepts clients.
//! [`raise_descriptor_limit`] lets a process have more connections and open files.
//! [`LoggedStorage`] reports the operations of another storage to `tracing`. [`DryRunStorage`]
//! keeps all changes to itself. [`CachedStorage`] keeps some of another storage's objects in a
//! folder.
//!
//! Whatever opens a local file is there on Unix alone: [`LocalStorage`], [`CachedStorage`],
//! [`FileDevice`], [`socket`]. What a Unix lacks of Linux's calls is done without them, or refused.
//!
//! The feature `testing` adds code for tests: crash tests use `fault::FaultStorage` and
//! `block::fault::FaultMachine`. Every storage must pass the suite `conformance`, and every block
//! device `block::conformance`.

mod allocator;
pub mod block;
mod buffer;
#[cfg(unix)]
mod cached;
mod clock;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
#[cfg(unix)]
mod descriptors;
mod dry_run;
mod entropy;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fault;
#[cfg(unix)]
mod local;
mod logged;
mod memory;
mod moment;
mod plain;
#[cfg(any(test, feature = "remote"))]
mod remote;
#[cfg(unix)]
pub mod socket;
mod storage;
#[cfg(unix)]
mod unlock;

#[cfg(unix)]
use std::path::Path;
use std::sync::Arc;

pub use allocator::return_large_memory;
pub use block::{BLOCK_BYTES, BlockDevice, BlockRead, DeviceError, MemoryDevice};
#[cfg(unix)]
pub use block::{FileCaching, FileDevice};
pub use buffer::{ALIGN_BYTES, AlignedBuffer, AlignedPool};
#[cfg(unix)]
pub use cached::{CachePolicy, CachedStorage, Keep, PastCache};
pub use clock::{Clock, ManualClock, SystemClock};
#[cfg(unix)]
pub use descriptors::{descriptor_limit, raise_descriptor_limit};
pub use dry_run::DryRunStorage;
pub use entropy::{Entropy, SeededEntropy, SystemEntropy};
pub use error::StorageError;
#[cfg(unix)]
pub use local::{Access, LOCAL_FOLDERS, LocalOptions, LocalStorage, PublishWay, cached_bytes};
pub use logged::LoggedStorage;
pub use memory::MemoryStorage;
pub use moment::{ListingOf, Moment};
#[cfg(any(test, feature = "remote"))]
pub use remote::{
    LocationError, ObjectStoreLocation, ObjectStoreOptions, ObjectStoreStorage, StorageClass,
    StorageClassError,
};
pub use storage::{LockState, ObjectBytes, ObjectMeta, ProcessLock, Storage};

/// Storage, time and randomness together. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Env {
    /// The store's objects.
    pub storage: Arc<dyn Storage>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}

impl Env {
    /// This storage, with the system's time and randomness.
    #[must_use]
    pub fn system(storage: Arc<dyn Storage>) -> Self {
        Self {
            storage,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
        }
    }

    /// An existing local folder, with the system's time and randomness. Creates nothing.
    ///
    /// # Errors
    /// As [`LocalStorage::open`].
    #[cfg(unix)]
    pub fn local(root: impl AsRef<Path>) -> Result<Self, StorageError> {
        Ok(Self::system(Arc::new(LocalStorage::open(root)?)))
    }

    /// A local folder that is created if it is missing, with the system's time and randomness.
    ///
    /// # Errors
    /// As [`LocalStorage::create`].
    #[cfg(unix)]
    pub fn create_local(root: impl AsRef<Path>) -> Result<Self, StorageError> {
        Ok(Self::system(Arc::new(LocalStorage::create(root)?)))
    }

    /// Like [`Self::create_local`], with this access.
    ///
    /// # Errors
    /// As [`LocalStorage::create_for`].
    #[cfg(unix)]
    pub fn create_local_for(root: impl AsRef<Path>, access: Access) -> Result<Self, StorageError> {
        Ok(Self::system(Arc::new(LocalStorage::create_for(root, access)?)))
    }

    /// A place in an object store, with the system's time and randomness. Its credentials come from
    /// the environment.
    ///
    /// # Errors
    /// As [`ObjectStoreStorage::open`].
    #[cfg(any(test, feature = "remote"))]
    pub fn object_store(
        location: &ObjectStoreLocation,
        options: &ObjectStoreOptions,
    ) -> Result<Self, StorageError> {
        Ok(Self::system(Arc::new(ObjectStoreStorage::open(
            location, options,
        )?)))
    }

    /// Like [`Self::object_store`], for a new store: the object store must create objects once.
    ///
    /// # Errors
    /// As [`ObjectStoreStorage::open`] and [`ObjectStoreStorage::probe_creates`].
    #[cfg(any(test, feature = "remote"))]
    pub fn create_object_store(
        location: &ObjectStoreLocation,
        options: &ObjectStoreOptions,
    ) -> Result<Self, StorageError> {
        let storage = ObjectStoreStorage::open(location, options)?;
        storage.probe_creates()?;
        Ok(Self::system(Arc::new(storage)))
    }

    /// The same environment. Each operation of the storage is reported to `tracing`
    /// ([`LoggedStorage`]).
    #[must_use]
    pub fn logged(&self) -> Self {
        let storage = LoggedStorage::new(Arc::clone(&self.storage), Arc::clone(&self.clock));
        Self {
            storage: Arc::new(storage),
            ..self.clone()
        }
    }

    /// A test's environment: this storage, a clock that stands still until it is moved, and
    /// randomness that repeats with its seed. Also returns the clock.
    #[must_use]
    pub fn simulated(storage: Arc<dyn Storage>, seed: u64) -> (Self, ManualClock) {
        let clock = ManualClock::default();
        let (time, entropy) = (Arc::new(clock.clone()), Arc::new(SeededEntropy::new(seed)));
        (
            Self {
                storage,
                clock: time,
                entropy,
            },
            clock,
        )
    }
}
