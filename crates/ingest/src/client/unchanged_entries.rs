//! Keeps entries that could not be read, as the previous backup has them.
//!
//! If a backup cannot read a file, an earlier version stays in it, marked as older, until a backup
//! reads the file again or the file is gone. A part of a file never takes its place. If a backup
//! cannot read a folder, it keeps everything that the previous backup has below it.
//!
//! If all names of one inode are kept, they become names of one inode again. For this purpose the
//! module gathers the first names of all inodes with several names, once, when an entry cannot be
//! read. They are as many as the walk keeps, too (INV-7).

use std::collections::HashMap;
use std::sync::Arc;

use format::listing::{Content, EntryKind, EntryState, ListingEntry};
use recipe::{StreamBytes, TreeRoot};
use tree::{Listed, ListingReader, TreeError};
use types::ByteRange;

use crate::backup_session::BackupSession;
use crate::client::parent_check::ParentCheck;
use crate::client::piece::CopyRange;
use crate::parent::ParentTree;

/// The last version of a file that could be read.
pub(crate) struct Version {
    /// Its entry, marked.
    pub(crate) entry: ListingEntry,
    /// Its bytes.
    pub(crate) content: CopyRange,
}

/// The entries of the previous backup.
pub(crate) struct UnchangedEntries<'a> {
    session: &'a dyn BackupSession,
    listing: TreeRoot,
    content: Arc<TreeRoot>,
    sound: ParentCheck<'a>,
    /// Inodes with several names, by their first name. `None`: they were not gathered yet.
    first_names: Option<HashMap<Vec<u8>, Listed>>,
    /// The first name of such an inode in this backup, by its first name in the previous one.
    instead: HashMap<Vec<u8>, Vec<u8>>,
}

impl<'a> UnchangedEntries<'a> {
    pub(crate) fn new(session: &'a dyn BackupSession, parent: &ParentTree) -> Self {
        Self {
            session,
            listing: parent.listing,
            content: Arc::new(parent.content),
            sound: ParentCheck::new(session, parent.content),
            first_names: None,
            instead: HashMap::new(),
        }
    }

    /// The previous backup's version of a file, if it has one without known bad bytes.
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

    /// The form in which an entry stays that the walk did not meet. The first kept name of an inode
    /// gets its content; a file comes with its bytes.
    pub(crate) fn stays(&mut self, before: &Listed) -> Option<(ListingEntry, Option<CopyRange>)> {
        let path = &before.entry.path;
        let as_it_was = |entry: &ListingEntry| ListingEntry {
            path: path.clone(),
            state: older(entry.state),
            ..entry.clone()
        };
        let first = match &before.entry.kind {
            EntryKind::Folder => return Some((as_it_was(&before.entry), None)),
            EntryKind::HardLink { target } => target,
            _ => path,
        };
        if let Some(target) = self.instead.get(first) {
            let target = target.clone();
            let entry = ListingEntry {
                kind: EntryKind::HardLink { target },
                ..as_it_was(&before.entry)
            };
            return Some((entry, None));
        }
        let named = self.first_names().get(first).cloned();
        let entry = &named.as_ref().unwrap_or(before).entry;
        let kept = match entry.kind {
            EntryKind::File { .. } => {
                let version = self.version(before)?;
                (version.entry, Some(version.content))
            }
            // A listing of ours has no link to such an entry, and no link without a target.
            EntryKind::HardLink { .. } | EntryKind::Folder => return None,
            _ => (as_it_was(entry), None),
        };
        if named.is_some() {
            self.instead.insert(first.clone(), path.clone());
        }
        Some(kept)
    }

    fn first_names(&mut self) -> &HashMap<Vec<u8>, Listed> {
        let (session, listing) = (self.session, &self.listing);
        // The backup keeps nothing from an unreadable listing. The comparison with that listing
        // reports the fault.
        self.first_names
            .get_or_insert_with(|| gather(session, listing).unwrap_or_default())
    }
}

/// Finds the entries to which hard links lead. Only the later names show which entries these are.
fn gather(session: &dyn BackupSession, listing: &TreeRoot) -> Result<HashMap<Vec<u8>, Listed>, TreeError> {
    let mut first_names: HashMap<Vec<u8>, Option<Listed>> = HashMap::new();
    for_each(session, listing, |listed| {
        if let EntryKind::HardLink { target } = listed.entry.kind {
            first_names.insert(target, None);
        }
    })?;
    for_each(session, listing, |listed| {
        if let Some(first) = first_names.get_mut(&listed.entry.path) {
            *first = Some(listed);
        }
    })?;
    let found = first_names.into_iter();
    Ok(found.filter_map(|(path, first)| Some((path, first?))).collect())
}

fn for_each(
    session: &dyn BackupSession,
    listing: &TreeRoot,
    mut each: impl FnMut(Listed),
) -> Result<(), TreeError> {
    let Ok(bytes) = StreamBytes::new(session.reader(), listing, 0, listing.len) else {
        return Ok(());
    };
    let mut reader = ListingReader::new(bytes);
    while let Some(listed) = reader.next_entry()? {
        each(listed);
    }
    Ok(())
}

/// The state of an entry in this backup, if it stays from the previous one.
fn older(state: EntryState) -> EntryState {
    let content = match state.content {
        Content::Partial { of } => Content::Partial { of },
        Content::Whole | Content::Changed | Content::Older { .. } => Content::Older { lead: 0 },
    };
    EntryState { content, ..state }
}
