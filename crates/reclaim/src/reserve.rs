//! The reserve: an object that is deleted first when the disk is full, so that prune can write the
//! lists by which it frees more.
//!
//! Its bytes are random, so that no file system compresses or omits them. So deleting it really
//! frees space. Only storages that fill up have one: local disks. Making or deleting it twice does
//! no harm; any number of processes may do either at once.
//!
//! Deleting it leaves an object of one byte at once, which records that there should be a reserve.
//! A process that is killed, or finds the disk full again, could not record it later.

use env::{Entropy, Env, SeededEntropy, Storage, StorageError};
use format::names;

/// The length of the object that records a deleted reserve, until there is room to make it again.
pub const GIVEN_UP_BYTES: usize = 1;
/// A smaller reserve, for when an operation such as forget has used a little of the first one. If
/// another program takes every free byte of the disk, prune still has this much.
pub const REST_BYTES: usize = 512 << 10;
/// The first reserve of a new store: room for the lists of a small store.
pub const FIRST_BYTES: usize = 1 << 20;
/// The reserve of a large store: room for lists, and for new generations beside the old ones.
pub const LAST_BYTES: usize = 64 << 20;
/// From the first size of a store on, the reserve has room for a new generation of a container.
/// From the second size on, it has its full length.
const LARGER_FROM: [u64; 2] = [64 << 20, 4 << 30];

/// Makes the reserve, durably. If there is one of any length, it does nothing.
///
/// # Errors
/// `NoSpace` if there is no room for it: then the store has no reserve; of the storage.
pub fn make(env: &Env, bytes: usize) -> Result<(), StorageError> {
    put(env, &random(env, bytes))?;
    env.storage.barrier()
}

/// The lengths that a reserve may have as it grows.
fn sizes(container_bytes: u32) -> [usize; 5] {
    let copy = container_bytes as usize / 4 * 5;
    let copy = copy.clamp(FIRST_BYTES, LAST_BYTES);
    [GIVEN_UP_BYTES, REST_BYTES, FIRST_BYTES, copy, LAST_BYTES]
}

/// Makes a reserve larger when the store has grown, or makes it again after it was given up. It
/// always takes a small part of the stored bytes. A reserve of another length was requested by a
/// user, and stays as it is. A store without a reserve stays without one, and on a far storage none
/// grows. Not durable before the next barrier.
///
/// # Errors
/// Of the storage. If there is no room for more, nothing changes.
pub fn grow(env: &Env, stored_bytes: u64, container_bytes: u32) -> Result<(), StorageError> {
    if env.storage.is_far() {
        return Ok(());
    }
    let len = match env.storage.head(&names::reserve()) {
        Ok(meta) => meta.len,
        Err(StorageError::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let sizes = sizes(container_bytes);
    let wanted = sizes[2 + LARGER_FROM.iter().filter(|from| stored_bytes >= **from).count()];
    let is_ours = sizes.iter().any(|size| *size as u64 == len);
    if !is_ours || len >= wanted as u64 {
        return Ok(());
    }
    // Make the bytes before the deletion, so that the reserve is missing only for a short time.
    let random = random(env, wanted);
    match env.storage.delete(&names::reserve()) {
        Ok(()) => {}
        // Another process grows it.
        Err(StorageError::NotFound { .. } | StorageError::NoRight { .. }) => return Ok(()),
        Err(error) => return Err(error),
    }
    // Put the largest that there is room for, and at least the old length.
    for bytes in sizes.into_iter().rev().filter(|bytes| *bytes <= wanted) {
        match put(env, &random[..bytes]) {
            Err(StorageError::NoSpace { .. }) => {}
            Ok(()) => return Ok(()),
            Err(error) => {
                drop(remember(&*env.storage));
                return Err(error);
            }
        }
    }
    // File systems free blocks when the deletion is durable.
    env.storage.barrier()?;
    drop(remember(&*env.storage));
    Ok(())
}

fn random(env: &Env, bytes: usize) -> Vec<u8> {
    let mut seed = [0; 8];
    env.entropy.fill(&mut seed);
    let mut random = vec![0; bytes];
    SeededEntropy::new(u64::from_le_bytes(seed)).fill(&mut random);
    random
}

fn put(env: &Env, random: &[u8]) -> Result<(), StorageError> {
    match env.storage.put(&names::reserve(), &[random]) {
        Ok(()) | Err(StorageError::AlreadyExists { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Deletes the reserve. Its space is free on return, except for an object of one byte. This object
/// records the reserve until [`grow`] makes it again. Returns whether there was a reserve with
/// space. If the storage has no room even for that byte, the store has no reserve any more.
///
/// # Errors
/// Of the storage.
pub fn give_up(storage: &dyn Storage) -> Result<bool, StorageError> {
    if !exists(storage)? {
        return Ok(false);
    }
    match storage.delete(&names::reserve()) {
        Ok(()) => {
            let remembered = remember(storage);
            // File systems free blocks when the deletion is durable.
            storage.barrier()?;
            if remembered.is_err() {
                drop(remember(storage));
            }
            Ok(true)
        }
        Err(StorageError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Puts the object that records a deleted reserve.
fn remember(storage: &dyn Storage) -> Result<(), StorageError> {
    storage.put(&names::reserve(), &[&[0; GIVEN_UP_BYTES]])
}

/// Whether there is a reserve to delete, and not only its record.
///
/// # Errors
/// Of the storage.
pub fn exists(storage: &dyn Storage) -> Result<bool, StorageError> {
    match storage.head(&names::reserve()) {
        Ok(meta) => Ok(meta.len > GIVEN_UP_BYTES as u64),
        Err(StorageError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use env::fault::{Counted, CrashPolicy, FailWith, Fault, FaultStorage, OpKind};

    use super::*;

    #[test]
    fn the_reserve_is_made_once_and_released_once() {
        let storage = FaultStorage::new();
        let (env, _) = Env::simulated(Arc::new(storage.clone()), 1);
        assert!(!exists(&storage).unwrap());
        assert!(!give_up(&storage).unwrap());
        make(&env, (1 << 20) + 7).unwrap();
        make(&env, 5).unwrap();
        let left = storage.crash(CrashPolicy::DropAll);
        let bytes = left.get(&names::reserve()).unwrap();
        assert_eq!(bytes.len(), (1 << 20) + 7, "the first stands, and is durable");
        let mut counts = [0_usize; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        assert!(
            counts.iter().all(|count| *count > 3000),
            "random bytes: {counts:?}"
        );
        assert_ne!(bytes[..1000], bytes[1 << 19..][..1000]);
        assert!(give_up(&storage).unwrap());
        let left = storage.crash(CrashPolicy::DropAll);
        assert!(!exists(&left).unwrap());
        assert_eq!(left.head(&names::reserve()).unwrap().len, GIVEN_UP_BYTES as u64);
    }

    #[test]
    fn a_failed_growth_of_the_reserve_is_remembered() {
        let storage = FaultStorage::new();
        let (env, _) = Env::simulated(Arc::new(storage.clone()), 4);
        make(&env, FIRST_BYTES).unwrap();
        storage.inject(Fault::fail(1, FailWith::Io).counting(Counted::Only(OpKind::Put)));
        assert!(grow(&env, 4 << 30, 16 << 20).is_err());
        assert_eq!(
            storage.head(&names::reserve()).unwrap().len,
            GIVEN_UP_BYTES as u64
        );
        grow(&env, 4 << 30, 16 << 20).unwrap();
        assert!(exists(&storage).unwrap());
    }

    #[test]
    fn the_reserve_grows_with_the_store_unless_its_size_was_chosen() {
        let storage = FaultStorage::new();
        let (env, _) = Env::simulated(Arc::new(storage.clone()), 3);
        let len = || storage.head(&names::reserve()).map(|meta| meta.len >> 10).ok();
        grow(&env, 1 << 40, 16 << 20).unwrap();
        assert_eq!(len(), None, "a store without stays without");
        make(&env, FIRST_BYTES).unwrap();
        grow(&env, 1 << 20, 16 << 20).unwrap();
        assert_eq!(len(), Some(1 << 10));
        grow(&env, 64 << 20, 16 << 20).unwrap();
        assert_eq!(len(), Some(20 << 10));
        storage.set_capacity_bytes(Some(30 << 20));
        grow(&env, 4 << 30, 16 << 20).unwrap();
        assert_eq!(len(), Some(20 << 10), "there is no room for more");
        storage.set_capacity_bytes(None);
        grow(&env, 4 << 30, 16 << 20).unwrap();
        assert_eq!(len(), Some(64 << 10));
        grow(&env, 1 << 20, 16 << 20).unwrap();
        assert_eq!(len(), Some(64 << 10), "it never shrinks");
        assert!(give_up(&storage).unwrap());
        assert!(
            !give_up(&storage).unwrap(),
            "there is nothing to give up any more"
        );
        storage.set_capacity_bytes(Some(1000 << 10));
        grow(&env, 4 << 30, 16 << 20).unwrap();
        assert_eq!(len(), Some(512), "a part of the first");
        storage.set_capacity_bytes(Some(3 << 20));
        grow(&env, 4 << 30, 16 << 20).unwrap();
        assert_eq!(len(), Some(1 << 10), "as much as there is room for");
        storage.set_capacity_bytes(None);
        storage.delete(&names::reserve()).unwrap();
        make(&env, 5 << 20).unwrap();
        grow(&env, 4 << 30, 16 << 20).unwrap();
        assert_eq!(len(), Some(5 << 10));
    }

    #[test]
    fn a_full_disk_has_no_room_for_the_reserve_and_releasing_it_makes_room() {
        let storage = FaultStorage::new();
        let (env, _) = Env::simulated(Arc::new(storage.clone()), 2);
        storage.set_capacity_bytes(Some(1000));
        assert!(matches!(make(&env, 2000), Err(StorageError::NoSpace { .. })));
        assert!(!exists(&storage).unwrap());
        make(&env, 900).unwrap();
        let name = names::lease(format::names::LeaseRole::Reclaim, types::Revision::FIRST);
        assert!(matches!(
            storage.put(&name, &[&[1; 200]]),
            Err(StorageError::NoSpace { .. })
        ));
        assert!(give_up(&storage).unwrap());
        storage.put(&name, &[&[1; 200]]).unwrap();
    }
}
