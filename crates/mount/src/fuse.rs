//! The kernel's requests, handed to the file system. Several threads take them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};
use rustix::io::Errno;
use types::FileTime;

use crate::attributes::{Attributes, Kind};
use crate::file_system::{FileSystem, KEPT};
use crate::warm::Warmer;

/// Requests that the kernel may send ahead of their answers.
const BACKGROUND_MAX: u16 = 64;
/// A block, as `stat` and `statfs` have it. Programs read in pieces of it.
const BLOCK_BYTES: u32 = 128 << 10;
const NAME_BYTES_MAX: u32 = 255;

/// The file system for the kernel.
pub(crate) struct Fuse {
    pub(crate) files: Arc<FileSystem>,
    /// Whether the kernel checks access lists, too.
    pub(crate) checks_access: bool,
    /// Is told of reads.
    warmer: Warmer,
    /// Whether the kernel need not open files, or folders.
    opens_nothing: (AtomicBool, AtomicBool),
}

impl Fuse {
    pub(crate) fn new(files: Arc<FileSystem>, checks_access: bool, warmer: Warmer) -> Self {
        Self {
            files,
            checks_access,
            warmer,
            opens_nothing: (AtomicBool::new(false), AtomicBool::new(false)),
        }
    }
}

impl Filesystem for Fuse {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let can = config.capabilities();
        let mut wanted = InitFlags::FUSE_PARALLEL_DIROPS | InitFlags::FUSE_DO_READDIRPLUS;
        if self.checks_access {
            wanted |= InitFlags::FUSE_POSIX_ACL;
        }
        let refused = |what: String| io::Error::other(format!("the kernel refuses {what}"));
        { config.add_capabilities(wanted & can) }.map_err(|flags| refused(format!("{flags:?}")))?;
        { config.set_max_background(BACKGROUND_MAX) }.map_err(|_| refused("to ask ahead".to_owned()))?;
        let opens_nothing = |flag| AtomicBool::new(can.contains(flag));
        self.opens_nothing = (
            opens_nothing(InitFlags::FUSE_NO_OPEN_SUPPORT),
            opens_nothing(InitFlags::FUSE_NO_OPENDIR_SUPPORT),
        );
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.files.look_up(parent.0, name.as_bytes()) {
            Ok(entry) => {
                let attributes = attributes(&entry.attributes);
                reply.entry_with_ttls(
                    &entry.attributes_kept,
                    &entry.name_kept,
                    &attributes,
                    Generation(0),
                );
            }
            // Number 0: there is no such name, and the kernel may keep that.
            Err(Errno::NOENT) if self.files.is_fixed(parent.0) => {
                reply.entry(&KEPT, &nothing(), Generation(0));
            }
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        self.files.forget(number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.files.attributes(number.0) {
            Ok(entry) => reply.attr(&entry.attributes_kept, &attributes(&entry.attributes)),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.files.read_link(number.0) {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.opens_nothing.0.load(Ordering::Relaxed) {
            // The kernel never asks again, and keeps pages.
            return reply.error(error(Errno::NOSYS));
        }
        reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.opens_nothing.1.load(Ordering::Relaxed) {
            return reply.error(error(Errno::NOSYS));
        }
        reply.opened(
            FileHandle(0),
            FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR,
        );
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.files.read_file(number.0, offset, size) {
            Ok(bytes) => {
                reply.data(&bytes);
                self.warmer.note(number.0, offset, size, bytes.len());
            }
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listed = self.files.list(number.0, offset, false, &mut |listed| {
            let name = OsStr::from_bytes(&listed.name);
            reply.add(INodeNo(listed.number), listed.next, file_type(listed.kind), name)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.files.list(number.0, offset, true, &mut |listed| {
            let Some(entry) = &listed.entry else { return false };
            let kept = entry.name_kept.min(entry.attributes_kept);
            reply.add(
                INodeNo(listed.number),
                listed.next,
                OsStr::from_bytes(&listed.name),
                &kept,
                &attributes(&entry.attributes),
                Generation(0),
            )
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(0, 0, 0, 0, 0, BLOCK_BYTES, NAME_BYTES_MAX, BLOCK_BYTES);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.files.extended_attributes(number.0) {
            Ok(all) => match all.iter().find(|(of, _)| of == name.as_bytes()) {
                Some((_, value)) => answer(value, size, reply),
                None => reply.error(error(Errno::NODATA)),
            },
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, reply: ReplyXattr) {
        match self.files.extended_attributes(number.0) {
            Ok(all) => {
                let names: Vec<u8> = all
                    .iter()
                    .flat_map(|(name, _)| [&name[..], b"\0"].concat())
                    .collect();
                answer(&names, size, reply);
            }
            Err(errno) => reply.error(error(errno)),
        }
    }

    fn lseek(
        &self,
        _: &Request,
        number: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        const SEEK_DATA: i32 = 3;
        const SEEK_HOLE: i32 = 4;
        let (Ok(from), SEEK_DATA | SEEK_HOLE) = (u64::try_from(offset), whence) else {
            return reply.error(error(Errno::INVAL));
        };
        match self.files.seek(number.0, from, whence == SEEK_HOLE) {
            Ok(at) => reply.offset(i64::try_from(at).unwrap_or(i64::MAX)),
            Err(errno) => reply.error(error(errno)),
        }
    }
}

/// Answers with a value, or with its length if the length is asked for.
fn answer(value: &[u8], size: u32, reply: ReplyXattr) {
    match u32::try_from(value.len()) {
        Ok(len) if size == 0 => reply.size(len),
        Ok(len) if len <= size => reply.data(value),
        _ => reply.error(error(Errno::RANGE)),
    }
}

fn error(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw_os_error())
}

const fn file_type(kind: Kind) -> FileType {
    match kind {
        Kind::Folder => FileType::Directory,
        Kind::File => FileType::RegularFile,
        Kind::Link => FileType::Symlink,
        Kind::CharDevice => FileType::CharDevice,
        Kind::BlockDevice => FileType::BlockDevice,
        Kind::Fifo => FileType::NamedPipe,
        Kind::Socket => FileType::Socket,
    }
}

fn time(time: FileTime) -> SystemTime {
    let seconds = Duration::from_secs(time.seconds().unsigned_abs());
    let whole = if time.seconds() < 0 {
        UNIX_EPOCH.checked_sub(seconds)
    } else {
        UNIX_EPOCH.checked_add(seconds)
    };
    let exact = whole.and_then(|whole| whole.checked_add(Duration::from_nanos(time.nanos().into())));
    exact.unwrap_or(UNIX_EPOCH)
}

fn attributes(of: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(of.number),
        size: of.len,
        blocks: of.blocks,
        // A backup has no time of access.
        atime: time(of.mtime),
        mtime: time(of.mtime),
        ctime: time(of.ctime),
        crtime: UNIX_EPOCH,
        kind: file_type(of.kind),
        perm: of.mode,
        nlink: of.names,
        uid: of.uid,
        gid: of.gid,
        rdev: of.device,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// The answer that there is no such name.
fn nothing() -> FileAttr {
    let time = FileTime::default();
    attributes(&Attributes {
        number: 0,
        kind: Kind::File,
        mode: 0,
        len: 0,
        blocks: 0,
        mtime: time,
        ctime: time,
        names: 0,
        uid: 0,
        gid: 0,
        device: 0,
    })
}
