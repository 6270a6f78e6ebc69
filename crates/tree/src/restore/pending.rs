//! A regular file that is wanted and not begun: nothing of it is made before its bytes are there.
//!
//! So many small files cost the placing thread no call of the system, and are created, written and given
//! their metadata by any number of other threads, in as few calls as their folder allows: open, write,
//! set the times, close (R7, B10). What a folder gives to a file that is created in it (owner, group, what
//! a default ACL adds) is looked up with the first file and holds for the next ones ([`Newborn`]).
//!
//! What must hold: a file is under its name only with all its bytes, or, after an interruption, without
//! its time of modification, so that [`Overwrite::IfChanged`] does not take it for complete; where something
//! stands under the name it is replaced as [`FileWriter`] does it, by renaming; nobody may open a file
//! that is not the final owner's with the final owner's permissions.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, ftruncate, openat, unlinkat};
use rustix::io::{Errno, pwrite};

use super::create::create_file;
use super::file::FileWriter;
use super::folders::Place;
use super::subject::Subject;
use super::{Context, Overwrite, Placed, SkipReason, Sparse, keeps, look, metadata};
use crate::folder::retry;
use crate::metadata::Facts;
use crate::{Action, TreeError};

/// What a file has that was just created in a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Newborn {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// It has no attributes and no ACL, and its mode is what was asked for without the umask.
    plain: bool,
}

/// A file of the target that is not begun. Independent of the restorer and of other files; its folder is
/// there, and waits for it before it is given its own metadata.
#[derive(Debug)]
pub struct PendingFile {
    pub(super) context: Arc<Context>,
    pub(super) parent: Arc<Place>,
    pub(super) name: Vec<u8>,
    pub(super) entry: ListingEntry,
}

impl PendingFile {
    /// The entry to be restored.
    #[must_use]
    pub fn entry(&self) -> &ListingEntry {
        &self.entry
    }

    /// Begins the file: [`Placed::File`], or [`Placed::Skipped`] for what is there and stays.
    ///
    /// # Errors
    /// [`TreeError::System`]: the file is not restored.
    pub fn open(self) -> Result<Placed, TreeError> {
        let path = &self.entry.path;
        let at = self.folder()?;
        // In a folder made by this restore nothing is in the way, and creating tells if something is.
        if self.context.overwrite != Overwrite::Always
            && !self.parent.is_new
            && let Some(there) = look(&at, &self.name, path)?
            && let Some(reason) = keeps(self.context.overwrite, &there, &self.entry, &at, &self.name)
        {
            if reason == SkipReason::Unchanged {
                super::finish_node(&self.context, &at, &self.name, &self.entry)?;
            }
            return Ok(Placed::Skipped(reason));
        }
        let (file, aside) = create_file(&self.context, &at, &self.name, path, |name| {
            openat(&*at, name, CREATE, Mode::RUSR | Mode::WUSR)
        })?;
        if let Some(aside) = &aside {
            self.context.aside().insert(path.clone(), aside.clone());
        } else if self.parent.newborn.get().is_none() {
            self.learn(&file);
        }
        drop(at);
        Ok(Placed::File(FileWriter::new(
            self.context,
            self.parent,
            &self.name,
            file,
            &self.entry,
            aside,
        )))
    }

    /// Restores the file with all its bytes; a reason where something is there and stays.
    ///
    /// # Errors
    /// [`TreeError::System`], and [`TreeError::Incomplete`] for other than all bytes: the file is not restored,
    /// and nothing of it stays.
    pub fn write(self, bytes: &[u8]) -> Result<Option<SkipReason>, TreeError> {
        if let Some(newborn) = self.parent.newborn.get().copied()
            && newborn.plain
            && self.is_plain(bytes)
        {
            let at = self.folder()?;
            let (mode, is_final) = self.mode_at_birth(newborn);
            match retry(|| openat(&*at, &self.name[..], CREATE, Mode::from_raw_mode(mode))) {
                Ok(file) => return self.fill(&at, &file, bytes, newborn, is_final).map(|()| None),
                Err(Errno::EXIST) => {}
                Err(errno) => {
                    return Err(TreeError::system(self.entry.path, Action::Create, errno));
                }
            }
        }
        let writer = match self.open()? {
            Placed::File(writer) => writer,
            Placed::Skipped(reason) => return Ok(Some(reason)),
            other => unreachable!("a regular file was placed as {other:?}"),
        };
        match writer.write_at(0, bytes) {
            Ok(()) => writer.finish().map(|()| None),
            Err(fault) => {
                writer.abandon();
                Err(fault)
            }
        }
    }

    fn folder(&self) -> Result<Arc<OwnedFd>, TreeError> {
        let opened = self.parent.folder.descriptor();
        opened.map_err(|errno| TreeError::system(&self.entry.path[..], Action::Open, errno))
    }

    /// Whether all bytes are there and are to be written as they are.
    fn is_plain(&self, bytes: &[u8]) -> bool {
        let EntryKind::File { len, holes } = &self.entry.kind else {
            return false;
        };
        *len == bytes.len() as u64
            && match self.context.sparse {
                Sparse::AsSource => holes.is_empty(),
                Sparse::Never => true,
                Sparse::Zeros => false,
            }
    }

    /// The mode to create the file with, and whether it is the one that it keeps. Others may open a file at
    /// once only if it is created as its owner's.
    pub(super) fn mode_at_birth(&self, newborn: Newborn) -> (u32, bool) {
        const OWN: u32 = 0o600;
        let mode = self.entry.mode;
        let (uid, gid) = metadata::owner(&self.context, &self.entry);
        let is_owners = (newborn.uid, newborn.gid) == (uid, gid);
        let Some(umask) = self.context.umask else {
            return (OWN, false);
        };
        if is_owners && mode & !0o777 == 0 && self.entry.xattrs.is_empty() {
            (mode & !umask, mode & umask == 0)
        } else {
            (OWN, false)
        }
    }

    fn fill(
        &self,
        at: &OwnedFd,
        file: &OwnedFd,
        bytes: &[u8],
        newborn: Newborn,
        mode_is_final: bool,
    ) -> Result<(), TreeError> {
        let mut written = 0;
        while written < bytes.len() {
            let errno = match retry(|| pwrite(file, &bytes[written..], written as u64)) {
                Ok(0) => Errno::IO,
                Ok(len) => {
                    written += len;
                    continue;
                }
                Err(errno) => errno,
            };
            let removed = retry(|| ftruncate(file, 0))
                .and_then(|()| retry(|| unlinkat(at, &self.name[..], AtFlags::empty())));
            if let Err(errno) = removed {
                self.context
                    .fault(TreeError::system(&self.entry.path[..], Action::Replace, errno));
            }
            return Err(TreeError::system(&self.entry.path[..], Action::Write, errno));
        }
        let owner = (newborn.uid, newborn.gid);
        metadata::apply_to_new(
            &self.context,
            Subject::Open(file),
            &self.entry,
            owner,
            mode_is_final,
        );
        Ok(())
    }

    /// Looks what the folder gives to a file that was created in it just now with mode 0600.
    fn learn(&self, file: &OwnedFd) {
        let Ok(stat) = fstat(file) else { return };
        let facts = Facts::of(&stat);
        let has_none = Subject::Open(file)
            .attributes()
            .is_ok_and(|names| names.iter().all(|name| name.starts_with(b"security.")));
        let newborn = Newborn {
            uid: facts.uid,
            gid: facts.gid,
            plain: has_none
                && self
                    .context
                    .umask
                    .is_none_or(|umask| facts.mode == 0o600 & !umask),
        };
        // Another thread may have looked at the same time, and has seen the same.
        self.parent.newborn.set(newborn).ok();
    }
}

const CREATE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The bits that the process takes off the mode of what it creates; none where the system does not tell.
pub(super) fn umask() -> Option<u32> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"))?;
    u32::from_str_radix(line.trim(), 8).ok()
}
