//! A storage in memory, for tests and for temporary stores.
//!
//! Invariant: it fulfils the contract of [`Storage`], except for durability, which memory does not
//! have: `barrier` does nothing. Objects are shared, so that a read by [`Storage::map`] copies
//! nothing. Many threads may call it. A put or delete excludes others while it updates a map. Locks
//! exclude all users of the same value, in this process.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use types::{ByteRange, ObjectName, UnixNanos};

use crate::plain::{folder_prefix, range_of, sub_folders, tail_of, without};
use crate::{Clock, LockState, ObjectBytes, ObjectMeta, ProcessLock, Storage, StorageError, SystemClock};

/// A storage in memory. Wrap it in an `Arc` to share it.
#[derive(Debug)]
pub struct MemoryStorage {
    clock: Arc<dyn Clock>,
    objects: Mutex<BTreeMap<ObjectName, Object>>,
    locks: Mutex<BTreeMap<ObjectName, Arc<AtomicBool>>>,
}

#[derive(Clone)]
struct Object {
    bytes: Shared,
    put_at: UnixNanos,
    given_back: u64,
}

impl Object {
    fn space(&self) -> u64 {
        (self.bytes.len() as u64).saturating_sub(self.given_back)
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.bytes.len())
    }
}

/// Bytes of an object, shared with its mappings.
#[derive(Clone)]
pub(crate) struct Shared(pub(crate) Arc<Vec<u8>>);

impl Deref for Shared {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl MemoryStorage {
    /// An empty storage. Times of objects are the system's.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock))
    }

    /// An empty storage. Times of objects are that clock's wall times.
    #[must_use]
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self {
            clock,
            objects: Mutex::default(),
            locks: Mutex::default(),
        }
    }

    fn objects(&self) -> MutexGuard<'_, BTreeMap<ObjectName, Object>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locks(&self) -> MutexGuard<'_, BTreeMap<ObjectName, Arc<AtomicBool>>> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn object(&self, name: &ObjectName) -> Result<Object, StorageError> {
        self.objects()
            .get(name)
            .cloned()
            .ok_or_else(|| StorageError::NotFound { name: name.clone() })
    }
}

impl Default for MemoryStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl Storage for MemoryStorage {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        let object = Object {
            bytes: Shared(Arc::new(parts.concat())),
            put_at: self.clock.wall(),
            given_back: 0,
        };
        let mut objects = self.objects();
        if objects.contains_key(name) {
            return Err(StorageError::AlreadyExists { name: name.clone() });
        }
        objects.insert(name.clone(), object);
        Ok(())
    }

    fn barrier(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        Ok(self.object(name)?.bytes.to_vec())
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        let object = self.object(name)?;
        Ok(range_of(name, &object.bytes, range)?.to_vec())
    }

    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        let object = self.object(name)?;
        Ok((tail_of(&object.bytes, len).to_vec(), object.bytes.len() as u64))
    }

    fn map(&self, name: &ObjectName) -> Result<ObjectBytes, StorageError> {
        Ok(ObjectBytes::new(self.object(name)?.bytes))
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        let object = self.object(name)?;
        Ok(ObjectMeta {
            name: name.clone(),
            len: object.bytes.len() as u64,
            space: object.space(),
            put_at: object.put_at,
        })
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        let prefix = folder_prefix(folder)?;
        let objects = self.objects();
        let inside = objects
            .iter()
            .filter(|(name, _)| name.as_str().starts_with(&prefix));
        Ok(inside
            .map(|(name, object)| ObjectMeta {
                name: name.clone(),
                len: object.bytes.len() as u64,
                space: object.space(),
                put_at: object.put_at,
            })
            .collect())
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        let prefix = folder_prefix(folder)?;
        Ok(sub_folders(self.objects().keys(), &prefix))
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        match self.objects().remove(name) {
            Some(_) => Ok(()),
            None => Err(StorageError::NotFound { name: name.clone() }),
        }
    }

    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        self.object(name).map(|_| true)
    }

    fn trim(&self, from: &ObjectName, to: &ObjectName, ranges: &[ByteRange]) -> Result<bool, StorageError> {
        let mut objects = self.objects();
        if !objects.contains_key(to) {
            let object = objects.remove(from);
            let object = object.ok_or_else(|| StorageError::NotFound { name: from.clone() })?;
            objects.insert(to.clone(), object);
        }
        if let Some(object) = objects.get_mut(to) {
            object.bytes = Shared(Arc::new(without(to, &object.bytes, ranges)?));
            let given_back = ranges.iter().map(|range| range.len).sum();
            object.given_back = object.given_back.max(given_back);
        }
        Ok(true)
    }

    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        let held = Arc::clone(self.locks().entry(name.clone()).or_default());
        if held.swap(true, Ordering::AcqRel) {
            return Err(StorageError::Locked { name: name.clone() });
        }
        Ok(Some(Box::new(MemoryLock(held))))
    }

    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        Ok(
            match self.locks().get(name).map(|held| held.load(Ordering::Acquire)) {
                Some(true) => LockState::Held,
                Some(false) => LockState::Free,
                None => LockState::Missing,
            },
        )
    }

    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.locks().remove(name);
        Ok(())
    }
}

/// Frees the lock when dropped. A lock that was removed meanwhile has no name any more, so nobody
/// can ask for it.
#[derive(Debug)]
struct MemoryLock(Arc<AtomicBool>);

impl ProcessLock for MemoryLock {}

impl Drop for MemoryLock {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
