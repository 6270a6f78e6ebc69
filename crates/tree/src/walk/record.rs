//! Makes entries from the facts that a walk found.

use std::sync::Arc;

use format::listing::EntryKind;
use rustix::fs::{FileType, readlinkat};

use super::WalkOptions;
use super::mount;
use super::place::Place;
use super::step::Step;
use crate::metadata::{AttributeReader, Facts, entry};
use crate::retry::retry;
use crate::walk_entry::WalkEntry;
use crate::{Accounts, Action, TreeError};

/// No known file system that hides lengths has longer files. A file without an end, such as a
/// stream of events, would fill the store.
const UNKNOWN_LEN_MAX: u64 = 16 << 30;

/// State that all parts of a walk share.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) options: WalkOptions,
    pub(super) accounts: Accounts,
}

impl Common {
    fn unknown_len_max(&self) -> u64 {
        self.options.unknown_len_max.unwrap_or(UNKNOWN_LEN_MAX)
    }
}

/// Makes entries.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) common: Arc<Common>,
    pub(super) attributes: AttributeReader,
}

impl Record {
    pub(super) fn new(common: Arc<Common>) -> Self {
        Self {
            common,
            attributes: AttributeReader::new(),
        }
    }

    /// The folder where another file system is mounted, with the facts that the kernel has without
    /// a request to that file system. That one may belong to another user, or not answer. `None`:
    /// the kernel shows nothing.
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
            unknown_len_max: self.common.unknown_len_max(),
        }))
    }

    /// Adds the entry, with its attributes and the target of a link.
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
            unknown_len_max: self.common.unknown_len_max(),
        }));
        steps.extend(fault.map(Step::Fault));
    }
}
