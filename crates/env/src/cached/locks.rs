//! Process locks for a storage that has none: files in a folder of this machine.
//!
//! They show at once that a process of this machine has ended, if it used the same folder. Of all
//! other processes they show nothing: a lock whose file is not here has an unknown state, never a
//! missing one. A folder that cannot be used gives no locks, and fails nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use types::ObjectName;

use crate::{LocalStorage, LockState, ProcessLock, Storage, StorageError};

/// The locks of one store in this folder.
#[derive(Debug)]
pub(super) struct HostLocks {
    folder: PathBuf,
    open: Mutex<Option<Arc<LocalStorage>>>,
}

impl HostLocks {
    /// Makes nothing before the first lock is taken.
    pub(super) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            open: Mutex::default(),
        }
    }

    fn at(&self, open: impl Fn(&Path) -> Result<LocalStorage, StorageError>) -> Option<Arc<LocalStorage>> {
        let mut known = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_none() {
            *known = open(&self.folder).ok().map(Arc::new);
        }
        known.clone()
    }

    /// Takes a lock. `None`: there are no locks in this folder.
    ///
    /// # Errors
    /// `Locked` if another process has it.
    pub(super) fn take(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        let Some(locks) = self.at(|folder| LocalStorage::create(folder)) else {
            return Ok(None);
        };
        match locks.lock(name) {
            Err(error @ StorageError::Locked { .. }) => Err(error),
            taken => Ok(taken.unwrap_or_default()),
        }
    }

    pub(super) fn state(&self, name: &ObjectName) -> LockState {
        let state = self
            .at(|folder| LocalStorage::open(folder))
            .and_then(|locks| locks.lock_state(name).ok());
        match state {
            Some(known @ (LockState::Held | LockState::Free)) => known,
            _ => LockState::Unknown,
        }
    }

    pub(super) fn forget(&self, name: &ObjectName) {
        if let Some(locks) = self.at(|folder| LocalStorage::open(folder)) {
            drop(locks.drop_lock(name));
        }
    }
}
