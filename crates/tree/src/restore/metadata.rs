//! Sets an entry's metadata, in the one order that works.
//!
//! Ordinary attributes first, while the mode still lets the owner write; then the owner, which
//! clears set-id bits and capabilities; then the mode; then ACLs, which the mode would change, and
//! attributes of security modules; the times last, because everything before changes them.

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{FileType, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use types::FileTime;

use super::subject::Subject;
use super::{Context, Owners};
use crate::metadata::Facts;
use crate::{Action, TreeError};

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;

/// Sets all of an entry's metadata. Collects one fault of each kind, and continues with the rest.
pub(super) fn apply(context: &Context, subject: Subject<'_>, entry: &ListingEntry) {
    let path = &entry.path;
    let report = |action, result: Result<(), Errno>| {
        if let Err(errno) = result {
            context.fault(TreeError::system(&path[..], action, errno));
        }
    };
    let now = match rustix::fs::fstat(subject.descriptor()) {
        Ok(stat) => Facts::of(&stat),
        Err(errno) => return context.fault(TreeError::system(&path[..], Action::ReadMetadata, errno)),
    };
    if now.kind != kind_of(entry) {
        return context.fault(TreeError::Vanished { path: path.clone() });
    }
    report(Action::SetAttributes, remove_others(subject, entry));
    report(Action::SetAttributes, set_attributes(subject, entry, false));
    let mode = set_owner(context, subject, entry, (now.uid, now.gid));
    if now.kind != FileType::Symlink {
        report(Action::SetMode, subject.set_mode(mode));
    }
    report(Action::SetAttributes, set_attributes(subject, entry, true));
    set_times(context, subject, entry);
}

/// Like [`apply`], for a file that was just created with this owner and no attributes. If
/// `mode_is_final`, it has its final mode already. It reads nothing from the system, and sets only
/// what differs.
pub(super) fn apply_to_new(
    context: &Context,
    subject: Subject<'_>,
    entry: &ListingEntry,
    owner: (u32, u32),
    mode_is_final: bool,
) {
    let report = |action, result: Result<(), Errno>| {
        if let Err(errno) = result {
            context.fault(TreeError::system(&entry.path[..], action, errno));
        }
    };
    report(Action::SetAttributes, set_attributes(subject, entry, false));
    let mode = set_owner(context, subject, entry, owner);
    if !mode_is_final {
        report(Action::SetMode, subject.set_mode(mode));
    }
    report(Action::SetAttributes, set_attributes(subject, entry, true));
    set_times(context, subject, entry);
}

/// Sets the times. A file system silently stores the nearest time that it can hold. If that may
/// happen, the time is read again and compared.
fn set_times(context: &Context, subject: Subject<'_>, entry: &ListingEntry) {
    // The times that every file system can store: the years 1980 (FAT) to 2037 (ext3).
    const HELD_BY_ALL: std::ops::Range<i64> = 315_619_200..(1 << 31) - 172_800;
    let path = &entry.path;
    if let Err(errno) = subject.set_times(&times(entry.mtime)) {
        context.fault(TreeError::system(&path[..], Action::SetTimes, errno));
    } else if !HELD_BY_ALL.contains(&entry.mtime.seconds())
        && let Ok(stat) = rustix::fs::fstat(subject.descriptor())
        && Facts::of(&stat).mtime.seconds().abs_diff(entry.mtime.seconds()) > 2
    {
        context.fault(TreeError::TimeNotHeld { path: path.clone() });
    }
}

/// The kind of the entry on disk. A hard link does not show it: its first name does.
pub(super) fn kind_of(entry: &ListingEntry) -> FileType {
    match entry.kind {
        EntryKind::File { .. } => FileType::RegularFile,
        EntryKind::HardLink { .. } => FileType::Unknown,
        EntryKind::Folder => FileType::Directory,
        EntryKind::Symlink { .. } => FileType::Symlink,
        EntryKind::CharDevice { .. } => FileType::CharacterDevice,
        EntryKind::BlockDevice { .. } => FileType::BlockDevice,
        EntryKind::Fifo => FileType::Fifo,
        EntryKind::Socket => FileType::Socket,
    }
}

/// Attributes that a change of the owner or the mode would undo.
fn is_late(name: &[u8]) -> bool {
    name.starts_with(b"security.") || is_acl(name)
}

fn is_acl(name: &[u8]) -> bool {
    name.starts_with(b"system.posix_acl_")
}

/// Removes attributes that the entry lacks: older ones, or ones inherited from the folder's default
/// ACL. Attributes of security modules stay.
fn remove_others(subject: Subject<'_>, entry: &ListingEntry) -> Result<(), Errno> {
    let mut first = Ok(());
    for name in subject.attributes()? {
        let ours = name.starts_with(b"user.") || is_acl(&name);
        if ours && entry.xattrs.iter().all(|(wanted, _)| *wanted != name) {
            first = first.and(subject.remove_attribute(&name));
        }
    }
    first
}

fn set_attributes(subject: Subject<'_>, entry: &ListingEntry, late: bool) -> Result<(), Errno> {
    let mut first = Ok(());
    for (name, value) in entry.xattrs.iter().filter(|(name, _)| is_late(name) == late) {
        first = first.and(subject.set_attribute(name, value));
    }
    first
}

/// The owner and group that the entry will have.
pub(super) fn owner(context: &Context, entry: &ListingEntry) -> (u32, u32) {
    let (mut user, mut group) = (entry.uid, entry.gid);
    if context.owners == Owners::Names {
        user = context.accounts.user_number(&entry.user).unwrap_or(user);
        group = context.accounts.group_number(&entry.group).unwrap_or(group);
    }
    (user, group)
}

/// Sets the owner as far as permitted. Returns the mode that the entry may then have: it has set-id
/// bits only if the entry has the owner for whom they were set. Only the superuser may give entries
/// away, so for others a refusal is no fault.
fn set_owner(context: &Context, subject: Subject<'_>, entry: &ListingEntry, now: (u32, u32)) -> u32 {
    let (user, group) = owner(context, entry);
    let (mut user_set, mut group_set) = (now.0 == user, now.1 == group);
    if !(user_set && group_set) {
        match subject.set_owner(Some(user), Some(group)) {
            Ok(()) => (user_set, group_set) = (true, true),
            Err(errno) => {
                // The process may still give the entry to one of its own groups.
                group_set = group_set || subject.set_owner(None, Some(group)).is_ok();
                if context.superuser || errno != Errno::PERM {
                    context.fault(TreeError::system(&entry.path[..], Action::SetOwner, errno));
                }
            }
        }
    }
    let mut refused = 0;
    if !user_set {
        refused |= SET_UID;
    }
    if !group_set && entry.kind != EntryKind::Folder {
        refused |= SET_GID;
    }
    if entry.mode & refused != 0 {
        context.fault(TreeError::SetIdDropped {
            path: entry.path.clone(),
        });
    }
    entry.mode & !refused
}

/// The time of access is not stored, and stays as it is.
pub(super) fn times(mtime: FileTime) -> Timestamps {
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: mtime.seconds(),
            tv_nsec: mtime.nanos().into(),
        },
    }
}
