//! The folders above the entry that is restored now. They get their metadata last.
//!
//! The stack, the places below a folder and the files being written in it share the folder's
//! [`Place`]. When the last of them drops it, nothing more will change in the folder, and its
//! metadata is set: deepest first, without a list of all folders (INV-7).
//!
//! A missing folder above the requested paths is made with its metadata. An existing one keeps its
//! metadata, and its time of modification even if names are added to it. A link in its place is the
//! user's own. The restore follows it if it belongs to the superuser or to the restoring user, and
//! leads to a folder below the target. Another user's link could lead the restore anywhere.
//!
//! A folder has the mode [`UNFINISHED`] while the restore fills it. By that mode the next restore
//! recognises a folder that a killed one left, and sets its metadata, even if existing entries are
//! to stay. A restore that ends early leaves its incomplete folders in the same way.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use format::listing::ListingEntry;
use rustix::fs::{AtFlags, FileType, Mode, mkdirat, unlinkat};
use rustix::io::Errno;
use types::FileTime;

use super::follow::follow;
use super::newborn::Newborn;
use super::seen::{Seen, names_of};
use super::subject::Subject;
use super::{Context, Overwrite, flags, leftovers, look, metadata, same_name};
use crate::folder::{Entered, Folder};
use crate::metadata::Facts;
use crate::retry::retry;
use crate::{Action, TreeError};

/// A mode that only the owner may use, and that nobody gives to a folder.
const UNFINISHED: u32 = 0o1700;
/// A folder takes the set-group-id bit over from the folder that it is made in.
const INHERITED: u32 = 0o2000;

/// A folder in the target.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) folder: Arc<Folder>,
    parent: Option<Arc<Place>>,
    /// Whether this restore has made all entries of the folder. Either it made the folder, or it
    /// has filled it before under another name that is the same here.
    is_own: bool,
    /// Names that this restore has handled, if other programs made entries in the folder too.
    seen: Mutex<Seen>,
    /// The time of modification to keep, even if names are added to the folder.
    keeps_time: Option<FileTime>,
    /// Whether a name was added to the folder.
    is_changed: AtomicBool,
    /// The owner, group and ACL of new files in it, known after the first one.
    pub(super) newborn: OnceLock<Newborn>,
    /// The metadata to set when the folder is complete.
    metadata: Option<ListingEntry>,
    /// The mode that the folder had, if the restore changed it to fill the folder.
    mode_before: Option<u32>,
    context: Arc<Context>,
}

impl Place {
    /// Whether only this restore can have taken a name in the folder.
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        // Each name is recorded in one step, so after a panic elsewhere the value is still valid.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a name was added to the folder.
    pub(super) fn change(&self) {
        self.is_changed.store(true, Ordering::Relaxed);
    }

    /// The error about a taken name in a folder that this restore made.
    pub(super) fn same_name(&self, at: &OwnedFd, name: &[u8], path: &[u8]) -> TreeError {
        let there = look(at, name, path).ok().flatten();
        let names = there.map(|there| names_of(at, there.inode)).unwrap_or_default();
        let other = names.into_iter().find(|found| found != name);
        same_name(path, other.as_deref().unwrap_or(name))
    }

    fn settle(&mut self) {
        if let (Some(time), true) = (self.keeps_time.take(), self.is_changed.load(Ordering::Relaxed))
            && let Ok(handle) = self.folder.descriptor()
        {
            // The user did not request this folder, so a failure here is no fault.
            Subject::Handle(&handle).set_times(&metadata::times(time)).ok();
        }
        let Some(entry) = self.metadata.take() else { return };
        if self.context.is_broken_off() {
            if let (Some(mode), Ok(handle)) = (self.mode_before, self.folder.descriptor()) {
                // The restore reports why it ended. A refusal here adds nothing.
                Subject::Handle(&handle).set_mode(mode).ok();
            }
            return;
        }
        match self.folder.descriptor() {
            Ok(handle) => flags::apply_beneath(&self.context, &handle, &entry),
            Err(errno) => self
                .context
                .fault(TreeError::system(entry.path, Action::Open, errno)),
        }
    }
}

impl Drop for Place {
    /// Drops parents in a loop, because a deep tree must not recurse.
    fn drop(&mut self) {
        self.settle();
        let mut parent = self.parent.take();
        while let Some(mut place) = parent.and_then(Arc::into_inner) {
            place.settle();
            parent = place.parent.take();
        }
    }
}

/// The folders from the target down to the entry that is restored now.
#[derive(Debug)]
pub(super) struct Stack {
    top: Arc<Place>,
    levels: Vec<Level>,
    context: Arc<Context>,
}

/// A folder on the stack. It is made when an entry in it is restored.
#[derive(Debug)]
struct Level {
    name: Vec<u8>,
    /// `None`: the listing had no entry for it.
    entry: Option<ListingEntry>,
    /// Whether the user requested the folder itself; otherwise it is above the requested paths.
    is_asked: bool,
    place: Option<Arc<Place>>,
}

impl Stack {
    pub(super) fn new(top: Arc<Folder>, is_new: bool, context: Arc<Context>) -> Self {
        if !is_new && let Ok(at) = top.descriptor() {
            leftovers::remove(&at);
        }
        let now = top.descriptor().and_then(|at| rustix::fs::fstat(&*at));
        let keeps_time = now.ok().filter(|_| !is_new).map(|stat| Facts::of(&stat).mtime);
        let top = Place {
            folder: top,
            parent: None,
            is_own: is_new,
            seen: Mutex::default(),
            keeps_time,
            is_changed: AtomicBool::new(false),
            newborn: OnceLock::new(),
            metadata: None,
            mode_before: None,
            context: context.clone(),
        };
        Self {
            top: Arc::new(top),
            levels: Vec::new(),
            context,
        }
    }

    /// Removes the folders from the stack that are not among `parents`, deepest first. Adds the
    /// missing ones, without an entry.
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
                // Nothing shows that the folder is above the requested paths, so the restore
                // follows no link in its place.
                is_asked: true,
                place: None,
            });
        }
    }

    /// Adds a folder with its entry, without making it.
    pub(super) fn announce(&mut self, name: &[u8], entry: &ListingEntry, is_asked: bool) {
        self.levels.push(Level {
            name: name.to_vec(),
            entry: Some(entry.clone()),
            is_asked,
            place: None,
        });
    }

    pub(super) fn clear(&mut self) {
        self.align(&[]);
    }

    /// The innermost folder. Makes it, and all folders above it, if they do not exist yet. `path`
    /// is the entry that needs it.
    pub(super) fn innermost(&mut self, path: &[u8]) -> Result<Arc<Place>, TreeError> {
        let made = self.levels.iter().rposition(|level| level.place.is_some());
        let mut place = made
            .and_then(|n| self.levels[n].place.clone())
            .unwrap_or_else(|| self.top.clone());
        for level in &mut self.levels[made.map_or(0, |n| n + 1)..] {
            let next = Arc::new(make(&self.context, &place, level, path)?);
            level.place = Some(next.clone());
            place = next;
        }
        Ok(place)
    }

    /// An existing folder, without making anything or following links.
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

/// Enters a folder. Makes it if it does not exist.
fn make(context: &Arc<Context>, parent: &Arc<Place>, level: &Level, path: &[u8]) -> Result<Place, TreeError> {
    let (name, entry) = (&level.name[..], level.entry.as_ref());
    let opening = |errno| match errno {
        Errno::NOTDIR | Errno::LOOP => TreeError::NotAFolder { path: path.to_vec() },
        _ => TreeError::system(path, Action::Open, errno),
    };
    let at = parent.folder.descriptor().map_err(opening)?;
    let there = look(&at, name, path)?;
    let mut is_restored = false;
    let own_path = entry.map_or(path, |entry| &entry.path);
    let dealt_with = match &there {
        Some(_) if parent.is_own => Some(parent.same_name(&at, name, own_path)),
        Some(there) => {
            let mut seen = parent.seen();
            let other = seen.same(&at, there, name);
            is_restored = seen.has(there);
            seen.note((there.device, there.inode), name);
            other.map(|other| same_name(own_path, &other))
        }
        None => None,
    };
    let is_folder = there.is_some_and(|there| there.kind == FileType::Directory);
    let is_link = there.is_some_and(|there| there.kind == FileType::Symlink);
    let is_merged = match dealt_with {
        Some(TreeError::SameName { path: own, other }) if !is_folder && own == other => {
            return Err(TreeError::NotAFolder { path: path.to_vec() });
        }
        Some(fault) if !is_folder => return Err(fault),
        // Its entries are put into the other folder. Of names that are the same, the first ones
        // stay.
        Some(fault) => {
            context.fault(fault);
            true
        }
        None => false,
    };
    if is_link && is_restored {
        return Err(TreeError::NotAFolder { path: path.to_vec() });
    }
    let entered = if is_link && !level.is_asked {
        let followed = follow(context.top.as_deref(), &at, name, path)?;
        parent.folder.enter_by(name, followed).map_err(opening)?
    } else {
        if !is_folder {
            parent.change();
            clear_and_make(context, &at, level, there.as_ref(), path)?;
        }
        parent.folder.enter(name, false, false).map_err(opening)?
    };
    let is_there = is_folder || is_link && !level.is_asked;
    let Entered {
        folder,
        descriptor,
        facts: now,
    } = entered;
    if is_there {
        leftovers::remove(&descriptor);
    }
    let mode = now.mode & !INHERITED;
    let is_unfinished = mode == UNFINISHED && now.uid == rustix::process::geteuid().as_raw();
    let is_kept = is_there
        && !is_unfinished
        && (!level.is_asked || matches!(context.overwrite, Overwrite::IfNewer | Overwrite::Never));
    let metadata = if is_kept || is_merged {
        None
    } else {
        entry.cloned()
    };
    let is_closed = is_there && metadata.is_some() && !context.superuser && now.mode & 0o700 != 0o700;
    // The restore must be able to fill the folder, and sets its mode again at the end. If the
    // system refuses this, it also refuses that.
    let is_opened = is_closed && Subject::Handle(&descriptor).set_mode(now.mode | 0o700).is_ok();
    Ok(Place {
        folder,
        parent: Some(parent.clone()),
        is_own: !is_there || is_merged,
        seen: Mutex::default(),
        is_changed: AtomicBool::new(false),
        keeps_time: (is_there && !level.is_asked && !is_unfinished).then_some(now.mtime),
        newborn: OnceLock::new(),
        metadata,
        mode_before: is_opened.then_some(now.mode),
        context: context.clone(),
    })
}

/// Makes a folder. Replaces an existing entry that is no folder, if permitted.
fn clear_and_make(
    context: &Context,
    at: &OwnedFd,
    level: &Level,
    there: Option<&Facts>,
    path: &[u8],
) -> Result<(), TreeError> {
    let mode = match level.entry {
        Some(_) => Mode::from_raw_mode(UNFINISHED),
        None => Mode::RWXU | Mode::RWXG | Mode::RWXO,
    };
    match (there, &level.entry) {
        (None, _) => {}
        (Some(there), Some(entry)) if level.is_asked && gives_way(context.overwrite, entry, there.mtime) => {
            unlinkat(at, &level.name[..], AtFlags::empty())
                .map_err(|errno| TreeError::system(path, Action::Replace, errno))?;
        }
        _ => return Err(TreeError::NotAFolder { path: path.to_vec() }),
    }
    retry(|| mkdirat(at, &level.name[..], mode)).map_err(|e| TreeError::system(path, Action::Create, e))
}

/// Whether an existing entry that is no folder is replaced by a folder.
fn gives_way(choice: Overwrite, entry: &ListingEntry, there: FileTime) -> bool {
    match choice {
        Overwrite::Always | Overwrite::IfChanged => true,
        Overwrite::IfNewer => entry.mtime > there,
        Overwrite::Never => false,
    }
}
