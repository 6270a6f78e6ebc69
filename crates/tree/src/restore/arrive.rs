//! How what is restored comes to stand under its name: whole, with its metadata, and never by
//! opening what is there.
//!
//! A file has no name while it is written, where the system can do that (`O_TMPFILE`); elsewhere,
//! and where it is no regular file, it has a temporary one, which the next restore recognises and
//! removes ([`super::leftovers`]). So however a restore ends, what stands under a name of the
//! backup is whole, and what stood there before stays until then. Nothing is made durable for that:
//! after a power cut a file may have its name and not all its bytes, as it may after any program
//! that did not ask the disk.
//!
//! In a folder that this restore made, a name that is taken was taken by this restore: names differ
//! here that are one there. In a folder that was there, [`Seen`] knows.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::fs::{
    AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, fstat, linkat, openat,
    renameat, renameat_with, statat, unlinkat,
};
use rustix::io::Errno;

use super::folders::Place;
use super::seen::Seen;
use super::{Context, look};
use crate::folder::retry;
use crate::metadata::Facts;
use crate::{Action, TreeError};

/// Something that has not its name yet.
#[derive(Debug)]
pub(super) enum Arrival {
    /// A file without any name.
    Nameless(OwnedFd),
    /// What stands under a temporary name, and a file's descriptor.
    Aside { name: Vec<u8>, file: Option<OwnedFd> },
}

impl Arrival {
    /// The open file. Only a file is asked for it.
    pub(super) fn file(&self) -> Option<&OwnedFd> {
        match self {
            Self::Nameless(file) => Some(file),
            Self::Aside { file, .. } => file.as_ref(),
        }
    }

    /// Removes it; without a name it goes by itself.
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

    /// Gives it a name that is free.
    fn name(&self, context: &Context, at: &OwnedFd, to: &[u8]) -> Result<(), Errno> {
        match self {
            Self::Nameless(file) => link_open(context, file, at, to),
            Self::Aside { name, .. } => rename_to_free(at, name, to),
        }
    }
}

/// A new file, empty.
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
    let (name, file) = aside(context, |name| openat(at, name, flags, mode)).map_err(creating)?;
    // Whoever finds it locked knows that somebody is at work; where there are no locks, nobody asks
    // either.
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok();
    Ok(Arrival::Aside {
        name,
        file: Some(file),
    })
}

#[cfg(target_os = "linux")]
fn open_nameless(at: &OwnedFd, mode: Mode) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    retry(|| openat(at, ".", flags, mode))
}

#[cfg(not(target_os = "linux"))]
fn open_nameless(_: &OwnedFd, _: Mode) -> Result<OwnedFd, Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Makes something that is no regular file, under a temporary name.
pub(super) fn make(
    context: &Context,
    path: &[u8],
    action: Action,
    create: impl Fn(&[u8]) -> Result<(), Errno>,
) -> Result<Arrival, TreeError> {
    let (name, ()) = aside(context, create).map_err(|errno| TreeError::system(path, action, errno))?;
    Ok(Arrival::Aside { name, file: None })
}

/// Creates something under a temporary name.
fn aside<T>(context: &Context, create: impl Fn(&[u8]) -> Result<T, Errno>) -> Result<(Vec<u8>, T), Errno> {
    loop {
        let name = context.temporary_name();
        match retry(|| create(&name)) {
            // Left by a process that was killed and had the same number.
            Err(Errno::EXIST) => {}
            other => return other.map(|created| (name, created)),
        }
    }
}

fn link_open(context: &Context, file: &OwnedFd, at: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    if context.superuser {
        match retry(|| linkat(file, "", at, name, AtFlags::EMPTY_PATH)) {
            // Without the capability that it takes.
            Err(Errno::NOENT | Errno::PERM) => {}
            other => return other,
        }
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    retry(|| linkat(CWD, &*path, at, name, AtFlags::SYMLINK_FOLLOW))
}

fn rename_to_free(at: &OwnedFd, from: &[u8], to: &[u8]) -> Result<(), Errno> {
    match retry(|| renameat_with(at, from, at, to, RenameFlags::NOREPLACE)) {
        // The file system has no such call: looking first is what is left.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        other => return other,
    }
    match retry(|| statat(at, to, AtFlags::SYMLINK_NOFOLLOW)) {
        Err(Errno::NOENT) => retry(|| renameat(at, from, at, to)),
        Err(errno) => Err(errno),
        Ok(_) => Err(Errno::EXIST),
    }
}

/// Gives something its name, in the place of what stands there, of which a folder must be empty. It
/// is removed where that fails.
///
/// What stands there and was made, or left, by this restore stays: [`TreeError::SameName`].
pub(super) fn settle(
    context: &Context,
    place: &Place,
    at: &OwnedFd,
    arrival: &Arrival,
    name: &[u8],
    path: &[u8],
) -> Result<(), TreeError> {
    place.change();
    let settled = settle_or_leave(context, place, at, arrival, name, path);
    if settled.is_err() {
        // The fault that is told is the one that counts.
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
    path: &[u8],
) -> Result<(), TreeError> {
    let naming = |errno| TreeError::system(path, Action::Create, errno);
    if place.is_own() {
        return match arrival.name(context, at, name) {
            Err(Errno::EXIST) => Err(place.same_name(at, name, path)),
            other => other.map_err(naming),
        };
    }
    let identity = arrival.identity(at).map_err(naming)?;
    // Held until it is noted: of two names that are one, the later must find the earlier.
    let mut seen = place.seen();
    match arrival.name(context, at, name) {
        Err(Errno::EXIST) => replace(context, at, arrival, name, path, &seen)?,
        other => other.map_err(naming)?,
    }
    seen.note(identity, name);
    Ok(())
}

fn replace(
    context: &Context,
    at: &OwnedFd,
    arrival: &Arrival,
    name: &[u8],
    path: &[u8],
    seen: &Seen,
) -> Result<(), TreeError> {
    let replacing = |errno| TreeError::system(path, Action::Replace, errno);
    let naming = |errno| TreeError::system(path, Action::Create, errno);
    let there = look(at, name, path)?;
    if let Some(there) = &there
        && let Some(other) = seen.same(at, there, name)
    {
        return Err(super::same_name(path, &other));
    }
    if there.is_some_and(|there| there.kind == FileType::Directory) {
        retry(|| unlinkat(at, name, AtFlags::REMOVEDIR)).map_err(replacing)?;
        return arrival.name(context, at, name).map_err(naming);
    }
    match arrival {
        Arrival::Aside { name: from, .. } => retry(|| renameat(at, &from[..], at, name)).map_err(replacing),
        Arrival::Nameless(file) => {
            flock(file, FlockOperation::NonBlockingLockExclusive).ok();
            let linked = aside(context, |temporary| link_open(context, file, at, temporary));
            let (temporary, ()) = linked.map_err(naming)?;
            let renamed = retry(|| renameat(at, &temporary[..], at, name));
            if renamed.is_err() {
                unlinkat(at, &temporary[..], AtFlags::empty()).ok();
            }
            renamed.map_err(replacing)
        }
    }
}
