//! Who besides a store's owner may read and write its files: nobody, or the group of its folder.
//!
//! A store without a password shows all that it holds to whoever reads its files, and any store
//! shows lengths and times. So files are made for their owner alone, and no umask opens them. A
//! store that a group shares is known by its folder: the setgid bit is set there, and the group may
//! read, write and search. Whoever writes to the store makes files and folders of that group. The
//! folder's mode is all that tells, so that `chmod` and `chgrp` on a whole store change it, and a
//! copy that keeps modes keeps it.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// The setgid bit, and all bits of the group.
const SHARED: u32 = 0o2070;

/// Who may read and write a store's files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// Their owner.
    #[default]
    Owner,
    /// Their owner and the group of the store's folder.
    Group,
}

impl Access {
    /// As the mode of the store's folder says.
    ///
    /// # Errors
    /// Of the file system, also where there is no such folder.
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

    /// Makes a file that is not there, for reading and writing.
    pub(super) fn create_file(self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        if self == Self::Group {
            // The umask takes from what is asked for above.
            file.set_permissions(Permissions::from_mode(0o660))?;
        }
        Ok(file)
    }

    /// Makes a folder that is not there.
    pub(super) fn create_folder(self, path: &Path) -> io::Result<()> {
        let mode = match self {
            Self::Owner => 0o700,
            Self::Group => 0o770,
        };
        DirBuilder::new().mode(mode).create(path)?;
        self.share(path)
    }

    /// Makes a folder and those above it that are missing.
    pub(super) fn create_folders(self, path: &Path) -> io::Result<()> {
        match self.create_folder(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let above = path.parent().ok_or(error)?;
                self.create_folders(above)?;
                match self.create_folder(path) {
                    Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
                    outcome => outcome,
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
            outcome => outcome,
        }
    }

    /// Opens a folder of ours to the group, where the store is shared.
    pub(super) fn share(self, folder: &Path) -> io::Result<()> {
        match self {
            Self::Owner => Ok(()),
            Self::Group => fs::set_permissions(folder, Permissions::from_mode(0o2770)),
        }
    }
}
