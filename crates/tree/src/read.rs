//! Reading a file as pieces of data and holes, and telling whether it changed meanwhile.
//!
//! A file is opened relative to its folder, links refused and without waiting (a pipe put in its place
//! must not hang a backup), and looked at again: what counts is the file that was opened, not what the
//! walk saw. As many bytes are read as it had then; a file that shrinks, grows or is modified meanwhile
//! is stored as read and reported. Its entry keeps the times of the opening, so that the next backup
//! sees it changed.
//!
//! Readers are independent of each other and of the walk: any number of them may run on other threads
//! ([`read_small`] reads many small files ahead).

mod holes;

use std::os::fd::OwnedFd;

use format::listing::{EntryKind, ListingEntry};
use rustix::fs::{Advice, FileType, OFlags, fadvise, fstat};
use rustix::io::pread;

use crate::folder::{open_quietly, retry};
use crate::metadata::{AttributeReader, Facts};
use crate::{Action, Change, TreeError, WalkEntry};

/// Longer files are announced to the system as read from front to back.
const SEQUENTIAL_FROM_BYTES: u64 = 1 << 20;

/// What comes next in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// So many bytes were put at the buffer's beginning; at least one.
    Data(usize),
    /// So many zeros that the file does not store; at least one.
    Hole(u64),
    /// Nothing.
    End,
}

/// A file being read.
#[derive(Debug)]
pub struct FileReader {
    file: OwnedFd,
    entry: ListingEntry,
    at_open: Facts,
    /// The hard links that point here were seen with another file in this place.
    replaced: bool,
    holes: Vec<(u64, u64)>,
    /// How many of them were passed.
    holes_passed: usize,
    position: u64,
    /// Where reading ends: the length at opening, or where the file was found to end sooner.
    end: u64,
}

/// A file that was read.
#[derive(Debug)]
pub struct ReadFile {
    /// The entry with the length and holes of what was read, and the metadata of the file that was.
    pub entry: ListingEntry,
    /// That the file changed meanwhile. What was read is stored all the same.
    pub changed: Option<TreeError>,
}

/// What [`read_small`] found.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are the large one, and are kept in no list"
)]
pub enum SmallRead {
    /// The file is read, its bytes appended.
    Whole(ReadFile),
    /// The file is larger: nothing is read yet.
    Large(Box<FileReader>),
}

/// Opens a regular file that the walk found, or a hard link to one.
///
/// # Errors
/// [`TreeError::Vanished`], [`TreeError::Changed`] with [`Change::Kind`], [`TreeError::System`]: nothing of
/// the file is to be stored.
pub fn open_file(found: &WalkEntry) -> Result<FileReader, TreeError> {
    let path = &found.entry.path;
    let fault = |errno| TreeError::reading(&path[..], Action::Open, errno);
    let folder = found.folder.descriptor().map_err(fault)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let kind_changed = || TreeError::Changed {
        path: path.clone(),
        change: Change::Kind,
    };
    let file = open_quietly(&folder, &found.name, flags).map_err(|errno| match errno {
        // A link, or a pipe or socket without its other end.
        rustix::io::Errno::LOOP | rustix::io::Errno::NXIO => kind_changed(),
        _ => fault(errno),
    })?;
    let stat = fstat(&file).map_err(|e| TreeError::reading(&path[..], Action::ReadMetadata, e))?;
    let now = Facts::of(&stat);
    if now.kind != FileType::RegularFile {
        return Err(kind_changed());
    }
    let seen = &found.entry;
    let same_inode = (now.device, now.inode) == (seen.device, seen.inode);
    let mut entry = ListingEntry {
        kind: EntryKind::File {
            len: 0,
            holes: Vec::new(),
        },
        ..seen.clone()
    };
    if !same_inode || now.ctime != seen.ctime {
        entry.xattrs = AttributeReader::new().read(&folder, &found.name, path, false).0;
        if (now.uid, now.gid) != (seen.uid, seen.gid) {
            (entry.user, entry.group) = (Vec::new(), Vec::new());
        }
        (entry.mode, entry.uid, entry.gid) = (now.mode, now.uid, now.gid);
        (entry.mtime, entry.ctime) = (now.mtime, now.ctime);
        (entry.device, entry.inode) = (now.device, now.inode);
    }
    // A file that stores all its bytes has no hole: the usual case costs no further call.
    let holes = if now.allocated < now.len {
        holes::find(&file, now.len)
    } else {
        Vec::new()
    };
    if now.len >= SEQUENTIAL_FROM_BYTES {
        // Advice that is refused costs nothing but speed.
        fadvise(&file, 0, None, Advice::Sequential).ok();
    }
    Ok(FileReader {
        file,
        entry,
        at_open: now,
        replaced: !same_inode && found.links > 1,
        holes,
        holes_passed: 0,
        position: 0,
        end: now.len,
    })
}

/// Opens a file and, unless it has more than `most` bytes, reads it whole, appending its bytes (zeros for
/// its holes) to `out`. With an error nothing is appended.
///
/// # Errors
/// As [`open_file`] and [`FileReader::next`].
pub fn read_small(found: &WalkEntry, most: usize, out: &mut Vec<u8>) -> Result<SmallRead, TreeError> {
    let mut reader = open_file(found)?;
    let len = match usize::try_from(reader.end) {
        Ok(len) if len <= most => len,
        _ => return Ok(SmallRead::Large(Box::new(reader))),
    };
    let begin = out.len();
    out.resize(begin + len, 0);
    let mut filled = begin;
    while filled < out.len() {
        match reader.next(&mut out[filled..]) {
            Ok(Piece::Data(n)) => filled += n,
            // Zeros are there already. A hole lies within the length, which is a usize.
            Ok(Piece::Hole(n)) => filled += usize::try_from(n).unwrap_or(0),
            Ok(Piece::End) => break,
            Err(fault) => {
                out.truncate(begin);
                return Err(fault);
            }
        }
    }
    out.truncate(filled);
    Ok(SmallRead::Whole(reader.finish()))
}

impl FileReader {
    /// Bytes that the file had when it was opened: what reading will give unless it shrinks.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.at_open.len
    }

    /// Whether the file had no bytes when it was opened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at_open.len == 0
    }

    /// Reads on. Fills the buffer unless a hole or the end comes first.
    ///
    /// # Errors
    /// [`TreeError::System`]. What was read before stands; [`Self::finish`] may be called, and gives the
    /// entry of a file of that much.
    ///
    /// # Panics
    /// When the buffer is empty.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<Piece, TreeError> {
        assert!(!buffer.is_empty(), "a buffer to read into");
        let mut until = self.end;
        if let Some(&(offset, len)) = self.holes.get(self.holes_passed) {
            if offset == self.position {
                self.holes_passed += 1;
                self.position += len;
                return Ok(Piece::Hole(len));
            }
            until = until.min(offset);
        }
        let want = usize::try_from(until - self.position).map_or(buffer.len(), |n| n.min(buffer.len()));
        let mut filled = 0;
        while filled < want {
            let read = retry(|| pread(&self.file, &mut buffer[filled..want], self.position));
            match read {
                Ok(0) => {
                    self.end = self.position;
                    self.holes.truncate(self.holes_passed);
                    break;
                }
                Ok(n) => {
                    filled += n;
                    self.position += n as u64;
                }
                // What came before the fault is handed out first.
                Err(_) if filled > 0 => break,
                Err(errno) => {
                    return Err(TreeError::reading(&self.entry.path[..], Action::Read, errno));
                }
            }
        }
        Ok(if filled == 0 {
            Piece::End
        } else {
            Piece::Data(filled)
        })
    }

    /// Ends reading, and looks whether the file changed meanwhile.
    #[must_use]
    pub fn finish(mut self) -> ReadFile {
        self.holes.truncate(self.holes_passed);
        self.entry.kind = EntryKind::File {
            len: self.position,
            holes: self.holes,
        };
        let path = &self.entry.path;
        let changed = match fstat(&self.file).map(|stat| Facts::of(&stat)) {
            Err(errno) => Some(TreeError::reading(&path[..], Action::ReadMetadata, errno)),
            Ok(now) => {
                let change = if self.end < self.at_open.len || now.len < self.at_open.len {
                    Some(Change::Shrunk)
                } else if now.len > self.at_open.len {
                    Some(Change::Grown)
                } else if now.mtime != self.at_open.mtime || self.replaced {
                    Some(Change::Modified)
                } else {
                    None
                };
                change.map(|change| TreeError::Changed {
                    path: path.clone(),
                    change,
                })
            }
        };
        ReadFile {
            entry: self.entry,
            changed,
        }
    }
}

#[cfg(test)]
mod tests;
