//! Folders that stay reachable along their chain of parents while their descriptors are closed and
//! opened again.
//!
//! A walk or a restore may hold thousands of folders (queued entries, a deep tree) and a process
//! few descriptors. Each [`Folder`] knows its parent and name; its descriptor is closed when more
//! than [`OPEN_MAX`] are open, and opened again, relative to the parent's, when needed. The folder
//! found then must be the one known before, by device and inode: otherwise the answer is `ENOENT`.
//!
//! No path is ever longer than one name, so `PATH_MAX` does not limit the depth. Safe to share
//! between threads: an `Arc` keeps a descriptor open while it is used.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::metadata::Facts;
use crate::retry::retry;

/// The most folder descriptors that one walk or restore keeps open.
const OPEN_MAX: usize = 96;

/// A folder, known by name and identity.
#[derive(Debug)]
pub(crate) struct Folder {
    /// `None` for the top, whose descriptor is never closed.
    parent: Option<Arc<Folder>>,
    name: Vec<u8>,
    /// Whether to follow a link in its place: only above a walk's roots.
    follow: bool,
    identity: (u64, u64),
    descriptor: Mutex<Option<Arc<OwnedFd>>>,
    open: Arc<Mutex<VecDeque<Weak<Folder>>>>,
}

/// A folder that was just opened.
#[derive(Debug)]
pub(crate) struct Entered {
    pub(crate) folder: Arc<Folder>,
    /// The descriptor with which it was opened.
    pub(crate) descriptor: Arc<OwnedFd>,
    pub(crate) facts: Facts,
}

impl Folder {
    /// The top of a chain, opened by a trusted path.
    pub(crate) fn top(path: &[u8]) -> Result<Arc<Self>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = retry(|| openat(CWD, path, flags, Mode::empty()))?;
        let facts = Facts::of(&fstat(&descriptor)?);
        Ok(Arc::new(Self {
            parent: None,
            name: path.to_vec(),
            follow: true,
            identity: (facts.device, facts.inode),
            descriptor: Mutex::new(Some(Arc::new(descriptor))),
            open: Arc::default(),
        }))
    }

    /// Opens a folder in this one, and returns its present metadata. If `readable`, it is opened
    /// for reading, otherwise only to look up names in it. A reader keeps the returned descriptor:
    /// another thread may make [`Self::descriptor`] open the folder again at any time, only for
    /// looking up names.
    pub(crate) fn enter(
        self: &Arc<Self>,
        name: &[u8],
        follow: bool,
        readable: bool,
    ) -> Result<Entered, Errno> {
        let here = self.descriptor()?;
        self.entered(name, follow, open_folder(&here, name, follow, readable)?)
    }

    /// Enters the folder of this descriptor, to which a link of this name leads.
    pub(crate) fn enter_by(self: &Arc<Self>, name: &[u8], descriptor: OwnedFd) -> Result<Entered, Errno> {
        self.entered(name, true, descriptor)
    }

    fn entered(self: &Arc<Self>, name: &[u8], follow: bool, descriptor: OwnedFd) -> Result<Entered, Errno> {
        let descriptor = Arc::new(descriptor);
        let facts = Facts::of(&fstat(&descriptor)?);
        let folder = Arc::new(Self {
            parent: Some(self.clone()),
            name: name.to_vec(),
            follow,
            identity: (facts.device, facts.inode),
            descriptor: Mutex::new(Some(Arc::clone(&descriptor))),
            open: self.open.clone(),
        });
        folder.count_open();
        Ok(Entered {
            folder,
            descriptor,
            facts,
        })
    }

    /// The descriptor, opened again if needed. Use it to look up names in the folder, not to list
    /// it.
    pub(crate) fn descriptor(self: &Arc<Self>) -> Result<Arc<OwnedFd>, Errno> {
        let mut closed: Vec<&Arc<Self>> = Vec::new();
        let mut folder = self;
        let mut descriptor = loop {
            if let Some(found) = folder.current() {
                break found;
            }
            closed.push(folder);
            folder = folder.parent.as_ref().expect("the top is never closed");
        };
        while let Some(folder) = closed.pop() {
            let again = open_folder(&descriptor, &folder.name, folder.follow, false)?;
            let facts = Facts::of(&fstat(&again)?);
            if (facts.device, facts.inode) != folder.identity {
                return Err(Errno::NOENT);
            }
            descriptor = Arc::new(again);
            *folder.slot() = Some(descriptor.clone());
            folder.count_open();
        }
        Ok(descriptor)
    }

    fn current(&self) -> Option<Arc<OwnedFd>> {
        self.slot().clone()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Arc<OwnedFd>>> {
        // A descriptor is set or taken in one step, so after a panic elsewhere the value is still
        // valid.
        self.descriptor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this folder is open, and closes the one opened longest ago if there are too many.
    fn count_open(self: &Arc<Self>) {
        let too_many = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.push_back(Arc::downgrade(self));
            if open.len() > OPEN_MAX {
                open.pop_front()
            } else {
                None
            }
        };
        if let Some(folder) = too_many.and_then(|weak| weak.upgrade()) {
            drop(folder.slot().take());
        }
    }
}

impl Drop for Folder {
    /// Drops the chain in a loop: the last child of a deep tree may drop all its parents, which
    /// must not recurse.
    fn drop(&mut self) {
        let mut parent = self.parent.take();
        while let Some(mut folder) = parent.and_then(Arc::into_inner) {
            parent = folder.parent.take();
        }
    }
}

fn open_folder(at: &OwnedFd, name: &[u8], follow: bool, readable: bool) -> Result<OwnedFd, Errno> {
    let base = OFlags::DIRECTORY | OFlags::CLOEXEC | if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    if !readable {
        return retry(|| openat(at, name, base | OFlags::PATH, Mode::empty()));
    }
    open_quietly(at, name, base)
}

/// Opens for reading, without changing the time of access if the system permits that.
pub(crate) fn open_quietly(at: &OwnedFd, name: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    match retry(|| openat(at, name, flags | OFlags::NOATIME, Mode::empty())) {
        // The system permits this only to the owner and the superuser.
        Err(Errno::PERM) => retry(|| openat(at, name, flags, Mode::empty())),
        other => other,
    }
}
