//! An entry's metadata, as the system reports it.

use std::os::fd::{AsRawFd, OwnedFd};

use format::listing::{EntryKind, EntryState, ListingEntry};
use rustix::fs::{
    FileType, Stat, Statx, fgetxattr, flistxattr, ioctl_getflags, lgetxattr, llistxattr, makedev,
};
use rustix::io::Errno;
use types::FileTime;

use crate::retry::retry;
use crate::{Accounts, Action, TreeError, order};

/// The facts of `stat`, in types that are the same on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) kind: FileType,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) len: u64,
    /// Bytes allocated. They are fewer than `len` if there are holes, or if the file system
    /// compresses.
    pub(crate) allocated: u64,
    pub(crate) mtime: FileTime,
    pub(crate) ctime: FileTime,
    pub(crate) device: u64,
    pub(crate) inode: u64,
    pub(crate) links: u64,
    pub(crate) special: u64,
}

impl Facts {
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_fallible_conversions,
        reason = "the fields' widths differ between architectures"
    )]
    pub(crate) fn of(stat: &Stat) -> Self {
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        Self {
            kind: FileType::from_raw_mode(stat.st_mode),
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            len: count(stat.st_size.into()),
            allocated: count(stat.st_blocks.into()).saturating_mul(512),
            mtime: FileTime::new(stat.st_mtime.into(), stat.st_mtime_nsec.try_into().unwrap_or(0)),
            ctime: FileTime::new(stat.st_ctime.into(), stat.st_ctime_nsec.try_into().unwrap_or(0)),
            device: stat.st_dev.into(),
            inode: stat.st_ino.into(),
            links: stat.st_nlink.into(),
            special: stat.st_rdev.into(),
        }
    }
}

impl Facts {
    /// Like [`Self::of`]. A value that the system did not give is 0.
    pub(crate) fn of_statx(found: &Statx) -> Self {
        let time = |time: rustix::fs::StatxTimestamp| FileTime::new(time.tv_sec, time.tv_nsec);
        Self {
            kind: FileType::from_raw_mode(found.stx_mode.into()),
            mode: u32::from(found.stx_mode) & 0o7777,
            uid: found.stx_uid,
            gid: found.stx_gid,
            len: found.stx_size,
            allocated: found.stx_blocks.saturating_mul(512),
            mtime: time(found.stx_mtime),
            ctime: time(found.stx_ctime),
            device: makedev(found.stx_dev_major, found.stx_dev_minor),
            inode: found.stx_ino,
            links: found.stx_nlink.into(),
            special: makedev(found.stx_rdev_major, found.stx_rdev_minor),
        }
    }
}

/// Makes the entry from `stat` and the accounts, without extended attributes. `target` is the
/// target of a symbolic link.
pub(crate) fn entry(
    path: Vec<u8>,
    facts: &Facts,
    target: Vec<u8>,
    accounts: &Accounts,
) -> Option<ListingEntry> {
    let kind = match facts.kind {
        FileType::RegularFile => EntryKind::File {
            len: facts.len,
            holes: Vec::new(),
        },
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Symlink { target },
        FileType::CharacterDevice => EntryKind::CharDevice {
            device: facts.special,
        },
        FileType::BlockDevice => EntryKind::BlockDevice {
            device: facts.special,
        },
        FileType::Fifo => EntryKind::Fifo,
        FileType::Socket => EntryKind::Socket,
        FileType::Unknown => return None,
    };
    Some(ListingEntry {
        path,
        kind,
        mode: facts.mode,
        uid: facts.uid,
        gid: facts.gid,
        user: accounts.user(facts.uid).to_vec(),
        group: accounts.group(facts.gid).to_vec(),
        mtime: facts.mtime,
        ctime: facts.ctime,
        device: facts.device,
        inode: facts.inode,
        xattrs: Vec::new(),
        flags: 0,
        state: EntryState::WHOLE,
    })
}

/// The inode flags that a restore can set (Linux `FS_FL_USER_MODIFIABLE`): secure deletion,
/// undelete, compression, synchronous, immutable, append-only, no dump, no times of access, no
/// compression, journalled data, no tails, synchronous folder, top of hierarchies, no copy on
/// write, direct access, projects inherited, names of any case. The other flags describe how the
/// file system stores the inode, or need a key or a signature: encryption, verity.
pub(crate) const FLAGS_KEPT: u32 = 0x1
    | 0x2
    | 0x4
    | 0x8
    | 0x10
    | 0x20
    | 0x40
    | 0x80
    | 0x400
    | 0x4000
    | 0x8000
    | 0x1_0000
    | 0x2_0000
    | 0x80_0000
    | 0x200_0000
    | 0x2000_0000
    | 0x4000_0000;

/// The flags of an open file or folder; 0 if the file system has no flags.
pub(crate) fn flags_of(file: &OwnedFd) -> Result<u32, Errno> {
    match retry(|| ioctl_getflags(file)) {
        Ok(flags) => Ok(flags.bits() & FLAGS_KEPT),
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(0),
        Err(errno) => Err(errno),
    }
}

/// Names and values.
pub(crate) type Attributes = Vec<(Vec<u8>, Vec<u8>)>;

/// Reads extended attributes of names in folders, without following links.
#[derive(Debug)]
pub(crate) struct AttributeReader {
    /// Whether names can be reached below `/proc/self/fd`, which works at any depth.
    through_proc: bool,
    names: Vec<u8>,
    value: Vec<u8>,
}

/// The system's limits for a list of names and for a value [Linux `limits.h`].
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

impl AttributeReader {
    pub(crate) fn new() -> Self {
        Self {
            through_proc: std::fs::exists("/proc/self/fd/.").unwrap_or(false),
            names: vec![0; ATTRIBUTE_BYTES_MAX],
            value: vec![0; ATTRIBUTE_BYTES_MAX],
        }
    }

    /// The attributes of `name` in the folder, sorted by name. With a fault, those that could be
    /// read. With `follow`, the attributes of a link's target.
    pub(crate) fn read(
        &mut self,
        folder: &OwnedFd,
        name: &[u8],
        path: &[u8],
        follow: bool,
    ) -> (Attributes, Option<TreeError>) {
        let mut at = if self.through_proc {
            order::join(format!("/proc/self/fd/{}", folder.as_raw_fd()).as_bytes(), name)
        } else {
            path.to_vec()
        };
        if follow {
            // A trailing slash resolves a link to the folder it points to.
            at.push(b'/');
        }
        let fault = |errno| Some(TreeError::reading(path, Action::ReadAttributes, errno));
        let len = match retry(|| llistxattr(&at[..], &mut self.names[..])) {
            Ok(len) => len,
            Err(Errno::OPNOTSUPP) => return (Vec::new(), None),
            Err(errno) => return (Vec::new(), fault(errno)),
        };
        let mut found = Vec::new();
        let mut first_fault = None;
        for key in self.names[..len].split(|b| *b == 0).filter(|key| !key.is_empty()) {
            match retry(|| lgetxattr(&at[..], key, &mut self.value[..])) {
                Ok(len) => found.push((key.to_vec(), self.value[..len].to_vec())),
                // Removed since the names were listed.
                Err(Errno::NODATA) => {}
                Err(errno) => first_fault = first_fault.or_else(|| fault(errno)),
            }
        }
        found.sort();
        (found, first_fault)
    }
}

/// The attributes of an open file, sorted by name, and its flags. With an error those that could be
/// read.
pub(crate) fn attributes_and_flags_of(file: &OwnedFd) -> (Attributes, u32, Option<Errno>) {
    let (attributes, fault) = attributes_of(file);
    match flags_of(file) {
        Ok(flags) => (attributes, flags, fault),
        Err(errno) => (attributes, 0, fault.or(Some(errno))),
    }
}

/// The attributes of an open file, sorted by name. With an error those that could be read.
fn attributes_of(file: &OwnedFd) -> (Attributes, Option<Errno>) {
    let mut small = [0; 512];
    let mut large = Vec::new();
    let names = match retry(|| flistxattr(file, &mut small)) {
        Ok(len) => &small[..len],
        Err(Errno::OPNOTSUPP) => return (Vec::new(), None),
        Err(Errno::RANGE) => {
            large.resize(ATTRIBUTE_BYTES_MAX, 0);
            match retry(|| flistxattr(file, &mut large)) {
                Ok(len) => &large[..len],
                Err(errno) => return (Vec::new(), Some(errno)),
            }
        }
        Err(errno) => return (Vec::new(), Some(errno)),
    };
    let mut found = Vec::new();
    let mut fault = None;
    if names.is_empty() {
        return (found, fault);
    }
    let mut value = vec![0; ATTRIBUTE_BYTES_MAX];
    for key in names.split(|b| *b == 0).filter(|key| !key.is_empty()) {
        match retry(|| fgetxattr(file, key, &mut value[..])) {
            Ok(len) => found.push((key.to_vec(), value[..len].to_vec())),
            // Removed since the names were listed.
            Err(Errno::NODATA) => {}
            Err(errno) => fault = fault.or(Some(errno)),
        }
    }
    found.sort();
    (found, fault)
}
