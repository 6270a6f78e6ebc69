//! The folders on the way to the entry being restored, and giving folders their metadata last.
//!
//! A folder's [`Place`] is shared by the stack, by the places below it and by the files being written in
//! it. When the last of them lets go, nothing more will change in the folder, and its metadata is set:
//! deepest first, without a list of all folders (INV-7).

use std::sync::{Arc, OnceLock};

use format::listing::ListingEntry;
use rustix::fs::{FileType, Mode, mkdirat};
use rustix::io::Errno;

use super::metadata;
use super::pending::Newborn;
use super::subject::Subject;
use super::{Context, Overwrite, look, put};
use crate::folder::{Entered, Folder, retry};
use crate::{Action, TreeError};

/// A folder in the target.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: Arc<Folder>,
    parent: Option<Arc<Place>>,
    /// Whether this restore made it.
    pub(super) is_new: bool,
    /// What it gives to files that are created in it, once one was.
    pub(super) newborn: OnceLock<Newborn>,
    /// To be set when the folder is complete.
    metadata: Option<ListingEntry>,
    context: Arc<Context>,
}

impl Place {
    fn settle(&mut self) {
        let Some(entry) = self.metadata.take() else { return };
        match self.folder.descriptor() {
            Ok(handle) => metadata::apply(&self.context, Subject::Handle(&handle), &entry),
            Err(errno) => self
                .context
                .fault(TreeError::system(entry.path, Action::Open, errno)),
        }
    }
}

impl Drop for Place {
    /// Settles the parents that go with it in a loop: a deep tree must not recurse.
    fn drop(&mut self) {
        self.settle();
        let mut parent = self.parent.take();
        while let Some(mut place) = parent.and_then(Arc::into_inner) {
            place.settle();
            parent = place.parent.take();
        }
    }
}

/// The way from the target to the entry being restored.
#[derive(Debug)]
pub(super) struct Stack {
    top: Arc<Place>,
    levels: Vec<Level>,
    context: Arc<Context>,
}

/// A folder on the way, made when something in it is restored.
#[derive(Debug)]
struct Level {
    name: Vec<u8>,
    /// None where the listing had no entry for it.
    entry: Option<ListingEntry>,
    place: Option<Arc<Place>>,
}

impl Stack {
    pub(super) fn new(top: Arc<Folder>, context: Arc<Context>) -> Self {
        let top = Place {
            folder: top,
            parent: None,
            is_new: false,
            newborn: OnceLock::new(),
            metadata: None,
            context: context.clone(),
        };
        Self {
            top: Arc::new(top),
            levels: Vec::new(),
            context,
        }
    }

    /// Leaves the folders that are not on the way to `parents`, deepest first, and takes up those that
    /// are missing without an entry.
    pub(super) fn align(&mut self, parents: &[Vec<u8>]) {
        let common = self
            .levels
            .iter()
            .zip(parents)
            .take_while(|(level, name)| level.name == **name)
            .count();
        while self.levels.len() > common {
            drop(self.levels.pop());
        }
        for name in &parents[common..] {
            self.levels.push(Level {
                name: name.clone(),
                entry: None,
                place: None,
            });
        }
    }

    /// Takes up a folder with its entry, without making it.
    pub(super) fn announce(&mut self, name: &[u8], entry: &ListingEntry) {
        self.levels.push(Level {
            name: name.to_vec(),
            entry: Some(entry.clone()),
            place: None,
        });
    }

    pub(super) fn clear(&mut self) {
        self.align(&[]);
    }

    /// The innermost folder, made with all above it where they are not yet. `path` is the entry that
    /// needs it.
    pub(super) fn innermost(&mut self, path: &[u8]) -> Result<Arc<Place>, TreeError> {
        let made = self.levels.iter().rposition(|level| level.place.is_some());
        let mut place = made
            .and_then(|n| self.levels[n].place.clone())
            .unwrap_or_else(|| self.top.clone());
        for level in &mut self.levels[made.map_or(0, |n| n + 1)..] {
            let next = Arc::new(make(
                &self.context,
                &place,
                &level.name,
                level.entry.as_ref(),
                path,
            )?);
            level.place = Some(next.clone());
            place = next;
        }
        Ok(place)
    }

    /// A folder that is there already, without making anything or following links.
    pub(super) fn find(&self, names: &[&[u8]]) -> Result<Arc<Folder>, Errno> {
        let known = self
            .levels
            .iter()
            .zip(names)
            .take_while(|(l, name)| l.name == **name && l.place.is_some());
        let mut folder = &self.top.folder;
        let mut depth = 0;
        for (level, _) in known {
            folder = level.place.as_ref().map_or(folder, |place| &place.folder);
            depth += 1;
        }
        let mut folder = folder.clone();
        for name in &names[depth..] {
            folder = folder.enter(name, false, false)?.folder;
        }
        Ok(folder)
    }
}

/// Enters a folder, made if it is not there.
fn make(
    context: &Arc<Context>,
    parent: &Arc<Place>,
    name: &[u8],
    entry: Option<&ListingEntry>,
    path: &[u8],
) -> Result<Place, TreeError> {
    let opening = |errno| match errno {
        Errno::NOTDIR | Errno::LOOP => TreeError::NotAFolder { path: path.to_vec() },
        _ => TreeError::system(path, Action::Open, errno),
    };
    let at = parent.folder.descriptor().map_err(opening)?;
    let there = look(&at, name, path)?;
    let is_there = there.is_some_and(|there| there.kind == FileType::Directory);
    if !is_there {
        let mode = match entry {
            Some(_) => Mode::RWXU,
            None => Mode::RWXU | Mode::RWXG | Mode::RWXO,
        };
        match (&there, entry) {
            (None, _) => {
                retry(|| mkdirat(&*at, name, mode))
                    .map_err(|e| TreeError::system(path, Action::Create, e))?;
            }
            (Some(there), Some(entry)) if gives_way(context.overwrite, entry, there.mtime) => {
                replace(context, &at, name, path)?;
            }
            _ => return Err(TreeError::NotAFolder { path: path.to_vec() }),
        }
    }
    let Entered {
        folder,
        descriptor,
        facts: now,
    } = parent.folder.enter(name, false, false).map_err(opening)?;
    let keep = is_there && matches!(context.overwrite, Overwrite::IfNewer | Overwrite::Never);
    let metadata = if keep { None } else { entry.cloned() };
    if is_there && metadata.is_some() && !context.superuser && now.mode & 0o700 != 0o700 {
        // So that it can be filled; its mode is set again at the end. What refuses this refuses that too.
        Subject::Handle(&descriptor).set_mode(now.mode | 0o700).ok();
    }
    Ok(Place {
        folder,
        parent: Some(parent.clone()),
        is_new: !is_there,
        newborn: OnceLock::new(),
        metadata,
        context: context.clone(),
    })
}

/// Whether something that is no folder gives way to one.
fn gives_way(choice: Overwrite, entry: &ListingEntry, there: types::UnixNanos) -> bool {
    match choice {
        Overwrite::Always | Overwrite::IfChanged => true,
        Overwrite::IfNewer => entry.mtime > there,
        Overwrite::Never => false,
    }
}

/// Puts a new folder in the place of what is not one.
fn replace(context: &Context, at: &std::os::fd::OwnedFd, name: &[u8], path: &[u8]) -> Result<(), TreeError> {
    rustix::fs::unlinkat(at, name, rustix::fs::AtFlags::empty())
        .map_err(|errno| TreeError::system(path, Action::Replace, errno))?;
    put(context, at, name, path, Action::Create, |name| {
        mkdirat(at, name, Mode::RWXU)
    })
}
