//! Carries a barrier out: it syncs few files and folders one by one, or else the whole file system.
//!
//! An object survives a power loss if its bytes, its entry in its folder, and the entries of that
//! folder and all folders above it are durable. A folder is removed only when no process puts
//! objects in it any more, so a durable folder stays durable.

use std::collections::{BTreeSet, HashSet};
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::OFlags;

use super::files::{UNTRUSTED, absent, io_error};
use super::folders::Folders;
use super::sys::Calls;
use super::tracker::{Bounds, Outcome, Pending, Tracker, parent};
use crate::StorageError;

pub(super) struct Barrier<'a> {
    pub(super) root: &'a Path,
    pub(super) folders: &'a Folders,
    /// The root, open since the handle was opened: its sync reports every failed write since then.
    pub(super) root_file: &'a File,
    pub(super) calls: &'a dyn Calls,
    pub(super) tracker: &'a Tracker,
    pub(super) bounds: Bounds,
}

/// Why syncing one by one failed.
enum Stuck {
    /// A file or folder could not be opened. Nothing is lost by trying another way.
    Unopened,
    Failed(String, io::Error),
}

impl Barrier<'_> {
    pub(super) fn carry_out(&self, work: &Pending) -> Outcome<StorageError> {
        let calls_max = self.bounds.sync_calls_max;
        let is_known = !work.everything && !work.closed;
        if is_known && work.files.len().max(work.folders.len()) <= calls_max {
            let folders = self.folders_to_sync(work);
            if work.files.len() + folders.len() <= calls_max {
                match self.one_by_one(work, &folders) {
                    Ok(anchored) => return Outcome::Durable { anchored },
                    Err(Stuck::Failed(name, error)) => return failed("sync", &name, error),
                    Err(Stuck::Unopened) => {}
                }
            }
        }
        match self.calls.sync_all(self.root_file) {
            // Folders of files exist. Of other folders this is unknown.
            Ok(()) => {
                let seen = work.files.keys().map(|name| parent(name.as_str()));
                let anchored: HashSet<&str> = seen.flat_map(chain).collect();
                Outcome::Durable {
                    anchored: anchored.into_iter().map(str::to_owned).collect(),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Unsupported && !work.everything => {
                match self.one_by_one(work, &self.folders_to_sync(work)) {
                    Ok(anchored) => Outcome::Durable { anchored },
                    Err(Stuck::Failed(name, error)) => failed("sync", &name, error),
                    Err(Stuck::Unopened) => {
                        Outcome::NotYet(io_error("sync", &self.root.display().to_string(), error))
                    }
                }
            }
            Err(error) => failed("sync of the file system", &self.root.display().to_string(), error),
        }
    }

    /// The pending folders, and those above them whose entries may not be durable.
    fn folders_to_sync<'w>(&self, work: &'w Pending) -> BTreeSet<&'w str> {
        let mut folders = BTreeSet::new();
        for folder in &work.folders {
            let mut folder = folder.as_str();
            while folders.insert(folder) && !self.tracker.is_anchored(folder) {
                folder = parent(folder);
            }
        }
        folders
    }

    /// Syncs files and folders one by one. Returns the folders that are durable themselves
    /// afterwards.
    fn one_by_one(&self, work: &Pending, folders: &BTreeSet<&str>) -> Result<Vec<String>, Stuck> {
        for (name, (_, file)) in &work.files {
            let opened;
            let file = match file {
                Some(file) => file,
                None => match self.folders.open(name.as_str(), OFlags::RDONLY | UNTRUSTED) {
                    Ok(file) => {
                        opened = File::from(file);
                        &opened
                    }
                    // The object was deleted meanwhile: its folder is synced below.
                    Err(error) if absent(&error) => continue,
                    Err(_) => return Err(Stuck::Unopened),
                },
            };
            self.calls
                .sync_file(file)
                .map_err(|error| Stuck::Failed(name.to_string(), error))?;
        }
        let mut anchored = Vec::new();
        // Deeper folders first, so that a folder's entry is synced after its content.
        for folder in folders.iter().rev() {
            if self.sync_folder(folder)? {
                anchored.extend(
                    Some(*folder)
                        .filter(|folder| !folder.is_empty())
                        .map(str::to_owned),
                );
            } else if !folders.contains(parent(folder)) {
                // The folder was durable, and another process has removed it since.
                self.sync_nearest(parent(folder))?;
            }
        }
        Ok(anchored)
    }

    /// Syncs a folder; false if it does not exist.
    fn sync_folder(&self, folder: &str) -> Result<bool, Stuck> {
        match self.folders.open(folder, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(file) => match self.calls.sync_folder(&file.into()) {
                Ok(()) => Ok(true),
                // The file system cannot sync a folder by itself.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported
                    ) =>
                {
                    Err(Stuck::Unopened)
                }
                Err(error) => Err(Stuck::Failed(folder.to_owned(), error)),
            },
            Err(error) if absent(&error) => Ok(false),
            Err(_) => Err(Stuck::Unopened),
        }
    }

    /// Syncs the folder, or the nearest existing one above it.
    fn sync_nearest(&self, folder: &str) -> Result<(), Stuck> {
        let mut folder = folder;
        while !self.sync_folder(folder)? && !folder.is_empty() {
            folder = parent(folder);
        }
        Ok(())
    }
}

/// A folder and all folders above it, without the root.
fn chain(folder: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(folder), |folder| Some(parent(folder))).take_while(|folder| !folder.is_empty())
}

fn failed(action: &'static str, name: &str, error: io::Error) -> Outcome<StorageError> {
    let words = format!("{name}: {error}");
    Outcome::Failed(io_error(action, name, error), words)
}
