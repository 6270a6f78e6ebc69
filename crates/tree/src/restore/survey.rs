//! What of a backup is in the target already and stays: looked up before anything is restored, so
//! that its content need not be read.
//!
//! Nothing is changed, and what is found is not relied on: whoever restores looks again.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use format::listing::{EntryKind, ListingEntry};

use super::filter::Filter;
use super::{Overwrite, RestoreOptions, keeps, look};
use crate::folder::Folder;
use crate::order;

/// Asked for the entries of a listing, one after another.
#[derive(Debug)]
pub struct Survey {
    /// None where there is no target yet.
    top: Option<Arc<Folder>>,
    overwrite: Overwrite,
    filter: Filter,
    /// The folders on the way; none from the first that is not there.
    levels: Vec<(Vec<u8>, Option<Arc<Folder>>)>,
}

impl Survey {
    /// Begins at a target folder.
    #[must_use]
    pub fn new(target: &Path, options: &RestoreOptions) -> Self {
        let may_stay = options.overwrite != Overwrite::Always;
        Self {
            top: may_stay
                .then(|| Folder::top(target.as_os_str().as_bytes()).ok())
                .flatten(),
            overwrite: options.overwrite,
            filter: Filter::new(options),
            levels: Vec::new(),
        }
    }

    /// Whether the entry is a file that is asked for, and what stands under its name stays.
    pub fn stays(&mut self, entry: &ListingEntry) -> bool {
        if self.top.is_none() || !order::is_clean(&entry.path) {
            return false;
        }
        let is_wanted = self.filter.wants(&entry.path, entry.kind == EntryKind::Folder);
        if !is_wanted || !matches!(entry.kind, EntryKind::File { .. }) {
            return false;
        }
        let Some(place) = self.filter.below_base(&entry.path) else {
            return false;
        };
        let parts: Vec<&[u8]> = order::components(place).collect();
        let Some((name, parents)) = parts.split_last() else {
            return false;
        };
        let Some(folder) = self.enter(parents) else {
            return false;
        };
        let Ok(at) = folder.descriptor() else { return false };
        let there = look(&at, name, &entry.path).ok().flatten();
        there.is_some_and(|there| keeps(self.overwrite, &there, entry, &at, name).is_some())
    }

    fn enter(&mut self, parents: &[&[u8]]) -> Option<Arc<Folder>> {
        let known = self.levels.iter().zip(parents);
        let common = known.take_while(|((level, _), name)| level == *name).count();
        self.levels.truncate(common);
        for name in &parents[common..] {
            let above = match self.levels.last() {
                Some((_, folder)) => folder.as_ref(),
                None => self.top.as_ref(),
            };
            // Looking over a link harms nobody; restoring does not follow all of them.
            let folder = above.and_then(|above| above.enter(name, true, false).ok());
            self.levels
                .push((name.to_vec(), folder.map(|entered| entered.folder)));
        }
        match self.levels.last() {
            Some((_, folder)) => folder.clone(),
            None => self.top.clone(),
        }
    }
}
