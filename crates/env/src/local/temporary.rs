//! Temporary files: objects before they get their names.
//!
//! Each handle has a folder of its own, `.tmp/<machine>-<boot>-<random>/`. It makes the folder at
//! its first put, with a locked file `alive` in it. Opening a store removes folders that are
//! *provably* unused: those of this boot with `alive` unlocked, and those of an earlier boot of
//! this machine on a file system that no other machine can reach. All others stay, whatever their
//! age.
//!
//! Many threads may use it. A failed sweep does no harm.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};

use super::access::Access;
use super::files::absent;
use super::host::{Host, Reach, is_of_one_machine};
use crate::{Entropy, SystemEntropy};

const ALIVE: &str = "alive";
/// A sweeper can remove a folder only while it is being made. So many losses in a row have another
/// cause.
const ATTEMPTS: usize = 16;

#[derive(Debug)]
pub(super) struct Temporaries {
    parent: PathBuf,
    access: Access,
    host: Host,
    mine: Mutex<Option<Arc<Folder>>>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    /// Locked while it is open. Without locks the folder is never swept.
    alive: Option<File>,
    next: AtomicU64,
}

impl Drop for Folder {
    fn drop(&mut self) {
        remove_folder(&self.path);
        drop(self.alive.take());
    }
}

/// A file without a final name. Dropping it removes it, unless it was moved.
#[derive(Debug)]
pub(super) struct TemporaryFile {
    pub(super) file: File,
    pub(super) path: PathBuf,
    moved: bool,
    _folder: Arc<Folder>,
}

impl TemporaryFile {
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
            fs::remove_file(&self.path).unwrap_or_default();
        }
    }
}

impl Temporaries {
    pub(super) fn new(parent: PathBuf, access: Access, host: Host) -> Self {
        Self {
            parent,
            access,
            host,
            mine: Mutex::new(None),
        }
    }

    /// A new empty file.
    pub(super) fn create(&self) -> io::Result<TemporaryFile> {
        match self.create_in(self.folder()?) {
            // The folder was removed, possibly by an administrator: make another one.
            Err(error) if absent(&error) => {
                self.mine.lock().unwrap_or_else(PoisonError::into_inner).take();
                self.create_in(self.folder()?)
            }
            outcome => outcome,
        }
    }

    fn create_in(&self, folder: Arc<Folder>) -> io::Result<TemporaryFile> {
        let number = folder.next.fetch_add(1, Ordering::Relaxed);
        let path = folder.path.join(number.to_string());
        let file = self.access.create_file(&path)?;
        Ok(TemporaryFile {
            file,
            path,
            moved: false,
            _folder: folder,
        })
    }

    fn folder(&self) -> io::Result<Arc<Folder>> {
        let mut mine = self.mine.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(folder) = &*mine {
            return Ok(Arc::clone(folder));
        }
        let mut last = None;
        for _ in 0..ATTEMPTS {
            match self.make_folder() {
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

    fn make_folder(&self) -> io::Result<Folder> {
        self.access.create_folders(&self.parent)?;
        let mut random = [0; 8];
        SystemEntropy.fill(&mut random);
        let name = format!("{}-{:016x}", self.host.to_file_name(), u64::from_le_bytes(random));
        let path = self.parent.join(name);
        self.access.create_folder(&path)?;
        let alive_path = path.join(ALIVE);
        let alive = self.access.create_file(&alive_path)?;
        let alive = match flock(&alive, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                // A sweeper may have removed the file between the two calls.
                if fs::metadata(&alive_path)?.ino() != alive.metadata()?.ino() {
                    return Err(io::ErrorKind::NotFound.into());
                }
                Some(alive)
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(io::ErrorKind::NotFound.into()),
            Err(_) => {
                fs::remove_file(&alive_path)?;
                None
            }
        };
        Ok(Folder {
            path,
            alive,
            next: AtomicU64::new(0),
        })
    }

    /// Removes the folders of dead processes.
    pub(super) fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.parent) else {
            return;
        };
        let one_machine = is_of_one_machine(&self.parent);
        for entry in entries.flatten() {
            let name = entry.file_name();
            let host = name
                .to_str()
                .and_then(|name| name.rsplit_once('-'))
                .map(|(host, _)| host);
            let Some(host) = host.and_then(Host::from_file_name) else {
                continue;
            };
            sweep_folder(&entry.path(), self.host.reach(&host, one_machine));
        }
    }
}

fn sweep_folder(path: &Path, reach: Reach) {
    if reach == Reach::OutOfSight {
        return;
    }
    match File::open(path.join(ALIVE)) {
        Ok(alive) => {
            if flock(&alive, FlockOperation::NonBlockingLockExclusive).is_ok() {
                remove_folder(path);
            }
        }
        // Its process may be about to create `alive`, or the file system does not support locks.
        Err(error) if absent(&error) && reach == Reach::Here => fs::remove_dir(path).unwrap_or_default(),
        Err(error) if absent(&error) => remove_folder(path),
        Err(_) => {}
    }
}

/// Removes the files and then the folder, `alive` last.
fn remove_folder(path: &Path) {
    let Ok(entries) = fs::read_dir(path) else { return };
    for entry in entries.flatten() {
        if entry.file_name() != ALIVE {
            fs::remove_file(entry.path()).unwrap_or_default();
        }
    }
    fs::remove_file(path.join(ALIVE)).unwrap_or_default();
    fs::remove_dir(path).unwrap_or_default();
}
