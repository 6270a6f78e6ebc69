//! A storage for dry runs: it reads what another storage has, and changes nothing there.
//!
//! It keeps objects that are put, and the names of objects that are deleted, in memory. So an
//! operation sees its own changes, and no other process does. The caller chooses the objects whose
//! bytes are kept. Of others only names and lengths are: of large ones that the operation never
//! reads again. Locks are this value's own. Many threads may call it.
//!
//! Except for durability, and for the bytes that it does not keep, it fulfils the contract of
//! [`Storage`] towards its own callers. Changes in the other storage show through.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use types::{ByteRange, ObjectName};

use crate::plain::{folder_prefix, folders_in, is_in, sub_folders};
use crate::{
    AlignedBuffer, Clock, LockState, MemoryStorage, ObjectBytes, ObjectMeta, ProcessLock, Storage,
    StorageError,
};

/// Says whether the bytes of an object are kept in memory.
type Keeps = fn(&ObjectName) -> bool;

/// A storage that keeps every change to itself.
pub struct DryRunStorage {
    inner: Arc<dyn Storage>,
    clock: Arc<dyn Clock>,
    keeps: Keeps,
    made: MemoryStorage,
    changes: Mutex<Changes>,
}

#[derive(Debug, Default)]
struct Changes {
    /// Objects of the other storage that were deleted here.
    gone: BTreeSet<ObjectName>,
    /// Objects that were put here, without their bytes.
    unkept: BTreeMap<ObjectName, ObjectMeta>,
}

impl DryRunStorage {
    /// Shows `inner`. Of the objects that are put, it keeps the bytes of those for which `keeps`
    /// returns true. `clock` gives their times.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>, clock: Arc<dyn Clock>, keeps: Keeps) -> Self {
        Self {
            made: MemoryStorage::with_clock(Arc::clone(&clock)),
            inner,
            clock,
            keeps,
            changes: Mutex::default(),
        }
    }

    fn changes(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for an object where it is.
    fn find<T>(
        &self,
        name: &ObjectName,
        ask: impl Fn(&dyn Storage) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        match ask(&self.made) {
            Err(StorageError::NotFound { .. }) => {}
            found => return found,
        }
        let changes = self.changes();
        if changes.unkept.contains_key(name) {
            return Err(StorageError::Io {
                action: "read",
                name: name.to_string(),
                source: io::Error::new(
                    io::ErrorKind::Unsupported,
                    "a dry run did not keep the bytes of this object",
                ),
            });
        }
        if changes.gone.contains(name) {
            return Err(StorageError::NotFound { name: name.clone() });
        }
        drop(changes);
        ask(&*self.inner)
    }

    /// The objects of a listing of the other storage that are there, and those that were put here
    /// and for whose names `is_asked` holds.
    fn with_changes(
        &self,
        inner: Vec<ObjectMeta>,
        made: Vec<ObjectMeta>,
        is_asked: impl Fn(&ObjectName) -> bool,
    ) -> Vec<ObjectMeta> {
        let changes = self.changes();
        let mut all: BTreeMap<ObjectName, ObjectMeta> = inner
            .into_iter()
            .filter(|meta| !changes.gone.contains(&meta.name))
            .map(|meta| (meta.name.clone(), meta))
            .collect();
        let unkept = changes.unkept.values().filter(|meta| is_asked(&meta.name));
        let own = made.into_iter().chain(unkept.cloned());
        all.extend(own.map(|meta| (meta.name.clone(), meta)));
        all.into_values().collect()
    }
}

impl fmt::Debug for DryRunStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DryRunStorage")
            .field("inner", &self.inner)
            .field("changes", &self.changes)
            .finish_non_exhaustive()
    }
}

impl Storage for DryRunStorage {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        let taken = || StorageError::AlreadyExists { name: name.clone() };
        let is_gone = {
            let changes = self.changes();
            if changes.unkept.contains_key(name) {
                return Err(taken());
            }
            changes.gone.contains(name)
        };
        if !is_gone {
            match self.inner.head(name) {
                Ok(_) => return Err(taken()),
                Err(StorageError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        if (self.keeps)(name) {
            return self.made.put(name, parts);
        }
        let len = parts.iter().map(|part| part.len() as u64).sum();
        let meta = ObjectMeta {
            name: name.clone(),
            len,
            space: len,
            put_at: self.clock.wall(),
        };
        // Another thread may have put it since.
        match self.changes().unkept.insert(name.clone(), meta) {
            None => Ok(()),
            Some(_) => Err(taken()),
        }
    }

    fn barrier(&self) -> Result<(), StorageError> {
        Ok(())
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.find(name, |at| at.get(name))
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.find(name, |at| at.get_range(name, range))
    }

    fn get_range_into(
        &self,
        name: &ObjectName,
        range: ByteRange,
        into: &mut AlignedBuffer,
    ) -> Result<Range<usize>, StorageError> {
        let into = std::cell::RefCell::new(into);
        self.find(name, |at| at.get_range_into(name, range, &mut into.borrow_mut()))
    }

    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.find(name, |at| at.get_tail(name, len))
    }

    fn map(&self, name: &ObjectName) -> Result<ObjectBytes, StorageError> {
        self.find(name, |at| at.map(name))
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        if let Some(meta) = self.changes().unkept.get(name) {
            return Ok(meta.clone());
        }
        self.find(name, |at| at.head(name))
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        let prefix = folder_prefix(folder)?;
        let (inner, made) = (self.inner.list(folder)?, self.made.list(folder)?);
        Ok(self.with_changes(inner, made, |name| name.as_str().starts_with(&prefix)))
    }

    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        folders_in(folder, sub_folders)?;
        let inner = self.inner.list_in(folder, sub_folders)?;
        let made = self.made.list_in(folder, sub_folders)?;
        Ok(self.with_changes(inner, made, |name| is_in(name, folder, sub_folders)))
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        let prefix = folder_prefix(folder)?;
        let mut all: BTreeSet<String> = self.inner.list_folders(folder)?.into_iter().collect();
        all.extend(self.made.list_folders(folder)?);
        let changes = self.changes();
        let unkept = changes.unkept.keys();
        all.extend(sub_folders(
            unkept.filter(|name| name.as_str().starts_with(&prefix)),
            &prefix,
        ));
        Ok(all.into_iter().collect())
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        if self.changes().unkept.remove(name).is_some() {
            return Ok(());
        }
        match self.made.delete(name) {
            Err(StorageError::NotFound { .. }) => {}
            deleted => return deleted,
        }
        self.head(name)?;
        if self.changes().gone.insert(name.clone()) {
            return Ok(());
        }
        Err(StorageError::NotFound { name: name.clone() })
    }

    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.made.lock(name)
    }

    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        match self.made.lock_state(name)? {
            LockState::Missing => self.inner.lock_state(name),
            own => Ok(own),
        }
    }

    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.made.drop_lock(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SystemClock, conformance};

    fn name(text: &str) -> ObjectName {
        ObjectName::new(text).unwrap()
    }

    fn over(inner: &Arc<MemoryStorage>) -> DryRunStorage {
        let inner: Arc<dyn Storage> = Arc::<MemoryStorage>::clone(inner);
        DryRunStorage::new(inner, Arc::new(SystemClock), |name| {
            !name.as_str().starts_with("data/")
        })
    }

    #[test]
    fn it_is_a_storage() {
        conformance::check(&over(&Arc::default()));
    }

    /// The suite also runs over objects of the other storage: whatever a run does, they stay.
    #[test]
    fn nothing_changes_below() {
        let inner = Arc::new(MemoryStorage::new());
        let texts = ["a/kept", "a/deleted", "a/again", "b/c/only"];
        for text in texts {
            inner.put(&name(text), &[text.as_bytes()]).unwrap();
        }
        let before = inner.list("").unwrap();
        let dry = over(&inner);
        assert!(matches!(
            dry.put(&name("a/kept"), &[b"other"]),
            Err(StorageError::AlreadyExists { .. })
        ));
        dry.delete(&name("a/deleted")).unwrap();
        assert!(matches!(
            dry.delete(&name("a/deleted")),
            Err(StorageError::NotFound { .. })
        ));
        assert!(matches!(
            dry.get(&name("a/deleted")),
            Err(StorageError::NotFound { .. })
        ));
        dry.delete(&name("a/again")).unwrap();
        dry.put(&name("a/again"), &[b"new"]).unwrap();
        dry.put(&name("data/1/2"), &[b"123", b"45"]).unwrap();
        assert!(dry.put(&name("data/1/2"), &[b""]).is_err());
        let names = |folder: &str| -> Vec<String> {
            let listed = dry.list(folder).unwrap();
            listed.iter().map(|meta| meta.name.to_string()).collect()
        };
        assert_eq!(names("a"), ["a/again", "a/kept"]);
        assert_eq!(names(""), ["a/again", "a/kept", "b/c/only", "data/1/2"]);
        assert_eq!(dry.get(&name("a/again")).unwrap(), b"new");
        assert_eq!(dry.get(&name("b/c/only")).unwrap(), b"b/c/only");
        assert_eq!(dry.head(&name("data/1/2")).unwrap().len, 5);
        assert!(matches!(dry.get(&name("data/1/2")), Err(StorageError::Io { .. })));
        assert_eq!(dry.list_folders("").unwrap(), ["a", "b", "data"]);
        assert_eq!(dry.list_folders("data").unwrap(), ["1"]);
        let lock = dry.lock(&name("locks/1")).unwrap();
        assert_eq!(dry.lock_state(&name("locks/1")).unwrap(), LockState::Held);
        assert_eq!(inner.lock_state(&name("locks/1")).unwrap(), LockState::Missing);
        drop(lock);
        assert_eq!(inner.list("").unwrap(), before);
        assert_eq!(inner.get(&name("a/again")).unwrap(), b"a/again");
    }
}
