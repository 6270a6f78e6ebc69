//! Examines files. Each needs one or two calls, and this is the expensive part of a walk.

use std::sync::Arc;

use rustix::fs::FileType;

use super::WalkOptions;
use super::ignored;
use super::list::Lister;
use super::mount::{self, Found, Mount};
use super::place::Place;
use super::record::Record;
use super::step::{Files, Step, Stretch};
use crate::metadata::{Attributes, Facts};
use crate::walk_entry::WalkEntry;
use crate::{Action, TreeError, order};

/// A [`Stretch`] whose files were examined.
#[derive(Debug)]
pub struct Looked {
    pub(super) steps: Vec<Step>,
}

/// Examines the files of a walk; one for each thread.
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

    /// The attributes of an entry that is not opened.
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

    /// Examines the files of a stretch.
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
                    // If a file system is mounted on a file, the walk leaves it out, and it need
                    // not be readable. If it is mounted on a folder, that folder's lister handles
                    // it.
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
            } else if !ignored::leave_out(files.ignored.as_ref(), &path, false)
                && options.takes(&facts, files.mount)
            {
                self.record.add(&place, path, &facts, looked);
            }
        }
    }
}

impl WalkOptions {
    /// Whether the walk takes an entry below a root of this mount. The entry is on that mount and
    /// is no root. A folder with another device is a subvolume, which counts as another file
    /// system. The device of any other entry shows nothing: on an overlay it is the device of the
    /// file's layer.
    pub(super) fn takes(&self, facts: &Facts, mount: Mount) -> bool {
        let elsewhere =
            self.one_file_system && facts.kind == FileType::Directory && facts.device != mount.device;
        let too_large =
            facts.kind == FileType::RegularFile && self.file_bytes_max.is_some_and(|most| facts.len > most);
        !elsewhere && !too_large
    }
}
