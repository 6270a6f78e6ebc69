//! A simulated store for unit tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use container::Containers;
use crypto::{DomainKey, EncryptionKey, MasterKeys};
use env::{Env, Storage};
use object::Sealer;
use types::StoreId;

/// The store's id.
pub(crate) const STORE: StoreId = StoreId::from_bytes([1; 16]);

/// The store's keys.
fn keys() -> MasterKeys {
    MasterKeys {
        domain: DomainKey::from_bytes([1; 32]),
        encryption: EncryptionKey::from_bytes([2; 32]),
    }
}

/// The containers in this storage. Each call is a process with a seed of its own.
pub(crate) fn containers(storage: Arc<dyn Storage>, cache_bytes: u64) -> Containers {
    static SEED: AtomicU64 = AtomicU64::new(1);
    let seed = SEED.fetch_add(1, Ordering::Relaxed);
    let (env, _) = Env::simulated(storage, seed);
    Containers::new(env, STORE, &keys(), cache_bytes)
}

/// Of the process that has opened these containers.
pub(crate) fn sealer(containers: &Containers) -> Sealer {
    Sealer::new(containers.env().clone(), STORE, keys().encryption)
}
