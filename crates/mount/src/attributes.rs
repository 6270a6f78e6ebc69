//! Attributes of inodes.

use types::FileTime;

use crate::item::{Body, Item};

/// The kind of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Folder,
    File,
    Link,
    CharDevice,
    BlockDevice,
    Fifo,
    Socket,
}

impl Kind {
    pub(crate) fn of(body: &Body) -> Self {
        match body {
            Body::Folder => Self::Folder,
            Body::File { .. } => Self::File,
            Body::Link(_) => Self::Link,
            Body::CharDevice(_) => Self::CharDevice,
            Body::BlockDevice(_) => Self::BlockDevice,
            Body::Fifo => Self::Fifo,
            Body::Socket => Self::Socket,
        }
    }
}

/// The attributes of an inode, as `stat` has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// The number of the inode.
    pub number: u64,
    /// Its kind.
    pub kind: Kind,
    /// Permission, set-id and sticky bits.
    pub mode: u16,
    /// Its length in bytes.
    pub len: u64,
    /// Units of 512 bytes that are in no hole.
    pub blocks: u64,
    /// Last change of the content.
    pub mtime: FileTime,
    /// Last change of the inode on the source.
    pub ctime: FileTime,
    /// How many names it has; 1 for folders.
    pub names: u32,
    /// Numeric owner.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
    /// The number of a device.
    pub device: u32,
}

impl Attributes {
    /// Of an entry of a backup.
    pub(crate) fn of(number: u64, item: &Item, names: u32, owner: Option<(u32, u32)>) -> Self {
        let (uid, gid) = owner.unwrap_or((item.uid, item.gid));
        Self {
            number,
            kind: Kind::of(&item.body),
            mode: u16::try_from(item.mode & 0o7777).unwrap_or(0),
            len: item.len(),
            blocks: item.blocks(),
            mtime: item.mtime,
            ctime: item.ctime,
            names,
            uid,
            gid,
            device: match item.body {
                Body::CharDevice(device) | Body::BlockDevice(device) => short(device),
                _ => 0,
            },
        }
    }

    /// Of a folder above the backups, or of a link there, by the length of its target.
    pub(crate) fn of_top(number: u64, link: Option<u64>, time: FileTime, owner: (u32, u32)) -> Self {
        Self {
            number,
            kind: if link.is_some() { Kind::Link } else { Kind::Folder },
            mode: if link.is_some() { 0o777 } else { 0o555 },
            len: link.unwrap_or(0),
            blocks: 0,
            mtime: time,
            ctime: time,
            names: 1,
            uid: owner.0,
            gid: owner.1,
            device: 0,
        }
    }
}

/// A device's number in the 32 bits that FUSE has for it: 8 and 12 bits of the minor number around
/// 12 of the major one.
fn short(device: u64) -> u32 {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    (minor & 0xff) | (major & 0xfff) << 8 | (minor & 0xf_ff00) << 12
}
