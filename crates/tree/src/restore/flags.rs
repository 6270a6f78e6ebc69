//! Flags of inodes, as `chattr` sets them.
//!
//! Most are set last, because an immutable file takes no other name, and an immutable folder no
//! entry. Flags about the storage of bytes must be set before the first byte. A flag that the file
//! system refuses is a fault. A flag that only the superuser may set is no fault for other users,
//! as with owners.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use format::listing::ListingEntry;
use rustix::fs::{IFlags, Mode, OFlags, ioctl_getflags, ioctl_setflags, open, openat};
use rustix::io::Errno;

use super::subject::Subject;
use super::{Context, metadata};
use crate::retry::retry;
use crate::{Action, TreeError};

/// Compression, no compression, and no copy on write.
const OF_STORAGE: u32 = 0x4 | 0x400 | 0x80_0000;
/// Immutable and append-only.
const OF_SUPERUSER: u32 = 0x10 | 0x20;

/// Sets the flags that must be set while the file is empty. [`set`] checks later whether this
/// worked.
pub(super) fn set_early(file: &OwnedFd, entry: &ListingEntry) {
    let early = entry.flags & OF_STORAGE;
    if early != 0
        && let Ok(now) = retry(|| ioctl_getflags(file))
    {
        retry(|| ioctl_setflags(file, IFlags::from_bits_retain(now.bits() | early))).ok();
    }
}

/// Sets all flags of an open file.
pub(super) fn set(context: &Context, file: impl AsFd, entry: &ListingEntry) {
    if entry.flags == 0 {
        return;
    }
    let lacking = apply(&file, entry.flags);
    let refused = if context.superuser { 0 } else { OF_SUPERUSER };
    if let Some((bits, errno)) = lacking
        && bits & !refused != 0
    {
        context.fault(TreeError::system(&entry.path[..], Action::SetFlags, errno));
    }
}

/// Sets the metadata of a folder or of an existing file, which may be immutable already.
pub(super) fn apply_beneath(context: &Context, handle: &OwnedFd, entry: &ListingEntry) {
    let opened = (entry.flags != 0).then(|| {
        let path = format!("/proc/self/fd/{}", handle.as_raw_fd());
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        retry(|| open(path.as_str(), flags, Mode::empty()))
    });
    if let Some(Ok(file)) = &opened {
        unbind(file);
    }
    metadata::apply(context, Subject::Handle(handle), entry);
    match opened {
        None => {}
        Some(Ok(file)) => set(context, &file, entry),
        Some(Err(errno)) => context.fault(TreeError::system(&entry.path[..], Action::SetFlags, errno)),
    }
}

/// Removes the flags that keep a file from being changed, and returns them.
fn unbind(file: &OwnedFd) -> u32 {
    let Ok(now) = retry(|| ioctl_getflags(file)) else {
        return 0;
    };
    let bound = now.bits() & OF_SUPERUSER;
    if bound != 0 {
        let without = IFlags::from_bits_retain(now.bits() & !OF_SUPERUSER);
        retry(|| ioctl_setflags(file, without)).ok();
    }
    bound
}

/// Gives another name to a file that may be immutable: removes the flag, and calls `link` again.
pub(super) fn link_bound<T>(
    at: &OwnedFd,
    name: &[u8],
    link: impl Fn() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let refused = match retry(&link) {
        Err(refused @ Errno::PERM) => refused,
        other => return other,
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = retry(|| openat(at, name, flags, Mode::empty())) else {
        return Err(refused);
    };
    let bound = unbind(&file);
    if bound == 0 {
        return Err(refused);
    }
    let linked = retry(&link);
    if apply(&file, bound).is_some() {
        return Err(refused);
    }
    linked
}

/// Sets the flags as far as permitted. Returns the missing ones, and the error.
fn apply(file: &impl AsFd, wanted: u32) -> Option<(u32, Errno)> {
    let now = match retry(|| ioctl_getflags(file)) {
        Ok(now) => now.bits(),
        Err(errno) => return Some((wanted, errno)),
    };
    let all = now | wanted;
    let mut first = None;
    if all != now
        && let Err(errno) = retry(|| ioctl_setflags(file, IFlags::from_bits_retain(all)))
    {
        first = Some(errno);
        // One by one; those that only the superuser may set come last.
        let one_by_one = (0..32).map(|bit| 1 << bit).filter(|bit| wanted & bit != 0);
        let (late, soon): (Vec<u32>, Vec<u32>) = one_by_one.partition(|bit| OF_SUPERUSER & bit != 0);
        for bit in soon.into_iter().chain(late) {
            if let Ok(now) = retry(|| ioctl_getflags(file)) {
                retry(|| ioctl_setflags(file, IFlags::from_bits_retain(now.bits() | bit))).ok();
            }
        }
    }
    let lacking = match retry(|| ioctl_getflags(file)) {
        Ok(now) => wanted & !now.bits(),
        Err(_) => wanted,
    };
    (lacking != 0).then_some((lacking, first.unwrap_or(Errno::OPNOTSUPP)))
}
