//! Removes an existing entry with everything below it.
//!
//! It follows no link, enters no other mount, and leaves spared folders and excluded entries alone.
//! A folder with something that stays, stays too. It works deepest first, without recursion,
//! and holds the names of the folders on the way.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{AtFlags, FileType, fstat, unlinkat};
use rustix::io::Errno;

use super::look;
use super::subject::Subject;
use crate::folder::{Entered, Folder};
use crate::metadata::Facts;
use crate::retry::retry;
use crate::walk::{MountOf, NameReader};
use crate::{Action, Excludes, FolderId, TreeError, order};

/// Removes entries, or only counts what it would remove.
pub(super) struct Remover<'a> {
    pub(super) removes: bool,
    spared: &'a HashSet<FolderId>,
    excludes: &'a Excludes,
    cancel: Option<&'a AtomicBool>,
    names: NameReader,
    /// How many entries were removed, with those below folders.
    pub(super) found: u64,
    /// What could not be removed.
    pub(super) faults: Vec<TreeError>,
}

/// A folder that is being emptied.
struct Open {
    parent: Arc<Folder>,
    folder: Arc<Folder>,
    name: Vec<u8>,
    path: Vec<u8>,
    names: Vec<Vec<u8>>,
    /// The mode that it had, if this opened it up.
    closed: Option<u32>,
    /// Whether something in it stays.
    stays: bool,
}

/// What became of an entry.
enum Met {
    /// It is removed, or was not there.
    Gone,
    /// It stays.
    Stays,
    /// It is a folder, which is to be emptied first.
    Folder {
        folder: Arc<Folder>,
        names: Vec<Vec<u8>>,
        closed: Option<u32>,
    },
}

/// The mount and the device that removals stay on.
#[derive(Clone, Copy)]
struct Bounds {
    mount: MountOf,
    device: u64,
}

impl<'a> Remover<'a> {
    pub(super) fn new(removes: bool, spared: &'a HashSet<FolderId>, excludes: &'a Excludes) -> Self {
        Self {
            removes,
            cancel: None,
            spared,
            excludes,
            names: NameReader::new(),
            found: 0,
            faults: Vec::new(),
        }
    }

    /// Removes nothing more once this is set. What it then leaves is no fault.
    pub(super) fn with_cancel(mut self, cancel: &'a AtomicBool) -> Self {
        self.cancel = Some(cancel);
        self
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }

    pub(super) fn names_in(&mut self, folder: &Arc<Folder>) -> Result<Vec<Vec<u8>>, Errno> {
        // The folder's own descriptor may not be readable.
        let listed = folder.enter(b".", false, true)?;
        self.names.all(&listed.descriptor)
    }

    /// Removes an entry of a folder. `path` is its path in the backup. Returns whether it, or
    /// something below it, stays.
    pub(super) fn remove(&mut self, parent: &Arc<Folder>, name: &[u8], path: &[u8]) -> bool {
        let bounds = match bounds_of(parent) {
            Ok(bounds) => bounds,
            Err(errno) => {
                self.faults.push(TreeError::system(path, Action::Delete, errno));
                return true;
            }
        };
        let mut open: Vec<Open> = Vec::new();
        let mut next = Some((Arc::clone(parent), name.to_vec(), path.to_vec()));
        loop {
            let mut stays = false;
            if let Some((parent, name, path)) = next.take() {
                match self.enter_or_unlink(&parent, &name, &path, bounds) {
                    Ok(Met::Gone) => {}
                    Ok(Met::Stays) => stays = true,
                    Ok(Met::Folder {
                        folder,
                        names,
                        closed,
                    }) => open.push(Open {
                        parent,
                        folder,
                        name,
                        path,
                        names,
                        closed,
                        stays: false,
                    }),
                    Err(errno) => {
                        self.faults.push(TreeError::system(path, Action::Delete, errno));
                        stays = true;
                    }
                }
            }
            let Some(innermost) = open.last_mut() else {
                return stays;
            };
            innermost.stays |= stays;
            if let Some(name) = innermost.names.pop() {
                let path = order::join(&innermost.path, &name);
                next = Some((Arc::clone(&innermost.folder), name, path));
                continue;
            }
            let Some(done) = open.pop() else { return stays };
            let stays = self.close(done);
            match open.last_mut() {
                Some(above) => above.stays |= stays,
                None => return stays,
            }
        }
    }

    /// Removes an emptied folder. Returns whether it stays.
    fn close(&mut self, done: Open) -> bool {
        if done.stays {
            if let Some(mode) = done.closed
                && let Ok(at) = done.folder.descriptor()
            {
                Subject::Handle(&at).set_mode(mode).ok();
            }
            return true;
        }
        drop(done.folder);
        if self.removes {
            let removed = done.parent.descriptor();
            let removed = removed.and_then(|at| retry(|| unlinkat(&*at, &done.name[..], AtFlags::REMOVEDIR)));
            if let Err(errno) = removed {
                self.faults
                    .push(TreeError::system(done.path, Action::Delete, errno));
                return true;
            }
        }
        self.found += 1;
        false
    }

    /// Removes an entry, or returns the folder that it is, with its names.
    fn enter_or_unlink(
        &mut self,
        parent: &Arc<Folder>,
        name: &[u8],
        path: &[u8],
        bounds: Bounds,
    ) -> Result<Met, Errno> {
        if self.is_cancelled() || self.excludes.excludes(path) {
            return Ok(Met::Stays);
        }
        let at = parent.descriptor()?;
        let there = look(&at, name, path).map_err(|_| Errno::IO)?;
        let Some(there) = there else { return Ok(Met::Gone) };
        if there.kind != FileType::Directory {
            if self.removes {
                retry(|| unlinkat(&*at, name, AtFlags::empty()))?;
            }
            self.found += 1;
            return Ok(Met::Gone);
        }
        let Entered {
            folder,
            descriptor,
            facts,
        } = parent.enter(name, false, false)?;
        let mount = MountOf::of(&descriptor, facts.device);
        if !mount.is_same(bounds.mount) || facts.device != bounds.device || self.spared.contains(&id(&facts))
        {
            return Err(Errno::BUSY);
        }
        let opened = self.removes && open_up(&descriptor, &facts);
        let names = self.names_in(&folder)?;
        Ok(Met::Folder {
            folder,
            names,
            closed: opened.then_some(facts.mode),
        })
    }
}

fn bounds_of(folder: &Arc<Folder>) -> Result<Bounds, Errno> {
    let at = folder.descriptor()?;
    let device = Facts::of(&fstat(&*at)?).device;
    Ok(Bounds {
        mount: MountOf::of(&at, device),
        device,
    })
}

/// Lets this user remove names in the folder. Returns whether that changed the mode.
pub(super) fn open_up(at: &OwnedFd, facts: &Facts) -> bool {
    let is_closed = facts.mode & 0o300 != 0o300 && !rustix::process::geteuid().is_root();
    is_closed && Subject::Handle(at).set_mode(facts.mode | 0o700).is_ok()
}

pub(super) fn id(facts: &Facts) -> FolderId {
    FolderId {
        device: facts.device,
        inode: facts.inode,
    }
}
