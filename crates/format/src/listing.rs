//! Listing entries and fences of a directory backup (docs/format.md, "Listing").
//!
//! Both streams are records one after another, each a length and a body with a version of its own, so
//! that records of older backups are taken over as they are. A record depends on nothing outside it. The
//! fences stream ends with the length of its last record.
//! Paths are checked on the way in and out: a restored entry can never climb out of its target (INV-8).

mod encoding;
mod fences;
mod path;

pub use encoding::{RECORD_BYTES_MAX, XATTR_NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
pub use fences::{Branch, FENCE_LEVEL_MAX, FENCES_TRAILER_BYTES, Fence, FencePage};

use types::FileTime;

/// Holes noted for one file, at most (INV-7). A file with so many may have more of them behind the
/// last: what is zeros there may be left out when it is restored.
pub const HOLES_MAX: usize = 1 << 16;

/// One entry of a listing, in path order. Paths and names are bytes, as the system has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListingEntry {
    /// The whole path, absolute, without a trailing slash.
    pub path: Vec<u8>,
    /// What it is.
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
    /// Last change of the inode; with size, mtime and inode it tells an unchanged file.
    pub ctime: FileTime,
    /// Device and inode on the source.
    pub device: u64,
    /// Inode on the source.
    pub inode: u64,
    /// Extended attributes (ACLs are among them), sorted by name.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Flags of the inode, as `chattr` sets them (`FS_IOC_GETFLAGS`): those that can be given back.
    pub flags: u32,
    /// How far it is what was there.
    pub state: EntryState,
}

impl ListingEntry {
    /// Bytes of a file; none of others.
    #[must_use]
    pub const fn file_len(&self) -> u64 {
        match self.kind {
            EntryKind::File { len, .. } => len,
            _ => 0,
        }
    }

    /// Bytes of the content stream before its own that are no file's.
    #[must_use]
    pub const fn lead(&self) -> u64 {
        match self.state.content {
            Content::Older { lead } => lead,
            _ => 0,
        }
    }
}

/// How far an entry is what was there when the backup was made. Whatever it is not, its reader is
/// told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EntryState {
    /// How far its content is.
    pub content: Content,
    /// Whether extended attributes, ACLs among them, or flags may be missing: they could not be
    /// read.
    pub lacks_attributes: bool,
}

impl EntryState {
    /// All is known, as it was.
    pub const WHOLE: Self = Self {
        content: Content::Whole,
        lacks_attributes: false,
    };

    /// Whether all is known, as it was.
    #[must_use]
    pub fn is_whole(self) -> bool {
        self == Self::WHOLE
    }
}

/// How far an entry's content is what was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    /// It is.
    #[default]
    Whole,
    /// A file that changed while it was read: it may mix old and new.
    Changed,
    /// It could not be read: the entry, with all its metadata, is that of the backup before.
    Older {
        /// Bytes of the content stream before the file's own that are no file's: what was read
        /// before the fault.
        lead: u64,
    },
    /// A file could be read up to a fault, a folder's names not all, and no earlier backup had it.
    /// Of a hard link: what it is a name of is like that.
    Partial {
        /// The length that the file had; 0 if the file system did not show it, and for a folder.
        of: u64,
    },
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file: its bytes are the next `len` of the content stream. The offset is not written:
    /// it is the sum of the lengths before, from the last fence on, so that a file that grows does not
    /// change the entries after it.
    File {
        /// Bytes in the content stream.
        len: u64,
        /// Holes of the source, (offset, length), sorted, at most [`HOLES_MAX`]; the content stream
        /// has zeros there.
        holes: Vec<(u64, u64)>,
    },
    /// Another name of an entry that stands earlier in the listing and is no folder.
    HardLink {
        /// The path of the first name.
        target: Vec<u8>,
    },
    /// A folder.
    Folder,
    /// A symbolic link.
    Symlink {
        /// Where it points.
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
