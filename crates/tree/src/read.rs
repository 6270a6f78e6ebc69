//! Reads a file as pieces of data and holes, and finds whether it changed meanwhile.
//!
//! A file is opened relative to its folder, without following links and without waiting (a pipe in
//! its place must not block a backup). Its metadata is read again: the opened file counts, not the
//! one that the walk saw. The reader reads as many bytes as the file had at its opening. A file
//! that shrinks, grows or is modified meanwhile is stored as read, and reported. Its entry keeps
//! the times of the opening, so that the next backup sees it changed.
//!
//! Readers are independent of each other and of the walk: any number of them may run on other
//! threads ([`read_small`] reads many small files ahead, in fewer calls).

mod holes;
mod sections;

use std::os::fd::OwnedFd;

use format::listing::{Content, EntryKind, ListingEntry};
use rustix::fs::{Advice, FileType, OFlags, fadvise, fstat};
use rustix::io::pread;

use crate::folder::open_quietly;
use crate::metadata::{Facts, attributes_and_flags_of};
use crate::retry::retry;
use crate::{Action, Change, TreeError, WalkEntry};

pub use sections::{DataSection, Section, Sections};

/// A file with more bytes than this is announced to the system as read from front to back. Files
/// that are read in sections are not: they are read past the page cache, and the system must not
/// read ahead.
const SEQUENTIAL_FROM_BYTES: u64 = 1 << 20;

/// The most bytes of a file of unknown length that are read with the small files. A longer file is
/// read again.
const SMALL_OF_UNKNOWN_LENGTH_BYTES: u64 = 64 << 10;

/// The next piece of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// This many bytes, at the beginning of the buffer; at least one.
    Data(usize),
    /// This many zeros that the file does not store; at least one.
    Hole(u64),
    /// The end of the file.
    End,
}

/// A file that is being read.
#[derive(Debug)]
pub struct FileReader {
    file: OwnedFd,
    entry: ListingEntry,
    at_open: Facts,
    /// The walk saw another file in this place, to which its hard links point.
    replaced: bool,
    /// The fault, if some of its attributes could not be read.
    attributes: Option<TreeError>,
    holes: Vec<(u64, u64)>,
    /// How many holes were passed.
    holes_passed: usize,
    position: u64,
    /// Where reading ends: the length at opening, or an earlier end that was found. If the length
    /// is unknown, `len_max` until the end is found.
    end: u64,
    /// The most bytes to read, if the file system does not show the file's length.
    len_max: Option<u64>,
    /// Whether the system knows that the file is read from front to back.
    advised: bool,
}

/// A file that was read.
#[derive(Debug)]
pub struct ReadFile {
    /// The entry, with the length and holes that were read, and the metadata of the opened file.
    pub entry: ListingEntry,
    /// The file changed meanwhile. The read bytes are stored anyway, and the entry says so.
    pub changed: Option<TreeError>,
    /// The fault, if some of its attributes could not be read.
    pub attributes: Option<TreeError>,
    /// Its length at its opening. If a fault came before the end, it is more than was read. `None`:
    /// the file system did not show it.
    pub len: Option<u64>,
}

/// The result of [`read_small`].
#[derive(Debug)]
pub enum SmallRead {
    /// The file was read, and did not change since the walk.
    Whole {
        /// Bytes read.
        len: usize,
        /// The fault, if some of its attributes could not be read.
        attributes: Option<TreeError>,
    },
    /// The file does not fit, or needs the long way. It is open, and nothing was read yet.
    Other(Box<FileReader>),
}

/// Opens a regular file that the walk found, or a hard link to one.
///
/// # Errors
/// [`TreeError::Vanished`], [`TreeError::Changed`] with [`Change::Kind`], [`TreeError::System`]:
/// store nothing of the file.
pub fn open_file(found: &WalkEntry) -> Result<FileReader, TreeError> {
    let file = open(found)?;
    let path = &found.entry.path;
    let stat = fstat(&file).map_err(|e| TreeError::reading(&path[..], Action::ReadMetadata, e))?;
    FileReader::of(file, Facts::of(&stat), found)
}

fn open(found: &WalkEntry) -> Result<OwnedFd, TreeError> {
    let path = &found.entry.path;
    let fault = |errno| TreeError::reading(&path[..], Action::Open, errno);
    let folder = found.folder.descriptor().map_err(fault)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    open_quietly(&folder, &found.name, flags).map_err(|errno| match errno {
        // It is a link, or a pipe or socket without its other end.
        rustix::io::Errno::LOOP | rustix::io::Errno::NXIO => kind_changed(path),
        _ => fault(errno),
    })
}

fn kind_changed(path: &[u8]) -> TreeError {
    TreeError::Changed {
        path: path.to_vec(),
        change: Change::Kind,
    }
}

/// Reads a whole file into `room`, and completes the walk's entry with the facts of the file. If
/// the file is still as the walk saw it, these calls are enough: open, read, attributes, look,
/// close. Any other file takes the long way, such as one that has changed, has holes or cannot be
/// read. If the file's length is not shown, it reads some bytes, because most such files are short.
///
/// # Errors
/// Those of [`open_file`]: store nothing of the file.
pub fn read_small(found: &mut WalkEntry, room: &mut [u8]) -> Result<SmallRead, TreeError> {
    let file = open(found)?;
    let is_of_unknown_length = found.len == 0 && may_hide_length(&file);
    let most = if is_of_unknown_length {
        SMALL_OF_UNKNOWN_LENGTH_BYTES.min(found.unknown_len_max)
    } else {
        found.len
    };
    let want = usize::try_from(most).map_or(room.len(), |len| len.min(room.len()));
    let (mut filled, mut is_at_end) = (0, false);
    while filled < want {
        match retry(|| pread(&file, &mut room[filled..want], filled as u64)) {
            Err(_) => break,
            Ok(0) => {
                is_at_end = true;
                break;
            }
            Ok(len) => filled += len,
        }
    }
    let (xattrs, flags, fault) = attributes_and_flags_of(&file);
    let path = &found.entry.path;
    let stat = fstat(&file).map_err(|e| TreeError::reading(&path[..], Action::ReadMetadata, e))?;
    let now = Facts::of(&stat);
    let seen = &found.entry;
    let is_whole = if is_of_unknown_length {
        // Some file systems show the length once they had to find it.
        is_at_end && [0, filled as u64].contains(&now.len)
    } else {
        now.len == found.len && now.allocated >= now.len && filled as u64 == now.len
    };
    let is_as_seen = now.kind == FileType::RegularFile
        && (now.device, now.inode) == (seen.device, seen.inode)
        && (now.mtime, now.ctime) == (seen.mtime, seen.ctime)
        && is_whole;
    if !is_as_seen {
        return FileReader::of(file, now, found).map(|reader| SmallRead::Other(Box::new(reader)));
    }
    (found.entry.xattrs, found.entry.flags) = (xattrs, flags);
    let attributes = fault.map(|errno| attribute_fault(&mut found.entry, errno));
    found.entry.kind = EntryKind::File {
        len: filled as u64,
        holes: Vec::new(),
    };
    Ok(SmallRead::Whole {
        len: filled,
        attributes,
    })
}

/// The fault for attributes that could not be read. The next backup will try again.
fn attribute_fault(entry: &mut ListingEntry, errno: rustix::io::Errno) -> TreeError {
    entry.state.lacks_attributes = true;
    TreeError::reading(&entry.path[..], Action::ReadAttributes, errno)
}

impl FileReader {
    /// Begins with a file that was just opened, and with its metadata.
    fn of(file: OwnedFd, now: Facts, found: &WalkEntry) -> Result<Self, TreeError> {
        if now.kind != FileType::RegularFile {
            return Err(kind_changed(&found.entry.path));
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
            if (now.uid, now.gid) != (seen.uid, seen.gid) {
                (entry.user, entry.group) = (Vec::new(), Vec::new());
            }
            (entry.mode, entry.uid, entry.gid) = (now.mode, now.uid, now.gid);
            (entry.mtime, entry.ctime) = (now.mtime, now.ctime);
            (entry.device, entry.inode) = (now.device, now.inode);
        }
        let (xattrs, flags, fault) = attributes_and_flags_of(&file);
        (entry.xattrs, entry.flags) = (xattrs, flags);
        let attributes = fault.map(|errno| attribute_fault(&mut entry, errno));
        // A file that stores all its bytes has no hole: the usual case costs no further call.
        let holes = if now.allocated < now.len {
            holes::find(&file, now.len)
        } else {
            Vec::new()
        };
        let len_max = (now.len == 0 && may_hide_length(&file)).then_some(found.unknown_len_max);
        let end = len_max.unwrap_or(now.len);
        Ok(Self {
            file,
            entry,
            at_open: now,
            replaced: !same_inode && found.links > 1,
            attributes,
            holes,
            holes_passed: 0,
            position: 0,
            end,
            len_max,
            advised: false,
        })
    }

    /// Whether the file system may hide the file's length, and shows 0. Reading finds the length.
    #[must_use]
    pub fn is_of_unknown_length(&self) -> bool {
        self.len_max.is_some()
    }

    /// Bytes that the file had when it was opened. Reading returns as many, unless the file
    /// shrinks.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.at_open.len
    }

    /// Whether the file had no bytes when it was opened.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at_open.len == 0
    }

    /// Reads the next piece. Fills the buffer unless a hole or the end comes first.
    ///
    /// # Errors
    /// [`TreeError::System`], [`TreeError::NoEnd`]. The pieces before stay valid. [`Self::finish`]
    /// then returns the entry of a file of that length.
    ///
    /// # Panics
    /// If the buffer is empty.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<Piece, TreeError> {
        assert!(!buffer.is_empty(), "a buffer to read into");
        if !self.advised {
            self.advised = true;
            if self.end - self.position >= SEQUENTIAL_FROM_BYTES {
                // If the system refuses the advice, reading is only slower.
                fadvise(&self.file, self.position, None, Advice::Sequential).ok();
            }
        }
        if self.len_max == Some(self.position) {
            self.find_end()?;
        }
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
                // The pieces before the fault are returned first.
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

    /// Checks whether the file ends where reading ended.
    fn find_end(&self) -> Result<(), TreeError> {
        let path = &self.entry.path[..];
        match retry(|| pread(&self.file, &mut [0_u8; 1][..], self.position)) {
            Ok(0) => Ok(()),
            Ok(_) => Err(TreeError::NoEnd {
                path: path.to_vec(),
                read: self.position,
            }),
            Err(errno) => Err(TreeError::reading(path, Action::Read, errno)),
        }
    }

    /// The file in sections for other threads, if it is large and nothing was read yet. Report
    /// sections that they have read by [`Self::passed`]. [`Self::next`] reads the rest.
    #[must_use]
    pub fn sections(&self) -> Option<Sections> {
        (self.position == 0 && self.holes_passed == 0 && !self.is_of_unknown_length())
            .then(|| Sections::of(&self.file, self.end, &self.holes))
            .flatten()
    }

    /// Notes that the next section, in order, was read.
    pub fn passed(&mut self, section: &Section) {
        match section {
            Section::Data(data) => self.position += data.len() as u64,
            Section::Hole(len) => {
                self.holes_passed += 1;
                self.position += len;
            }
        }
    }

    /// Ends reading, and checks whether the file changed meanwhile.
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
                // Some file systems show the length once they had to find it.
                let (len, shown) = match self.len_max {
                    None => (self.at_open.len, now.len),
                    Some(_) if now.len == 0 => (self.position, self.position),
                    Some(_) => (self.position, now.len),
                };
                let change = if self.end < len || shown < len {
                    Some(Change::Shrunk)
                } else if shown > len {
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
        if changed.is_some() {
            self.entry.state.content = Content::Changed;
        }
        ReadFile {
            entry: self.entry,
            changed,
            attributes: self.attributes,
            len: self.len_max.is_none().then_some(self.at_open.len),
        }
    }
}

/// Whether a file that shows a length of 0 may have content. File systems of programs show no
/// length if they do not know it beforehand. Files of the kernel, as in `/proc`, are not tried:
/// they may wait for a reader, and hold no user data.
#[cfg(target_os = "linux")]
fn may_hide_length(file: &OwnedFd) -> bool {
    const FUSE: i128 = 0x6573_5546;
    const PLAN_9: i128 = 0x0102_1997;
    let found = rustix::fs::fstatfs(file);
    found.is_ok_and(|found| [FUSE, PLAN_9].contains(&i128::from(found.f_type)))
}

#[cfg(not(target_os = "linux"))]
fn may_hide_length(_: &OwnedFd) -> bool {
    false
}

#[cfg(test)]
mod tests;
