//! A watched storage: it records requests, and before each operation that changes something a test
//! may look at the machine.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use env::fault::FaultStorage;
use env::{LockState, ObjectBytes, ObjectMeta, ProcessLock, Storage, StorageError};
use types::{ByteRange, ObjectName};

/// A kind of request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A whole object was put.
    Put,
    /// A barrier.
    Barrier,
    /// An object was deleted.
    Delete,
    /// An object was renamed, and gave bytes back.
    Trim,
    /// A whole object was read or mapped.
    Whole,
    /// The end of an object was read.
    Tail,
    /// These bytes of an object were read.
    Range(ByteRange),
    /// A folder was listed.
    List,
    /// A head, or a lock.
    Other,
}

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    pub asked: Asked,
    /// The object, or the folder of a listing.
    pub name: String,
}

impl Request {
    /// Whether its object lies in this folder.
    pub fn is_in(&self, folder: &str) -> bool {
        self.name
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/'))
    }
}

type Before = Box<dyn FnMut(Asked, &str) + Send>;
/// An action before a read or listing, and whether this is the right one.
type Once = (
    Box<dyn FnMut(Asked, &str) -> bool + Send>,
    Box<dyn FnOnce() + Send>,
);

/// A process's handle, watched.
pub struct Watched {
    storage: FaultStorage,
    /// Holds the locks of the process for it: when this handle is killed, the locks are free, and
    /// the process still runs.
    locks: FaultStorage,
    before: Mutex<Option<Before>>,
    once: Mutex<Option<Once>>,
    requests: Mutex<Vec<Request>>,
    /// Whether it gives parts of objects back.
    trims: AtomicBool,
    /// Objects that it does not delete, as a bucket with a retention rule.
    retained: Mutex<BTreeSet<String>>,
}

impl Watched {
    pub fn new(storage: FaultStorage) -> Self {
        Self {
            locks: storage.clone(),
            storage,
            before: Mutex::new(None),
            once: Mutex::new(None),
            requests: Mutex::default(),
            trims: AtomicBool::new(true),
            retained: Mutex::default(),
        }
    }

    /// The same, but another process holds its locks.
    pub fn with_locks_of(storage: FaultStorage, locks: FaultStorage) -> Self {
        Self {
            locks,
            ..Self::new(storage)
        }
    }

    /// Sets whether the storage gives parts of objects back.
    pub fn set_trims(&self, trims: bool) {
        self.trims.store(trims, Ordering::Relaxed);
    }

    /// From now on these objects cannot be deleted, and all others can.
    pub fn retain(&self, names: impl IntoIterator<Item = String>) {
        *self.retained.lock().unwrap_or_else(PoisonError::into_inner) = names.into_iter().collect();
    }

    /// Calls `before` ahead of every put, barrier, delete and trim.
    pub fn set_before(&self, before: impl FnMut(Asked, &str) + Send + 'static) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(before));
    }

    /// Makes no more calls.
    pub fn clear_before(&self) {
        *self.before.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Calls `once` before the n-th read or listing from now on. Other threads of the process run
    /// meanwhile.
    pub fn set_once(&self, n: u64, once: impl FnOnce() + Send + 'static) {
        let mut left = n;
        let is_it = move |_: Asked, _: &str| {
            left -= 1;
            left == 0
        };
        self.set_once_at(is_it, once);
    }

    /// The same, before the first read or listing for which this is true.
    pub fn set_once_at(
        &self,
        is_it: impl FnMut(Asked, &str) -> bool + Send + 'static,
        once: impl FnOnce() + Send + 'static,
    ) {
        *self.once.lock().unwrap_or_else(PoisonError::into_inner) = Some((Box::new(is_it), Box::new(once)));
    }

    fn look_for_once(&self, asked: Asked, name: &str) {
        let mut once = self.once.lock().unwrap_or_else(PoisonError::into_inner);
        let now = once.take_if(|(is_it, _)| is_it(asked, name));
        drop(once);
        if let Some((_, now)) = now {
            now();
        }
    }

    /// The requests since the last call.
    pub fn take_requests(&self) -> Vec<Request> {
        std::mem::take(&mut self.requests.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, asked: Asked, name: &str) -> &FaultStorage {
        if matches!(asked, Asked::Put | Asked::Barrier | Asked::Delete | Asked::Trim)
            && let Some(before) = &mut *self.before.lock().unwrap_or_else(PoisonError::into_inner)
        {
            before(asked, name);
        }
        if matches!(asked, Asked::Whole | Asked::Tail | Asked::Range(_) | Asked::List) {
            self.look_for_once(asked, name);
        }
        self.requests
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Request {
                asked,
                name: name.to_owned(),
            });
        &self.storage
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watched({:?})", self.storage)
    }
}

impl Storage for Watched {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.note(Asked::Put, name.as_str()).put(name, parts)
    }
    fn barrier(&self) -> Result<(), StorageError> {
        self.note(Asked::Barrier, "").barrier()
    }
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.note(Asked::Whole, name.as_str()).get(name)
    }
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.note(Asked::Range(range), name.as_str())
            .get_range(name, range)
    }
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.note(Asked::Tail, name.as_str()).get_tail(name, len)
    }
    fn map(&self, name: &ObjectName) -> Result<ObjectBytes, StorageError> {
        self.note(Asked::Whole, name.as_str()).map(name)
    }
    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.note(Asked::Other, name.as_str()).head(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.note(Asked::List, folder).list(folder)
    }
    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        self.note(Asked::List, folder).list_in(folder, sub_folders)
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.note(Asked::List, folder).list_folders(folder)
    }
    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        let retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        if retained.contains(name.as_str()) {
            let name = name.to_string();
            return Err(StorageError::Denied { name });
        }
        drop(retained);
        self.note(Asked::Delete, name.as_str()).delete(name)
    }
    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        let can = self.note(Asked::Other, name.as_str()).can_trim(name)?;
        Ok(can && self.trims.load(Ordering::Relaxed))
    }
    fn trim(&self, from: &ObjectName, to: &ObjectName, ranges: &[ByteRange]) -> Result<bool, StorageError> {
        if self.trims.load(Ordering::Relaxed) {
            return self.note(Asked::Trim, from.as_str()).trim(from, to, ranges);
        }
        // Like every storage that gives nothing back.
        match self.head(to) {
            Err(StorageError::NotFound { .. }) => {}
            found => return found.map(|_| false),
        }
        let bytes = self.get(from)?;
        match self.put(to, &[&bytes]) {
            Ok(()) | Err(StorageError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
        self.barrier()?;
        match self.delete(from) {
            Ok(()) | Err(StorageError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.note(Asked::Other, name.as_str());
        self.locks.lock(name)
    }
    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.note(Asked::Other, name.as_str()).lock_state(name)
    }
    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.note(Asked::Other, name.as_str()).drop_lock(name)
    }
}
