//! Walks the folders of a local store.
//!
//! The walk sees only files and folders with names that an object can have, so no hidden ones. It
//! does not follow symbolic links. A link of such a name is an error: it may be in the place of a
//! folder, which must not pass for missing. The walk may or may not see a file that is deleted, or
//! a folder that appears, during the walk.
//!
//! Old stores have many folders with few files each, so the cost of a folder matters. The walk
//! opens each folder by its name in the first folder, and reads all into one buffer.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, OFlags, statat};
use types::ObjectName;

use super::entries;
use super::files::{Attributes, absent, object_meta};
use super::folders::Folders;
use super::tracker::FileId;
use crate::ObjectMeta;

/// Another thread is worth it for so many folders.
const A_THREAD_MIN: usize = 16;
/// The most threads: more than there are cores, because they wait for folders that are not in
/// memory.
const THREADS_MAX: usize = 8;
/// Bytes for the entries that the system returns at once. The longest entry takes some 280 bytes,
/// or 1 KiB if FUSE allows that.
const BUFFER_BYTES: usize = 32 << 10;
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// The results of a walk.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Sorted by name.
    pub(super) objects: Vec<(ObjectMeta, FileId)>,
    /// All folders that were read. `""` is the root.
    pub(super) folders: Vec<String>,
}

/// All objects in the folder and below. A missing folder gives none.
pub(super) fn walk(folders: &Folders, folder: &str) -> io::Result<Found> {
    walk_below(folders, folder, |found, top, buffer| {
        found.read(top, top.opened, folder.to_owned(), buffer)
    })
}

/// All objects in these folders and below. The folders are in `within`.
pub(super) fn walk_each(folders: &Folders, within: &str, each: Vec<String>) -> io::Result<Found> {
    walk_below(folders, within, |_, _, _| Ok(each))
}

fn walk_below(
    folders: &Folders,
    folder: &str,
    first: impl FnOnce(&mut Found, &Top<'_>, &mut Vec<u8>) -> io::Result<Vec<String>>,
) -> io::Result<Found> {
    let mut found = Found::default();
    let Some(opened) = open_top(folders, folder)? else {
        found.folders.push(folder.to_owned());
        return Ok(found);
    };
    let top = Top {
        folders,
        folder,
        opened: opened.as_fd(),
    };
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    let todo = first(&mut found, &top, &mut buffer)?;
    found.read_below(&top, todo, buffer)?;
    found
        .objects
        .sort_unstable_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    Ok(found)
}

/// The folder where a walk begins.
struct Top<'a> {
    folders: &'a Folders,
    folder: &'a str,
    opened: BorrowedFd<'a>,
}

impl Top<'_> {
    /// Opens a folder below; `None` if it is gone.
    fn open(&self, folder: &str) -> io::Result<Option<OwnedFd>> {
        let below = folder.strip_prefix(self.folder).unwrap_or(folder);
        let below = below.trim_start_matches('/');
        match self.folders.open_below((self.opened, self.folder), below, FOLDER) {
            Ok(opened) => Ok(Some(opened)),
            Err(error) => gone(error, None),
        }
    }
}

impl Found {
    /// Adds the folders and all below them, many concurrently.
    fn read_below(&mut self, top: &Top<'_>, mut todo: Vec<String>, mut buffer: Vec<u8>) -> io::Result<()> {
        while todo.len() < 2 * A_THREAD_MIN {
            let Some(folder) = todo.pop() else { return Ok(()) };
            todo.extend(self.read_one(top, folder, &mut buffer)?);
        }
        let threads = (todo.len() / A_THREAD_MIN).min(THREADS_MAX);
        let next = AtomicUsize::new(0);
        let worker = || {
            let (mut found, mut buffer) = (Self::default(), Vec::with_capacity(BUFFER_BYTES));
            while let Some(folder) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut below = vec![folder.clone()];
                while let Some(folder) = below.pop() {
                    below.extend(found.read_one(top, folder, &mut buffer)?);
                }
            }
            Ok(found)
        };
        let found: Vec<io::Result<Self>> = thread::scope(|scope| {
            // Other threads help, as many as the system allows.
            let spawned = (1..threads).map(|_| thread::Builder::new().spawn_scoped(scope, worker));
            let workers: Vec<_> = spawned.filter_map(Result::ok).collect();
            let own = worker();
            let each = workers.into_iter();
            let others = each.map(|worker| worker.join().expect("reading a folder does not panic"));
            others.chain(Some(own)).collect()
        });
        for found in found {
            let found = found?;
            self.objects.extend(found.objects);
            self.folders.extend(found.folders);
        }
        Ok(())
    }

    fn read_one(&mut self, top: &Top<'_>, folder: String, buffer: &mut Vec<u8>) -> io::Result<Vec<String>> {
        if let Some(opened) = top.open(&folder)? {
            self.read(top, opened.as_fd(), folder, buffer)
        } else {
            self.folders.push(folder);
            Ok(Vec::new())
        }
    }

    /// Adds one folder. Returns the folders in it.
    fn read(
        &mut self,
        top: &Top<'_>,
        opened: BorrowedFd<'_>,
        folder: String,
        buffer: &mut Vec<u8>,
    ) -> io::Result<Vec<String>> {
        let mut inner = Vec::new();
        each_entry(opened, buffer, |part, kind| {
            let Some(name) = object_name(&folder, part) else {
                return Ok(());
            };
            match kind()? {
                FileType::Directory => inner.push(String::from(name)),
                FileType::RegularFile => match statat(opened, part, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(stat) => {
                        let attributes = Attributes::from(&stat);
                        let id = FileId::of(attributes);
                        self.objects.push((object_meta(name, attributes), id));
                    }
                    Err(error) => return gone(error.into(), ()),
                },
                FileType::Symlink => return Err(top.folders.misplaced(Path::new(name.as_str()))),
                _ => {}
            }
            Ok(())
        })?;
        self.folders.push(folder);
        Ok(inner)
    }
}

/// Names of the folders in `folder`, sorted.
pub(super) fn sub_folders(folders: &Folders, folder: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    let Some(opened) = open_top(folders, folder)? else {
        return Ok(names);
    };
    each_entry(
        opened.as_fd(),
        &mut Vec::with_capacity(BUFFER_BYTES),
        |part, kind| {
            let Ok(name) = ObjectName::new(part) else {
                return Ok(());
            };
            match kind()? {
                FileType::Directory => names.push(String::from(name)),
                FileType::Symlink => return Err(folders.misplaced(&Path::new(folder).join(part))),
                _ => {}
            }
            Ok(())
        },
    )?;
    names.sort_unstable();
    Ok(names)
}

/// `None` if there is no such folder. The root itself must exist: an unmounted store is not an
/// empty one.
fn open_top(folders: &Folders, folder: &str) -> io::Result<Option<OwnedFd>> {
    match folders.open(folder, FOLDER) {
        Ok(opened) => Ok(Some(opened)),
        Err(error) if folder.is_empty() => Err(error),
        Err(error) => gone(error, None),
    }
}

/// `instead` if the error means that something is absent; else the error.
fn gone<T>(error: io::Error, instead: T) -> io::Result<T> {
    if absent(&error) { Ok(instead) } else { Err(error) }
}

/// Passes to `each` the names in a folder, and their kinds for callers that need them. A folder
/// that is removed meanwhile has no further names.
fn each_entry(
    opened: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(&str, &dyn Fn() -> io::Result<FileType>) -> io::Result<()>,
) -> io::Result<()> {
    entries::each(opened, buffer, |name, known| {
        let Ok(part) = name.to_str() else {
            return Ok(());
        };
        let kind = || match known {
            // The file system does not say.
            FileType::Unknown => match statat(opened, part, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode)),
                Err(error) => gone(error.into(), FileType::Unknown),
            },
            kind => Ok(kind),
        };
        each(part, &kind)
    })
}

fn object_name(folder: &str, part: &str) -> Option<ObjectName> {
    let name = if folder.is_empty() {
        part.to_owned()
    } else {
        let mut name = String::with_capacity(folder.len() + 1 + part.len());
        name.extend([folder, "/", part]);
        name
    };
    ObjectName::new(name).ok()
}
