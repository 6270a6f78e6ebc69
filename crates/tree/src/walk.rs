//! The walk: every entry below the roots, in listing order.
//!
//! There are three steps, so that other threads can do the expensive one. The [`Lister`] reads the
//! folders, in order, and returns [`Stretch`]es: entries, and names of files without metadata yet.
//! [`Looker`]s read the metadata of these files; any number of them may work at once. The [`Walk`]
//! takes each [`Looked`] stretch, in the lister's order, and returns the entries, and the first
//! name of each hard link. By itself ([`Walk::new`]) it does all three steps, one after another,
//! with the same entries.
//!
//! All names of a folder are read at once and sorted. Entries are examined relative to their
//! folder, so neither long paths nor a folder renamed meanwhile lead elsewhere. The folders above a
//! root are entries too (a restore makes them again with their metadata). The walk follows links
//! above a root, and records them as the folders that they lead to. It does the same with a root
//! that the user typed with a `/` at its end, and follows no other link.
//!
//! Faults are items between the entries. A folder that cannot be read is an entry and then a fault.

mod ignored;
mod list;
mod look;
mod mount;
mod names;
mod place;
mod record;
mod step;

use std::collections::VecDeque;

use format::listing::EntryKind;

use rustix::fs::{AtFlags, CWD, statat};

use crate::links::FirstNames;
use crate::metadata::Facts;
use crate::retry::retry;
use crate::walk_entry::WalkEntry;
use crate::{Excludes, Roots, TreeError};

pub use list::Lister;
pub use look::{Looked, Looker};
pub(crate) use mount::MountOf;
pub(crate) use names::NameReader;
use step::Step;
pub use step::Stretch;

/// A folder, identified by device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FolderId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

impl FolderId {
    /// The folder that a path leads to. `None`: there is none.
    #[must_use]
    pub fn of(path: &std::path::Path) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let found = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_dir)?;
        Some(Self {
            device: found.dev(),
            inode: found.ino(),
        })
    }
}

/// The folder of the store. Other entries there, if somebody has put some, are no part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreFolder {
    /// The folder.
    pub folder: FolderId,
    /// The names of the store's entries in it.
    pub names: Vec<Vec<u8>>,
}

/// A file whose presence in a folder means that the folder's other content is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Its name.
    pub name: Vec<u8>,
    /// Its content must begin with this; empty for any content.
    pub header: Vec<u8>,
}

impl Marker {
    /// `CACHEDIR.TAG` with its signature, by the Cache Directory Tagging Specification.
    #[must_use]
    pub fn cache_folder() -> Self {
        Self {
            name: b"CACHEDIR.TAG".to_vec(),
            header: b"Signature: 8a477f597d28d172789f06886806bc55".to_vec(),
        }
    }
}

/// What to walk, and what to leave out. A root is always walked: patterns, ignore files, markers,
/// sizes and devices leave out only what is below it.
#[derive(Debug, Clone, Default)]
pub struct WalkOptions {
    /// The paths to begin at.
    pub roots: Roots,
    /// Patterns of paths to leave out.
    pub excludes: Excludes,
    /// Markers: the content of a folder with one is left out, except the marker itself.
    pub markers: Vec<Marker>,
    /// Names of files whose lines are patterns of what to leave out below their folder, by the
    /// rules of `.gitignore`.
    pub ignore_files: Vec<Vec<u8>>,
    /// Regular files with more bytes are left out.
    pub file_bytes_max: Option<u64>,
    /// Stay on the file system of each root: leave out other mounts and subvolumes. The folder
    /// where one begins is recorded, empty. If the system does not show that folder to this user,
    /// it is left out. Neither need be readable.
    pub one_file_system: bool,
    /// The store, which is left out.
    pub store: Option<StoreFolder>,
    /// The most bytes to read of a file whose length the file system does not show; by default 16
    /// GiB. A longer file is stored in part.
    pub unknown_len_max: Option<u64>,
    /// Skip extended attributes and account names. This is enough to count files and bytes
    /// beforehand.
    pub count_only: bool,
}

impl WalkOptions {
    /// Whether an entry of the store has this name in the store's folder.
    fn is_of_store(&self, name: &[u8]) -> bool {
        let mut names = self.store.iter().flat_map(|store| &store.names);
        names.any(|own| own == name)
    }
}

/// The walk, as an iterator.
#[derive(Debug)]
pub struct Walk {
    looker: Looker,
    first_names: FirstNames,
    /// The fault that follows the entry just given.
    fault: Option<TreeError>,
    /// The levels of the walk, the innermost last. There are several only if folders were found in
    /// the place of files.
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    steps: VecDeque<Step>,
    /// The source of more steps.
    lister: Option<Box<Lister>>,
}

impl Walk {
    /// Begins a walk. A root folder that cannot be opened is the first item.
    #[must_use]
    pub fn new(options: WalkOptions) -> Self {
        let (lister, mut walk) = Self::apart(options);
        walk.levels.push(Level {
            steps: VecDeque::new(),
            lister: Some(Box::new(lister)),
        });
        walk
    }

    /// A walk in parts. It ends whenever it has returned all entries that [`Self::accept`] gave it.
    #[must_use]
    pub fn apart(options: WalkOptions) -> (Lister, Self) {
        let (lister, record) = Lister::new(options);
        let walk = Self {
            looker: Looker::new(record),
            first_names: FirstNames::default(),
            fault: None,
            levels: Vec::new(),
        };
        (lister, walk)
    }

    /// A looker for this walk's files, for a thread of its own.
    #[must_use]
    pub fn looker(&self) -> Looker {
        Looker::new(self.looker.record())
    }

    /// Takes the next stretch, in the lister's order. The walk must have returned all earlier
    /// entries.
    pub fn accept(&mut self, looked: Looked) {
        self.levels.push(Level {
            steps: looked.steps.into(),
            lister: None,
        });
    }

    /// The entry, as the first name of its inode or as a link to the first name.
    fn settle(&mut self, mut found: WalkEntry) -> WalkEntry {
        // A folder has one name. Its number of links counts the folders in it.
        if found.entry.kind == EntryKind::Folder {
            return found;
        }
        let entry = &mut found.entry;
        let identity = (entry.device, entry.inode);
        let is_same = |path: &[u8]| identity_of(path) == Some(identity);
        let first = self.first_names.see(entry, found.links, is_same);
        if let Some(first) = first {
            // All names of an inode have one time. If the file changes while the walk meets its
            // names, all get the time of the first one.
            entry.mtime = first.mtime;
            let target = first.path;
            let is = std::mem::replace(&mut found.entry.kind, EntryKind::HardLink { target });
            // The backup does not open this name of a file, so the walk reads its attributes here.
            // It has read the attributes of all other kinds.
            if matches!(is, EntryKind::File { .. }) {
                (found.entry.xattrs, self.fault) = self.looker.attributes(&found);
                found.entry.state.lacks_attributes |= self.fault.is_some();
            }
            found.linked = Some(is);
        }
        found
    }
}

/// Device and inode of a name.
fn identity_of(path: &[u8]) -> Option<(u64, u64)> {
    let found = retry(|| statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW)).ok()?;
    let facts = Facts::of(&found);
    Some((facts.device, facts.inode))
}

impl Iterator for Walk {
    type Item = Result<WalkEntry, TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(fault) = self.fault.take() {
            return Some(Err(fault));
        }
        loop {
            let level = self.levels.last_mut()?;
            match level.steps.pop_front() {
                Some(Step::Found(found)) => return Some(Ok(self.settle(found))),
                Some(Step::Fault(fault)) => return Some(Err(fault)),
                Some(Step::Files(files)) => self.levels.push(Level {
                    steps: VecDeque::new(),
                    lister: Some(Box::new(self.looker.lister_of(files))),
                }),
                None => match level.lister.as_mut().and_then(|lister| lister.next()) {
                    Some(stretch) => level.steps = self.looker.look(stretch).steps.into(),
                    None => {
                        self.levels.pop();
                    }
                },
            }
        }
    }
}

#[cfg(test)]
mod tests;
