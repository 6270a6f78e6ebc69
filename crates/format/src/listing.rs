//! Listing entries and fences of a directory backup (docs/format.md, "Listing").
//!
//! Both streams consist of records. A record is a length, and a body with a version of its own, so
//! that records of older backups are taken over unchanged. A record depends on nothing outside it.
//! The fences stream ends with the length of its last record. Paths are checked during encoding and
//! decoding: a restored entry can never escape from its target (INV-8).

mod encoding;
mod fences;
mod path;

pub use encoding::{RECORD_BYTES_MAX, XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
pub use fences::{Branch, FENCE_LEVEL_MAX, FENCES_TRAILER_BYTES, Fence, FencePage};

use types::FileTime;

/// The most recorded holes of one file (INV-7). A file with so many may have more holes behind the
/// last one: a restore may leave out zeros there.
pub const HOLES_MAX: usize = 1 << 16;

/// One entry of a listing, in path order. Paths and names are bytes, as the system has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingEntry {
    /// The whole path: absolute, without a trailing slash.
    pub path: Vec<u8>,
    /// Its kind.
    pub kind: EntryKind,
    /// Permission, set-id and sticky bits (`st_mode & 0o7777`).
    pub mode: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// Owner's name, empty if unknown.
    pub user: Vec<u8>,
    /// Group's name, empty if unknown.
    pub group: Vec<u8>,
    /// Last change of the content.
    pub mtime: FileTime,
    /// Last change of the inode. With size, mtime and inode it identifies an unchanged file.
    pub ctime: FileTime,
    /// Device and inode on the source.
    pub device: u64,
    /// Inode on the source.
    pub inode: u64,
    /// Extended attributes (ACLs are among them), sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Flags of the inode, as `chattr` sets them (`FS_IOC_GETFLAGS`). Only flags that a restore can
    /// set.
    pub flags: u32,
    /// How much of the entry could be read.
    pub state: EntryState,
}

impl ListingEntry {
    /// Bytes of a file; 0 for other entries.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        match self.kind {
            EntryKind::File { len, .. } => len,
            _ => 0,
        }
    }

    /// Bytes of the content stream before the file's own that belong to no file.
    #[must_use]
    pub const fn lead(&self) -> u64 {
        match self.state.content {
            Content::Older { lead } => lead,
            _ => 0,
        }
    }
}

/// How much of an entry could be read when the backup was made. Readers of the entry learn what is
/// missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryState {
    /// The state of its content.
    pub content: Content,
    /// Whether extended attributes (ACLs included) or flags may be missing, because they could not
    /// be read.
    pub lacks_attributes: bool,
}

impl EntryState {
    /// Everything was read.
    pub const WHOLE: Self = Self {
        content: Content::Whole,
        lacks_attributes: false,
    };

    /// Whether everything was read.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self == Self::WHOLE
    }
}

/// The state of an entry's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    /// All content was read.
    #[default]
    Whole,
    /// A file that changed while it was read: it may mix old and new.
    Changed,
    /// The content could not be read: the entry, with all its metadata, is that of the previous
    /// backup.
    Older {
        /// Bytes of the content stream before the file's own that belong to no file: they were read
        /// before the fault.
        lead: u64,
    },
    /// A file was read up to a fault, or not all names of a folder were read, and no earlier backup
    /// had the entry. For a hard link: the entry that it links to is like that.
    Partial {
        /// The length of the file; 0 if the file system did not show it, and for a folder.
        of: u64,
    },
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file. Its bytes are the next `len` of the content stream. The offset is not
    /// written: it is the sum of the lengths before, from the last fence on. So a file that grows
    /// does not change the entries after it.
    File {
        /// Bytes in the content stream.
        len: u64,
        /// Holes of the source: (offset, length), sorted, at most [`HOLES_MAX`]. The content stream
        /// has zeros there.
        holes: Vec<(u64, u64)>,
    },
    /// Another name of an earlier entry of the listing, which is no folder.
    HardLink {
        /// The path of the first name.
        target: Vec<u8>,
    },
    /// A folder.
    Folder,
    /// A symbolic link.
    Symlink {
        /// The target path.
        target: Vec<u8>,
    },
    /// A character device.
    CharDevice {
        /// `st_rdev`.
        device: u64,
    },
    /// A block device.
    BlockDevice {
        /// `st_rdev`.
        device: u64,
    },
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}
