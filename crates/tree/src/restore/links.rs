//! Hard links: to existing entries, and links that wait because their first name is not restored.
//!
//! A waiting name keeps its folder unfinished, as an unfinished file does. The folder's metadata,
//! with its permissions, is set when the name has been made or given up.

use std::sync::Arc;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{AtFlags, FileType, linkat, statat};
use rustix::io::Errno;

use super::folders::Place;
use super::pending::PendingFile;
use super::there::is_as_old;
use super::{Context, Overwrite, Placed, SkipReason, arrive, flags, look, place_node, same_name};
use crate::folder::Folder;
use crate::metadata::Facts;
use crate::retry::retry;
use crate::{Action, TreeError};

/// A name whose first name is not restored. Nothing of it exists. Its folder exists, and waits for
/// it before it gets its own metadata.
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

    /// The name as a file of its own, as described by `first`.
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

    /// Makes the name an entry of its own, as described by `first`, which is neither a folder nor a
    /// hard link. A file is begun, as by [`PendingFile::open`].
    ///
    /// # Errors
    /// [`TreeError::SameName`], [`TreeError::System`]: the entry is not restored.
    pub fn make(&self, first: &ListingEntry) -> Result<Placed, TreeError> {
        let own = self.file(first);
        if let EntryKind::File { .. } = first.kind {
            return own.open();
        }
        place_node(&self.context, &self.parent, &self.name, &own.entry)
    }

    /// Links it to the finished entry under `other`.
    ///
    /// # Errors
    /// [`TreeError::System`]: the link is not made.
    pub fn link(self, other: &Self) -> Result<Placed, TreeError> {
        let first = (&other.parent.folder, &other.name[..]);
        let linked = link(&self.context, first, (&self.parent, &self.name), &self.entry);
        let placed = linked.inspect_err(|fault| self.context.note(fault))?;
        placed.ok_or_else(|| TreeError::system(&self.entry.path[..], Action::Link, Errno::NOENT))
    }
}

/// Whether the entry under the first name may be the backup's entry. With some choices of what to
/// overwrite, another entry stays there. Such an entry has another time, or
/// [`stays`](super::there::stays) has recorded it.
pub(super) fn may_be_first(
    context: &Context,
    (parent, name): (&Arc<Folder>, &[u8]),
    entry: &ListingEntry,
) -> bool {
    if !matches!(context.overwrite, Overwrite::IfNewer | Overwrite::Never) {
        return true;
    }
    let is_as_old = parent.descriptor().and_then(|at| {
        let stat = retry(|| statat(&*at, name, AtFlags::SYMLINK_NOFOLLOW))?;
        Ok(is_as_old(&Facts::of(&stat), entry, &at))
    });
    // All names of an inode have one time. If the entry cannot be examined, the next call reports
    // the fault.
    is_as_old.unwrap_or(true)
}

/// Links an entry to its first name. `None`: there is no entry that may have several names.
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
    if matches!(first.kind, FileType::Directory | FileType::Unknown) {
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
    let link_to = |name: &[u8]| {
        let link = || linkat(&*from, first_name, &*at, name, AtFlags::empty());
        // Only files can be immutable, and opening a device may have effects.
        if first.kind == FileType::RegularFile {
            flags::link_bound(&from, first_name, link)
        } else {
            retry(link)
        }
    };
    // A hard link is complete at once.
    parent.change();
    let mut seen = (!parent.is_own()).then(|| parent.seen());
    match link_to(name) {
        Ok(()) => {
            if let Some(seen) = &mut seen {
                seen.note((first.device, first.inode), name);
            }
            return Ok(Some(Placed::Done));
        }
        Err(Errno::EXIST) => drop(seen),
        Err(errno) => return Err(fault(errno)),
    }
    let made = arrive::make(context, &entry.path, Action::Link, link_to)?;
    let stays = arrive::settle(context, parent, &at, &made, name, entry)?;
    Ok(Some(stays.map_or(Placed::Done, Placed::Skipped)))
}
