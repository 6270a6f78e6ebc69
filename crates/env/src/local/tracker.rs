//! The names that a handle has put, deleted, read or listed and does not know to be durable.
//!
//! Tracking costs a little memory and no I/O: a caller that never calls a barrier never pays for
//! one. Beyond [`Bounds::pending_max`] names, the tracker drops the names, and the next barrier
//! syncs the whole file system. If that is impossible, there is no such bound: a barrier without
//! the names could never succeed.
//!
//! Invariant: a name leaves the tracker only when a sync that began after the name was noted has
//! succeeded, or when this handle deletes it. After a failed sync, the system may drop the bytes
//! that it could not write, and report the next sync as a success. So a failed sync is final for
//! the handle: all its later barriers fail.
//!
//! Many threads may use it. One barrier runs at a time, and the others wait for it, because it may
//! cover their names.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};

use types::ObjectName;

use super::files::Attributes;

/// The bounds of the tracker's memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// The most files and folders that a barrier syncs one by one. With more, it syncs the file
    /// system.
    pub(super) sync_calls_max: usize,
    /// The most names, and the most folders, that are kept as durable.
    pub(super) names_max: usize,
    /// The most files, and the most folders, that are kept as pending.
    pub(super) pending_max: usize,
}

/// Distinguishes a file from an earlier or later one with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId {
    inode: u64,
    modified: (i64, i64),
}

impl FileId {
    pub(super) fn of(attributes: impl Into<Attributes>) -> Self {
        let attributes = attributes.into();
        Self {
            inode: attributes.inode,
            modified: attributes.modified,
        }
    }
}

/// What the next barrier must cover.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// Objects. Files that this handle has put are kept open, so that it learns of failed writes.
    pub(super) files: HashMap<ObjectName, (FileId, Option<File>)>,
    /// Folders whose entries changed, were listed, or were found missing. `""` is the root.
    pub(super) folders: BTreeSet<String>,
    /// Whether there were too many names to keep.
    pub(super) everything: bool,
    /// Whether a file that this handle has put was closed. If it is opened again, the system may
    /// have forgotten by then that it could not write it. The root reports that.
    pub(super) closed: bool,
}

impl Pending {
    fn is_empty(&self) -> bool {
        !self.everything && self.files.is_empty() && self.folders.is_empty()
    }

    fn note_file(&mut self, name: &ObjectName, id: FileId, file: Option<File>, bounds: Bounds) {
        self.note_folder(parent(name.as_str()), bounds);
        self.note_in_folder(name, id, file, bounds);
    }

    /// Notes a file in a folder that is noted.
    fn note_in_folder(&mut self, name: &ObjectName, id: FileId, file: Option<File>, bounds: Bounds) {
        if self.everything {
            return;
        }
        // An open file stays open, unless another file has its name by now.
        match self.files.get_mut(name) {
            Some((known, kept)) if *known == id => *kept = kept.take().or(file),
            Some(other) => *other = (id, file),
            None => _ = self.files.insert(name.clone(), (id, file)),
        }
        if self.files.len() == bounds.sync_calls_max + 1 {
            // The file system will be synced as a whole, and its root reports failed writes.
            for (_, file) in self.files.values_mut() {
                self.closed |= file.take().is_some();
            }
        } else if self.files.len() > bounds.sync_calls_max
            && let Some((_, file)) = self.files.get_mut(name)
        {
            self.closed |= file.take().is_some();
        }
        self.check_bounds(bounds);
    }

    fn note_folder(&mut self, folder: &str, bounds: Bounds) {
        if !self.everything && !self.folders.contains(folder) {
            self.folders.insert(folder.to_owned());
            self.check_bounds(bounds);
        }
    }

    fn check_bounds(&mut self, bounds: Bounds) {
        if self.files.len().max(self.folders.len()) > bounds.pending_max {
            *self = Self {
                everything: true,
                ..Self::default()
            };
        }
    }

    /// Adds back what a barrier could not cover.
    fn take_back(&mut self, other: Self, bounds: Bounds) {
        if other.everything {
            *self = Self {
                everything: true,
                ..Self::default()
            };
        }
        self.closed |= other.closed;
        for folder in &other.folders {
            self.note_folder(folder, bounds);
        }
        for (name, (id, file)) in other.files {
            self.note_file(&name, id, file, bounds);
        }
    }
}

#[derive(Debug)]
pub(super) struct Tracker {
    bounds: Bounds,
    state: Mutex<State>,
    turn: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    pending: Pending,
    durable: HashMap<ObjectName, FileId>,
    /// Folders that are themselves durable, up to the root.
    anchored: HashSet<String>,
    /// The error of the first sync that failed.
    failed: Option<String>,
}

/// The result of a barrier.
pub(super) enum Outcome<E> {
    /// Everything is durable, and so are these folders themselves.
    Durable { anchored: Vec<String> },
    /// The barrier failed, but a later sync can still succeed.
    NotYet(E),
    /// The system failed to write.
    Failed(E, String),
}

impl Tracker {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            state: Mutex::default(),
            turn: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that this handle has put an object.
    pub(super) fn put(&self, name: &ObjectName, id: FileId, file: File) {
        self.state().pending.note_file(name, id, Some(file), self.bounds);
    }

    /// Notes that this handle has deleted an object.
    pub(super) fn deleted(&self, name: &ObjectName) {
        let mut state = self.state();
        state.durable.remove(name);
        state.pending.files.remove(name);
        state.pending.note_folder(parent(name.as_str()), self.bounds);
    }

    /// Notes that this handle has seen an object.
    pub(super) fn seen(&self, name: &ObjectName, id: FileId) {
        let mut state = self.state();
        if state.durable.get(name) != Some(&id) {
            state.pending.note_file(name, id, None, self.bounds);
        }
    }

    /// Notes that this handle has seen that an object is missing.
    pub(super) fn missed(&self, name: &ObjectName) {
        self.state()
            .pending
            .note_folder(parent(name.as_str()), self.bounds);
    }

    /// Notes that this handle has removed an empty folder. If it is made again, it must be made
    /// durable again.
    pub(super) fn dropped(&self, folder: &str) {
        self.state().anchored.remove(folder);
    }

    /// Notes that this handle has seen these objects, and that there are no others in these
    /// folders.
    pub(super) fn listed<'a>(
        &self,
        objects: impl Iterator<Item = (&'a ObjectName, FileId)>,
        folders: impl Iterator<Item = &'a str>,
    ) {
        let mut state = self.state();
        for folder in folders {
            state.pending.note_folder(folder, self.bounds);
        }
        for (name, id) in objects {
            if state.durable.get(name) != Some(&id) {
                state.pending.note_in_folder(name, id, None, self.bounds);
            }
        }
    }

    /// Whether the folder itself is known to be durable.
    pub(super) fn is_anchored(&self, folder: &str) -> bool {
        folder.is_empty() || self.state().anchored.contains(folder)
    }

    /// Covers the names that were noted before the call. `sync` gets them, and returns the result.
    /// `again` makes the error of a handle that has failed before.
    pub(super) fn barrier<E>(
        &self,
        sync: impl FnOnce(&Pending) -> Outcome<E>,
        again: impl FnOnce(&str) -> E,
    ) -> Result<(), E> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let work = {
            let mut state = self.state();
            if let Some(failure) = &state.failed {
                return Err(again(failure));
            }
            std::mem::take(&mut state.pending)
        };
        if work.is_empty() {
            return Ok(());
        }
        let outcome = sync(&work);
        let mut state = self.state();
        match outcome {
            Outcome::Durable { anchored } => {
                state.remember(work, anchored, self.bounds);
                Ok(())
            }
            Outcome::NotYet(error) => {
                state.pending.take_back(work, self.bounds);
                Err(error)
            }
            Outcome::Failed(error, failure) => {
                state.pending.take_back(work, self.bounds);
                state.failed = Some(failure);
                Err(error)
            }
        }
    }

    #[cfg(test)]
    pub(super) fn pending_names(&self) -> (usize, bool) {
        let state = self.state();
        (state.pending.files.len(), state.pending.everything)
    }

    #[cfg(test)]
    pub(super) fn open_files(&self) -> usize {
        self.state()
            .pending
            .files
            .values()
            .filter(|(_, file)| file.is_some())
            .count()
    }
}

impl State {
    /// Remembers durable names. If there are too many, it drops all. A dropped name is synced once
    /// more.
    fn remember(&mut self, work: Pending, anchored: Vec<String>, bounds: Bounds) {
        if self.durable.len() + work.files.len() > bounds.names_max {
            self.durable.clear();
        }
        self.durable
            .extend(work.files.into_iter().map(|(name, (id, _))| (name, id)));
        if self.anchored.len() + anchored.len() > bounds.names_max {
            self.anchored.clear();
        }
        self.anchored.extend(anchored);
    }
}

/// The folder of a name; `""` at the top.
pub(super) fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}
