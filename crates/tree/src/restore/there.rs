//! Existing entries under a name of the backup, and how they compare with it.

use std::os::fd::OwnedFd;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{AtFlags, Mode, OFlags, openat, readlinkat, statat};
use rustix::io::Errno;
use types::FileTime;

use super::subject::Subject;
use super::{Context, Overwrite, SkipReason, flags, metadata};
use crate::metadata::Facts;
use crate::retry::retry;
use crate::{Action, TreeError, order};

/// The error about two names of the backup that are one in the target.
pub(super) fn same_name(path: &[u8], other: &[u8]) -> TreeError {
    let folder = path
        .iter()
        .rposition(|byte| *byte == b'/')
        .map_or(&b"/"[..], |at| &path[..at]);
    TreeError::SameName {
        path: path.to_vec(),
        other: order::join(folder, other),
    }
}

/// Sets the metadata of an existing entry, through a handle that does not open it.
pub(super) fn finish_node(
    context: &Context,
    at: &OwnedFd,
    name: &[u8],
    entry: &ListingEntry,
) -> Result<(), TreeError> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = retry(|| openat(at, name, flags, Mode::empty()))
        .map_err(|e| TreeError::system(&entry.path[..], Action::Open, e))?;
    if matches!(entry.kind, EntryKind::File { .. }) {
        flags::apply_beneath(context, &handle, entry);
    } else {
        metadata::apply(context, Subject::Handle(&handle), entry);
    }
    Ok(())
}

/// The existing entry of a name, if there is one.
pub(super) fn look(at: &OwnedFd, name: &[u8], path: &[u8]) -> Result<Option<Facts>, TreeError> {
    match retry(|| statat(at, name, AtFlags::SYMLINK_NOFOLLOW)) {
        Ok(stat) => Ok(Some(Facts::of(&stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(TreeError::system(path, Action::ReadMetadata, errno)),
    }
}

/// Why the existing entry stays, if it does.
pub(super) fn keeps(
    choice: Overwrite,
    there: &Facts,
    entry: &ListingEntry,
    at: &OwnedFd,
    name: &[u8],
) -> Option<SkipReason> {
    match choice {
        Overwrite::Always => None,
        Overwrite::Never => Some(SkipReason::Exists),
        Overwrite::IfNewer => {
            // An equal entry whose time is rounded down here is as new. A link or a pipe is equal
            // whatever its time is.
            let is_rounded = || is_same(there, entry, at, name) && is_as_old(there, entry, at);
            (entry.mtime <= there.mtime || is_rounded()).then_some(SkipReason::NotNewer)
        }
        Overwrite::IfChanged => is_same(there, entry, at, name).then_some(SkipReason::Unchanged),
    }
}

/// Whether the existing entry is the backup's entry, as far as the restore compares.
pub(super) fn is_same(there: &Facts, entry: &ListingEntry, at: &OwnedFd, name: &[u8]) -> bool {
    there.kind == metadata::kind_of(entry)
        && match &entry.kind {
            EntryKind::File { len, .. } => there.len == *len && is_as_old(there, entry, at),
            EntryKind::Symlink { target } => {
                readlinkat(at, name, Vec::new()).is_ok_and(|found| found.as_bytes() == target)
            }
            EntryKind::CharDevice { device } | EntryKind::BlockDevice { device } => there.special == *device,
            EntryKind::Fifo | EntryKind::Socket => true,
            EntryKind::Folder | EntryKind::HardLink { .. } => false,
        }
}

/// Whether the times of modification are equal, as far as the file system stores them: some round
/// down a time that a restore sets. The time of change shows the rounding, because the file system
/// rounds it alike and no program chooses it. So a file that merely got a whole second on another
/// file system does not count as equal. `at` is the entry's folder.
pub(super) fn is_as_old(there: &Facts, entry: &ListingEntry, at: &OwnedFd) -> bool {
    there.mtime == entry.mtime
        || ROUNDED_TO.iter().any(|unit| {
            rounded(there.ctime, *unit) == there.ctime
                && rounded(entry.mtime, *unit) == there.mtime
                && (*unit != OF_FAT || is_on_fat(at))
        })
}

/// The units of file systems that do not store nanoseconds: seconds, and nanoseconds within a
/// second. SMB and NTFS, network file systems and UDF, exFAT, ext3 and HFS+, FAT.
const ROUNDED_TO: [(i64, u32); 5] = [(1, 100), (1, 1000), (1, 10_000_000), (1, 1_000_000_000), OF_FAT];
const OF_FAT: (i64, u32) = (2, 1_000_000_000);

fn rounded(time: FileTime, (seconds, nanos): (i64, u32)) -> FileTime {
    FileTime::new(
        time.seconds() - time.seconds().rem_euclid(seconds),
        time.nanos() - time.nanos() % nanos,
    )
}

/// Whether the file system is FAT. The time of change does not show this, because every other whole
/// second is even.
#[cfg(target_os = "linux")]
fn is_on_fat(at: &OwnedFd) -> bool {
    const MSDOS_SUPER_MAGIC: i128 = 0x4d44;
    rustix::fs::fstatfs(at).is_ok_and(|found| i128::from(found.f_type) == MSDOS_SUPER_MAGIC)
}

#[cfg(not(target_os = "linux"))]
fn is_on_fat(_: &OwnedFd) -> bool {
    false
}
