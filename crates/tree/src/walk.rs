//! The walk: every entry below the roots, in listing order.
//!
//! A folder's names are read at once and sorted; entries are looked at relative to their folder, so that
//! neither long paths nor a folder renamed meanwhile lead elsewhere. The folders above a root are
//! entries too (a restore makes them again with their metadata); links on the way to a root are followed,
//! and recorded as the folders they lead to. Nothing else is followed.
//!
//! Faults are items between the entries. A folder that cannot be read is an entry and then a fault.

mod names;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{AtFlags, FileType, OFlags, readlinkat, statat};
use rustix::io::{Errno, pread};

use crate::folder::{Folder, open_quietly, retry};
use crate::links::FirstNames;
use crate::metadata::{AttributeReader, Facts, entry};
use crate::roots::RootNode;
use types::UnixNanos;

use crate::{Accounts, Action, Excludes, Roots, TreeError, order};
use names::{NameReader, Names};

/// A folder by device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FolderId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

impl FolderId {
    /// The folder that a path leads to; none if there is none.
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

/// A file that, lying in a folder, says that the folder's other content is to be left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marker {
    /// Its name.
    pub name: Vec<u8>,
    /// What it must begin with; empty for anything.
    pub header: Vec<u8>,
}

impl Marker {
    /// `CACHEDIR.TAG` with its signature, as the Cache Directory Tagging Specification has it.
    #[must_use]
    pub fn cache_folder() -> Self {
        Self {
            name: b"CACHEDIR.TAG".to_vec(),
            header: b"Signature: 8a477f597d28d172789f06886806bc55".to_vec(),
        }
    }
}

/// What to walk and what to leave out. A root is never left out by a pattern, marker, size or device.
#[derive(Debug, Clone, Default)]
pub struct WalkOptions {
    /// Where to begin.
    pub roots: Roots,
    /// Patterns of paths to leave out.
    pub excludes: Excludes,
    /// Folders whose content is left out, but for the marker itself.
    pub markers: Vec<Marker>,
    /// Regular files with more bytes are left out.
    pub file_bytes_max: Option<u64>,
    /// Stay on the file system of each root; a folder where another is mounted is recorded, empty.
    pub one_file_system: bool,
    /// Folders left out wholly, such as the store itself.
    pub leave_out: HashSet<FolderId>,
    /// Skip extended attributes and account names: enough to count files and bytes beforehand.
    pub count_only: bool,
}

/// One entry found, and the way to open it.
#[derive(Debug)]
pub struct WalkEntry {
    /// As it goes into the listing. A file's length is that of the walk and its holes are not known yet:
    /// reading it tells ([`crate::FileReader::finish`]). So it is with its extended attributes, which are
    /// asked for when it is open; of a file that is not read, [`Self::read_attributes`] asks.
    pub entry: ListingEntry,
    /// Its number of names.
    pub links: u64,
    /// Bytes of a regular file, also of one that is a hard link here; else 0.
    pub len: u64,
    pub(crate) folder: Arc<Folder>,
    pub(crate) name: Vec<u8>,
}

impl WalkEntry {
    /// Reads the extended attributes of a file that is not opened. With a fault those that could be read.
    pub fn read_attributes(&mut self) -> Option<TreeError> {
        let path = &self.entry.path;
        let fault = match self.folder.descriptor() {
            Err(errno) => Some(TreeError::reading(&path[..], Action::ReadAttributes, errno)),
            Ok(folder) => {
                let (found, fault) = AttributeReader::new().read(&folder, &self.name, path, false);
                self.entry.xattrs = found;
                fault
            }
        };
        if fault.is_some() {
            self.entry.ctime = NOT_ALL_IS_KNOWN;
        }
        fault
    }
}

/// The time of change in an entry some of whose attributes could not be read: no file has it, so the next
/// backup sees the file changed, and asks again.
pub(crate) const NOT_ALL_IS_KNOWN: UnixNanos = UnixNanos::new(i64::MIN);

/// The walk, as an iterator.
#[derive(Debug)]
pub struct Walk {
    options: WalkOptions,
    accounts: Accounts,
    attributes: AttributeReader,
    names: NameReader,
    first_names: FirstNames,
    frames: Vec<Frame>,
    ready: VecDeque<Result<WalkEntry, TreeError>>,
}

/// A folder being walked.
#[derive(Debug)]
struct Frame {
    folder: Arc<Folder>,
    path: Vec<u8>,
    names: Names,
    /// What of the roots lies in this folder.
    roots: BTreeMap<Vec<u8>, RootNode>,
    /// None above the roots, where only the way to them is of interest; else the root's device.
    inside: Option<u64>,
    /// Only this name, where a marker said so.
    only: Option<Vec<u8>>,
}

impl Walk {
    /// Begins a walk. A root folder that cannot be opened is the first item.
    #[must_use]
    pub fn new(mut options: WalkOptions) -> Self {
        let top = std::mem::take(&mut options.roots.top);
        let accounts = if options.count_only {
            Accounts::default()
        } else {
            Accounts::of_system()
        };
        let mut walk = Self {
            options,
            accounts,
            attributes: AttributeReader::new(),
            names: NameReader::new(),
            first_names: FirstNames::default(),
            frames: Vec::new(),
            ready: VecDeque::new(),
        };
        if (top.is_root || !top.children.is_empty())
            && let Err(fault) = walk.begin(top)
        {
            walk.ready.push_back(Err(fault));
        }
        walk
    }

    fn begin(&mut self, top: RootNode) -> Result<(), TreeError> {
        let path = b"/".to_vec();
        let opened = |errno| TreeError::system(&b"/"[..], Action::Open, errno);
        let folder = Folder::top(&path).map_err(opened)?;
        let descriptor = folder.descriptor().map_err(opened)?;
        let stat = retry(|| statat(&*descriptor, ".", AtFlags::empty()));
        let facts = Facts::of(&stat.map_err(|e| TreeError::system(&b"/"[..], Action::ReadMetadata, e))?);
        self.emit(&folder, b".", path.clone(), &facts, &descriptor, true);
        let inside = top.is_root.then_some(facts.device);
        self.push(folder, path, top.children, inside, &descriptor);
        Ok(())
    }

    /// Looks at one name of the innermost folder.
    fn visit(&mut self, name: Vec<u8>) -> Result<(), TreeError> {
        let frame = self
            .frames
            .last_mut()
            .expect("a name comes from a folder being walked");
        let folder = frame.folder.clone();
        let path = order::join(&frame.path, &name);
        let root = frame.roots.remove(&name);
        let is_root = root.as_ref().is_some_and(|r| r.is_root);
        let on_the_way = root.as_ref().is_some_and(|r| !r.children.is_empty());
        let mut inside = frame.inside;
        if inside.is_some() && !is_root {
            let marked = frame.only.as_ref().is_some_and(|only| *only != name);
            if marked || self.options.excludes.excludes(&path) {
                if !on_the_way {
                    return Ok(());
                }
                inside = None;
            }
        }

        let descriptor = folder
            .descriptor()
            .map_err(|e| TreeError::reading(&path[..], Action::Open, e))?;
        let flags = if on_the_way {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        let facts = match retry(|| statat(&*descriptor, &name[..], flags)) {
            Ok(stat) => Facts::of(&stat),
            // A root that does not exist never did, as far as we know.
            Err(errno) if is_root || on_the_way => {
                return Err(TreeError::system(path, Action::ReadMetadata, errno));
            }
            Err(errno) => return Err(TreeError::reading(path, Action::ReadMetadata, errno)),
        };
        let is_folder = facts.kind == FileType::Directory;
        if on_the_way && !is_folder {
            return Err(TreeError::NotAFolder { path });
        }
        if is_folder
            && self.options.leave_out.contains(&FolderId {
                device: facts.device,
                inode: facts.inode,
            })
        {
            return Ok(());
        }
        if is_root {
            inside = Some(facts.device);
        } else if let Some(device) = inside {
            let elsewhere = self.options.one_file_system && facts.device != device;
            let too_large = facts.kind == FileType::RegularFile
                && self.options.file_bytes_max.is_some_and(|most| facts.len > most);
            if (elsewhere && !is_folder) || too_large {
                return Ok(());
            }
            if elsewhere {
                inside = None;
            }
        }

        self.emit(&folder, &name, path.clone(), &facts, &descriptor, on_the_way);
        if !is_folder || (inside.is_none() && !on_the_way) {
            return Ok(());
        }
        let entered = folder
            .enter(&name, on_the_way, inside.is_some())
            .map_err(|e| TreeError::reading(&path[..], Action::Open, e))?;
        let now = &entered.facts;
        if (now.device, now.inode) != (facts.device, facts.inode) {
            return Err(TreeError::Vanished { path });
        }
        let roots = root.map(|r| r.children).unwrap_or_default();
        self.push(entered.folder, path, roots, inside, &entered.descriptor);
        Ok(())
    }

    /// Makes the entry ready, with its attributes and a link's target.
    fn emit(
        &mut self,
        folder: &Arc<Folder>,
        name: &[u8],
        path: Vec<u8>,
        facts: &Facts,
        at: &OwnedFd,
        follow: bool,
    ) {
        let mut target = Vec::new();
        if facts.kind == FileType::Symlink {
            match retry(|| readlinkat(at, name, Vec::new())) {
                Ok(found) => target = found.into_bytes(),
                Err(errno) => {
                    self.ready
                        .push_back(Err(TreeError::reading(path, Action::ReadMetadata, errno)));
                    return;
                }
            }
        }
        let Some(mut entry) = entry(path, facts, target, &self.accounts) else {
            return;
        };
        let mut len = 0;
        if facts.kind == FileType::RegularFile {
            len = facts.len;
            let first = self
                .first_names
                .see((facts.device, facts.inode), facts.links, &entry.path);
            if let Some(target) = first {
                entry.kind = EntryKind::HardLink { target };
            }
        }
        let mut fault = None;
        if !self.options.count_only && !matches!(entry.kind, EntryKind::File { .. }) {
            (entry.xattrs, fault) = self.attributes.read(at, name, &entry.path, follow);
        }
        let found = WalkEntry {
            entry,
            links: facts.links,
            len,
            folder: folder.clone(),
            name: name.to_vec(),
        };
        self.ready.push_back(Ok(found));
        self.ready.extend(fault.map(Err));
    }

    /// Begins a folder that was opened.
    fn push(
        &mut self,
        folder: Arc<Folder>,
        path: Vec<u8>,
        roots: BTreeMap<Vec<u8>, RootNode>,
        inside: Option<u64>,
        descriptor: &OwnedFd,
    ) {
        let mut names = Names::default();
        if inside.is_some()
            && let Err(errno) = self.names.read(descriptor, &mut names)
        {
            self.ready
                .push_back(Err(TreeError::reading(&path[..], Action::List, errno)));
        }
        for name in roots.keys() {
            names.push(name);
        }
        names.sort();
        let marker = self
            .options
            .markers
            .iter()
            .find(|m| names.contains(&m.name) && carries(descriptor, m));
        let only = marker.map(|m| m.name.clone());
        self.frames.push(Frame {
            folder,
            path,
            names,
            roots,
            inside,
            only,
        });
    }
}

/// Whether the marker's file in the folder is one. A file that cannot be read is not.
fn carries(folder: &OwnedFd, marker: &Marker) -> bool {
    if marker.header.is_empty() {
        return true;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut found = vec![0; marker.header.len()];
    let read = open_quietly(folder, &marker.name, flags).and_then(|file| {
        let mut filled = 0;
        while filled < found.len() {
            match retry(|| pread(&file, &mut found[filled..], filled as u64))? {
                0 => return Err(Errno::NODATA),
                n => filled += n,
            }
        }
        Ok(())
    });
    read.is_ok() && found == marker.header
}

impl Iterator for Walk {
    type Item = Result<WalkEntry, TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(item);
            }
            let Some(name) = self.frames.last_mut()?.names.next() else {
                self.frames.pop();
                continue;
            };
            if let Err(fault) = self.visit(name) {
                return Some(match self.ready.pop_front() {
                    // The entry itself was made ready before its folder failed to open.
                    Some(entry) => {
                        self.ready.push_back(Err(fault));
                        entry
                    }
                    None => Err(fault),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests;
