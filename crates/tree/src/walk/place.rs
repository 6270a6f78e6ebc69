//! The place where an entry was found.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, statat};
use rustix::io::Errno;

use crate::folder::Folder;
use crate::metadata::Facts;
use crate::retry::retry;

/// The place where an entry was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) folder: &'a Arc<Folder>,
    pub(super) name: &'a [u8],
    /// The folder's descriptor.
    pub(super) at: &'a OwnedFd,
    /// Whether to examine the target of a link.
    pub(super) follow: bool,
}

impl Place<'_> {
    pub(super) fn facts(&self) -> Result<Facts, Errno> {
        let flags = if self.follow {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        retry(|| statat(self.at, self.name, flags)).map(|stat| Facts::of(&stat))
    }
}
