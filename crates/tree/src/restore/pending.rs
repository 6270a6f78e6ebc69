//! A requested regular file that is not begun: it is created only when its bytes are available.
//!
//! So many small files cost the placing thread no system call. Any number of other threads create
//! them, write them and set their metadata, in as few calls as their folder allows: open, write,
//! set the times, close (R7, B10). What a folder gives to a new file (owner, group, entries of a
//! default ACL) is looked up with the first file and holds for the next ones ([`Newborn`]).
//!
//! Invariant: a file has its name only with all its bytes and its metadata ([`super::arrive`]).
//! Until a file has its final owner, nobody may open it by the final owner's permissions.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{Mode, fstat};

use super::arrive;
use super::file::FileWriter;
use super::folders::Place;
use super::newborn::Newborn;
use super::subject::Subject;
use super::{Context, Placed, SkipReason, Sparse, metadata, stays};
use crate::blocks::write_all;
use crate::metadata::Facts;
use crate::{Action, TreeError};

/// A file of the target that is not begun. It is independent of the restorer and of other files.
/// Its folder exists, and waits for it before it gets its own metadata.
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

    /// Begins the file: [`Placed::File`], or [`Placed::Skipped`] if an existing entry stays.
    ///
    /// # Errors
    /// [`TreeError::System`]: the file is not restored.
    pub fn open(self) -> Result<Placed, TreeError> {
        self.holding(Self::open_or_fail)
    }

    /// Calls `work` with the file. A fault that ends the restore is recorded before the folder is
    /// released.
    fn holding<T>(self, work: impl FnOnce(Self) -> Result<T, TreeError>) -> Result<T, TreeError> {
        let (context, parent) = (self.context.clone(), self.parent.clone());
        let done = work(self).inspect_err(|fault| context.note(fault));
        drop(parent);
        done
    }

    fn open_or_fail(self) -> Result<Placed, TreeError> {
        let at = self.folder()?;
        if let Some(reason) = self.stays(&at)? {
            return Ok(Placed::Skipped(reason));
        }
        self.begin(&at).map(Placed::File)
    }

    fn begin(self, at: &OwnedFd) -> Result<FileWriter, TreeError> {
        let arrival = arrive::open(&self.context, at, &self.entry.path, Mode::RUSR | Mode::WUSR)
            .inspect_err(|_| self.give_up())?;
        if let (None, Some(file)) = (self.parent.newborn.get(), arrival.file()) {
            self.learn(file);
        }
        Ok(FileWriter::new(
            self.context,
            self.parent,
            &self.name,
            arrival,
            &self.entry,
        ))
    }

    /// Restores the file with all its bytes. Returns a reason if an existing entry stays.
    ///
    /// # Errors
    /// [`TreeError::System`], [`TreeError::SameName`], and [`TreeError::Incomplete`] if `bytes` are
    /// not all its bytes: the file is not restored, and nothing of it stays.
    pub fn write(self, bytes: &[u8]) -> Result<Option<SkipReason>, TreeError> {
        self.holding(|file| file.write_or_fail(bytes))
    }

    fn write_or_fail(self, bytes: &[u8]) -> Result<Option<SkipReason>, TreeError> {
        let at = self.folder()?;
        if let Some(reason) = self.stays(&at)? {
            return Ok(Some(reason));
        }
        if let Some(newborn) = self.parent.newborn.get().copied()
            && newborn.plain
            && self.is_plain(bytes)
        {
            let written = self.write_plainly(&at, bytes, newborn);
            return written.inspect_err(|_| self.give_up());
        }
        let writer = self.begin(&at)?;
        writer.write_at(0, bytes)?;
        writer.finish()
    }

    /// Leaves the existing entry as it is, and returns why. Sets the metadata if the content is the
    /// same.
    ///
    /// # Errors
    /// [`TreeError::ChangedMeanwhile`] if the entry would no longer stay; [`TreeError::SameName`],
    /// [`TreeError::System`].
    pub fn keep(self) -> Result<SkipReason, TreeError> {
        let at = self.folder()?;
        match self.stays(&at)? {
            Some(reason) => Ok(reason),
            // This restore has just made it, under another name.
            None if self.parent.is_own() => {
                self.give_up();
                Err(self.parent.same_name(&at, &self.name, &self.entry.path))
            }
            None => {
                self.give_up();
                Err(TreeError::ChangedMeanwhile {
                    path: self.entry.path,
                })
            }
        }
    }

    /// Records that this restore has not restored the file. An entry of its name is another one,
    /// and no later link may lead there.
    pub fn give_up(&self) {
        self.context.unfinished().insert(self.entry.path.clone());
    }

    fn folder(&self) -> Result<Arc<OwnedFd>, TreeError> {
        let opened = self.parent.folder.descriptor();
        opened
            .map_err(|errno| TreeError::system(&self.entry.path[..], Action::Open, errno))
            .inspect_err(|_| self.give_up())
    }

    fn stays(&self, at: &OwnedFd) -> Result<Option<SkipReason>, TreeError> {
        stays(&self.context, &self.parent, at, &self.name, &self.entry).inspect_err(|_| self.give_up())
    }

    /// Whether these are all bytes of the file, and it gets no holes.
    fn is_plain(&self, bytes: &[u8]) -> bool {
        let EntryKind::File { len, holes } = &self.entry.kind else {
            return false;
        };
        *len == bytes.len() as u64
            && self.entry.flags == 0
            && match self.context.sparse {
                Sparse::AsSource => holes.is_empty(),
                Sparse::Never => true,
                Sparse::Zeros => false,
            }
    }

    /// The mode to create the file with, and whether it is the final one. Another user may open the
    /// file at once only if it is created with its final owner.
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

    fn write_plainly(
        &self,
        at: &OwnedFd,
        bytes: &[u8],
        newborn: Newborn,
    ) -> Result<Option<SkipReason>, TreeError> {
        let path = &self.entry.path;
        let (mode, mode_is_final) = self.mode_at_birth(newborn);
        let arrival = arrive::open(&self.context, at, path, Mode::from_raw_mode(mode))?;
        if let Some(file) = arrival.file() {
            if let Err(errno) = write_all(file, bytes, 0) {
                arrival.remove(at).ok();
                return Err(TreeError::system(&path[..], Action::Write, errno));
            }
            let owner = (newborn.uid, newborn.gid);
            let subject = Subject::Open(file);
            metadata::apply_to_new(&self.context, subject, &self.entry, owner, mode_is_final);
        }
        arrive::settle(&self.context, &self.parent, at, &arrival, &self.name, &self.entry)
    }

    /// Learns what the folder gives to a file that was just created in it with mode 0600.
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
        // Another thread may have learned the same at the same time.
        self.parent.newborn.set(newborn).ok();
    }
}
