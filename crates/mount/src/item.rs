//! An entry of a backup, as the file system shows it.

use format::listing::{Content, EntryKind, ListingEntry};
use tree::Listed;
use types::{FileTime, UnixNanos};

/// The end of the name of a file of which the backup has only a part, as in a restore. So nobody
/// mistakes it for the file.
pub(crate) const PART: &[u8] = b".onefold-incomplete";

/// The kind of an entry, with what only this kind has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Body {
    /// A folder.
    Folder,
    /// A file.
    File {
        /// Where its bytes begin in its stream.
        offset: u64,
        /// Its length in bytes.
        len: u64,
        /// Its holes, as the listing has them; `None` if only the stream's tree knows.
        holes: Option<Vec<(u64, u64)>>,
    },
    /// A symbolic link, with its target.
    Link(Vec<u8>),
    /// A character device.
    CharDevice(u64),
    /// A block device.
    BlockDevice(u64),
    /// A named pipe.
    Fifo,
    /// A socket.
    Socket,
}

/// An entry of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Item {
    /// Its path in the backup.
    pub(crate) path: Vec<u8>,
    /// Of a hard link the path of its first name: both are one inode.
    pub(crate) first_name: Option<Vec<u8>>,
    pub(crate) body: Body,
    /// Permission, set-id and sticky bits.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: FileTime,
    pub(crate) ctime: FileTime,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether no listing has it: it has no owner.
    pub(crate) is_made: bool,
}

impl Item {
    /// An entry that is no hard link; `None` for one that is.
    pub(crate) fn of(listed: Listed) -> Option<Self> {
        let body = match &listed.entry.kind {
            EntryKind::File { len, holes } => Body::File {
                offset: listed.content_offset,
                len: *len,
                holes: Some(holes.clone()),
            },
            EntryKind::HardLink { .. } => return None,
            EntryKind::Folder => Body::Folder,
            EntryKind::Symlink { target } => Body::Link(target.clone()),
            EntryKind::CharDevice { device } => Body::CharDevice(*device),
            EntryKind::BlockDevice { device } => Body::BlockDevice(*device),
            EntryKind::Fifo => Body::Fifo,
            EntryKind::Socket => Body::Socket,
        };
        Some(Self::with(listed.entry, body))
    }

    fn with(entry: ListingEntry, body: Body) -> Self {
        let is_part = matches!(entry.state.content, Content::Partial { .. });
        let mut path = entry.path;
        if is_part && matches!(body, Body::File { .. }) {
            path.extend_from_slice(PART);
        }
        Self {
            path,
            first_name: None,
            body,
            mode: entry.mode,
            uid: entry.uid,
            gid: entry.gid,
            mtime: entry.mtime,
            ctime: entry.ctime,
            xattrs: entry.xattrs,
            is_made: false,
        }
    }

    /// Another name of a file: the path is its own, and all else is the first name's.
    pub(crate) fn linked(&self, link: &ListingEntry, target: &[u8]) -> Self {
        let mut path = link.path.clone();
        if self.path.ends_with(PART) && self.path != target {
            path.extend_from_slice(PART);
        }
        Self {
            path,
            first_name: Some(self.path.clone()),
            ..self.clone()
        }
    }

    /// A file or folder that no listing has: a stream, a folder above it, or the top folder of a
    /// backup whose listing was not read yet. As in a restore, only its owner may read a stream: it
    /// may be a database or a disk with all that is secret there.
    pub(crate) fn made(path: Vec<u8>, body: Body, time: FileTime) -> Self {
        Self {
            path,
            first_name: None,
            mode: if body == Body::Folder { 0o755 } else { 0o600 },
            body,
            uid: 0,
            gid: 0,
            mtime: time,
            ctime: time,
            xattrs: Vec::new(),
            is_made: true,
        }
    }

    /// The path that names the inode.
    pub(crate) fn identity(&self) -> &[u8] {
        self.first_name.as_deref().unwrap_or(&self.path)
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> u64 {
        match &self.body {
            Body::File { len, .. } => *len,
            Body::Link(target) => target.len() as u64,
            _ => 0,
        }
    }

    /// Bytes that are in no hole, in units of 512.
    pub(crate) fn blocks(&self) -> u64 {
        match &self.body {
            Body::File { len, holes, .. } => {
                let holes = holes.iter().flatten().map(|(_, len)| len).sum::<u64>();
                len.saturating_sub(holes).div_ceil(512)
            }
            _ => 0,
        }
    }

    /// About how much memory it takes.
    pub(crate) fn bytes(&self) -> u64 {
        let holes = match &self.body {
            Body::File {
                holes: Some(holes), ..
            } => size_of_val(&holes[..]),
            Body::Link(target) => target.len(),
            _ => 0,
        };
        let xattrs = self
            .xattrs
            .iter()
            .map(|(name, value)| name.len() + value.len() + 48);
        let names = self.path.len() + self.first_name.as_ref().map_or(0, Vec::len);
        (size_of::<Self>() + names + holes + xattrs.sum::<usize>()) as u64
    }
}

/// A time of a backup as a time of a file.
pub(crate) fn file_time(time: UnixNanos) -> FileTime {
    const NANOS: i64 = 1_000_000_000;
    let (seconds, nanos) = (time.get().div_euclid(NANOS), time.get().rem_euclid(NANOS));
    FileTime::new(seconds, u32::try_from(nanos).unwrap_or(0))
}
