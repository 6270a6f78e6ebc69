//! Finds unchanged files by merging the walk with the previous backup's listing. Both are in
//! listing order, so one pass over each is enough, and neither is kept in memory.
//!
//! A regular file with the same size, time of modification, time of change and inode as before
//! counts as unchanged. There is one exception. A file written *just* before the previous backup
//! looked at it may have been written again after it was read, within the same tick of the file
//! system's clock. Then all four are equal though the content is not. So a file is read unless its
//! time is at least one tick older than the previous backup's start. A tick counts as 20 ms if the
//! time has a fraction of a second, and as 2 s if it has none (FAT stores even seconds).
//!
//! If the previous backup could not read an entry correctly ([`format::listing::EntryState`]), the
//! entry proves nothing, and the file is read again. [`Unchanged::next_passed`] returns entries of
//! the previous listing that the walk did not meet: if a folder could not be read, they are its
//! last known entries.

use std::cmp::Ordering;
use std::io::Read;

use format::listing::{EntryKind, ListingEntry};
use types::{FileTime, UnixNanos};

use crate::listing::{Listed, ListingReader};
use crate::{TreeError, WalkEntry, order};

/// Which metadata of a file to trust.
#[derive(Debug, Clone, Copy)]
pub struct Trust {
    /// When the previous backup began, by the clock that stamps the source's files.
    pub previous_start: UnixNanos,
    /// Do not compare the time of change: for file systems where it changes by itself.
    pub ignore_ctime: bool,
    /// Do not compare inodes: for file systems that invent them.
    pub ignore_inode: bool,
}

/// How a file compares with the previous backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// The previous backup has no entry of this path.
    New,
    /// The previous backup has this entry, and the file must be read.
    Changed(Box<Listed>),
    /// The previous backup has the same file.
    Unchanged(Box<Listed>),
}

/// The previous listing, followed along the walk.
#[derive(Debug)]
pub struct Unchanged<R> {
    listing: ListingReader<R>,
    /// The entry read last; the walk has not passed it yet.
    ahead: Option<Listed>,
    trust: Trust,
    fault: Option<TreeError>,
}

impl<R: Read> Unchanged<R> {
    /// Begins with the previous backup's listing.
    pub fn new(listing: ListingReader<R>, trust: Trust) -> Self {
        Self {
            listing,
            ahead: None,
            trust,
            fault: None,
        }
    }

    /// Compares a regular file of the walk. Files must come in listing order. If the previous
    /// listing is damaged, every file from there on is new, and is read again
    /// ([`Self::take_fault`]).
    pub fn compare(&mut self, current: &WalkEntry) -> Comparison {
        self.compare_entry(&current.entry)
    }

    /// Whether an unchanged file's time of change also proves that its extended attributes are
    /// unchanged.
    #[must_use]
    pub fn trusts_attributes(&self) -> bool {
        !self.trust.ignore_ctime
    }

    /// The fault that ended the previous listing early.
    pub fn take_fault(&mut self) -> Option<TreeError> {
        self.fault.take()
    }

    /// The next entry of the previous listing that comes before this path, or before the end: the
    /// walk has not met it.
    pub fn next_passed(&mut self, before: Option<&[u8]>) -> Option<Listed> {
        let ahead = self.peek()?;
        let is_passed = before.is_none_or(|path| order::compare(&ahead.entry.path, path).is_lt());
        if is_passed { self.ahead.take() } else { None }
    }

    /// Skips all entries up to this path, which the walk has met.
    pub fn pass(&mut self, path: &[u8]) {
        while self
            .peek()
            .is_some_and(|ahead| order::compare(&ahead.entry.path, path).is_le())
        {
            self.ahead = None;
        }
    }

    fn peek(&mut self) -> Option<&Listed> {
        if self.ahead.is_none() {
            match self.listing.next_entry() {
                Ok(next) => self.ahead = next,
                Err(fault) => self.fault = Some(fault),
            }
        }
        self.ahead.as_ref()
    }

    fn compare_entry(&mut self, current: &ListingEntry) -> Comparison {
        loop {
            let Some(ahead) = self.peek() else {
                return Comparison::New;
            };
            match order::compare(&ahead.entry.path, &current.path) {
                Ordering::Greater => return Comparison::New,
                Ordering::Less => self.ahead = None,
                Ordering::Equal => {
                    let before = self.ahead.take().expect("it was just looked at");
                    return against(current, before, &self.trust);
                }
            }
        }
    }
}

fn against(current: &ListingEntry, before: Listed, trust: &Trust) -> Comparison {
    let earlier = &before.entry;
    let lens = match (&current.kind, &earlier.kind) {
        (EntryKind::File { len, .. }, EntryKind::File { len: before, .. }) => Some((len, before)),
        _ => None,
    };
    let inode = trust.ignore_inode || current.inode == earlier.inode;
    let ctime = trust.ignore_ctime || current.ctime == earlier.ctime;
    let decisive = if trust.ignore_ctime {
        current.mtime
    } else {
        current.ctime
    };
    let is_same = lens.is_some_and(|(now, before)| now == before)
        && current.mtime == earlier.mtime
        && ctime
        && inode
        && earlier.state.is_whole()
        && is_settled(decisive, trust.previous_start);
    if is_same {
        Comparison::Unchanged(Box::new(before))
    } else {
        Comparison::Changed(Box::new(before))
    }
}

/// Whether a time is at least one tick before the start.
fn is_settled(time: FileTime, start: UnixNanos) -> bool {
    const SECOND: i128 = 1_000_000_000;
    let tick = if time.nanos() == 0 {
        2 * SECOND
    } else {
        SECOND / 50
    };
    i128::from(time.seconds()) * SECOND + i128::from(time.nanos()) + tick < i128::from(start.get())
}

#[cfg(test)]
mod tests;
