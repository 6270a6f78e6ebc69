//! Walks the folders of a local store.
//!
//! Only files and folders whose names an object could have are seen: not hidden ones, nor what else lies
//! there. Symbolic links are not followed: a store is one file system. A file that is deleted, or a folder
//! that appears, while it is being walked is seen or not.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

use types::ObjectName;

use super::files::absent;

/// What a walk has found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Sorted by name.
    pub(super) objects: Vec<(ObjectName, Metadata)>,
    /// All folders that were read. `""` is the root.
    pub(super) folders: Vec<String>,
}

/// All objects in `top` and below, but for the folders in it that are not wanted. Without such a folder, none.
pub(super) fn walk(root: &Path, top: &str, is_wanted: &dyn Fn(&str) -> bool) -> io::Result<Found> {
    let mut found = Found::default();
    let mut todo = vec![top.to_owned()];
    while let Some(folder) = todo.pop() {
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
                let name = name.as_str();
                let is_inner = folder.len() != top.len();
                if is_inner || is_wanted(name.rsplit_once('/').map_or(name, |(_, last)| last)) {
                    todo.push(name.to_owned());
                }
            } else if kind.is_file() {
                match entry.metadata() {
                    Ok(metadata) => found.objects.push((name, metadata)),
                    Err(error) if absent(&error) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        found.folders.push(folder);
    }
    found.objects.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    Ok(found)
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
        if is_folder && object_name(folder, &entry).is_some() {
            names.extend(entry.file_name().into_string());
        }
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
