//! The file system, as functions over numbers of inodes. [`crate::fuse`] hands the kernel's
//! requests to them.
//!
//! Below a backup nothing ever changes, so the kernel may keep what it was told for a day. Above
//! the backups it asks again after a second, and the store is listed again if that was not done for
//! some seconds. Any number of threads may call.

mod list;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use onefold::repository::Repository;
use onefold::{Error, Filter, Snapshot};
use rustix::io::Errno;
use tree::order;
use types::{FileTime, SessionId};

use crate::attributes::Attributes;
use crate::content::{self, Contents, Stream};
use crate::fault::{Fault, errno_of};
use crate::folders::Folders;
use crate::identity::hash_of;
use crate::item::{Body, Item, file_time};
use crate::layout::{Layout, Top};
use crate::nodes::{Nodes, Place, Root};
use crate::options::MountOptions;
use crate::pins::{Pin, Pins};
use crate::read_ahead::ReadAhead;

pub use list::Listed;

/// How long the kernel may keep what is below a backup.
pub(crate) const KEPT: Duration = Duration::from_hours(24);
/// How long it may keep the rest.
pub(crate) const KEPT_SHORT: Duration = Duration::from_secs(1);
/// The store is listed again at most so often.
const LISTED_AGAIN: Duration = Duration::from_secs(3);
/// Faults are told of so many files, each once.
const FAULTS_MAX: usize = 4096;
/// The top folders of so many backups are kept.
const TOPS_MAX: usize = 4096;

type Answer<T> = Result<T, Errno>;

/// An inode with what the kernel is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its attributes, with its number.
    pub attributes: Attributes,
    /// How long the kernel may keep that the name leads to this inode.
    pub name_kept: Duration,
    /// How long it may keep the attributes.
    pub attributes_kept: Duration,
}

/// What is known of the store's backups.
struct Backups {
    layout: Arc<Layout>,
    /// When the folders above the backups changed, by the wall clock.
    changed: FileTime,
    /// When the store was listed, by the monotonic clock.
    listed: Duration,
}

/// A store's backups as a file system.
pub struct FileSystem {
    repository: &'static dyn Repository,
    options: MountOptions,
    backups: RwLock<Backups>,
    /// The turn to list the store again.
    listing: Mutex<()>,
    pins: Pins,
    contents: Arc<Contents>,
    folders: Folders,
    nodes: Nodes,
    ahead: ReadAhead,
    told: Mutex<HashSet<u64>>,
    /// The top folders of backups that were looked up, as their listings have them.
    tops: Mutex<HashMap<SessionId, Arc<Item>>>,
}

impl FileSystem {
    /// Lists the store.
    ///
    /// # Errors
    /// If the backups cannot be listed.
    pub fn new(repository: &'static dyn Repository, options: MountOptions) -> Result<Self, Error> {
        let clock = repository.clock();
        let backups = Backups {
            layout: Arc::new(layout(repository, &options)?),
            changed: file_time(clock.wall()),
            listed: clock.monotonic(),
        };
        let contents = Arc::new(Contents::new(options.cache_bytes));
        let ahead = ReadAhead::new(&contents, options.cache_bytes, options.threads);
        Ok(Self {
            repository,
            backups: RwLock::new(backups),
            listing: Mutex::default(),
            pins: Pins::new(repository),
            contents,
            folders: Folders::new(),
            nodes: Nodes::new(),
            ahead,
            told: Mutex::default(),
            tops: Mutex::default(),
            options,
        })
    }

    /// Ends reading. Pins of backups end as soon as nothing reads them.
    pub fn close(&self) {
        self.ahead.close();
        self.pins.close();
    }

    /// Whether all pins of backups have ended.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.pins.alive() == 0
    }

    /// The entry of a name in a folder. The kernel is told of it: see [`Self::forget`].
    ///
    /// # Errors
    /// `NOENT` if there is none; `NOTDIR`, `STALE`, `IO`.
    pub fn look_up(&self, folder: u64, name: &[u8]) -> Answer<Entry> {
        match self.place(folder)? {
            Place::Top(path) => {
                self.list_again();
                let (layout, _) = self.layout();
                let Some(Top::Folder(entries)) = layout.find(&path) else {
                    return Err(Errno::NOENT);
                };
                let top = entries.get(name).ok_or(Errno::NOENT)?;
                let place = self.place_of_top(&layout, &below(&path, name), top, true)?;
                Ok(self.tell(place))
            }
            Place::In(root, item) => {
                let path = order::join(&folder_path(&item)?, name);
                let item = self.item(&root, &path)?.ok_or(Errno::NOENT)?;
                Ok(self.tell(Place::In(root, item)))
            }
        }
    }

    /// Whether what is in this folder never changes, so that a missing name stays missing.
    #[must_use]
    pub fn is_fixed(&self, folder: u64) -> bool {
        matches!(self.nodes.get(folder), Some(Place::In(..)))
    }

    /// The kernel forgets an inode that it was told of so often.
    pub fn forget(&self, number: u64, times: u64) {
        self.nodes.forget(number, times);
    }

    /// The attributes of an inode.
    ///
    /// # Errors
    /// `STALE` if the kernel has forgotten it.
    pub fn attributes(&self, number: u64) -> Answer<Entry> {
        let place = self.place(number)?;
        if matches!(place, Place::Top(_)) {
            self.list_again();
        }
        Ok(self.entry(number, &place))
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `INVAL` if it is none; `STALE`.
    pub fn read_link(&self, number: u64) -> Answer<Vec<u8>> {
        match self.place(number)? {
            Place::Top(path) => {
                self.list_again();
                match self.layout().0.find(&path) {
                    Some(Top::Link(target)) => Ok(target.clone()),
                    Some(_) => Err(Errno::INVAL),
                    None => Err(Errno::STALE),
                }
            }
            Place::In(_, item) => match &item.body {
                Body::Link(target) => Ok(target.clone()),
                _ => Err(Errno::INVAL),
            },
        }
    }

    /// Reads bytes of a file: fewer than asked for at its end.
    ///
    /// # Errors
    /// `IO` if a byte cannot be read or is not what was stored; `INVAL`, `STALE`.
    pub fn read_file(&self, number: u64, offset: u64, len: u32) -> Answer<Vec<u8>> {
        self.read_bytes(number, offset, len, true)
    }

    /// Like [`Self::read_file`], for a read that no program has made: it says nothing about what
    /// will be read, and nobody is told of what fails.
    pub(crate) fn read_around(&self, number: u64, offset: u64, len: u32) -> Answer<Vec<u8>> {
        self.read_bytes(number, offset, len, false)
    }

    fn read_bytes(&self, number: u64, offset: u64, len: u32, is_asked: bool) -> Answer<Vec<u8>> {
        let Place::In(root, item) = self.place(number)? else {
            return Err(Errno::ISDIR);
        };
        let Body::File {
            offset: begin,
            len: file_len,
            ..
        } = item.body
        else {
            return Err(Errno::INVAL);
        };
        let end = file_len.min(offset.saturating_add(u64::from(len)));
        if offset >= end {
            return Ok(Vec::new());
        }
        let range = begin + offset..begin + end;
        let read = |pin: &Arc<Pin>| {
            let stream = stream_of(pin)?;
            let reader = pin.reader()?;
            if is_asked {
                self.ahead.note(pin, &stream, &range);
            }
            let mut bytes = Vec::with_capacity(len as usize);
            self.contents.read(reader, &stream, range.clone(), &mut bytes)?;
            Ok(bytes)
        };
        if is_asked {
            self.read(&root, &item.path, read)
        } else {
            { self.pins.with(&root.snapshot, read) }.map_err(|error| errno_of(&error))
        }
    }

    /// The next byte of a file from an offset on that is in a hole, or in none.
    ///
    /// # Errors
    /// `NXIO` if there is none; `INVAL`, `STALE`, `IO`.
    pub fn seek(&self, number: u64, from: u64, is_hole_sought: bool) -> Answer<u64> {
        let Place::In(root, item) = self.place(number)? else {
            return Err(Errno::INVAL);
        };
        let Body::File { len, holes, .. } = &item.body else {
            return Err(Errno::INVAL);
        };
        if from >= *len {
            return Err(Errno::NXIO);
        }
        let found = match holes {
            Some(holes) => seek_in(holes, *len, from, is_hole_sought),
            None => self.read(&root, &item.path, |pin| {
                let stream = stream_of(pin)?;
                Ok(content::seek(pin.reader()?, &stream.root, from, is_hole_sought)?)
            })?,
        };
        // Behind the last byte there is a hole, and no data.
        if found >= *len && !is_hole_sought {
            return Err(Errno::NXIO);
        }
        Ok(found)
    }

    /// The extended attributes of an inode.
    ///
    /// # Errors
    /// `STALE`.
    pub fn extended_attributes(&self, number: u64) -> Answer<Vec<(Vec<u8>, Vec<u8>)>> {
        Ok(match self.place(number)? {
            Place::Top(_) => Vec::new(),
            Place::In(_, item) => item.xattrs.clone(),
        })
    }

    fn place(&self, number: u64) -> Answer<Place> {
        self.nodes.get(number).ok_or(Errno::STALE)
    }

    /// A place above the backups, or the top folder of one. Unless the listing `is_read`, which
    /// pins the backup, a top folder that is not known yet shows the time of the backup.
    fn place_of_top(&self, layout: &Layout, path: &[u8], top: &Top, is_read: bool) -> Answer<Place> {
        let Top::Backup(id) = top else {
            return Ok(Place::Top(path.to_vec()));
        };
        let root = Arc::new(Root {
            at: path.to_vec(),
            snapshot: layout.snapshots.get(id).ok_or(Errno::STALE)?.clone(),
        });
        let known = locked(&self.tops).get(id).cloned();
        let item = match known {
            Some(item) => item,
            None if is_read => {
                let item = self.item(&root, b"/")?.ok_or(Errno::IO)?;
                let mut tops = locked(&self.tops);
                if tops.len() >= TOPS_MAX {
                    tops.clear();
                }
                tops.insert(*id, Arc::clone(&item));
                item
            }
            None => {
                let time = file_time(root.snapshot.backup.source_time);
                Arc::new(Item::made(b"/".to_vec(), Body::Folder, time))
            }
        };
        Ok(Place::In(root, item))
    }

    fn item(&self, root: &Root, path: &[u8]) -> Answer<Option<Arc<Item>>> {
        self.read(root, path, |pin| {
            self.folders.item(pin, &self.contents.regions, path)
        })
    }

    /// Reads something of a backup, and tells of what fails.
    fn read<T>(&self, root: &Root, path: &[u8], read: impl Fn(&Arc<Pin>) -> Result<T, Error>) -> Answer<T> {
        self.pins.with(&root.snapshot, read).map_err(|error| {
            let errno = errno_of(&error);
            let id = root.snapshot.id;
            let mut told = locked(&self.told);
            if told.len() < FAULTS_MAX && told.insert(hash_of((id, path))) {
                drop(told);
                let fault = Fault {
                    backup: id,
                    path: path.to_vec(),
                    error,
                };
                tracing::warn!(target: crate::TARGET, "{fault}");
                (self.options.on_fault)(&fault);
            }
            errno
        })
    }

    /// Tells the kernel of an inode.
    fn tell(&self, place: Place) -> Entry {
        let number = self.nodes.tell(place.clone());
        self.entry(number, &place)
    }

    fn entry(&self, number: u64, place: &Place) -> Entry {
        let (attributes, name_kept, attributes_kept) = match place {
            Place::Top(path) => {
                let (layout, changed) = self.layout();
                let link = match layout.find(path) {
                    Some(Top::Link(target)) => Some(target.len() as u64),
                    _ => None,
                };
                let attributes = Attributes::of_top(number, link, changed, self.options.owner);
                (attributes, KEPT_SHORT, KEPT_SHORT)
            }
            Place::In(root, item) => {
                let id = root.snapshot.id;
                let links = self.folders.known_links(id);
                let (names, is_known) = match &links {
                    _ if item.body == Body::Folder => (1, true),
                    Some(links) => (links.get(&hash_of(item.identity())).copied().unwrap_or(1), true),
                    None if root.snapshot.backup.totals.others == 0 => (1, true),
                    None => (1 + u32::from(item.first_name.is_some()), false),
                };
                let owner = if self.options.is_owner_root {
                    Some((0, 0))
                } else {
                    item.is_made.then_some(self.options.owner)
                };
                let attributes = Attributes::of(number, item, names, owner);
                let is_top = item.path == b"/";
                let name_kept = if is_top { KEPT_SHORT } else { KEPT };
                // A top folder may get the attributes that its listing has.
                let is_final = is_known && !is_top;
                (attributes, name_kept, if is_final { KEPT } else { KEPT_SHORT })
            }
        };
        Entry {
            attributes,
            name_kept,
            attributes_kept,
        }
    }

    fn layout(&self) -> (Arc<Layout>, FileTime) {
        let backups = self.backups.read().unwrap_or_else(PoisonError::into_inner);
        (Arc::clone(&backups.layout), backups.changed)
    }

    /// Lists the store again, unless that was done a moment ago, or is being done.
    fn list_again(&self) {
        let clock = self.repository.clock();
        let is_due = || {
            let backups = self.backups.read().unwrap_or_else(PoisonError::into_inner);
            clock.monotonic().saturating_sub(backups.listed) >= LISTED_AGAIN
        };
        if !is_due() {
            return;
        }
        let Ok(_turn) = self.listing.try_lock() else {
            return;
        };
        if !is_due() {
            return;
        }
        let listed = layout(self.repository, &self.options);
        let now = (clock.monotonic(), file_time(clock.wall()));
        let mut backups = self.backups.write().unwrap_or_else(PoisonError::into_inner);
        backups.listed = now.0;
        match listed {
            Ok(layout) if layout != *backups.layout => {
                backups.layout = Arc::new(layout);
                backups.changed = now.1;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(target: crate::TARGET, "the backups could not be listed again: {error}");
            }
        }
    }
}

fn layout(repository: &dyn Repository, options: &MountOptions) -> Result<Layout, Error> {
    let mut list = repository.snapshots()?;
    let filter: &Filter = &options.filter;
    list.snapshots
        .retain(|snapshot: &Snapshot| filter.lets_through(&snapshot.backup));
    Ok(Layout::of(list.snapshots, &*options.name_of))
}

fn stream_of(pin: &Pin) -> Result<Stream, Error> {
    pin.content().ok_or_else(|| {
        let id = pin.snapshot().id;
        Error::NotFound(format!("backup {id} has no content"))
    })
}

/// The path of a folder above the backups.
fn below(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() {
        name.to_vec()
    } else {
        [folder, b"/", name].concat()
    }
}

fn folder_path(item: &Item) -> Answer<Vec<u8>> {
    match item.body {
        Body::Folder => Ok(item.path.clone()),
        _ => Err(Errno::NOTDIR),
    }
}

fn seek_in(holes: &[(u64, u64)], len: u64, from: u64, is_hole_sought: bool) -> u64 {
    let next = holes.iter().find(|(offset, len)| offset + len > from);
    match next {
        Some((offset, _)) if is_hole_sought => from.max(*offset),
        Some((offset, len)) if *offset <= from => offset + len,
        None if is_hole_sought => len,
        _ => from,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
