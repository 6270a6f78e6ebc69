//! Names in open folders, and what concerns a name alone.

use std::io;

use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Stat, statat, unlinkat};

/// A name in an open folder.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) folder: BorrowedFd<'a>,
    pub(super) name: &'a str,
}

/// The attributes of what has this name, also of a link.
pub(super) fn stat(at: Place<'_>) -> io::Result<Stat> {
    Ok(statat(at.folder, at.name, AtFlags::SYMLINK_NOFOLLOW)?)
}

pub(super) fn remove_file(at: Place<'_>) -> io::Result<()> {
    Ok(unlinkat(at.folder, at.name, AtFlags::empty())?)
}

pub(super) fn remove_folder(at: Place<'_>) -> io::Result<()> {
    Ok(unlinkat(at.folder, at.name, AtFlags::REMOVEDIR)?)
}
