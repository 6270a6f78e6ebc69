//! Finds the files of a backup whose content a restore needs: the requested ones, except those that
//! exist in the target and stay. This happens before the restore, so that it reads no other
//! content.
//!
//! The survey changes nothing. The restore examines existing entries again, and does not rely on
//! the survey.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use format::listing::{Content, EntryKind, ListingEntry};
use rustix::fs::FileType;

use super::filter::Filter;
use super::{Overwrite, RestoreOptions, keeps, look};
use crate::folder::Folder;
use crate::order;

/// Looks up the entries of a listing, one after another.
#[derive(Debug)]
pub struct Survey {
    /// `None` if there is no target yet.
    top: Option<Arc<Folder>>,
    overwrite: Overwrite,
    filter: Filter,
    /// The folders on the path; `None` from the first missing one on.
    levels: Vec<(Vec<u8>, Option<Arc<Folder>>)>,
}

/// What a restore would do with an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Nothing: it is not requested.
    NotAsked,
    /// Make it.
    Make,
    /// Make it in the place of an existing entry.
    Replace,
    /// Leave the existing entry, or fill the existing folder.
    Leave,
}

impl Survey {
    /// Begins at a target folder, to ask for fates.
    #[must_use]
    pub fn of_fates(target: &Path, options: &RestoreOptions) -> Self {
        Self {
            top: Folder::top(target.as_os_str().as_bytes()).ok(),
            ..Self::new(target, options)
        }
    }

    /// What the restore would do with an entry. Call it in listing order.
    pub fn fate(&mut self, entry: &ListingEntry) -> Fate {
        let is_folder = entry.kind == EntryKind::Folder;
        if !order::is_clean(&entry.path) || !self.filter.wants(&entry.path, is_folder) {
            return Fate::NotAsked;
        }
        if is_folder && self.filter.is_above_sources(&entry.path) {
            return Fate::NotAsked;
        }
        let Some(place) = self.filter.below_base(&entry.path) else {
            return Fate::NotAsked;
        };
        let parts: Vec<&[u8]> = order::components(place).collect();
        let Some((name, parents)) = parts.split_last() else {
            return Fate::NotAsked;
        };
        if self.top.is_none() {
            return Fate::Make;
        }
        let there = self.enter(parents).and_then(|folder| {
            let at = folder.descriptor().ok()?;
            let there = look(&at, name, &entry.path).ok().flatten()?;
            let is_part = matches!(entry.state.content, Content::Partial { .. });
            let stays = if is_folder {
                there.kind == FileType::Directory
            } else {
                !is_part && keeps(self.overwrite, &there, entry, &at, name).is_some()
            };
            Some(stays)
        });
        match there {
            None => Fate::Make,
            Some(true) => Fate::Leave,
            Some(false) => Fate::Replace,
        }
    }

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

    /// Whether the restore needs the entry's content. Call it in listing order.
    pub fn needs_content(&mut self, entry: &ListingEntry) -> bool {
        if !order::is_clean(&entry.path) {
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
        // A part of a file has another name than the existing file.
        let is_part = matches!(entry.state.content, Content::Partial { .. });
        is_part || !self.stays(entry, name, parents)
    }

    /// Whether the existing entry of a file's name stays.
    fn stays(&mut self, entry: &ListingEntry, name: &[u8], parents: &[&[u8]]) -> bool {
        if self.top.is_none() {
            return false;
        }
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
            // Looking through a link does no harm. The restore does not follow every link.
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
