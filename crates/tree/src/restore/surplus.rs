//! Existing entries of the target that the backup does not have.
//!
//! They are looked for after the restore, folder by folder, in folders that the user requested as
//! a whole. Nothing is removed
//!
//! - in the folders above these, and in a folder whose names the backup could not read in full;
//! - that an exclude pattern matches, because the user left it out;
//! - whose name is that of an entry of the backup in another spelling, on a file system that folds;
//! - on another mount than the target or the source path above it, because a backup of one file
//!   system has each mount point as an empty folder;
//! - in a spared folder, such as the store;
//! - behind a link: no link is followed, wherever it leads.
//!
//! A folder from which something was removed keeps its time of modification and its mode. Of a
//! folder on the way, its names in the backup are held in memory until the listing leaves it.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use format::listing::{Content, EntryKind, ListingEntry};
use rustix::fs::{AtFlags, fstat, statat};
use rustix::io::Errno;

use super::filter::Filter;
use super::remove::{Remover, id, open_up};
use super::subject::Subject;
use super::{RestoreOptions, leftovers, metadata, part};
use crate::folder::Folder;
use crate::metadata::Facts;
use crate::retry::retry;
use crate::walk::MountOf;
use crate::{Action, FolderId, TreeError, order};

/// Receives the path of each surplus entry, as the backup would have it. What is below a folder is
/// not told, even if something in it stays, and so the folder.
pub type SurplusObserver<'a> = dyn FnMut(&[u8]) + 'a;

/// What was found.
#[derive(Debug, Default)]
pub struct SurplusReport {
    /// How many entries are surplus, with those below surplus folders.
    pub found: u64,
    /// Folders on other mounts, as the backup has their paths: nothing in them was looked at.
    pub mounts: Vec<Vec<u8>>,
    /// What could not be removed.
    pub faults: Vec<TreeError>,
}

/// Finds surplus entries, and removes them if it is said to.
pub struct Surplus<'a> {
    top: Option<Arc<Folder>>,
    filter: Filter,
    options: &'a RestoreOptions,
    levels: Vec<Level>,
    mounts: Vec<Vec<u8>>,
    remover: Remover<'a>,
    observer: &'a mut SurplusObserver<'a>,
}

/// A folder on the way to the entry that was seen last; the first is the target.
struct Level {
    /// The last component of its path; empty for the target.
    name: Vec<u8>,
    /// Its path in the backup.
    path: Vec<u8>,
    /// `None`: there is none in the target.
    folder: Option<Arc<Folder>>,
    /// Its names in the backup. `None`: nothing is removed here.
    names: Option<HashSet<Vec<u8>>>,
    /// `None`: there is no such folder.
    mount: Option<MountOf>,
    /// Whether it is on another mount than what the user requested.
    is_elsewhere: bool,
}

impl<'a> Surplus<'a> {
    /// Begins at a target folder. A target that does not exist has no entries. Once `cancel` is
    /// set, nothing more is removed.
    pub fn new(
        target: &Path,
        options: &'a RestoreOptions,
        removes: bool,
        cancel: &'a AtomicBool,
        observer: &'a mut SurplusObserver<'a>,
    ) -> Self {
        let top = Folder::top(target.as_os_str().as_bytes()).ok();
        let base = options.base.strip_suffix(b"/").unwrap_or(&options.base);
        Self {
            levels: vec![Level {
                name: Vec::new(),
                path: if base.is_empty() {
                    b"/".to_vec()
                } else {
                    base.to_vec()
                },
                mount: top.as_ref().and_then(|top| mount_of(top).ok()),
                is_elsewhere: false,
                folder: top.clone(),
                names: None,
            }],
            top,
            mounts: Vec::new(),
            filter: Filter::new(options),
            options,
            remover: Remover::new(removes, &options.spared, &options.excludes).with_cancel(cancel),
            observer,
        }
    }

    /// Takes the next entry of the listing, in its order: all entries that the restore has seen.
    pub fn see(&mut self, entry: &ListingEntry) {
        if self.top.is_none() || !order::is_clean(&entry.path) {
            return;
        }
        let is_folder = entry.kind == EntryKind::Folder;
        let is_asked = self.filter.wants(&entry.path, is_folder)
            && is_folder
            && !self.filter.is_above_sources(&entry.path)
            && !matches!(entry.state.content, Content::Partial { .. });
        let Some(place) = self.filter.below_base(&entry.path) else {
            return;
        };
        let parts: Vec<&[u8]> = order::components(place).collect();
        let Some((name, parents)) = parts.split_last() else {
            // The folder that becomes the target.
            self.levels[0].names = is_asked.then(HashSet::new);
            return;
        };
        self.align(parents);
        if let Some(names) = self.levels.last_mut().and_then(|level| level.names.as_mut()) {
            names.insert(name.to_vec());
            if matches!(entry.state.content, Content::Partial { .. }) {
                names.insert(part::name_of(name));
            }
        }
        if is_folder {
            self.push(name, is_asked);
        }
    }

    /// Finishes the last folders.
    #[must_use]
    pub fn finish(mut self) -> SurplusReport {
        while let Some(level) = self.levels.pop() {
            self.close(level);
        }
        SurplusReport {
            found: self.remover.found,
            mounts: self.mounts,
            faults: self.remover.faults,
        }
    }

    fn align(&mut self, parents: &[&[u8]]) {
        let known = self.levels[1..].iter().zip(parents);
        let common = known.take_while(|(level, name)| level.name == **name).count();
        while self.levels.len() > common + 1 {
            if let Some(level) = self.levels.pop() {
                self.close(level);
            }
        }
        for name in &parents[common..] {
            self.push(name, false);
        }
    }

    fn push(&mut self, name: &[u8], is_asked: bool) {
        let Some(above) = self.levels.last() else { return };
        let path = order::join(&above.path, name);
        let entered = above.folder.as_ref().map(|above| above.enter(name, false, false));
        let folder = match entered {
            Some(Ok(entered)) => Some(entered),
            // Another entry is in its place, which a restore would have replaced.
            Some(Err(Errno::NOTDIR | Errno::LOOP)) if !self.remover.removes => None,
            Some(Err(errno)) if is_asked && errno != Errno::NOENT => {
                self.remover
                    .faults
                    .push(TreeError::system(&path[..], Action::Open, errno));
                None
            }
            _ => None,
        };
        let mount = folder
            .as_ref()
            .map(|entered| MountOf::of(&entered.descriptor, entered.facts.device));
        let is_elsewhere = !self.may_be_a_mount(&path)
            && (above.is_elsewhere
                || match (mount, above.mount) {
                    (Some(mount), Some(above)) => !mount.is_same(above),
                    _ => false,
                });
        if is_asked && is_elsewhere && !above.is_elsewhere {
            self.mounts.push(path.clone());
        }
        self.levels.push(Level {
            name: name.to_vec(),
            path,
            names: (is_asked && folder.is_some() && !is_elsewhere).then(HashSet::new),
            mount,
            is_elsewhere,
            folder: folder.map(|entered| entered.folder),
        });
    }

    /// Whether a folder may be another mount than the folder above it: the user requested a source
    /// path by its name, wherever it leads, and it may be below any number of mounts.
    fn may_be_a_mount(&self, path: &[u8]) -> bool {
        self.options.sources.iter().any(|source| source == path) || self.filter.is_above_sources(path)
    }

    /// Handles a folder whose names in the backup are all known.
    fn close(&mut self, level: Level) {
        let Level {
            path,
            folder: Some(folder),
            names: Some(kept),
            ..
        } = level
        else {
            return;
        };
        if self.remover.is_cancelled() {
            return;
        }
        if let Err(errno) = self.look_through(&folder, &path, &kept) {
            self.remover
                .faults
                .push(TreeError::system(path, Action::List, errno));
        }
    }

    fn look_through(
        &mut self,
        folder: &Arc<Folder>,
        path: &[u8],
        kept: &HashSet<Vec<u8>>,
    ) -> Result<(), Errno> {
        let mut surplus = Vec::new();
        let names = self.remover.names_in(folder)?;
        let folded = folded(folder, kept, &names)?;
        for name in names {
            let is_spared = || {
                let id = folder
                    .enter(&name, false, false)
                    .map(|entered| id(&entered.facts));
                id.is_ok_and(|id| self.options.spared.contains(&id))
            };
            if !kept.contains(&name)
                && !leftovers::is_ours(&name)
                && !self.options.excludes.excludes(&order::join(path, &name))
                && !is_spared()
                && (folded.is_empty() || id_of(folder, &name).is_ok_and(|id| !folded.contains(&id)))
            {
                surplus.push(name);
            }
        }
        if surplus.is_empty() {
            return Ok(());
        }
        let at = folder.descriptor()?;
        let before = Facts::of(&fstat(&*at)?);
        let removes = self.remover.removes;
        let opened = removes && open_up(&at, &before);
        for name in surplus {
            let path = order::join(path, &name);
            let found = self.remover.found;
            self.remover.remove(folder, &name, &path);
            if self.remover.found > found {
                (self.observer)(&path);
            }
        }
        if removes {
            let subject = Subject::Handle(&at);
            subject.set_times(&metadata::times(before.mtime)).ok();
            if opened {
                subject.set_mode(before.mode).ok();
            }
        }
        Ok(())
    }
}

fn mount_of(folder: &Arc<Folder>) -> Result<MountOf, Errno> {
    let at = folder.descriptor()?;
    let device = Facts::of(&fstat(&*at)?).device;
    Ok(MountOf::of(&at, device))
}

/// The entries that the folder has under names of the backup, and lists under other ones: its file
/// system does not distinguish letters of either case, or two Unicode forms.
fn folded(
    folder: &Arc<Folder>,
    kept: &HashSet<Vec<u8>>,
    names: &[Vec<u8>],
) -> Result<HashSet<FolderId>, Errno> {
    let listed: HashSet<&[u8]> = names.iter().map(|name| &name[..]).collect();
    let mut folded = HashSet::new();
    for name in kept.iter().filter(|name| !listed.contains(&name[..])) {
        match id_of(folder, name) {
            Ok(id) => drop(folded.insert(id)),
            // The folder has no such entry, or can have none.
            Err(Errno::NOENT | Errno::INVAL | Errno::NAMETOOLONG | Errno::ILSEQ) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(folded)
}

fn id_of(folder: &Arc<Folder>, name: &[u8]) -> Result<FolderId, Errno> {
    let at = folder.descriptor()?;
    let stat = retry(|| statat(&*at, name, AtFlags::SYMLINK_NOFOLLOW))?;
    Ok(id(&Facts::of(&stat)))
}
