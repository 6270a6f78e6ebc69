//! Gives names to restored entries: only to complete ones, with metadata, and without opening an
//! existing entry.
//!
//! While a restore writes a file, the file has no name, if the system supports that (`O_TMPFILE`).
//! Otherwise, and for entries that are no regular files, it has a temporary name. The next restore
//! recognises such names and removes them ([`super::leftovers`]). So however a restore ends, an
//! entry under a name of the backup is complete, and an older entry stays until then. The restore
//! does not sync: after a power cut a file may have its name and lack some bytes, as after any
//! program that does not sync.
//!
//! If a name is taken in a folder that this restore made, this restore has taken it: two names of
//! the backup are the same name there. For a folder that existed before, [`Seen`] records the
//! names.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use format::listing::ListingEntry;
use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, fstat, linkat, openat,
    renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::folders::Place;
use super::remove::Remover;
use super::there::{finish_node, is_same, keeps, look};
use super::{Context, SkipReason};
use crate::metadata::Facts;
use crate::retry::retry;
use crate::{Action, TreeError};

/// An entry that has no name yet.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A file without a name.
    Nameless(OwnedFd),
    /// An entry with a temporary name, and the descriptor if it is a file.
    Aside { name: Vec<u8>, file: Option<OwnedFd> },
}

impl Arrival {
    /// The open file, of an entry that is a file.
    pub(super) fn file(&self) -> Option<&OwnedFd> {
        match self {
            Self::Nameless(file) => Some(file),
            Self::Aside { file, .. } => file.as_ref(),
        }
    }

    /// Removes the entry. Without a name it disappears by itself.
    pub(super) fn remove(&self, at: &OwnedFd) -> Result<(), Errno> {
        match self {
            Self::Nameless(_) => Ok(()),
            Self::Aside { name, .. } => retry(|| unlinkat(at, &name[..], AtFlags::empty())),
        }
    }

    fn identity(&self, at: &OwnedFd) -> Result<(u64, u64), Errno> {
        let stat = match self {
            Self::Nameless(file) | Self::Aside { file: Some(file), .. } => fstat(file)?,
            Self::Aside { name, file: None } => statat(at, &name[..], AtFlags::SYMLINK_NOFOLLOW)?,
        };
        let facts = Facts::of(&stat);
        Ok((facts.device, facts.inode))
    }

    /// Gives the entry a free name.
    fn name(&self, context: &Context, at: &OwnedFd, to: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Nameless(file) => link_open(context.superuser, file, at, to),
            Self::Aside { name, .. } => rename_to_free(at, name, to),
        }
    }
}

/// Creates an empty file.
pub(super) fn open(context: &Context, at: &OwnedFd, path: &[u8], mode: Mode) -> Result<Arrival, TreeError> {
    let creating = |errno| TreeError::system(path, Action::Create, errno);
    if context.nameless.load(Ordering::Relaxed) {
        match open_nameless(at, mode) {
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {
                context.nameless.store(false, Ordering::Relaxed);
            }
            other => return other.map(Arrival::Nameless).map_err(creating),
        }
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (name, file) =
        aside(|| context.temporary_name(), |name| openat(at, name, flags, mode)).map_err(creating)?;
    // The lock shows other restores that a process is writing the file. Without locks they do not
    // check.
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok();
    Ok(Arrival::Aside {
        name,
        file: Some(file),
    })
}

#[cfg(target_os = "linux")]
pub(super) fn open_nameless(at: &OwnedFd, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    retry(|| openat(at, ".", flags, mode))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn open_nameless(_: &OwnedFd, _: Mode) -> Result<OwnedFd, Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Creates an entry that is no regular file, under a temporary name.
pub(super) fn make(
    context: &Context,
    path: &[u8],
    action: Action,
    create: impl Fn(&[u8]) -> Result<(), Errno>,
) -> Result<Arrival, TreeError> {
    let created = aside(|| context.temporary_name(), create);
    let (name, ()) = created.map_err(|errno| TreeError::system(path, action, errno))?;
    Ok(Arrival::Aside { name, file: None })
}

/// Creates an entry under the first temporary name that is free.
pub(super) fn aside<T>(
    mut next_name: impl FnMut() -> Vec<u8>,
    create: impl Fn(&[u8]) -> Result<T, Errno>,
) -> Result<(Vec<u8>, T), Errno> {
    loop {
        let name = next_name();
        match retry(|| create(&name)) {
            // A killed process with the same number has left it.
            Err(Errno::EXIST) => {}
            other => return other.map(|created| (name, created)),
        }
    }
}

/// Gives an open file without a name a free one.
pub(super) fn link_open(superuser: bool, file: impl AsFd, at: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let file = file.as_fd();
    if superuser {
        match retry(|| linkat(file, "", at, name, AtFlags::EMPTY_PATH)) {
            // The process may lack the capability for this call.
            Err(Errno::NOENT | Errno::PERM) => {}
            other => return other,
        }
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    retry(|| linkat(CWD, &*path, at, name, AtFlags::SYMLINK_FOLLOW))
}

/// Renames an entry, unless the new name is taken.
pub(super) fn rename_to_free(at: &OwnedFd, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    match retry(|| renameat_with(at, from, at, to, RenameFlags::NOREPLACE)) {
        // The file system lacks this call, so the restore has to look first.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        other => return other,
    }
    match retry(|| statat(at, to, AtFlags::SYMLINK_NOFOLLOW)) {
        Err(Errno::NOENT) => retry(|| renameat(at, from, at, to)),
        Err(errno) => Err(errno),
        Ok(_) => Err(Errno::EXIST),
    }
}

/// Gives an entry its name, and replaces an existing entry, which must be empty if it is a folder.
/// On failure removes the new entry.
///
/// An existing entry that this restore has made or left stays: [`TreeError::SameName`]. An entry
/// that appeared meanwhile stays too, if it would have stayed before. If it equals the backup's
/// entry, maybe from another restore, that is no fault, and the result is the reason.
pub(super) fn settle(
    context: &Context,
    place: &Place,
    at: &OwnedFd,
    arrival: &Arrival,
    name: &[u8],
    entry: &ListingEntry,
) -> Result<Option<SkipReason>, TreeError> {
    place.change();
    let settled = settle_or_leave(context, place, at, arrival, name, entry);
    if !matches!(settled, Ok(None)) {
        // The earlier fault is the one to report.
        arrival.remove(at).ok();
    }
    settled
}

fn settle_or_leave(
    context: &Context,
    place: &Place,
    at: &OwnedFd,
    arrival: &Arrival,
    name: &[u8],
    entry: &ListingEntry,
) -> Result<Option<SkipReason>, TreeError> {
    let path = &entry.path[..];
    let naming = |errno| TreeError::system(path, Action::Create, errno);
    if place.is_own() {
        return match arrival.name(context, at, name) {
            Err(Errno::EXIST) => Err(place.same_name(at, name, path)),
            other => other.map(|()| None).map_err(naming),
        };
    }
    let identity = arrival.identity(at).map_err(naming)?;
    // The guard is held until the name is recorded. So if two names are one, the later finds the
    // earlier.
    let mut seen = place.seen();
    match arrival.name(context, at, name) {
        Err(Errno::EXIST) => {
            let there = look(at, name, path)?;
            let theirs = there.map(|there| (there.device, there.inode));
            if let Some(there) = &there
                && let Some(other) = seen.same(at, there, name)
            {
                return Err(super::same_name(path, &other));
            }
            if theirs == Some(identity) {
                // Another restore made this link, and `rename` does nothing to two names of one
                // inode.
                arrival.remove(at).map_err(naming)?;
            } else {
                if let (Some(there), Some(theirs)) = (&there, theirs)
                    && let Some(reason) = came_meanwhile(context, at, there, name, entry)?
                {
                    seen.note(theirs, name);
                    return Ok(Some(reason));
                }
                let mut is_folder = there
                    .as_ref()
                    .is_some_and(|there| there.kind == FileType::Directory);
                if is_folder && context.clears_folders {
                    clear(context, place, name, path)?;
                    is_folder = false;
                }
                replace(context, at, arrival, name, path, is_folder)?;
            }
        }
        other => other.map_err(naming)?,
    }
    seen.note(identity, name);
    Ok(None)
}

/// Judges an existing entry that appeared after the name was found free, or after the entry there
/// was to be replaced. Returns why it stays; `None`: it is replaced.
fn came_meanwhile(
    context: &Context,
    at: &OwnedFd,
    there: &Facts,
    name: &[u8],
    entry: &ListingEntry,
) -> Result<Option<SkipReason>, TreeError> {
    let Some(reason) = keeps(context.overwrite, there, entry, at, name) else {
        return Ok(None);
    };
    if !is_same(there, entry, at, name) {
        return Err(TreeError::ChangedMeanwhile {
            path: entry.path.clone(),
        });
    }
    if reason == SkipReason::Unchanged {
        finish_node(context, at, name, entry)?;
    }
    Ok(Some(reason))
}

/// Removes what is in an existing folder, and the folder.
fn clear(context: &Context, place: &Place, name: &[u8], path: &[u8]) -> Result<(), TreeError> {
    let mut remover = Remover::new(true, &context.spared, &context.excludes);
    let stays = remover.remove(&place.folder, name, path);
    match remover.faults.into_iter().next() {
        Some(fault) => Err(fault),
        None if stays => Err(TreeError::system(path, Action::Replace, Errno::NOTEMPTY)),
        None => Ok(()),
    }
}

fn replace(
    context: &Context,
    at: &OwnedFd,
    arrival: &Arrival,
    name: &[u8],
    path: &[u8],
    is_folder: bool,
) -> Result<(), TreeError> {
    let replacing = |errno| TreeError::system(path, Action::Replace, errno);
    let naming = |errno| TreeError::system(path, Action::Create, errno);
    if is_folder {
        retry(|| unlinkat(at, name, AtFlags::REMOVEDIR)).map_err(replacing)?;
        return arrival.name(context, at, name).map_err(naming);
    }
    match arrival {
        Arrival::Aside { name: from, .. } => retry(|| renameat(at, &from[..], at, name)).map_err(replacing),
        Arrival::Nameless(file) => {
            flock(file, FlockOperation::NonBlockingLockExclusive).ok();
            let linked = aside(
                || context.temporary_name(),
                |temporary| link_open(context.superuser, file, at, temporary),
            );
            let (temporary, ()) = linked.map_err(naming)?;
            let renamed = retry(|| renameat(at, &temporary[..], at, name));
            if renamed.is_err() {
                unlinkat(at, &temporary[..], AtFlags::empty()).ok();
            }
            renamed.map_err(replacing)
        }
    }
}
