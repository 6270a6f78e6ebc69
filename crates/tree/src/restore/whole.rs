//! A file that gets its name only when it is whole: that of a single stream.
//!
//! Until then it has no name, or a temporary one, as other restored files do ([`super::arrive`]).
//! So several processes may write files of one name at the same time. The last to end wins, and
//! each file is whole.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::{
    AtFlags, CWD, FlockOperation, Mode, OFlags, flock, fstat, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use super::arrive::{aside, link_open, open_nameless, rename_to_free};
use super::follow::open_way;
use super::leftovers;
use crate::metadata::Facts;
use crate::retry::retry;
use crate::{Action, TreeError};

/// A file without its name. If it is dropped, it is removed: a part of a stream is not useful.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    /// Others may move what is on the way there meanwhile.
    folder: OwnedFd,
    name: OsString,
    /// `None`: the file has no name, and disappears by itself.
    temporary: Option<Vec<u8>>,
    /// The time of modification that it gets with its name.
    modified: Option<SystemTime>,
}

impl WholeFile {
    /// Makes the file of this relative path below the target, and missing folders on the way. It
    /// follows links in the target as [`crate::Restorer`] does above the requested paths. Only the
    /// owner may read the file.
    ///
    /// # Errors
    /// If something on the way is no folder, or a link that the restore does not follow. Of the
    /// system.
    pub fn create(target: &Path, relative: &Path) -> Result<Self, TreeError> {
        std::fs::create_dir_all(target)
            .map_err(|error| TreeError::of_io(target.as_os_str().as_bytes(), Action::Create, &error))?;
        let folder = open_way(target, relative)?;
        Self::open(folder, &target.join(relative), Mode::RUSR | Mode::WUSR)
    }

    /// Makes the file of this path, in a folder that exists. It follows links to the folder as the
    /// system does. The file's mode is that of any new file.
    ///
    /// # Errors
    /// Of the system.
    pub fn create_at(path: &Path) -> Result<Self, TreeError> {
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = retry(|| openat(CWD, folder, flags, Mode::empty()))
            .map_err(|errno| TreeError::system(folder.as_os_str().as_bytes(), Action::Open, errno))?;
        let all = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
        Self::open(folder, path, all)
    }

    fn open(folder: OwnedFd, path: &Path, mode: Mode) -> Result<Self, TreeError> {
        let failed = |errno| TreeError::system(path.as_os_str().as_bytes(), Action::Create, errno);
        let Some(name) = path.file_name() else {
            return Err(failed(Errno::ISDIR));
        };
        leftovers::remove(&folder);
        let (temporary, file) = match Self::nameless(&folder, mode) {
            Ok(file) => (None, file),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let made = aside(temporary_names(), |name| openat(&folder, name, flags, mode));
                let (name, file) = made.map_err(failed)?;
                // The lock shows other restores that a process is writing the file.
                flock(&file, FlockOperation::NonBlockingLockExclusive).ok();
                (Some(name), file)
            }
            Err(errno) => return Err(failed(errno)),
        };
        Ok(Self {
            file: file.into(),
            folder,
            name: name.to_owned(),
            temporary,
            modified: None,
        })
    }

    fn nameless(folder: &OwnedFd, mode: Mode) -> Result<OwnedFd, Errno> {
        // The file gets its name by its path there.
        if !Path::new("/proc/self/fd").exists() {
            return Err(Errno::OPNOTSUPP);
        }
        // A file system without links would refuse the name at the end, and all would be lost.
        let other = open_nameless(folder, mode)?;
        let made = aside(temporary_names(), |name| link(&other, folder, name));
        let (name, ()) = made.map_err(|_| Errno::OPNOTSUPP)?;
        unlinkat(folder, &name[..], AtFlags::empty())?;
        open_nameless(folder, mode)
    }

    /// The file gets this time of modification with its name.
    #[must_use]
    pub fn modified(mut self, time: SystemTime) -> Self {
        self.modified = Some(time);
        self
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
        self.settle(len)?;
        if self.temporary.is_none() {
            flock(&self.file, FlockOperation::NonBlockingLockExclusive).ok();
            let made = aside(temporary_names(), |name| link(&self.file, &self.folder, name))?;
            self.temporary = Some(made.0);
        }
        if let Some(temporary) = &self.temporary {
            retry(|| renameat(&self.folder, &temporary[..], &self.folder, &self.name))?;
        }
        self.temporary = None;
        Ok(())
    }

    /// Gives the file what it has when it is whole.
    fn settle(&self, len: u64) -> io::Result<()> {
        if let Some(temporary) = &self.temporary
            && !self.has(temporary)
        {
            let why = "another process has removed the temporary file";
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        self.file.set_len(len)?;
        match self.modified {
            Some(time) => self.file.set_modified(time),
            None => Ok(()),
        }
    }

    /// Whether this name is this file's.
    fn has(&self, name: &[u8]) -> bool {
        let found = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let identity = |stat| {
            let facts = Facts::of(&stat);
            (facts.device, facts.inode)
        };
        matches!((found, fstat(&self.file)), (Ok(found), Ok(own)) if identity(found) == identity(own))
    }

    /// As [`Self::finish`], unless there is an entry of that name by now.
    ///
    /// # Errors
    /// `AlreadyExists`. Of the system.
    pub fn finish_if_free(mut self, len: u64) -> io::Result<()> {
        self.settle(len)?;
        let name = self.name.as_bytes();
        match &self.temporary {
            None => link(&self.file, &self.folder, name)?,
            Some(temporary) => rename_to_free(&self.folder, temporary, name)?,
        }
        self.temporary = None;
        Ok(())
    }
}

/// Gives a file without a name this one, which must be free.
fn link(file: impl AsFd, folder: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    link_open(rustix::process::geteuid().is_root(), file, folder, name)
}

/// The temporary names of this process, one after the other.
fn temporary_names() -> impl FnMut() -> Vec<u8> {
    let mut number = 0;
    move || {
        number += 1;
        leftovers::name(std::process::id(), number - 1)
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary
            && self.has(temporary)
        {
            // If it cannot be removed, the next restore to the folder removes it.
            unlinkat(&self.folder, &temporary[..], AtFlags::empty()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    fn names(folder: &Path) -> Vec<OsString> {
        let found = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = found.map(|one| one.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn each_of_several_writers_of_one_name_gives_it_a_whole_file() {
        let dir = tempfile::tempdir().unwrap();
        let made = |text: &str| {
            let file = WholeFile::create(dir.path(), Path::new("sub/name")).unwrap();
            file.file().write_all(text.as_bytes()).unwrap();
            file
        };
        let folder = dir.path().join("sub");
        let read = || fs::read_to_string(folder.join("name")).unwrap();
        let (first, second, third) = (made("first"), made("second, longer"), made("third"));
        first.finish(5).unwrap();
        assert_eq!(read(), "first");
        drop(third);
        assert_eq!(read(), "first");
        let late = made("late");
        let taken = late.finish_if_free(4).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
        second.finish(14).unwrap();
        assert_eq!(read(), "second, longer");
        assert_eq!(names(&folder), ["name"]);
        fs::remove_file(folder.join("name")).unwrap();
        made("free").finish_if_free(6).unwrap();
        assert_eq!(read(), "free\0\0");
        assert_eq!(names(&folder), ["name"]);
    }

    /// As where files without a name are not possible.
    #[test]
    fn a_temporary_name_is_removed_unless_another_file_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = WholeFile::create_at(&dir.path().join("name")).unwrap();
        let temporary = |file: &mut WholeFile| {
            let name = leftovers::name(std::process::id(), 7);
            link_open(true, file.file(), &file.folder, &name).unwrap();
            file.temporary = Some(name);
        };
        temporary(&mut file);
        drop(file);
        assert!(names(dir.path()).is_empty());
        let mut file = WholeFile::create_at(&dir.path().join("name")).unwrap();
        temporary(&mut file);
        fs::remove_file(dir.path().join(&names(dir.path())[0])).unwrap();
        let of_other = OsString::from(String::from_utf8(file.temporary.clone().unwrap()).unwrap());
        fs::write(dir.path().join(&of_other), "of another").unwrap();
        drop(file);
        assert_eq!(names(dir.path()), [of_other]);
    }

    /// Another process may take the temporary file for a leftover, and the name for its own.
    #[test]
    fn a_file_whose_temporary_name_was_taken_gets_no_name() {
        let dir = tempfile::tempdir().unwrap();
        for only_if_free in [false, true] {
            let mut file = WholeFile::create_at(&dir.path().join("name")).unwrap();
            let temporary = leftovers::name(std::process::id(), 7);
            let of_other = OsString::from(String::from_utf8(temporary.clone()).unwrap());
            fs::write(dir.path().join(&of_other), "of another").unwrap();
            file.temporary = Some(temporary);
            let finish = if only_if_free {
                WholeFile::finish_if_free
            } else {
                WholeFile::finish
            };
            let refused = finish(file, 3).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::NotFound);
            assert_eq!(
                names(dir.path()),
                std::slice::from_ref(&of_other),
                "it is not removed, either"
            );
            fs::remove_file(dir.path().join(&of_other)).unwrap();
        }
    }
}
