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
    /// The folders on the path.
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    name: Vec<u8>,
    /// Whether the folder itself was requested. Then the restore replaces a link in its place.
    is_asked: bool,
    /// `None`: nobody has looked for it yet. `Some(None)`: it is missing.
    folder: Option<Option<Arc<Folder>>>,
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
        let Some(is_wanted) = self.note(entry) else {
            return Fate::NotAsked;
        };
        let is_folder = entry.kind == EntryKind::Folder;
        if !is_wanted || is_folder && self.filter.is_above_sources(&entry.path) {
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

    /// Notes a folder for the entries in it. Returns whether the entry is wanted; `None` if its
    /// path must not be restored.
    fn note(&mut self, entry: &ListingEntry) -> Option<bool> {
        if !order::is_clean(&entry.path) {
            return None;
        }
        let is_folder = entry.kind == EntryKind::Folder;
        let is_wanted = self.filter.wants(&entry.path, is_folder);
        if is_folder
            && self.top.is_some()
            && let Some(place) = self.filter.below_base(&entry.path)
        {
            let parts: Vec<&[u8]> = order::components(place).collect();
            self.align(&parts);
            if let Some(level) = self.levels.last_mut() {
                level.is_asked = is_wanted && !self.filter.is_above_sources(&entry.path);
                level.folder = None;
            }
        }
        Some(is_wanted)
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
        let is_wanted = self.note(entry) == Some(true);
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

    /// Removes the folders that are not among `names`, and adds the missing ones.
    fn align(&mut self, names: &[&[u8]]) {
        let known = self.levels.iter().zip(names);
        let common = known.take_while(|(level, name)| level.name == **name).count();
        self.levels.truncate(common);
        for name in &names[common..] {
            self.levels.push(Level {
                name: name.to_vec(),
                // The restore follows no link in the place of a folder without an entry.
                is_asked: true,
                folder: None,
            });
        }
    }

    fn enter(&mut self, parents: &[&[u8]]) -> Option<Arc<Folder>> {
        self.align(parents);
        let mut above = self.top.clone();
        for level in &mut self.levels {
            // Looking through a link does no harm. The restore does not follow every link.
            let look = || above?.enter(&level.name, !level.is_asked, false).ok();
            let folder = level.folder.take();
            let folder = folder.unwrap_or_else(|| look().map(|entered| entered.folder));
            level.folder = Some(folder.clone());
            above = folder;
        }
        above
    }
}
