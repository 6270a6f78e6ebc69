//! Entries that could not be read, as the backup before has them.
//!
//! If a backup cannot read a file, an earlier version stays in it, marked as older, until a backup
//! reads the file again or the file is gone. A part of a file never takes its place. If a backup
//! cannot read a folder, everything stays that the backup before has below it.
//!
//! Names of one file become names of one file again if all of them are kept. For that this module
//! gathers the first names of all files with several names, once, when something cannot be read: as
//! many as the walk keeps, too (INV-7).

use std::collections::HashMap;
use std::sync::Arc;

use format::listing::{Content, EntryKind, EntryState, ListingEntry};
use recipe::{StreamBytes, TreeRoot};
use tree::{Listed, ListingReader, TreeError};
use types::ByteRange;

use crate::directory::ParentTree;
use crate::door::Door;
use crate::piece::CopyRange;
use crate::sound::Soundness;

/// The last version of a file that could be read.
pub(crate) struct Version {
    /// Its entry, marked.
    pub(crate) entry: ListingEntry,
    /// Its bytes.
    pub(crate) content: CopyRange,
}

/// What the backup before has.
pub(crate) struct Kept<'a> {
    door: &'a Door,
    listing: TreeRoot,
    content: Arc<TreeRoot>,
    sound: Soundness<'a>,
    /// Files that have several names, by the first of them; none before they were gathered.
    first_names: Option<HashMap<Vec<u8>, Listed>>,
    /// Where the content of such a file is in this backup, by its first name in the one before.
    instead: HashMap<Vec<u8>, Vec<u8>>,
}

impl<'a> Kept<'a> {
    pub(crate) fn new(door: &'a Door, parent: &ParentTree) -> Self {
        Self {
            door,
            listing: parent.listing,
            content: Arc::new(parent.content),
            sound: Soundness::new(door, parent.content, parent.is_suspect),
            first_names: None,
            instead: HashMap::new(),
        }
    }

    /// The version of a file that the backup before has, if it has one whose bytes are not known to
    /// be bad.
    pub(crate) fn version(&mut self, before: &Listed) -> Option<Version> {
        let path = before.entry.path.clone();
        let first = match &before.entry.kind {
            EntryKind::File { .. } => before.clone(),
            EntryKind::HardLink { target } => self.first_names().get(target)?.clone(),
            _ => return None,
        };
        let EntryKind::File { len, .. } = first.entry.kind else {
            return None;
        };
        let entry = ListingEntry {
            path,
            state: older(first.entry.state),
            ..first.entry
        };
        let range = ByteRange {
            offset: first.content_offset,
            len,
        };
        self.sound.is_sound(range).then(|| Version {
            entry,
            content: CopyRange {
                root: Arc::clone(&self.content),
                offset: range.offset,
                len: range.len,
            },
        })
    }

    /// An entry that the walk did not meet, as it stays. A file, or the first kept name of one,
    /// comes with its bytes.
    pub(crate) fn stays(&mut self, before: &Listed) -> Option<(ListingEntry, Option<CopyRange>)> {
        let path = &before.entry.path;
        let first = match &before.entry.kind {
            EntryKind::File { .. } => path,
            EntryKind::HardLink { target } => target,
            _ => {
                let state = older(before.entry.state);
                return Some((
                    ListingEntry {
                        state,
                        ..before.entry.clone()
                    },
                    None,
                ));
            }
        };
        if let Some(target) = self.instead.get(first) {
            let entry = ListingEntry {
                kind: EntryKind::HardLink {
                    target: target.clone(),
                },
                state: older(before.entry.state),
                ..before.entry.clone()
            };
            return Some((entry, None));
        }
        let has_names = self.first_names().contains_key(first);
        let version = self.version(before)?;
        if has_names {
            self.instead.insert(first.clone(), path.clone());
        }
        Some((version.entry, Some(version.content)))
    }

    fn first_names(&mut self) -> &HashMap<Vec<u8>, Listed> {
        let (door, listing) = (self.door, &self.listing);
        // The backup keeps nothing of an unreadable listing. Its comparison with that listing
        // reports the fault.
        self.first_names
            .get_or_insert_with(|| gather(door, listing).unwrap_or_default())
    }
}

/// Finds the files that other entries are names of: which they are, only the later ones tell.
fn gather(door: &Door, listing: &TreeRoot) -> Result<HashMap<Vec<u8>, Listed>, TreeError> {
    let mut first_names: HashMap<Vec<u8>, Option<Listed>> = HashMap::new();
    for_each(door, listing, |listed| {
        if let EntryKind::HardLink { target } = listed.entry.kind {
            first_names.insert(target, None);
        }
    })?;
    for_each(door, listing, |listed| {
        if let Some(first) = first_names.get_mut(&listed.entry.path) {
            *first = Some(listed);
        }
    })?;
    let found = first_names.into_iter();
    Ok(found.filter_map(|(path, first)| Some((path, first?))).collect())
}

fn for_each(door: &Door, listing: &TreeRoot, mut each: impl FnMut(Listed)) -> Result<(), TreeError> {
    let Ok(bytes) = StreamBytes::new(door.nodes(), listing, 0, listing.len) else {
        return Ok(());
    };
    let mut reader = ListingReader::new(bytes);
    while let Some(listed) = reader.next_entry()? {
        each(listed);
    }
    Ok(())
}

/// How far an entry of the backup before is what was there, in this one.
fn older(state: EntryState) -> EntryState {
    let content = match state.content {
        Content::Partial { of } => Content::Partial { of },
        Content::Whole | Content::Changed | Content::Older { .. } => Content::Older { lead: 0 },
    };
    EntryState { content, ..state }
}
