//! Finds the mount of a name, for walks that stay on one file system.
//!
//! Only the system answers these questions, without the file system behind a mount. That one may
//! belong to another user, who lets nobody look at it, or to a network that does not answer.
//! `st_dev` is not enough. On an overlay each file shows the device of its layer, and a folder that
//! is bound in from elsewhere may show the same device as its parent.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, Statx, StatxFlags, fstatfs, openat, statx};
use rustix::io::Errno;

use super::place::Place;
use crate::metadata::Facts;
use crate::retry::retry;

/// The mount of a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mount {
    /// The mount id; unknown before Linux 5.8. Then the walk distinguishes folders by their
    /// devices, and does not recognise bound files.
    pub(super) id: Option<u64>,
    /// The root's `st_dev`.
    pub(super) device: u64,
    /// Whether the system has the current facts of every entry without a request to anybody. Then
    /// one call returns mount and facts.
    pub(super) is_local: bool,
}

/// The result of a look at a name, for a walk that stays on one mount.
#[derive(Debug)]
pub(super) enum Found {
    Here(Facts),
    /// The name leads to another mount.
    Elsewhere,
}

impl Mount {
    /// The mount of a root that shows this device.
    pub(super) fn of_root(place: &Place<'_>, device: u64) -> Self {
        let id = id(place);
        Self {
            id,
            device,
            is_local: id.is_some() && is_local(place),
        }
    }

    /// Looks at a name, without a request to the file system behind another mount.
    pub(super) fn look(&self, place: &Place<'_>) -> Result<Found, Errno> {
        let Some(own) = self.id else {
            return place.facts().map(Found::Here);
        };
        if self.is_local
            && let Some(found) = ask(place, StatxFlags::BASIC_STATS)
            && let Some(there) = id_in(&found)
        {
            if there != own {
                return Ok(Found::Elsewhere);
            }
            let all = StatxFlags::BASIC_STATS.bits();
            if found.stx_mask & all == all {
                return Ok(Found::Here(Facts::of_statx(&found)));
            }
        }
        match id(place) {
            Some(there) if there != own => Ok(Found::Elsewhere),
            _ => place.facts().map(Found::Here),
        }
    }
}

/// The mount of an open folder, to compare with that of another one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MountOf {
    /// `None`: the system does not tell. Then folders are distinguished by their devices.
    id: Option<u64>,
    device: u64,
}

impl MountOf {
    /// The mount of a folder that shows this device.
    pub(crate) fn of(folder: &OwnedFd, device: u64) -> Self {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let found = retry(|| statx(folder, "", flags, StatxFlags::empty())).ok();
        Self {
            id: found
                .and_then(|found| id_in(&found))
                .or_else(|| id_in_proc(folder)),
            device,
        }
    }

    pub(crate) fn is_same(self, other: Self) -> bool {
        match (self.id, other.id) {
            (Some(id), Some(other)) => id == other,
            _ => self.device == other.device,
        }
    }
}

/// Whether the facts of a root's file system are never stored by another machine, a program, or
/// another file system below it: ext2 to ext4, XFS, btrfs, tmpfs, F2FS, ZFS, bcachefs.
fn is_local(place: &Place<'_>) -> bool {
    const KINDS: [i128; 7] = [
        0xef53,
        0x5846_5342,
        0x9123_683e,
        0x0102_1994,
        0xf2f5_2010,
        0x2fc1_2fc1,
        0xca45_1a4e,
    ];
    let mut flags = OFlags::PATH | OFlags::CLOEXEC;
    if !place.follow {
        flags |= OFlags::NOFOLLOW;
    }
    let kind = retry(|| openat(place.at, place.name, flags, Mode::empty())).and_then(fstatfs);
    kind.is_ok_and(|found| KINDS.contains(&i128::from(found.f_type)))
}

/// The mount of a name, if the system tells.
pub(super) fn id(place: &Place<'_>) -> Option<u64> {
    // FUSE answers users other than its owner only if they request nothing. The system still
    // returns the mount.
    id_in(&ask(place, StatxFlags::empty())?)
}

fn id_in(found: &Statx) -> Option<u64> {
    let has_id = found.stx_mask & StatxFlags::MNT_ID.bits() != 0;
    // qemu-user claims that there is one, and leaves it out.
    (has_id && found.stx_mnt_id != 0).then_some(found.stx_mnt_id)
}

/// The same id, which older systems tell of open files (Linux 3.15).
fn id_in_proc(folder: &OwnedFd) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", folder.as_raw_fd())).ok()?;
    let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:"))?;
    id.trim().parse().ok()
}

/// The facts that a mounted file system shows of its top.
pub(super) fn facts(place: &Place<'_>) -> Option<Facts> {
    ask(place, StatxFlags::BASIC_STATS).map(|found| Facts::of_statx(&found))
}

/// Whether a mounted file system shows a folder.
pub(super) fn is_folder(place: &Place<'_>) -> bool {
    facts(place).is_some_and(|facts| facts.kind == rustix::fs::FileType::Directory)
}

fn ask(place: &Place<'_>, what: StatxFlags) -> Option<Statx> {
    let mut flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    if !place.follow {
        flags |= AtFlags::SYMLINK_NOFOLLOW;
    }
    retry(|| statx(place.at, place.name, flags, what)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_tell_the_same_mount() {
        let folder = tempfile::tempdir().unwrap();
        let open = |path: &std::path::Path| OwnedFd::from(std::fs::File::open(path).unwrap());
        let there = open(folder.path());
        let other = open("/proc".as_ref());
        let by_proc = id_in_proc(&there);
        assert!(by_proc.is_some());
        assert_ne!(by_proc, id_in_proc(&other));
        if let Some(by_statx) = statx(&there, "", AtFlags::EMPTY_PATH, StatxFlags::empty())
            .ok()
            .and_then(|found| id_in(&found))
        {
            assert_eq!(by_proc, Some(by_statx));
        }
    }
}
