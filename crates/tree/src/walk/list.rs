//! Reads the folders, in listing order.
//!
//! A folder's own listing shows which names are folders. The lister examines these, and the entries
//! above a root. It leaves all other names to [`super::Looker`]s. Names may have changed their kind
//! meanwhile, which the looker reports.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use format::listing::{Content, ListingEntry};
use rustix::fs::{AtFlags, FileType, OFlags, statat};
use rustix::io::{Errno, pread};

use super::ignored::{self, Ignored};
use super::mount::{Found, Mount};
use super::names::{NameReader, Names};
use super::place::Place;
use super::record::{Common, Record};
use super::step::{Files, Step, Stretch};
use super::{FolderId, Marker, WalkOptions};
use crate::folder::{Folder, open_quietly};
use crate::metadata::{Facts, flags_of};
use crate::retry::retry;
use crate::roots::RootNode;
use crate::{Accounts, Action, TreeError, order};

/// About how many names a stretch has.
const STRETCH_ENTRIES: usize = 256;
/// The most folders that are opened for one stretch. They should stay open until their files are
/// examined, and few folders stay open ([`crate::folder`]).
const STRETCH_FOLDERS: usize = 12;

/// Reads the folders of a walk.
#[derive(Debug)]
pub struct Lister {
    record: Record,
    names: NameReader,
    frames: Vec<Frame>,
    steps: Vec<Step>,
    /// Entries and names in `steps`.
    entries: usize,
    /// Folders opened for these.
    folders: usize,
}

/// A folder being walked.
#[derive(Debug)]
struct Frame {
    folder: Arc<Folder>,
    path: Arc<[u8]>,
    names: Names,
    /// The roots in this folder.
    roots: BTreeMap<Vec<u8>, RootNode>,
    /// The mount of the root. `None`: the folder is above the roots, where only the paths to them
    /// count.
    inside: Option<Mount>,
    /// The ignore files that count here.
    ignored: Option<Arc<Ignored>>,
    /// The only name to walk, if a marker said so.
    only: Option<Vec<u8>>,
    /// Whether it is the store's folder.
    is_store: bool,
}

impl Lister {
    pub(super) fn new(mut options: WalkOptions) -> (Self, Record) {
        let top = std::mem::take(&mut options.roots.top);
        let accounts = if options.count_only {
            Accounts::default()
        } else {
            Accounts::of_system()
        };
        let common = Arc::new(Common { options, accounts });
        let mut lister = Self::empty(Record::new(Arc::clone(&common)));
        if (top.is_root || !top.children.is_empty())
            && let Err(fault) = lister.begin(top)
        {
            lister.steps.push(Step::Fault(fault));
        }
        (lister, Record::new(common))
    }

    /// Walks names that turned out to be folders.
    pub(super) fn within(record: Record, files: Files) -> Self {
        let mut names = Names::default();
        for name in files.names() {
            names.push(name, FileType::Unknown);
        }
        let mut lister = Self::empty(record);
        lister.frames.push(Frame {
            folder: files.folder,
            path: files.path,
            names,
            roots: BTreeMap::new(),
            inside: Some(files.mount),
            ignored: files.ignored,
            only: None,
            is_store: false,
        });
        lister
    }

    fn empty(record: Record) -> Self {
        Self {
            record,
            names: NameReader::new(),
            frames: Vec::new(),
            steps: Vec::new(),
            entries: 0,
            folders: 0,
        }
    }

    fn begin(&mut self, top: RootNode) -> Result<(), TreeError> {
        let path = b"/".to_vec();
        let opened = |errno| TreeError::system(&b"/"[..], Action::Open, errno);
        let folder = Folder::top(&path).map_err(opened)?;
        let descriptor = folder.descriptor().map_err(opened)?;
        let stat = retry(|| statat(&*descriptor, ".", AtFlags::empty()));
        let facts = Facts::of(&stat.map_err(|e| TreeError::system(&b"/"[..], Action::ReadMetadata, e))?);
        let place = Place {
            folder: &folder,
            name: b".",
            at: &descriptor,
            follow: true,
        };
        let noted = self.steps.len();
        self.record.add(&place, path.clone(), &facts, &mut self.steps);
        let inside = top.is_root.then(|| self.mount_of(&place, &facts));
        self.push(folder, path, top.children, inside, (&descriptor, noted, &facts));
        Ok(())
    }

    /// Examines one name of the innermost folder.
    fn visit(&mut self, name: &[u8]) -> Result<(), TreeError> {
        let options = &self.record.common.options;
        let frame = self
            .frames
            .last_mut()
            .expect("a name comes from a folder being walked");
        let folder = frame.folder.clone();
        let path = order::join(&frame.path, name);
        let root = frame.roots.remove(name);
        // Other entries of the store are not among the names.
        if frame.is_store && root.is_some() && options.is_of_store(name) {
            return Err(TreeError::IsStore { path });
        }
        let is_root = root.as_ref().is_some_and(|r| r.is_root);
        let on_the_way = root.as_ref().is_some_and(|r| !r.children.is_empty());
        let follows = on_the_way || root.as_ref().is_some_and(|r| r.follows);
        let mut inside = frame.inside;
        let ignored = frame.ignored.clone().filter(|_| inside.is_some());
        if inside.is_some() && !is_root {
            let marked = frame.only.as_ref().is_some_and(|only| *only != name);
            if marked || options.excludes.excludes(&path) {
                if !on_the_way {
                    return Ok(());
                }
                inside = None;
            }
        }

        let descriptor = folder
            .descriptor()
            .map_err(|e| TreeError::reading(&path[..], Action::Open, e))?;
        let place = Place {
            folder: &folder,
            name,
            at: &descriptor,
            follow: follows,
        };
        let stays_on = inside.filter(|_| options.one_file_system && !is_root);
        let found = match stays_on.map(|mount| mount.look(&place)) {
            Some(Ok(Found::Elsewhere)) if !on_the_way => {
                if ignored::leave_out(ignored.as_ref(), &path, true) {
                    return Ok(());
                }
                self.steps.extend(self.record.mount_point(&place, path));
                return Ok(());
            }
            Some(Ok(Found::Here(facts))) => Ok(facts),
            Some(Err(errno)) => Err(errno),
            elsewhere => {
                if elsewhere.is_some() {
                    inside = None;
                }
                place.facts()
            }
        };
        let facts = match found {
            Ok(facts) => facts,
            // Report a root that does not exist as an error of its own: it was never seen, so it
            // has not vanished.
            Err(errno) if is_root || on_the_way => {
                return Err(TreeError::system(path, Action::ReadMetadata, errno));
            }
            Err(errno) => return Err(TreeError::reading(path, Action::ReadMetadata, errno)),
        };
        let is_folder = facts.kind == FileType::Directory;
        if follows && !is_folder {
            return Err(TreeError::NotAFolder { path });
        }
        if is_root {
            inside = Some(self.mount_of(&place, &facts));
        } else if ignored::leave_out(ignored.as_ref(), &path, is_folder) {
            if !on_the_way {
                return Ok(());
            }
            inside = None;
        } else if let Some(mount) = inside {
            let taken = options.takes(&facts, mount);
            if !taken && !is_folder {
                return Ok(());
            }
            inside = taken.then_some(mount);
        }
        let noted = self.steps.len();
        self.record.add(&place, path.clone(), &facts, &mut self.steps);
        if !is_folder || (inside.is_none() && !on_the_way) {
            return Ok(());
        }
        self.enter((&place, path), &facts, root, inside, noted)
    }

    /// Goes into a folder that was added at this step.
    fn enter(
        &mut self,
        (place, path): (&Place<'_>, Vec<u8>),
        facts: &Facts,
        root: Option<RootNode>,
        inside: Option<Mount>,
        noted: usize,
    ) -> Result<(), TreeError> {
        let entered = match place.folder.enter(place.name, place.follow, inside.is_some()) {
            Ok(entered) => entered,
            Err(errno) => {
                self.not_all_listed(noted);
                return Err(TreeError::reading(path, Action::Open, errno));
            }
        };
        let now = &entered.facts;
        if (now.device, now.inode) != (facts.device, facts.inode) {
            self.not_all_listed(noted);
            return Err(TreeError::Vanished { path });
        }
        let roots = root.map(|r| r.children).unwrap_or_default();
        let at = (&*entered.descriptor, noted, now);
        self.push(entered.folder, path, roots, inside, at);
        Ok(())
    }

    /// The mount of a root. It is looked up only if the walk needs it.
    fn mount_of(&self, place: &Place<'_>, facts: &Facts) -> Mount {
        if self.record.common.options.one_file_system {
            Mount::of_root(place, facts.device)
        } else {
            Mount {
                id: None,
                device: facts.device,
                is_local: false,
            }
        }
    }

    /// The entry of the folder that was added at this step.
    fn noted(&mut self, step: usize) -> Option<&mut ListingEntry> {
        match self.steps.get_mut(step) {
            Some(Step::Found(found)) => Some(&mut found.entry),
            _ => None,
        }
    }

    /// Records that not all names of the folder at this step could be read.
    fn not_all_listed(&mut self, step: usize) {
        if let Some(entry) = self.noted(step) {
            entry.state.content = Content::Partial { of: 0 };
        }
    }

    /// Reads the facts that only an open folder shows: its flags and its names.
    fn read_open(&mut self, path: &[u8], descriptor: &OwnedFd, noted: usize, names: &mut Names) {
        if !self.record.common.options.count_only {
            match flags_of(descriptor) {
                Ok(flags) => {
                    if let Some(entry) = self.noted(noted) {
                        entry.flags = flags;
                    }
                }
                Err(errno) => {
                    if let Some(entry) = self.noted(noted) {
                        entry.state.lacks_attributes = true;
                    }
                    let fault = TreeError::reading(path, Action::ReadAttributes, errno);
                    self.steps.push(Step::Fault(fault));
                }
            }
        }
        if let Err(errno) = self.names.read(descriptor, names) {
            self.not_all_listed(noted);
            let fault = TreeError::reading(path, Action::List, errno);
            self.steps.push(Step::Fault(fault));
        }
    }

    /// Begins a folder that was opened, and added at this step.
    fn push(
        &mut self,
        folder: Arc<Folder>,
        path: Vec<u8>,
        roots: BTreeMap<Vec<u8>, RootNode>,
        inside: Option<Mount>,
        (descriptor, noted, facts): (&OwnedFd, usize, &Facts),
    ) {
        let mut names = Names::default();
        if inside.is_some() {
            self.read_open(&path, descriptor, noted, &mut names);
        }
        let options = &self.record.common.options;
        let id = FolderId {
            device: facts.device,
            inode: facts.inode,
        };
        let is_store = options.store.as_ref().is_some_and(|store| store.folder == id);
        if is_store {
            names.retain(|name| !options.is_of_store(name));
        }
        for name in roots.keys() {
            names.push(name, FileType::Unknown);
        }
        names.sort();
        let mut markers = self.record.common.options.markers.iter();
        let marker = markers.find(|m| names.contains(&m.name) && carries(descriptor, m));
        let only = marker.map(|m| m.name.clone());
        let above = self.frames.last().and_then(|frame| frame.ignored.as_ref());
        let ignored = if inside.is_some() {
            let files = self.record.common.options.ignore_files.iter();
            let there = files.filter(|name| names.contains(name));
            let mut faults = Vec::new();
            let ignored = Ignored::read(descriptor, &path, there, above, &mut faults);
            self.steps.extend(faults.into_iter().map(Step::Fault));
            ignored
        } else {
            None
        };
        self.folders += 1;
        self.frames.push(Frame {
            folder,
            path: path.into(),
            names,
            roots,
            inside,
            ignored,
            only,
            is_store,
        });
    }
}

/// Moves the next names of the folder that need no look by the lister into the steps.
fn leave_files(frame: &mut Frame, steps: &mut Vec<Step>, room: usize) -> usize {
    let Some(mount) = frame.inside else { return 0 };
    let mut files: Option<Files> = None;
    let mut count = 0;
    while count < room
        && let Some(name) = frame.names.peek_file()
        && !frame.roots.contains_key(name)
    {
        if frame.only.as_ref().is_none_or(|only| *only == name) {
            let files = files.get_or_insert_with(|| Files {
                folder: Arc::clone(&frame.folder),
                path: Arc::clone(&frame.path),
                mount,
                ignored: frame.ignored.clone(),
                bytes: Vec::new(),
                ends: Vec::new(),
            });
            files.push(name);
            count += 1;
        }
        frame.names.skip();
    }
    steps.extend(files.map(Step::Files));
    count
}

impl Iterator for Lister {
    type Item = Stretch;

    fn next(&mut self) -> Option<Stretch> {
        while self.entries < STRETCH_ENTRIES && self.folders < STRETCH_FOLDERS {
            let Some(frame) = self.frames.last_mut() else {
                break;
            };
            let room = STRETCH_ENTRIES - self.entries;
            let left = leave_files(frame, &mut self.steps, room);
            if left > 0 {
                self.entries += left;
                continue;
            }
            let Some(name) = frame.names.next() else {
                self.frames.pop();
                continue;
            };
            self.entries += 1;
            if let Err(fault) = self.visit(&name) {
                self.steps.push(Step::Fault(fault));
            }
        }
        let entries = std::mem::take(&mut self.entries);
        self.folders = 0;
        let steps = std::mem::take(&mut self.steps);
        (!steps.is_empty() || !self.frames.is_empty()).then_some(Stretch { steps, entries })
    }
}

/// Whether the marker's file in the folder is a marker. An unreadable file is none.
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
