//! Which names of a folder this restore has dealt with, by what stands under them.
//!
//! On a file system that takes `README` and `readme` for one, or two forms of an accented letter,
//! the second name of the backup finds what the first one made. It is recognised by its inode,
//! whatever the rule of the file system is. Kept for a folder that was there before, while it is
//! being filled: its names, and some 40 bytes each.

use std::collections::HashMap;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, Mode, OFlags, openat};

use crate::folder::retry;
use crate::metadata::Facts;

/// Names by device and inode.
#[derive(Debug, Default)]
pub(super) struct Seen {
    names: HashMap<(u64, u64), Vec<u8>>,
}

impl Seen {
    pub(super) fn note(&mut self, identity: (u64, u64), name: &[u8]) {
        self.names.entry(identity).or_insert_with(|| name.to_vec());
    }

    /// Whether what stands there was restored just now.
    pub(super) fn has(&self, there: &Facts) -> bool {
        self.names.contains_key(&(there.device, there.inode))
    }

    /// The other name of the backup that stands under this one; none where nothing does that was
    /// dealt with.
    pub(super) fn same(&self, at: &OwnedFd, there: &Facts, name: &[u8]) -> Option<Vec<u8>> {
        let other = self.names.get(&(there.device, there.inode))?;
        if other == name {
            return None;
        }
        // A file that has several names in the target may have both.
        let has_both = there.links > 1 && {
            let names = names_of(at, there.inode);
            names.iter().any(|found| found == name) && names.iter().any(|found| found == other)
        };
        (!has_both).then(|| other.clone())
    }
}

/// The names in a folder of an inode; none where the folder cannot be listed.
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
