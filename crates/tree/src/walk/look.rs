//! Looking at files: what is asked of each is a call or two, and the dear part of a walk.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use format::listing::EntryKind;
use rustix::fs::{AtFlags, FileType, readlinkat, statat};
use rustix::io::Errno;

use super::list::{Files, Lister, Stretch};
use super::mount::{self, Found, Mount};
use super::{WalkEntry, WalkOptions};
use crate::folder::{Folder, retry};
use crate::metadata::{AttributeReader, Attributes, Facts, entry};
use crate::{Accounts, Action, TreeError, order};

/// What all parts of a walk know.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) options: WalkOptions,
    pub(super) accounts: Accounts,
}

/// One step of a walk.
#[derive(Debug)]
pub(super) enum Step {
    /// An entry; whether it is a hard link is not known yet.
    Found(WalkEntry),
    Fault(TreeError),
    /// Before looking: names of files. After: one that is a folder now, whose turn it is to be walked.
    Files(Files),
}

/// A [`Stretch`] whose files were looked at.
#[derive(Debug)]
pub struct Looked {
    pub(super) steps: Vec<Step>,
}

/// Looks at the files of a walk; one for each thread.
#[derive(Debug)]
pub struct Looker {
    record: Record,
}

impl Looker {
    pub(super) fn new(record: Record) -> Self {
        Self { record }
    }

    /// Another record of the same walk.
    pub(super) fn record(&self) -> Record {
        Record::new(Arc::clone(&self.record.common))
    }

    /// A walk of the folder that was found in the place of a file.
    pub(super) fn lister_of(&self, files: Files) -> Lister {
        Lister::within(self.record(), files)
    }

    /// The attributes of an entry that nobody opens.
    pub(super) fn attributes(&mut self, found: &WalkEntry) -> (Attributes, Option<TreeError>) {
        if self.record.common.options.count_only {
            return (Vec::new(), None);
        }
        let path = &found.entry.path;
        match found.folder.descriptor() {
            Err(errno) => {
                let fault = TreeError::reading(&path[..], Action::ReadAttributes, errno);
                (Vec::new(), Some(fault))
            }
            Ok(folder) => self.record.attributes.read(&folder, &found.name, path, false),
        }
    }

    /// Looks at the files of a stretch.
    #[must_use]
    pub fn look(&mut self, stretch: Stretch) -> Looked {
        let mut looked = Vec::with_capacity(stretch.entries);
        for step in stretch.steps {
            match step {
                Step::Files(files) => self.look_at(&files, &mut looked),
                other => looked.push(other),
            }
        }
        Looked { steps: looked }
    }

    fn look_at(&mut self, files: &Files, looked: &mut Vec<Step>) {
        let common = Arc::clone(&self.record.common);
        let options = &common.options;
        let mut descriptor = None;
        for name in files.names() {
            let path = order::join(&files.path, name);
            if options.excludes.excludes(&path) {
                continue;
            }
            let at = match &descriptor {
                Some(at) => at,
                None => match files.folder.descriptor() {
                    Ok(at) => descriptor.insert(at),
                    Err(errno) => {
                        looked.push(Step::Fault(TreeError::reading(path, Action::Open, errno)));
                        continue;
                    }
                },
            };
            let place = Place {
                folder: &files.folder,
                name,
                at,
                follow: false,
            };
            let found = if options.one_file_system {
                files.mount.look(&place)
            } else {
                place.facts().map(Found::Here)
            };
            let facts = match found {
                Ok(Found::Here(facts)) => facts,
                Ok(Found::Elsewhere) => {
                    // A file system that is mounted on a file is left out, and need not be readable.
                    // If it is mounted on a folder, that folder's lister handles it.
                    if mount::is_folder(&place) {
                        looked.push(Step::Files(files.only(name)));
                    }
                    continue;
                }
                Err(errno) => {
                    looked.push(Step::Fault(TreeError::reading(path, Action::ReadMetadata, errno)));
                    continue;
                }
            };
            if facts.kind == FileType::Directory {
                looked.push(Step::Files(files.only(name)));
            } else if options.takes(&facts, files.mount) {
                self.record.add(&place, path, &facts, looked);
            }
        }
    }
}

impl WalkOptions {
    /// Whether the walk takes an entry below a root of this mount; the entry is on that mount and
    /// is no root. A folder with another device is a subvolume, which counts as another file
    /// system. The device of any other entry says nothing: on an overlay it is that of the file's
    /// layer.
    pub(super) fn takes(&self, facts: &Facts, mount: Mount) -> bool {
        let elsewhere =
            self.one_file_system && facts.kind == FileType::Directory && facts.device != mount.device;
        let too_large =
            facts.kind == FileType::RegularFile && self.file_bytes_max.is_some_and(|most| facts.len > most);
        !elsewhere && !too_large
    }
}

/// Where an entry was looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) folder: &'a Arc<Folder>,
    pub(super) name: &'a [u8],
    /// The folder's descriptor.
    pub(super) at: &'a OwnedFd,
    /// Whether a link is taken as what it leads to.
    pub(super) follow: bool,
}

impl Place<'_> {
    pub(super) fn facts(&self) -> Result<Facts, Errno> {
        let flags = if self.follow {
            AtFlags::empty()
        } else {
            AtFlags::SYMLINK_NOFOLLOW
        };
        retry(|| statat(self.at, self.name, flags)).map(|stat| Facts::of(&stat))
    }
}

/// Makes entries.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) common: Arc<Common>,
    attributes: AttributeReader,
}

impl Record {
    pub(super) fn new(common: Arc<Common>) -> Self {
        Self {
            common,
            attributes: AttributeReader::new(),
        }
    }

    /// The folder where another file system is mounted, with the facts that the kernel has without
    /// asking that file system. It may belong to another user, or not answer. `None` if nothing is
    /// shown.
    pub(super) fn mount_point(&self, place: &Place<'_>, path: Vec<u8>) -> Option<Step> {
        let facts = mount::facts(place).filter(|facts| facts.kind == FileType::Directory)?;
        let entry = entry(path, &facts, Vec::new(), &self.common.accounts)?;
        Some(Step::Found(WalkEntry {
            entry,
            links: facts.links,
            len: 0,
            linked: None,
            folder: Arc::clone(place.folder),
            name: place.name.to_vec(),
        }))
    }

    /// Adds the entry, with its attributes and a link's target.
    pub(super) fn add(&mut self, place: &Place<'_>, path: Vec<u8>, facts: &Facts, steps: &mut Vec<Step>) {
        let &Place {
            folder,
            name,
            at,
            follow,
        } = place;
        let mut target = Vec::new();
        if facts.kind == FileType::Symlink {
            match retry(|| readlinkat(at, name, Vec::new())) {
                Ok(found) => target = found.into_bytes(),
                Err(errno) => {
                    steps.push(Step::Fault(TreeError::reading(path, Action::ReadMetadata, errno)));
                    return;
                }
            }
        }
        let Some(mut entry) = entry(path, facts, target, &self.common.accounts) else {
            return;
        };
        let is_file = matches!(entry.kind, EntryKind::File { .. });
        let mut fault = None;
        if !self.common.options.count_only && !is_file {
            (entry.xattrs, fault) = self.attributes.read(at, name, &entry.path, follow);
            entry.state.lacks_attributes = fault.is_some();
        }
        steps.push(Step::Found(WalkEntry {
            entry,
            links: facts.links,
            len: if is_file { facts.len } else { 0 },
            linked: None,
            folder: Arc::clone(folder),
            name: name.to_vec(),
        }));
        steps.extend(fault.map(Step::Fault));
    }
}
