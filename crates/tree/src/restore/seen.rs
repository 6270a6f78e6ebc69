//! The names of a folder that this restore has handled, by their entries.
//!
//! On some file systems `README` and `readme` are the same name, or two forms of an accented letter
//! are. There the second name of the backup finds the entry that the first one made. The restore
//! recognises that entry by its inode, whatever the rule of the file system is. While it fills an
//! existing folder, it keeps the names, and some 40 bytes for each.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, Mode, OFlags, openat};

use crate::metadata::Facts;
use crate::retry::retry;

/// Names by device and inode.
#[derive(Debug, Default)]
pub(super) struct Seen {
    names: HashMap<(u64, u64), Vec<u8>>,
}

impl Seen {
    pub(super) fn note(&mut self, identity: (u64, u64), name: &[u8]) {
        self.names.entry(identity).or_insert_with(|| name.to_vec());
    }

    /// Whether this restore has just made the entry.
    pub(super) fn has(&self, there: &Facts) -> bool {
        self.names.contains_key(&(there.device, there.inode))
    }

    /// The other name in the backup of this entry; `None` if this restore has not made it under
    /// another name.
    pub(super) fn same(&self, at: &OwnedFd, there: &Facts, name: &[u8]) -> Option<Vec<u8>> {
        let other = self.names.get(&(there.device, there.inode))?;
        if other == name {
            return None;
        }
        // A file with several names in the target may have both.
        let has_both = there.links > 1 && {
            let names = names_of(at, there.inode);
            names.iter().any(|found| found == name) && names.iter().any(|found| found == other)
        };
        (!has_both).then(|| other.clone())
    }
}

/// The names of an inode in a folder; none if the folder cannot be listed.
pub(super) fn names_of(at: &OwnedFd, inode: u64) -> Vec<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(entries) = retry(|| openat(at, ".", flags, Mode::empty())).and_then(Dir::new) else {
        return Vec::new();
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.ino() == inode)
        .map(|entry| entry.file_name().to_bytes().to_vec())
        .collect()
}
