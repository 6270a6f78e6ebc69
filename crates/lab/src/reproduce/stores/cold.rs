//! Folders of stores: copying, removal, and eviction from the page cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use simulate::SimulateError;

use crate::error::LabError;

/// A folder for stores. Dropping this value removes it.
#[derive(Debug)]
pub(in crate::reproduce) struct Folder(PathBuf);

impl Folder {
    /// Creates the folder.
    ///
    /// # Errors
    /// `Io`, also if it exists already.
    pub(in crate::reproduce) fn new(place: PathBuf) -> Result<Self, LabError> {
        fs::create_dir(&place).map_err(|source| io(&place, source))?;
        Ok(Self(place))
    }

    pub(in crate::reproduce) fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // An error cannot be reported any more.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Copies all files of a folder to a new one.
///
/// # Errors
/// `Io`.
pub(in crate::reproduce) fn copy(from: &Path, to: &Path) -> Result<(), LabError> {
    fs::create_dir(to).map_err(|source| io(to, source))?;
    each(from, &mut |path, is_folder| {
        let name = path.strip_prefix(from).unwrap_or(path);
        let place = to.join(name);
        let made = if is_folder {
            fs::create_dir(&place)
        } else {
            fs::copy(path, &place).map(drop)
        };
        made.map_err(|source| io(&place, source))
    })
}

/// Removes a folder with its content.
///
/// # Errors
/// `Io`.
pub(in crate::reproduce) fn remove(folder: &Path) -> Result<(), LabError> {
    fs::remove_dir_all(folder).map_err(|source| io(folder, source))
}

/// Flushes these files, and evicts them from the page cache.
///
/// # Errors
/// `Io`.
pub(in crate::reproduce) fn drop_cached(folder: &Path) -> Result<(), LabError> {
    each(folder, &mut |path, is_folder| {
        if is_folder {
            return Ok(());
        }
        let dropped = File::open(path).and_then(|file| {
            file.sync_all()?;
            Ok(fadvise(&file, 0, None, Advice::DontNeed)?)
        });
        dropped.map_err(|source| io(path, source))
    })
}

/// Calls `visit` with each file and folder below a folder, each folder before its content.
fn each(folder: &Path, visit: &mut dyn FnMut(&Path, bool) -> Result<(), LabError>) -> Result<(), LabError> {
    for entry in fs::read_dir(folder).map_err(|source| io(folder, source))? {
        let entry = entry.map_err(|source| io(folder, source))?;
        let path = entry.path();
        let is_folder = entry.file_type().map_err(|source| io(&path, source))?.is_dir();
        visit(&path, is_folder)?;
        if is_folder {
            each(&path, visit)?;
        }
    }
    Ok(())
}

fn io(path: &Path, source: std::io::Error) -> LabError {
    SimulateError::Io {
        what: path.display().to_string(),
        source,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_copied_dropped_from_the_cache_and_removed() {
        let place = tempfile::tempdir().unwrap();
        let one = Folder::new(place.path().join("one")).unwrap();
        fs::create_dir_all(one.join("a/b")).unwrap();
        fs::write(one.join("a/b/c"), vec![7; 1 << 20]).unwrap();
        let other = place.path().join("other");
        copy(&place.path().join("one"), &other).unwrap();
        drop_cached(&other).unwrap();
        assert_eq!(fs::read(other.join("a/b/c")).unwrap(), vec![7; 1 << 20]);
        assert!(Folder::new(other.clone()).is_err());
        remove(&other).unwrap();
        drop(one);
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
