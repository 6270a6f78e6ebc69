//! Removes an existing entry with everything below it.
//!
//! It follows no link, enters no other file system, and leaves the spared folders alone. It works
//! deepest first, without recursion, and holds the names of the folders on the way.

use std::collections::HashSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, unlinkat};
use rustix::io::Errno;

use super::look;
use super::subject::Subject;
use crate::folder::{Entered, Folder};
use crate::metadata::Facts;
use crate::retry::retry;
use crate::walk::NameReader;
use crate::{Action, FolderId, TreeError, order};

/// Removes entries, or only counts what it would remove.
pub(super) struct Remover<'a> {
    pub(super) removes: bool,
    spared: &'a HashSet<FolderId>,
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
}

/// A folder, and the names in it.
type Full = (Arc<Folder>, Vec<Vec<u8>>);

impl<'a> Remover<'a> {
    pub(super) fn new(removes: bool, spared: &'a HashSet<FolderId>) -> Self {
        Self {
            removes,
            spared,
            names: NameReader::new(),
            found: 0,
            faults: Vec::new(),
        }
    }

    pub(super) fn names_in(&mut self, folder: &Arc<Folder>) -> Result<Vec<Vec<u8>>, Errno> {
        // The folder's own descriptor may not be readable.
        let listed = folder.enter(b".", false, true)?;
        self.names.all(&listed.descriptor)
    }

    /// Removes an entry of a folder, which is on this device. `path` is for messages.
    pub(super) fn remove(&mut self, parent: &Arc<Folder>, name: &[u8], path: &[u8], device: u64) {
        let mut open: Vec<Open> = Vec::new();
        let mut next = Some((Arc::clone(parent), name.to_vec(), path.to_vec()));
        loop {
            if let Some((parent, name, path)) = next.take() {
                match self.enter_or_unlink(&parent, &name, &path, device) {
                    Ok(None) => {}
                    Ok(Some((folder, names))) => open.push(Open {
                        parent,
                        folder,
                        name,
                        path,
                        names,
                    }),
                    Err(errno) => self.faults.push(TreeError::system(path, Action::Delete, errno)),
                }
            }
            let Some(innermost) = open.last_mut() else { return };
            if let Some(name) = innermost.names.pop() {
                let path = order::join(&innermost.path, &name);
                next = Some((Arc::clone(&innermost.folder), name, path));
                continue;
            }
            let Some(done) = open.pop() else { return };
            drop(done.folder);
            self.found += 1;
            if self.removes {
                let removed = done.parent.descriptor();
                let removed =
                    removed.and_then(|at| retry(|| unlinkat(&*at, &done.name[..], AtFlags::REMOVEDIR)));
                if let Err(errno) = removed {
                    self.found -= 1;
                    self.faults
                        .push(TreeError::system(done.path, Action::Delete, errno));
                }
            }
        }
    }

    /// Removes an entry, or returns the folder that it is, with its names.
    fn enter_or_unlink(
        &mut self,
        parent: &Arc<Folder>,
        name: &[u8],
        path: &[u8],
        device: u64,
    ) -> Result<Option<Full>, Errno> {
        let at = parent.descriptor()?;
        let there = look(&at, name, path).map_err(|_| Errno::IO)?;
        let Some(there) = there else { return Ok(None) };
        if there.kind != FileType::Directory {
            if self.removes {
                retry(|| unlinkat(&*at, name, AtFlags::empty()))?;
            }
            self.found += 1;
            return Ok(None);
        }
        let Entered {
            folder,
            descriptor,
            facts,
        } = parent.enter(name, false, false)?;
        if facts.device != device || self.spared.contains(&id(&facts)) {
            return Err(Errno::BUSY);
        }
        if self.removes {
            open_up(&descriptor, &facts);
        }
        let names = self.names_in(&folder)?;
        Ok(Some((folder, names)))
    }
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
