//! The catalog cache: budget, pins, one load at a time.

use std::sync::{Arc, Barrier};

use container::Containers;
use env::fault::FaultStorage;
use env::{Env, LockState, ObjectMeta, ProcessLock, Storage, StorageError};
use types::{ByteRange, ObjectName};

use crate::store::*;

fn with_budget(storage: &FaultStorage, bytes: u64) -> Containers {
    let (env, _) = Env::simulated(Arc::new(storage.clone()), 3);
    Containers::new(env, store_id(1), &keys(1), bytes)
}

#[test]
fn the_budget_holds_and_the_least_recent_catalog_is_dropped() {
    let store = Store::new();
    let size = (0..10)
        .map(|n| store.put(data(n), &sample()).catalog().bytes_in_memory())
        .max()
        .unwrap();
    let containers = with_budget(&store.storage, 3 * size);
    for n in 0..10 {
        containers.catalog(data(n)).unwrap();
        assert!(containers.catalog_cache_bytes() <= 3 * size);
    }
    containers.catalog(data(7)).unwrap();
    containers.catalog(data(1)).unwrap();
    let hits = |n| {
        let before = containers.stats().catalog_hits;
        containers.catalog(data(n)).unwrap();
        containers.stats().catalog_hits - before
    };
    assert_eq!([1, 7, 9].map(hits), [1, 1, 1]);
    assert_eq!(hits(8), 0, "8 was used least recently");
}

/// A storage whose tails take long enough for all other threads to ask as well.
#[derive(Debug)]
struct Slow(FaultStorage);

impl Storage for Slow {
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        (0..2000).for_each(|_| std::thread::yield_now());
        self.0.get_tail(name, len)
    }
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.0.put(name, parts)
    }
    fn barrier(&self) -> Result<(), StorageError> {
        self.0.barrier()
    }
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.0.get(name)
    }
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.0.get_range(name, range)
    }
    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.0.head(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.0.list(folder)
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.0.list_folders(folder)
    }
    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.0.delete(name)
    }
    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.0.lock(name)
    }
    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.0.lock_state(name)
    }
    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.0.drop_lock(name)
    }
}

#[test]
fn many_threads_load_a_catalog_once() {
    let store = Store::new();
    (0..8).for_each(|n| drop(store.put(data(n), &sample())));
    let (env, _) = Env::simulated(Arc::new(Slow(store.storage.clone())), 3);
    let containers = Containers::new(env, store_id(1), &keys(1), 1 << 20);
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                start.wait();
                for n in 0..8 {
                    assert_eq!(containers.catalog(data(n)).unwrap().entries().len(), 6);
                }
            });
        }
    });
    let stats = containers.stats();
    assert_eq!((stats.catalog_loads, stats.catalog_hits), (8, 8 * 8 - 8));
}

#[test]
fn a_failed_load_is_tried_again_by_the_next() {
    let store = Store::new();
    let containers = with_budget(&store.storage, 1 << 20);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(containers.catalog(data(0)).is_err()));
        }
    });
    store.put(data(0), &sample());
    assert!(containers.catalog(data(0)).is_ok());
}

#[test]
fn many_threads_read_and_rewrite() {
    let store = Store::new();
    (0..4).for_each(|n| drop(store.put(data(n), &sample())));
    let containers = with_budget(&store.storage, 4000);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0u32..60 {
                    let location = types::ChunkLocation {
                        container: data(round % 4),
                        slot: slot(4),
                    };
                    assert_eq!(containers.read_chunk(location).unwrap(), [7; 300]);
                }
            });
        }
        scope.spawn(|| {
            for round in 1..12 {
                for n in 0..4 {
                    store.put_survivors(data(n), round, &[(4, &[7; 300])]);
                    env::Storage::delete(&store.storage, &name(data(n), round - 1)).unwrap();
                }
            }
        });
    });
}
