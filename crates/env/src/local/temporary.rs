//! Temporary files: objects before they get their names.
//!
//! Each handle has a folder of its own, `.tmp/<machine>-<boot>-<random>/`. It makes the folder at
//! its first put, with a locked file `alive` in it. Opening a store removes folders that are
//! *provably* unused: those of this boot with `alive` unlocked, and those of an earlier boot of
//! this machine on a file system that no other machine can reach. All others stay, whatever their
//! age.
//!
//! Many threads may use it. A failed sweep does no harm.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, flock, fstat, openat, unlinkat};
use rustix::io::retry_on_intr;
use rustix::path::Arg;

use super::access::Access;
use super::files::absent;
use super::folders::Folders;
use super::host::{Host, Reach, is_of_one_machine};
use super::place::{self, Place};
use crate::{Entropy, SystemEntropy};

/// The folder of all temporary files of a store.
pub(super) const ALL: &str = ".tmp";
const ALIVE: &str = "alive";
/// A sweeper can remove a folder only while it is being made. So many losses in a row have another
/// cause.
const ATTEMPTS: usize = 16;
/// How a folder is opened for reading its names.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

#[derive(Debug)]
pub(super) struct Temporaries {
    access: Access,
    host: Host,
    mine: Mutex<Option<Arc<Folder>>>,
}

#[derive(Debug)]
struct Folder {
    /// The folder of all, open as long as this one is used.
    all: OwnedFd,
    name: String,
    opened: OwnedFd,
    /// Locked while it is open. Without locks the folder is never swept.
    alive: Option<File>,
    next: AtomicU64,
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove_folder(&self.all, &self.name, &self.opened);
        drop(self.alive.take());
    }
}

/// A file without a final name. Dropping it removes it, unless it was moved.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    pub(super) file: File,
    name: String,
    moved: bool,
    folder: Arc<Folder>,
}

impl TemporaryFile {
    pub(super) fn place(&self) -> Place<'_> {
        Place {
            folder: self.folder.opened.as_fd(),
            name: &self.name,
        }
    }

    /// The path in the store.
    #[cfg(test)]
    pub(super) fn path(&self) -> String {
        format!("{ALL}/{}/{}", self.folder.name, self.name)
    }

    /// Records that the file has its final name, and no temporary one.
    pub(super) fn moved(&mut self) {
        self.moved = true;
    }

    pub(super) fn try_clone_file(&self) -> io::Result<File> {
        self.file.try_clone()
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        if !self.moved {
            // A file that stays is swept after this process is dead.
            place::remove_file(self.place()).unwrap_or_default();
        }
    }
}

impl Temporaries {
    pub(super) fn new(access: Access, host: Host) -> Self {
        Self {
            access,
            host,
            mine: Mutex::new(None),
        }
    }

    /// A new empty file.
    pub(super) fn create(&self, folders: &Folders) -> io::Result<TemporaryFile> {
        match self.create_in(self.folder(folders)?) {
            // The folder was removed, possibly by an administrator: make another one. A network
            // file system calls a removed folder stale.
            Err(error) if absent(&error) || error.kind() == io::ErrorKind::StaleNetworkFileHandle => {
                self.mine.lock().unwrap_or_else(PoisonError::into_inner).take();
                self.create_in(self.folder(folders)?)
            }
            outcome => outcome,
        }
    }

    fn create_in(&self, folder: Arc<Folder>) -> io::Result<TemporaryFile> {
        let number = folder.next.fetch_add(1, Ordering::Relaxed);
        let name = number.to_string();
        let file = self.access.create_file(Place {
            folder: folder.opened.as_fd(),
            name: &name,
        })?;
        Ok(TemporaryFile {
            file,
            name,
            moved: false,
            folder,
        })
    }

    fn folder(&self, folders: &Folders) -> io::Result<Arc<Folder>> {
        let mut mine = self.mine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = &*mine {
            return Ok(Arc::clone(folder));
        }
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match self.make_folder(folders) {
                Ok(folder) => {
                    let folder = Arc::new(folder);
                    *mine = Some(Arc::clone(&folder));
                    return Ok(folder);
                }
                Err(error) if absent(&error) || error.kind() == io::ErrorKind::AlreadyExists => {
                    last = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::NotFound.into()))
    }

    fn make_folder(&self, folders: &Folders) -> io::Result<Folder> {
        folders.make(ALL, self.access)?;
        let all = folders.open(ALL, FOLDER)?;
        let mut random = [0; 8];
        SystemEntropy.fill(&mut random);
        let name = format!("{}-{:016x}", self.host.to_file_name(), u64::from_le_bytes(random));
        self.access.create_folder_at(Place {
            folder: all.as_fd(),
            name: &name,
        })?;
        let opened = open_folder(&all, &name)?;
        let alive_at = Place {
            folder: opened.as_fd(),
            name: ALIVE,
        };
        let alive = self.access.create_file(alive_at)?;
        let alive = match flock(&alive, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // A sweeper may have removed the file between the two calls.
                if place::stat(alive_at)?.st_ino != fstat(&alive)?.st_ino {
                    return Err(io::ErrorKind::NotFound.into());
                }
                Some(alive)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(io::ErrorKind::NotFound.into()),
            Err(_) => {
                place::remove_file(alive_at)?;
                None
            }
        };
        Ok(Folder {
            all,
            name,
            opened,
            alive,
            next: AtomicU64::new(0),
        })
    }

    /// Removes the folders of dead processes. A user who may write to the store can put any entry
    /// here. So this follows no link, and removes only files that have names of temporary ones.
    pub(super) fn sweep(&self, folders: &Folders) {
        let Ok(parent) = folders.open(ALL, FOLDER) else {
            return;
        };
        let one_machine = is_of_one_machine(&parent);
        for name in names_in(&parent) {
            let host = name
                .to_str()
                .ok()
                .and_then(|name| name.rsplit_once('-'))
                .and_then(|(host, _)| Host::from_file_name(host));
            if let Some(host) = host {
                sweep_folder(&parent, &name, self.host.reach(&host, one_machine));
            }
        }
    }
}

fn sweep_folder(parent: &OwnedFd, name: &CStr, reach: Reach) {
    if reach == Reach::OutOfSight {
        return;
    }
    let Ok(folder) = open_folder(parent, name) else {
        return;
    };
    // A pipe of this name must not keep the store from being opened.
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match retry_on_intr(|| openat(&folder, ALIVE, how, Mode::empty())).map_err(io::Error::from) {
        Ok(alive) => {
            if flock(&alive, FlockOperation::NonBlockingLockExclusive).is_ok() {
                remove_folder(parent, name, &folder);
            }
        }
        // Its process may be about to create `alive`, or the file system does not support locks.
        Err(error) if absent(&error) && reach == Reach::Here => {
            unlinkat(parent, name, AtFlags::REMOVEDIR).unwrap_or_default();
        }
        Err(error) if absent(&error) => remove_folder(parent, name, &folder),
        Err(_) => {}
    }
}

fn open_folder<P: Arg + Copy>(within: impl AsFd, path: P) -> io::Result<OwnedFd> {
    Ok(retry_on_intr(|| openat(&within, path, FOLDER, Mode::empty()))?)
}

fn names_in(folder: &OwnedFd) -> Vec<CString> {
    let Ok(entries) = Dir::read_from(folder) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_owned());
    names.collect()
}

/// Removes the files and then the folder, `alive` last.
fn remove_folder(parent: impl AsFd, name: impl Arg, folder: &OwnedFd) {
    for file in names_in(folder) {
        if file.to_bytes().iter().all(u8::is_ascii_digit) {
            unlinkat(folder, &file, AtFlags::empty()).unwrap_or_default();
        }
    }
    unlinkat(folder, ALIVE, AtFlags::empty()).unwrap_or_default();
    unlinkat(parent, name, AtFlags::REMOVEDIR).unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    /// A folder as a process of an earlier boot has left it, if `make` makes it at this path.
    fn swept(make: impl FnOnce(&Path)) -> tempfile::TempDir {
        let store = tempfile::tempdir().unwrap();
        let parent = store.path().join(".tmp");
        fs::create_dir(&parent).unwrap();
        let host = Host::here();
        let name = host.before_boot().to_file_name();
        make(&parent.join(format!("{name}-0000000000000000")));
        let access = Access::of(store.path()).unwrap();
        Temporaries::new(access, host).sweep(&Folders::new(store.path().to_owned()));
        store
    }

    #[test]
    fn what_a_dead_process_left_is_removed() {
        let store = swept(|path| {
            fs::create_dir(path).unwrap();
            fs::write(path.join("7"), "").unwrap();
            fs::write(path.join(ALIVE), "").unwrap();
        });
        assert_eq!(fs::read_dir(store.path().join(".tmp")).unwrap().count(), 0);
    }

    /// A user who may write to the store could link to any folder of the user who opens it.
    #[test]
    fn a_link_is_not_followed() {
        let elsewhere = tempfile::tempdir().unwrap();
        fs::write(elsewhere.path().join("0"), "").unwrap();
        let _store = swept(|path| symlink(elsewhere.path(), path).unwrap());
        assert!(elsewhere.path().join("0").exists());
    }

    #[test]
    fn other_files_stay_and_a_pipe_holds_nobody_up() {
        let store = swept(|path| {
            fs::create_dir(path).unwrap();
            fs::write(path.join("own"), "").unwrap();
            let mode = Mode::from(0o600);
            mknodat(CWD, path.join(ALIVE), FileType::Fifo, mode, 0).unwrap();
        });
        let left = fs::read_dir(store.path().join(".tmp"))
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert!(left.path().join("own").exists());
    }
}
