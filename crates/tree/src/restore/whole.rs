//! The file of a single stream. It gets its name only when it is whole.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::follow::open_way;
use crate::retry::retry;
use crate::{Action, TreeError};

/// A file without its name. If it is dropped, it is removed: a part of a stream is not useful.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    /// Others may move what is on the way there meanwhile.
    folder: OwnedFd,
    partial: OsString,
    name: OsString,
    is_named: bool,
}

impl WholeFile {
    /// Makes the file of this relative path below the target, and missing folders on the way. It
    /// follows links in the target as [`crate::Restorer`] does above the requested paths.
    ///
    /// # Errors
    /// If something on the way is no folder, or a link that the restore does not follow. Of the
    /// system.
    pub fn create(target: &Path, relative: &Path) -> Result<Self, TreeError> {
        let shown = target.join(relative);
        let failed = |action| move |errno| TreeError::system(shown.as_os_str().as_bytes(), action, errno);
        std::fs::create_dir_all(target)
            .map_err(|error| TreeError::of_io(target.as_os_str().as_bytes(), Action::Create, &error))?;
        let folder = open_way(target, relative)?;
        let name = relative.file_name().unwrap_or_default().to_owned();
        let mut partial = name.clone();
        partial.push(".onefold-partial");
        match retry(|| unlinkat(&folder, &partial, AtFlags::empty())) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed(Action::Replace)(errno)),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = retry(|| openat(&folder, &partial, flags, Mode::RUSR | Mode::WUSR));
        Ok(Self {
            file: file.map_err(failed(Action::Create))?.into(),
            folder,
            partial,
            name,
            is_named: false,
        })
    }

    /// The file, open for writing.
    #[must_use]
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its length and its name, in the place of an earlier one.
    ///
    /// # Errors
    /// Of the system.
    pub fn finish(mut self, len: u64) -> io::Result<()> {
        self.file.set_len(len)?;
        renameat(&self.folder, &self.partial, &self.folder, &self.name)?;
        self.is_named = true;
        Ok(())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.is_named {
            // If it cannot be removed, its name shows that it is partial.
            unlinkat(&self.folder, &self.partial, AtFlags::empty()).ok();
        }
    }
}
