//! Hard links: which name of an inode came first.

use std::collections::HashMap;

use format::listing::{Content, EntryKind};
use types::FileTime;

use crate::WalkEntry;

/// First names of inodes with several, kept until all their names were seen (INV-7: one entry an
/// inode).
#[derive(Debug, Default)]
pub(crate) struct FirstNames {
    found: HashMap<(u64, u64), (FirstName, u64)>,
}

/// The name of an inode that the walk met first.
#[derive(Debug, Clone)]
pub(crate) struct FirstName {
    pub(crate) path: Vec<u8>,
    /// The time of modification that the walk saw with this name.
    pub(crate) mtime: FileTime,
}

impl FirstNames {
    /// The first name of the inode, or none when this is it. `links` is its number of names.
    pub(crate) fn see(
        &mut self,
        identity: (u64, u64),
        links: u64,
        path: &[u8],
        mtime: FileTime,
    ) -> Option<FirstName> {
        if links < 2 {
            return None;
        }
        let Some((first, left)) = self.found.get_mut(&identity) else {
            let path = path.to_vec();
            self.found
                .insert(identity, (FirstName { path, mtime }, links - 1));
            return None;
        };
        *left -= 1;
        if *left > 0 {
            return Some(first.clone());
        }
        self.found.remove(&identity).map(|(first, _)| first)
    }
}

/// Mends hard links whose first name could not be stored after all, for example because a file
/// would not open.
///
/// The backup calls [`Self::lost`] for such an entry, and [`Self::mend`] for every later entry. The
/// next name of the same inode then becomes the first one, and the later names link to it.
#[derive(Debug, Default)]
pub struct LostLinks {
    /// The name that took the lost one's place; none while there is none.
    instead: HashMap<(u64, u64), Option<Vec<u8>>>,
    /// How far the content of files with several names is what was there, where it is not.
    contents: HashMap<(u64, u64), Content>,
}

impl LostLinks {
    /// The first name of something was not stored.
    pub fn lost(&mut self, first: &WalkEntry) {
        if first.links > 1 {
            self.instead.insert(identity(first), None);
        }
    }

    /// A file was stored, and its content is not what was there: its other names will say so, too.
    pub fn stored(&mut self, file: &WalkEntry, content: Content) {
        if file.links > 1 && content != Content::Whole {
            self.contents.insert(identity(file), content);
        }
    }

    /// This name is stored as a file of its own: later ones point to it.
    pub fn instead(&mut self, name: &WalkEntry) {
        self.instead.insert(identity(name), Some(name.entry.path.clone()));
    }

    /// Turns a hard link to what was not stored into that itself, or points it to the name that
    /// was.
    pub fn mend(&mut self, entry: &mut WalkEntry) {
        if !matches!(entry.entry.kind, EntryKind::HardLink { .. }) {
            return;
        }
        match self.contents.get(&identity(entry)) {
            None => {}
            // The lead is the first name's.
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
