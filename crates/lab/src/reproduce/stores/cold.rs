//! Folders of stores: copied, removed at the end, and out of the page cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use simulate::SimulateError;

use crate::error::LabError;

/// A folder for stores, which is gone with this value.
#[derive(Debug)]
pub(in crate::reproduce) struct Folder(PathBuf);

impl Folder {
    /// Makes it.
    ///
    /// # Errors
    /// `Io`, also where it is there.
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
        // Nobody is left who could be told.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Copies all files of a folder to one that is made for them.
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

/// Removes a folder with all that is in it.
///
/// # Errors
/// `Io`.
pub(in crate::reproduce) fn remove(folder: &Path) -> Result<(), LabError> {
    fs::remove_dir_all(folder).map_err(|source| io(folder, source))
}

/// Writes what waits to be written, and lets go of all that is in the page cache of these files.
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

/// Calls `visit` with each file and folder in a folder, a folder before what is in it.
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
