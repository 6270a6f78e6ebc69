//! The entry of the target whose metadata is set: an open file, or a handle (`O_PATH`) of any other
//! entry.
//!
//! A handle names an inode without opening it. So no pipe or device is opened, and no path is
//! resolved again. If there is no call for handles, the path in `/proc/self/fd` is used, which
//! leads to the same inode, even for a symbolic link.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, Timestamps, Uid, XattrFlags, chmodat, chownat, fchmod, fchown, flistxattr,
    fremovexattr, fsetxattr, futimens, listxattr, removexattr, setxattr, utimensat,
};
use rustix::io::Errno;

use crate::retry::retry;

#[derive(Debug, Clone, Copy)]
pub(super) enum Subject<'a> {
    Open(&'a OwnedFd),
    Handle(&'a OwnedFd),
}

fn through_proc(handle: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

impl Subject<'_> {
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        match self {
            Self::Open(fd) | Self::Handle(fd) => fd.as_fd(),
        }
    }

    pub(super) fn set_mode(&self, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(mode);
        retry(|| match self {
            Self::Open(file) => fchmod(file, mode),
            Self::Handle(handle) => chmodat(CWD, through_proc(handle), mode, AtFlags::empty()),
        })
    }

    pub(super) fn set_owner(&self, user: Option<u32>, group: Option<u32>) -> Result<(), Errno> {
        let (user, group) = (user.map(Uid::from_raw), group.map(Gid::from_raw));
        retry(|| match self {
            Self::Open(file) => fchown(file, user, group),
            Self::Handle(handle) => chownat(handle, "", user, group, AtFlags::EMPTY_PATH),
        })
    }

    pub(super) fn set_times(&self, times: &Timestamps) -> Result<(), Errno> {
        retry(|| match self {
            Self::Open(file) => futimens(file, times),
            Self::Handle(handle) => utimensat(CWD, through_proc(handle), times, AtFlags::empty()),
        })
    }

    pub(super) fn set_attribute(&self, name: &[u8], value: &[u8]) -> Result<(), Errno> {
        retry(|| match self {
            Self::Open(file) => fsetxattr(file, name, value, XattrFlags::empty()),
            Self::Handle(handle) => setxattr(through_proc(handle), name, value, XattrFlags::empty()),
        })
    }

    pub(super) fn remove_attribute(&self, name: &[u8]) -> Result<(), Errno> {
        retry(|| match self {
            Self::Open(file) => fremovexattr(file, name),
            Self::Handle(handle) => removexattr(through_proc(handle), name),
        })
    }

    /// The names of its attributes; empty if it cannot have any.
    pub(super) fn attributes(&self) -> Result<Vec<Vec<u8>>, Errno> {
        let ask = |buffer: &mut [u8]| {
            retry(|| match self {
                Self::Open(file) => flistxattr(file, &mut *buffer),
                Self::Handle(handle) => listxattr(through_proc(handle), &mut *buffer),
            })
        };
        let mut small = [0; 512];
        let mut large = Vec::new();
        let names = match ask(&mut small) {
            Ok(len) => &small[..len],
            Err(Errno::RANGE) => {
                large.resize(64 << 10, 0);
                let len = ask(&mut large)?;
                &large[..len]
            }
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Err(errno) => return Err(errno),
        };
        Ok(names
            .split(|b| *b == 0)
            .filter(|n| !n.is_empty())
            .map(<[u8]>::to_vec)
            .collect())
    }
}
