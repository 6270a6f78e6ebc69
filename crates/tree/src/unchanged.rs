//! Telling unchanged files by merging the walk with the previous backup's listing: both are in listing
//! order, so one pass over each is enough and nothing is kept.
//!
//! A regular file with the same size, time of modification, time of change and inode as before is taken
//! as unchanged. One exception, for a file written *just* before the previous backup looked at it: it may
//! have been written again after it was read, within the same tick of the file system's clock, and then
//! all four are equal though the content is not. So a time that is not older than the previous backup's
//! start by at least one tick is not trusted, and the file is read. A tick is taken as 20 ms where the
//! time has a fraction of a second, and as 2 s where it has none (FAT stores even seconds).

use std::cmp::Ordering;
use std::io::Read;

use format::listing::{EntryKind, ListingEntry};
use types::{ByteRange, UnixNanos};

use crate::listing::{Listed, ListingReader};
use crate::{TreeError, WalkEntry, order};

/// What is believed of a file's metadata.
#[derive(Debug, Clone, Copy)]
pub struct Trust {
    /// When the previous backup began, by the clock that stamps the source's files.
    pub previous_start: UnixNanos,
    /// Do not compare the time of change: for file systems where it moves by itself.
    pub ignore_ctime: bool,
    /// Do not compare inodes: for file systems that make them up.
    pub ignore_inode: bool,
}

/// How an entry compares with the previous backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Comparison {
    /// There was no entry of this path.
    New,
    /// There was one, and a file must be read.
    Changed,
    /// There was the same.
    Unchanged {
        /// A file's bytes in the previous backup's content stream; empty for others.
        content: ByteRange,
        /// A file's holes.
        holes: Vec<(u64, u64)>,
        /// A file's extended attributes, which its time of change vouches for; none where that was not
        /// compared, and they are to be read.
        xattrs: Option<Vec<(Vec<u8>, Vec<u8>)>>,
    },
}

/// The previous listing, followed along the walk.
#[derive(Debug)]
pub struct Unchanged<R> {
    listing: ListingReader<R>,
    /// The entry read last, not yet behind the walk.
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

    /// Compares an entry of the walk; entries must come in listing order. When the previous listing is
    /// damaged, everything from there on is new: read again, and nothing lost ([`Self::take_fault`]).
    pub fn compare(&mut self, current: &WalkEntry) -> Comparison {
        self.compare_entry(&current.entry)
    }

    /// The fault that ended the previous listing before its time.
    pub fn take_fault(&mut self) -> Option<TreeError> {
        self.fault.take()
    }

    fn compare_entry(&mut self, current: &ListingEntry) -> Comparison {
        loop {
            if self.ahead.is_none() {
                match self.listing.next_entry() {
                    Ok(next) => self.ahead = next,
                    Err(fault) => self.fault = Some(fault),
                }
            }
            let Some(ahead) = &self.ahead else {
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
    let content_offset = before.content_offset;
    match (&current.kind, before.entry.kind) {
        (
            EntryKind::File { len, .. },
            EntryKind::File {
                len: len_before,
                holes,
            },
        ) => {
            let inode = trust.ignore_inode || current.inode == before.entry.inode;
            let ctime = trust.ignore_ctime || current.ctime == before.entry.ctime;
            let same = *len == len_before && current.mtime == before.entry.mtime && ctime && inode;
            let decisive = if trust.ignore_ctime {
                current.mtime
            } else {
                current.ctime
            };
            if same && is_settled(decisive, trust.previous_start) {
                return Comparison::Unchanged {
                    content: ByteRange {
                        offset: content_offset,
                        len: *len,
                    },
                    holes,
                    xattrs: (!trust.ignore_ctime).then_some(before.entry.xattrs),
                };
            }
            Comparison::Changed
        }
        (EntryKind::File { .. }, _) => Comparison::Changed,
        (kind, kind_before) => {
            let same = *kind == kind_before
                && current.mtime == before.entry.mtime
                && (current.mode, current.uid, current.gid)
                    == (before.entry.mode, before.entry.uid, before.entry.gid)
                && current.xattrs == before.entry.xattrs;
            if !same {
                return Comparison::Changed;
            }
            let content = ByteRange {
                offset: content_offset,
                len: 0,
            };
            Comparison::Unchanged {
                content,
                holes: Vec::new(),
                xattrs: None,
            }
        }
    }
}

/// Whether a time lies at least one tick before the start.
fn is_settled(time: UnixNanos, start: UnixNanos) -> bool {
    const SECOND: i64 = 1_000_000_000;
    let tick = if time.get() % SECOND == 0 {
        2 * SECOND
    } else {
        SECOND / 50
    };
    time.get().saturating_add(tick) < start.get()
}

#[cfg(test)]
mod tests;
