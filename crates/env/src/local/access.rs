//! Permissions of a store's files: for its owner alone, or also for the group of its folder.
//!
//! In a store without a password, everybody who can read its files can read its data. The files of
//! any store show lengths and times. So the storage creates files for their owner alone, and no
//! umask opens them. The folder of a store that a group shares has the setgid bit, and the group
//! may read, write and search it. Then every writer creates files and folders of that group. Only
//! the folder's mode records this. So `chmod` and `chgrp` on a whole store change it, and a copy
//! that keeps modes keeps it.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{CWD, Mode, OFlags, fchmod, mkdirat, openat};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

use super::place::Place;

/// The setgid bit, and all bits of the group.
const SHARED: u32 = 0o2070;

/// Who may read and write the files of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// The owner of the files.
    #[default]
    Owner,
    /// The owner, and the group of the store's folder.
    Group,
}

impl Access {
    /// The access that the mode of the store's folder sets.
    ///
    /// # Errors
    /// Errors of the file system, also if there is no such folder.
    pub fn of(folder: &Path) -> io::Result<Self> {
        fs::metadata(folder).map(|metadata| Self::of_metadata(&metadata))
    }

    pub(super) fn of_metadata(folder: &Metadata) -> Self {
        if folder.mode() & SHARED == SHARED {
            Self::Group
        } else {
            Self::Owner
        }
    }

    /// Creates a new file, for reading and writing.
    pub(super) fn create_file(self, at: Place<'_>) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        // Not repeated after a signal: an interrupted call may have made the file.
        let file = File::from(openat(at.folder, at.name, flags, Mode::from_raw_mode(0o600))?);
        if self == Self::Group {
            // The umask reduces the mode of a new file.
            file.set_permissions(Permissions::from_mode(0o660))?;
        }
        Ok(file)
    }

    /// Creates a new folder.
    pub(super) fn create_folder(self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(self.mode_at_first()).create(path)?;
        self.open_to_group(CWD, path)
    }

    /// Creates a new folder of the store, unless another process has created it.
    pub(super) fn create_folder_at(self, at: Place<'_>) -> io::Result<()> {
        let mode = Mode::from_bits_truncate(self.mode_at_first());
        match mkdirat(at.folder, at.name, mode) {
            Ok(()) => self.open_to_group(at.folder.as_fd(), at.name),
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn mode_at_first(self) -> u32 {
        match self {
            Self::Owner => 0o700,
            Self::Group => 0o770,
        }
    }

    /// Opens a folder that was just created to the group, if the group shares the store.
    fn open_to_group(self, within: BorrowedFd<'_>, name: impl Arg + Copy) -> io::Result<()> {
        match self {
            Self::Owner => Ok(()),
            Self::Group => {
                // Others of the group may put a link in its place, to any folder of this user.
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let folder = retry_on_intr(|| openat(within, name, flags, Mode::empty()))?;
                Ok(fchmod(&folder, Mode::from_raw_mode(0o2770))?)
            }
        }
    }

    /// Opens a folder of this user to the group of a shared store.
    pub(super) fn share(self, folder: &Path) -> io::Result<()> {
        match self {
            Self::Owner => Ok(()),
            Self::Group => fs::set_permissions(folder, Permissions::from_mode(0o2770)),
        }
    }
}
