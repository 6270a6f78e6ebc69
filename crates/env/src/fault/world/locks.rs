//! Process locks of the machine.

use types::ObjectName;

use super::{LockFile, World};
use crate::{LockState, StorageError};

impl World {
    pub(in crate::fault) fn lock(&mut self, process: u64, name: &ObjectName) -> Result<u64, StorageError> {
        let host = self.host(process);
        // Whether another host's lock is held is unknown, so it must not be taken.
        if self
            .locks
            .get(name)
            .is_some_and(|lock| lock.holder.is_some() || lock.host != host)
        {
            return Err(StorageError::Locked { name: name.clone() });
        }
        self.lock_tokens += 1;
        let holder = Some((process, self.lock_tokens));
        self.locks.insert(name.clone(), LockFile { host, holder });
        Ok(self.lock_tokens)
    }

    pub(in crate::fault) fn unlock(&mut self, name: &ObjectName, token: u64) {
        if let Some(lock) = self.locks.get_mut(name)
            && lock.holder.is_some_and(|(_, held)| held == token)
        {
            lock.holder = None;
        }
    }

    pub(in crate::fault) fn lock_state(&self, process: u64, name: &ObjectName) -> LockState {
        match self.locks.get(name) {
            Some(lock) if lock.host == self.host(process) => match lock.holder {
                Some(_) => LockState::Held,
                None => LockState::Free,
            },
            Some(_) => LockState::Unknown,
            None => LockState::Missing,
        }
    }

    pub(in crate::fault) fn drop_lock(&mut self, name: &ObjectName) {
        self.locks.remove(name);
    }
}
