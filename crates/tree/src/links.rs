//! Hard links: finds the first name of each inode.

use std::collections::HashMap;
use std::mem::Discriminant;

use format::listing::{Content, EntryKind, ListingEntry};
use types::FileTime;

use crate::WalkEntry;

/// First names of inodes with several names, kept until all names are seen (INV-7: one entry for
/// each inode).
#[derive(Debug, Default)]
pub(crate) struct FirstNames {
    found: HashMap<(u64, u64), (FirstName, u64)>,
}

/// The name of an inode that the walk met first.
#[derive(Debug, Clone)]
pub(crate) struct FirstName {
    pub(crate) path: Vec<u8>,
    /// The times that the walk saw with this name.
    pub(crate) mtime: FileTime,
    ctime: FileTime,
    kind: Discriminant<EntryKind>,
}

impl FirstName {
    fn of(entry: &ListingEntry) -> Self {
        Self {
            path: entry.path.clone(),
            mtime: entry.mtime,
            ctime: entry.ctime,
            kind: std::mem::discriminant(&entry.kind),
        }
    }
}

impl FirstNames {
    /// Records a name of an inode with `links` names. Returns the first name; `None` if this is the
    /// first one.
    ///
    /// File systems give the number of a removed inode to a new one. Such a file is no link to the
    /// removed one. Its kind differs, or its time of change and `is_same`, which tells whether the
    /// name of that path has this inode now.
    pub(crate) fn see(
        &mut self,
        entry: &ListingEntry,
        links: u64,
        is_same: impl FnOnce(&[u8]) -> bool,
    ) -> Option<FirstName> {
        if links < 2 {
            return None;
        }
        let identity = (entry.device, entry.inode);
        let now = FirstName::of(entry);
        let known = self.found.get_mut(&identity).filter(|(first, _)| {
            first.kind == now.kind && (first.ctime == now.ctime || is_same(&first.path))
        });
        let Some((first, left)) = known else {
            self.found.insert(identity, (now, links - 1));
            return None;
        };
        *left -= 1;
        if *left > 0 {
            return Some(first.clone());
        }
        self.found.remove(&identity).map(|(first, _)| first)
    }
}

/// Mends hard links whose first name could not be stored, for example because a file could not be
/// opened.
///
/// The backup calls [`Self::lost`] for such an entry, and [`Self::mend`] for every later entry. The
/// next name of the same inode then becomes the first one, and the later names link to it.
#[derive(Debug, Default)]
pub struct LostLinks {
    /// The name that replaced the lost one. `None`: none has yet.
    instead: HashMap<(u64, u64), Option<Vec<u8>>>,
    /// For files with several names whose stored content is not the file's: how far it is.
    contents: HashMap<(u64, u64), Content>,
}

impl LostLinks {
    /// Notes that the first name of an inode was not stored.
    pub fn lost(&mut self, first: &WalkEntry) {
        if first.links > 1 {
            self.instead.insert(identity(first), None);
        }
    }

    /// Notes that a file was stored with content that is not the file's. Its other names must
    /// record this, too.
    pub fn stored(&mut self, file: &WalkEntry, content: Content) {
        if file.links > 1 && content != Content::Whole {
            self.contents.insert(identity(file), content);
        }
    }

    /// Notes that this name is stored as a file of its own. Later names link to it.
    pub fn instead(&mut self, name: &WalkEntry) {
        self.instead.insert(identity(name), Some(name.entry.path.clone()));
    }

    /// If a hard link's first name was not stored, makes the link that file itself, or links it to
    /// the name that was stored.
    pub fn mend(&mut self, entry: &mut WalkEntry) {
        if !matches!(entry.entry.kind, EntryKind::HardLink { .. }) {
            return;
        }
        match self.contents.get(&identity(entry)) {
            None => {}
            // Only the first name has the lead.
            Some(Content::Older { .. }) => entry.entry.state.content = Content::Older { lead: 0 },
            Some(content) => entry.entry.state.content = *content,
        }
        let Some(instead) = self.instead.get_mut(&identity(entry)) else {
            return;
        };
        if let Some(target) = instead {
            let target = target.clone();
            entry.entry.kind = EntryKind::HardLink { target };
        } else if let Some(is) = entry.linked.take() {
            *instead = Some(entry.entry.path.clone());
            entry.entry.kind = is;
        }
    }
}

fn identity(entry: &WalkEntry) -> (u64, u64) {
    (entry.entry.device, entry.entry.inode)
}

#[cfg(test)]
mod tests;
