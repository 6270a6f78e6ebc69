//! Hard links: to a file that is there, and those that wait because its first name is not restored.
//!
//! A name that waits holds its folder as an unfinished file does: the folder's metadata, its permissions among
//! them, follow when the name has been made or given up.

use std::sync::Arc;

use format::listing::ListingEntry;
use rustix::fs::{AtFlags, FileType, linkat, statat};
use rustix::io::Errno;

use super::folders::Place;
use super::pending::PendingFile;
use super::{Context, Overwrite, Placed, SkipReason, arrive, flags, look, same_name};
use crate::folder::{Folder, retry};
use crate::metadata::Facts;
use crate::{Action, TreeError};

/// A name of a file whose first name is not restored. Nothing of it is made; its folder is there, and waits for
/// it before it is given its own metadata.
#[derive(Debug)]
pub struct PendingLink {
    pub(super) context: Arc<Context>,
    pub(super) parent: Arc<Place>,
    pub(super) name: Vec<u8>,
    pub(super) entry: ListingEntry,
}

impl PendingLink {
    /// The entry to be restored.
    #[must_use]
    pub fn entry(&self) -> &ListingEntry {
        &self.entry
    }

    /// The name as a file of its own, to be made as the file that `first` describes.
    #[must_use]
    pub fn file(&self, first: &ListingEntry) -> PendingFile {
        PendingFile {
            context: self.context.clone(),
            parent: self.parent.clone(),
            name: self.name.clone(),
            entry: ListingEntry {
                path: self.entry.path.clone(),
                ..first.clone()
            },
        }
    }

    /// Makes it another name of the file that stands under `other`, finished.
    ///
    /// # Errors
    /// [`TreeError::System`]: it is not made.
    pub fn link(self, other: &Self) -> Result<Placed, TreeError> {
        let first = (&other.parent.folder, &other.name[..]);
        let linked = link(&self.context, first, (&self.parent, &self.name), &self.entry);
        let placed = linked.inspect_err(|fault| self.context.note(fault))?;
        placed.ok_or_else(|| TreeError::system(&self.entry.path[..], Action::Link, Errno::NOENT))
    }
}

/// Makes an entry a name of the regular file that stands under the first one; none where there is no such file.
pub(super) fn link(
    context: &Context,
    (first_parent, first_name): (&Arc<Folder>, &[u8]),
    (parent, name): (&Place, &[u8]),
    entry: &ListingEntry,
) -> Result<Option<Placed>, TreeError> {
    let fault = |errno| TreeError::system(&entry.path[..], Action::Link, errno);
    let from = first_parent.descriptor().map_err(fault)?;
    let first = match retry(|| statat(&*from, first_name, AtFlags::SYMLINK_NOFOLLOW)) {
        Ok(stat) => Facts::of(&stat),
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(fault(errno)),
    };
    if first.kind != FileType::RegularFile {
        return Ok(None);
    }
    let at = parent.folder.descriptor().map_err(fault)?;
    if let Some(there) = look(&at, name, &entry.path)? {
        if (there.device, there.inode) == (first.device, first.inode) {
            return Ok(Some(Placed::Done));
        }
        if parent.is_own() {
            return Err(parent.same_name(&at, name, &entry.path));
        }
        if let Some(other) = parent.seen().same(&at, &there, name) {
            return Err(same_name(&entry.path, &other));
        }
        match context.overwrite {
            Overwrite::Never => return Ok(Some(Placed::Skipped(SkipReason::Exists))),
            Overwrite::IfNewer if entry.mtime <= there.mtime => {
                return Ok(Some(Placed::Skipped(SkipReason::NotNewer)));
            }
            _ => {}
        }
    }
    // A hard link is complete at once.
    parent.change();
    let mut seen = (!parent.is_own()).then(|| parent.seen());
    match flags::link_bound(&from, first_name, || {
        linkat(&*from, first_name, &*at, name, AtFlags::empty())
    }) {
        Ok(()) => {
            if let Some(seen) = &mut seen {
                seen.note((first.device, first.inode), name);
            }
            return Ok(Some(Placed::Done));
        }
        Err(Errno::EXIST) => drop(seen),
        Err(errno) => return Err(fault(errno)),
    }
    let made = arrive::make(context, &entry.path, Action::Link, |name| {
        flags::link_bound(&from, first_name, || {
            linkat(&*from, first_name, &*at, name, AtFlags::empty())
        })
    })?;
    arrive::settle(context, parent, &at, &made, name, entry)?;
    Ok(Some(Placed::Done))
}
