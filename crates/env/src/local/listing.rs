//! Walks the folders of a local store.
//!
//! Only files and folders whose names an object could have are seen: not hidden ones, nor what else lies
//! there. Symbolic links are not followed: a store is one file system. A file that is deleted, or a folder
//! that appears, while it is being walked is seen or not.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use types::ObjectName;

use super::files::{absent, object_meta};
use super::tracker::FileId;
use crate::ObjectMeta;

/// So many folders are worth another thread.
const A_THREAD_MIN: usize = 16;
/// More than there are cores, for a folder that is not in memory is waited for.
const THREADS_MAX: usize = 8;

/// What a walk has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Sorted by name.
    pub(super) objects: Vec<(ObjectMeta, FileId)>,
    /// All folders that were read. `""` is the root.
    pub(super) folders: Vec<String>,
}

/// All objects in `top` and below, but for the folders in it that are not wanted. Without such a folder, none.
pub(super) fn walk(root: &Path, top: &str, is_wanted: &dyn Fn(&str) -> bool) -> io::Result<Found> {
    let mut found = Found::default();
    let mut todo = found.read(root, top.to_owned())?;
    todo.retain(|folder| is_wanted(folder.rsplit_once('/').map_or(folder, |(_, last)| last)));
    found.read_below(root, todo)?;
    found
        .objects
        .sort_unstable_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    Ok(found)
}

impl Found {
    /// Adds the folders and all below them, many at once.
    fn read_below(&mut self, root: &Path, mut todo: Vec<String>) -> io::Result<()> {
        while todo.len() < 2 * A_THREAD_MIN {
            let Some(folder) = todo.pop() else { return Ok(()) };
            todo.extend(self.read(root, folder)?);
        }
        let threads = (todo.len() / A_THREAD_MIN).min(THREADS_MAX);
        let next = AtomicUsize::new(0);
        let worker = || {
            let mut found = Self::default();
            while let Some(folder) = todo.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut below = vec![folder.clone()];
                while let Some(folder) = below.pop() {
                    below.extend(found.read(root, folder)?);
                }
            }
            Ok(found)
        };
        let found: Vec<io::Result<Self>> = thread::scope(|scope| {
            // Beside this one, as many as the system gives.
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

    /// Adds one folder; the folders in it.
    fn read(&mut self, root: &Path, folder: String) -> io::Result<Vec<String>> {
        let mut inner = Vec::new();
        for entry in entries(root, &folder)? {
            let entry = entry?;
            let Some(name) = object_name(&folder, &entry) else {
                continue;
            };
            let kind = match entry.file_type() {
                Err(error) if absent(&error) => continue,
                kind => kind?,
            };
            if kind.is_dir() {
                inner.push(name.as_str().to_owned());
            } else if kind.is_file() {
                match entry.metadata() {
                    Ok(metadata) => {
                        let id = FileId::of(&metadata);
                        self.objects.push((object_meta(name, &metadata), id));
                    }
                    Err(error) if absent(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.folders.push(folder);
        Ok(inner)
    }
}

/// Names of the folders in `folder`, sorted.
pub(super) fn sub_folders(root: &Path, folder: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in entries(root, folder)? {
        let entry = entry?;
        let is_folder = match entry.file_type() {
            Err(error) if absent(&error) => false,
            kind => kind?.is_dir(),
        };
        let part = entry.file_name().into_string().ok();
        let part = part.and_then(|part| ObjectName::new(part).ok());
        names.extend(part.filter(|_| is_folder).map(String::from));
    }
    names.sort_unstable();
    Ok(names)
}

fn entries(root: &Path, folder: &str) -> io::Result<impl Iterator<Item = io::Result<fs::DirEntry>>> {
    match fs::read_dir(root.join(folder)) {
        Ok(entries) => Ok(Some(entries).into_iter().flatten()),
        // The root itself must be there: a store that is not mounted is not an empty one.
        Err(error) if absent(&error) && !folder.is_empty() => Ok(None.into_iter().flatten()),
        Err(error) => Err(error),
    }
}

fn object_name(folder: &str, entry: &fs::DirEntry) -> Option<ObjectName> {
    let part = entry.file_name();
    let part = part.to_str()?;
    let name = if folder.is_empty() {
        part.to_owned()
    } else {
        format!("{folder}/{part}")
    };
    ObjectName::new(name).ok()
}
