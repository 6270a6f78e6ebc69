//! Reads restored files again, to compare them with the backup.
//!
//! What the disk holds is what counts, not the pages that the restore has just written: all data
//! of the target's file system is written back first, and the pages of each file are dropped before
//! it is read, as far as the system does that.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{Advice, OFlags, fadvise, fstat, syncfs};

use super::filter::Filter;
use super::there::{is_as_old, look};
use super::{Overwrite, RestoreOptions, part};
use crate::folder::{Folder, open_quietly};
use crate::metadata::Facts;
use crate::{Action, TreeError, order};

/// Finds the restored files of a listing, one after another.
#[derive(Debug)]
pub struct Reread {
    top: Arc<Folder>,
    overwrite: Overwrite,
    filter: Filter,
}

/// A restored file, or why it is not compared.
#[derive(Debug)]
pub enum Restored {
    /// It is open.
    File(File),
    /// Another file was left in its place, as the user chose.
    Left,
    /// It cannot be opened.
    Fault(TreeError),
}

/// Lets the system forget the pages of a file, so that the next reads come from its disk. It keeps
/// those that are not written back.
pub fn drop_pages(file: impl AsFd) {
    // Without this advice its pages are read.
    fadvise(file, 0, None, Advice::DontNeed).ok();
}

impl Reread {
    /// Begins at the target of a restore with these options.
    ///
    /// # Errors
    /// [`TreeError::System`] about the target.
    pub fn new(target: &Path, options: &RestoreOptions) -> Result<Self, TreeError> {
        let path = target.as_os_str().as_bytes();
        let top = Folder::top(path).map_err(|errno| TreeError::system(path, Action::Open, errno))?;
        if let Ok(at) = top.descriptor() {
            // A file system that cannot do so shows its pages.
            syncfs(&*at).ok();
        }
        Ok(Self {
            top,
            overwrite: options.overwrite,
            filter: Filter::new(options),
        })
    }

    /// Whether an entry is a requested file. Call it in listing order.
    pub fn is_asked(&mut self, entry: &ListingEntry) -> bool {
        order::is_clean(&entry.path)
            && self.filter.wants(&entry.path, entry.kind == EntryKind::Folder)
            && matches!(entry.kind, EntryKind::File { .. })
            && self.filter.below_base(&entry.path).is_some()
    }

    /// The first name of a file of which an entry is a requested further name, and whether the
    /// first one is requested too. If it is not, the restore makes a file of the further names.
    /// Call it in listing order.
    pub fn first_name<'e>(&mut self, entry: &'e ListingEntry) -> Option<(&'e [u8], bool)> {
        let EntryKind::HardLink { target } = &entry.kind else {
            return None;
        };
        let is_asked = order::is_clean(&entry.path)
            && self.filter.wants(&entry.path, false)
            && self.filter.below_base(&entry.path).is_some();
        let is_restored = self.filter.wants_link_target(target) && self.filter.below_base(target).is_some();
        is_asked.then_some((target, is_restored))
    }

    /// Opens a requested file.
    #[must_use]
    pub fn open(&self, entry: &ListingEntry) -> Restored {
        let path = part::path_of(entry);
        let fault = |errno| TreeError::system(&path[..], Action::Open, errno);
        let Some(place) = self.filter.below_base(&path) else {
            return Restored::Left;
        };
        let parts: Vec<&[u8]> = order::components(place).collect();
        let Some((name, parents)) = parts.split_last() else {
            return Restored::Left;
        };
        let mut folder = Arc::clone(&self.top);
        for parent in parents {
            // Looking through a link does no harm: the file must hold these bytes.
            match folder.enter(parent, true, false) {
                Ok(entered) => folder = entered.folder,
                Err(errno) => return Restored::Fault(fault(errno)),
            }
        }
        let at = match folder.descriptor() {
            Ok(at) => at,
            Err(errno) => return Restored::Fault(fault(errno)),
        };
        if matches!(self.overwrite, Overwrite::IfNewer | Overwrite::Never) {
            let there = look(&at, name, &path).ok().flatten();
            let is_same =
                there.is_some_and(|there| there.len == entry.file_len() && is_as_old(&there, entry, &at));
            if !is_same {
                return Restored::Left;
            }
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = open_quietly(&at, name, flags).and_then(|file| {
            drop_pages(&file);
            Ok((Facts::of(&fstat(&file)?), file))
        });
        match opened {
            Ok((facts, _)) if facts.len != entry.file_len() => Restored::Fault(TreeError::OtherLength {
                expected: entry.file_len(),
                found: facts.len,
                path: path.into_owned(),
            }),
            Ok((_, file)) => Restored::File(file.into()),
            Err(errno) => Restored::Fault(fault(errno)),
        }
    }
}
