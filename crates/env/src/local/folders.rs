//! The folders of a local store, opened without following a symbolic link.
//!
//! A user of the group that shares a store can put a link in the place of one of its folders. The
//! link may lead to files that this user may change and the other may not. So no operation follows
//! a link below the store's folder. The way to that folder may have links, which its owner chose.
//!
//! Where the system has `openat2`, one call opens a file or folder and refuses links. Else each
//! folder of the name is opened by itself. Other calls have no such flag: they take an open folder
//! and the last part of the name. If such a folder is moved during a call, the call still concerns
//! that folder, and never what a link leads to.
//!
//! Any number of threads may call everything here. An error that a link causes names it
//! ([`Misplaced`]).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, openat, statat};
use rustix::io::{Errno, retry_on_intr};

use super::access::Access;
use super::place::Place;

/// How a folder is opened of which only names are used.
const AS_PLACE: OFlags = PLACE.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW);
#[cfg(target_os = "linux")]
const PLACE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PLACE: OFlags = OFlags::RDONLY;

/// A link in the place of a folder.
#[derive(Debug)]
pub(super) struct Misplaced {
    /// The path.
    pub(super) place: String,
}

impl fmt::Display for Misplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is a symbolic link", self.place)
    }
}

impl std::error::Error for Misplaced {}

/// What an error says of a link in the place of a folder.
pub(super) fn misplaced(error: &io::Error) -> Option<&Misplaced> {
    error.get_ref()?.downcast_ref()
}

/// The folders of a store, by their names in it.
#[derive(Debug)]
pub(super) struct Folders {
    root: PathBuf,
    /// Whether the system has no call that refuses links by itself.
    by_steps: AtomicBool,
}

impl Folders {
    /// `root` has no links in it, unless one appears later.
    pub(super) fn new(root: PathBuf) -> Self {
        Self {
            root,
            by_steps: AtomicBool::new(!cfg!(target_os = "linux")),
        }
    }

    /// As on a system without `openat2`.
    #[cfg(test)]
    pub(super) fn go_by_steps(&self) {
        self.by_steps.store(true, Ordering::Relaxed);
    }

    /// Opens a file, or a folder if `how` says so. `""` is the root.
    pub(super) fn open(&self, name: &str, how: OFlags) -> io::Result<OwnedFd> {
        if name.is_empty() {
            let how = how.difference(OFlags::NOFOLLOW) | OFlags::CLOEXEC;
            return Ok(retry_on_intr(|| openat(CWD, &self.root, how, Mode::empty()))?);
        }
        if let Some(opened) = self.open_at_once(CWD, &self.root.join(name), how)? {
            return Ok(opened);
        }
        let root = self.open("", AS_PLACE)?;
        self.open_by_steps(root.as_fd(), "", name, how)
    }

    /// Like [`Self::open`], from an open folder: `top` is its name, and `name` is below it.
    pub(super) fn open_below(
        &self,
        (opened, top): (BorrowedFd<'_>, &str),
        name: &str,
        how: OFlags,
    ) -> io::Result<OwnedFd> {
        match self.open_at_once(opened, Path::new(name), how)? {
            Some(opened) => Ok(opened),
            None => self.open_by_steps(opened, top, name, how),
        }
    }

    /// `None` if only [`Self::open_by_steps`] gives an answer.
    #[cfg(target_os = "linux")]
    fn open_at_once(&self, from: BorrowedFd<'_>, path: &Path, how: OFlags) -> io::Result<Option<OwnedFd>> {
        use rustix::fs::{ResolveFlags, openat2};
        if self.by_steps.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let how = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match retry_on_intr(|| openat2(from, path, how, Mode::empty(), ResolveFlags::NO_SYMLINKS)) {
            Ok(opened) => Ok(Some(opened)),
            // Before Linux 5.6.
            Err(Errno::NOSYS) => {
                self.by_steps.store(true, Ordering::Relaxed);
                Ok(None)
            }
            // A link, or no folder: somewhere, perhaps above the root. Or a sandbox that does not
            // know the call.
            Err(Errno::LOOP | Errno::NOTDIR | Errno::PERM) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as on Linux")]
    fn open_at_once(&self, _: BorrowedFd<'_>, _: &Path, _: OFlags) -> io::Result<Option<OwnedFd>> {
        Ok(None)
    }

    fn open_by_steps(
        &self,
        top: BorrowedFd<'_>,
        top_name: &str,
        name: &str,
        how: OFlags,
    ) -> io::Result<OwnedFd> {
        let mut above: Option<OwnedFd> = None;
        let mut end = 0;
        for part in name.split('/') {
            end += part.len();
            let how = if end == name.len() { how } else { AS_PLACE };
            let so_far = || Path::new(top_name).join(&name[..end]);
            let within = above.as_ref().map_or(top, AsFd::as_fd);
            above = Some(self.enter(within, part, how, so_far)?);
            end += 1;
        }
        Ok(above.expect("splitting gives a part"))
    }

    /// Opens one part of a name.
    fn enter(
        &self,
        above: BorrowedFd<'_>,
        part: &str,
        how: OFlags,
        path: impl FnOnce() -> PathBuf,
    ) -> io::Result<OwnedFd> {
        let flags = how | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match retry_on_intr(|| openat(above, part, flags, Mode::empty())) {
            Err(Errno::LOOP | Errno::NOTDIR) if how.contains(OFlags::DIRECTORY) => {
                let stat = statat(above, part, AtFlags::SYMLINK_NOFOLLOW)?;
                if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
                    return Err(self.misplaced(&path()));
                }
                Err(Errno::NOTDIR.into())
            }
            outcome => Ok(outcome?),
        }
    }

    /// The error of a link with this name in the store.
    pub(super) fn misplaced(&self, name: &Path) -> io::Error {
        let place = self.root.join(name).display().to_string();
        io::Error::other(Misplaced { place })
    }

    /// Does something at the place of a name. The folder is opened by its name each time: one that
    /// was kept open might have left the store since, or be below another disk.
    pub(super) fn at<T>(&self, name: &str, act: impl Fn(Place<'_>) -> io::Result<T>) -> io::Result<T> {
        let (folder, name) = name.rsplit_once('/').unwrap_or(("", name));
        let once = || {
            let opened = self.open(folder, AS_PLACE)?;
            act(Place {
                folder: opened.as_fd(),
                name,
            })
        };
        match once() {
            // A network file system did not know yet that another host has removed the folder.
            Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle => once(),
            outcome => outcome,
        }
    }

    /// Makes a folder, and missing ones above it.
    pub(super) fn make(&self, folder: &str, access: Access) -> io::Result<()> {
        let mut above = self.open("", AS_PLACE)?;
        let mut end = 0;
        for name in folder.split('/').filter(|part| !part.is_empty()) {
            end += name.len();
            let so_far = || PathBuf::from(&folder[..end]);
            let entered = match self.enter(above.as_fd(), name, AS_PLACE, so_far) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    access.create_folder_at(Place {
                        folder: above.as_fd(),
                        name,
                    })?;
                    self.enter(above.as_fd(), name, AS_PLACE, so_far)
                }
                outcome => outcome,
            };
            above = entered?;
            end += 1;
        }
        Ok(())
    }
}
