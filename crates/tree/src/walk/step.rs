//! Steps of a walk: entries, and names of files to examine.

use std::sync::Arc;

use super::ignored::Ignored;
use super::mount::Mount;
use crate::TreeError;
use crate::folder::Folder;
use crate::walk_entry::WalkEntry;

/// One step of a walk.
#[derive(Debug)]
pub(super) enum Step {
    /// An entry; whether it is a hard link is not known yet.
    Found(WalkEntry),
    Fault(TreeError),
    /// Before the look: names of files. Afterwards: a name that is now a folder, which is walked
    /// next.
    Files(Files),
}

/// A part of a walk whose files are not examined yet.
#[derive(Debug)]
pub struct Stretch {
    pub(super) steps: Vec<Step>,
    /// The number of its entries and names.
    pub(super) entries: usize,
}

/// Consecutive names in a folder that are no folders, by the folder's listing.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) folder: Arc<Folder>,
    pub(super) path: Arc<[u8]>,
    /// The mount of the root above.
    pub(super) mount: Mount,
    /// The ignore files that count here.
    pub(super) ignored: Option<Arc<Ignored>>,
    /// The names, one after another.
    pub(super) bytes: Vec<u8>,
    /// The end of each name.
    pub(super) ends: Vec<usize>,
}

impl Files {
    pub(super) fn push(&mut self, name: &[u8]) {
        self.bytes.extend_from_slice(name);
        self.ends.push(self.bytes.len());
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.bytes[start..end])
    }

    /// The same place with one of its names.
    pub(super) fn only(&self, name: &[u8]) -> Self {
        Self {
            folder: Arc::clone(&self.folder),
            path: Arc::clone(&self.path),
            mount: self.mount,
            ignored: self.ignored.clone(),
            bytes: name.to_vec(),
            ends: vec![name.len()],
        }
    }
}
