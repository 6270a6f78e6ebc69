//! Process locks: a locked file under `.locks/` that names its host.
//!
//! A lock's file gets its name once it is locked and has its text, so nobody sees an unfinished
//! one. (With [`PublishWay::Exclusive`] it may be seen empty, which counts as unknown.) The system
//! frees the lock when its process ends, however it ends. The file stays, in the state "free",
//! until the lock is dropped by name.
//!
//! The state of another host's lock is never used: file locks show processes of one kernel only.

use std::fs::File;
use std::io::{self, Write};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock, fstat};
use rustix::io::Errno;
use types::ObjectName;

use super::LocalStorage;
use super::files::{UNTRUSTED, absent, io_error};
use super::host::{Host, Reach, is_of_one_machine};
use super::place;
use crate::unlock::unlock;
use crate::{Clock, LockState, ProcessLock, StorageError, SystemClock};

/// A query of a lock's state locks its file for a moment. A taker may meet that, but never this
/// often in a row.
const PROBE_WAITS: u32 = 50;
const PROBE_WAIT: Duration = Duration::from_millis(1);
/// A lock's file disappears and reappears only while one process drops it and another takes it.
const ATTEMPTS: u32 = 16;

/// The folder of all locks of a store.
pub(super) const ALL: &str = ".locks";

#[derive(Debug)]
struct LocalLock {
    file: File,
}

impl ProcessLock for LocalLock {}

impl Drop for LocalLock {
    fn drop(&mut self) {
        unlock(&self.file);
    }
}

/// The result of one attempt.
enum Attempt {
    Taken(File),
    Held,
    /// Another process was quicker or has removed the file: try again.
    Again,
    /// The file system does not support locks.
    NoLocks,
}

fn is_denied(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// The path in the store: in `.locks/` the name, with a `+` for each slash. No name contains a `+`.
fn lock_path(name: &ObjectName) -> String {
    format!("{ALL}/{}", name.as_str().replace('/', "+"))
}

impl LocalStorage {
    /// Opens a lock's file.
    fn open_lock(&self, path: &str, how: OFlags) -> io::Result<File> {
        Ok(self.folders.open(path, how | UNTRUSTED)?.into())
    }

    pub(super) fn take_lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        let path = lock_path(name);
        for _ in 0..ATTEMPTS {
            let attempt = match self.open_lock(&path, OFlags::RDWR) {
                Ok(file) => self
                    .take_existing(file, &path)
                    .map_err(|error| io_error("lock", name.as_str(), error)),
                Err(error) if absent(&error) => self.take_new(name, &path),
                // The lock file belongs to another user: this process cannot find out whether it is
                // held.
                Err(error) if is_denied(&error) && self.folders.at(&path, place::stat).is_ok() => break,
                Err(error) => Err(io_error("lock", name.as_str(), error)),
            };
            match attempt? {
                Attempt::Taken(file) => return Ok(Some(Box::new(LocalLock { file }))),
                Attempt::Held => break,
                Attempt::Again => {}
                Attempt::NoLocks => return Ok(None),
            }
        }
        Err(StorageError::Locked { name: name.clone() })
    }

    fn take_new(&self, name: &ObjectName, path: &str) -> Result<Attempt, StorageError> {
        let fail = |error| io_error("lock", name.as_str(), error);
        let mut temporary = self.temporaries.create(&self.folders).map_err(fail)?;
        temporary
            .file
            .write_all(self.host.to_text().as_bytes())
            .map_err(fail)?;
        if flock(&temporary.file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(Attempt::NoLocks);
        }
        let file = temporary.try_clone_file().map_err(fail)?;
        match self.publish(&mut temporary, path, name) {
            Ok(()) => Ok(Attempt::Taken(file)),
            Err(StorageError::AlreadyExists { .. }) => Ok(Attempt::Again),
            Err(error) => Err(error),
        }
    }

    fn take_existing(&self, file: File, path: &str) -> io::Result<Attempt> {
        let Some(host) = Host::read(&file) else {
            return Ok(Attempt::Held);
        };
        let reach = self.host.reach(&host, is_of_one_machine(&self.root_file));
        if reach == Reach::OutOfSight {
            return Ok(Attempt::Held);
        }
        let mut waits = 0;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if waits < PROBE_WAITS => {
                    waits += 1;
                    SystemClock.sleep(PROBE_WAIT);
                }
                Err(Errno::WOULDBLOCK) => return Ok(Attempt::Held),
                Err(Errno::INTR) => {}
                Err(_) => return Ok(Attempt::NoLocks),
            }
        }
        match self.folders.at(path, place::stat) {
            Ok(there) if there.st_ino == fstat(&file)?.st_ino => {}
            Ok(_) => return Ok(Attempt::Again),
            Err(error) if absent(&error) => return Ok(Attempt::Again),
            Err(error) => return Err(error),
        }
        if reach == Reach::BeforeBoot {
            // Its text names the wrong boot. A new file is made, while this process keeps others
            // from the old one.
            self.folders.at(path, place::remove_file)?;
            return Ok(Attempt::Again);
        }
        Ok(Attempt::Taken(file))
    }

    /// Whether the store is at its place, and no other machine reaches it.
    fn is_there_for_one_machine(&self) -> bool {
        let Ok(root) = self.folders.open("", OFlags::RDONLY | OFlags::DIRECTORY) else {
            return false;
        };
        let ids =
            [fstat(&root), fstat(&self.root_file)].map(|stat| stat.map(|stat| (stat.st_dev, stat.st_ino)));
        is_of_one_machine(&root) && matches!(ids, [Ok(now), Ok(before)] if now == before)
    }

    pub(super) fn ask_lock(&self, name: &ObjectName) -> LockState {
        let file = match self.open_lock(&lock_path(name), OFlags::RDONLY) {
            Ok(file) => file,
            // A network file system may not show another host's file yet.
            Err(error) if absent(&error) && self.is_there_for_one_machine() => return LockState::Missing,
            // An unreadable file gives no answer.
            Err(_) => return LockState::Unknown,
        };
        let Some(host) = Host::read(&file) else {
            return LockState::Unknown;
        };
        if self.host.reach(&host, is_of_one_machine(&self.root_file)) == Reach::OutOfSight {
            return LockState::Unknown;
        }
        match flock(&file, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                unlock(&file);
                LockState::Free
            }
            Err(Errno::WOULDBLOCK) => LockState::Held,
            Err(_) => LockState::Unknown,
        }
    }

    pub(super) fn forget_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        match self.folders.at(&lock_path(name), place::remove_file) {
            Ok(()) => Ok(()),
            Err(error) if absent(&error) => Ok(()),
            Err(error) => Err(io_error("drop the lock", name.as_str(), error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_although_a_process_that_starts_has_its_file_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let file = File::create(&path).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        // As a new process has it.
        let copy = file.try_clone().unwrap();
        let another = || flock(File::open(&path).unwrap(), FlockOperation::NonBlockingLockShared);
        assert_eq!(another(), Err(Errno::WOULDBLOCK));
        drop(LocalLock { file });
        assert_eq!(another(), Ok(()));
        drop(copy);
    }
}
