//! The file system. It passes every call to the backing folder, except for the peculiarities.
//!
//! Each inode has a handle (`O_PATH`) that stays open until the kernel forgets the inode. No path
//! is kept, so names can be moved and removed freely. Calls without a variant for handles use
//! `/proc/self/fd`.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, Uid,
    XattrFlags, chmodat, chownat, fstat, fstatvfs, ftruncate, getxattr, linkat, listxattr, mkdirat, mknodat,
    open, openat, readlinkat, removexattr, renameat_with, seek, setxattr, symlinkat, unlinkat, utimensat,
};
use rustix::io::{Errno, pread, pwrite};

use crate::errors::reply;
use crate::{Options, names};

/// The kernel remembers nothing, because it must ask each time for names that are the same.
const TTL: Duration = Duration::ZERO;

type Answer<T> = Result<T, Errno>;

pub(crate) struct Passthrough {
    options: Options,
    room_bytes: Arc<AtomicU64>,
    inodes: Mutex<HashMap<u64, Known>>,
    files: Mutex<HashMap<u64, Arc<OwnedFd>>>,
    next_file: AtomicU64,
    /// Inodes that were read and are open.
    read: Mutex<HashSet<u64>>,
}

struct Known {
    handle: Arc<OwnedFd>,
    looked_up: u64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn through_proc(handle: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", handle.as_raw_fd())
}

/// Whether the name of an entry has this text in it.
fn is_called(inode: &OwnedFd, text: &str) -> bool {
    let path = readlinkat(CWD, through_proc(inode), Vec::new());
    path.is_ok_and(|path| {
        let name = path.as_bytes().rsplit(|byte| *byte == b'/').next();
        name.is_some_and(|name| OsStr::from_bytes(name).to_string_lossy().contains(text))
    })
}

fn handle_of(at: &OwnedFd, name: &OsStr) -> Answer<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, name, flags, Mode::empty())
}

impl Passthrough {
    pub(crate) fn new(backing: &Path, options: Options, room_bytes: Arc<AtomicU64>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = open(backing, flags, Mode::empty())?;
        let known = Known {
            handle: Arc::new(top),
            looked_up: 1,
        };
        Ok(Self {
            options,
            room_bytes,
            inodes: Mutex::new(HashMap::from([(INodeNo::ROOT.0, known)])),
            files: Mutex::default(),
            next_file: AtomicU64::new(1),
            read: Mutex::default(),
        })
    }

    fn inode(&self, number: INodeNo) -> Answer<Arc<OwnedFd>> {
        let inodes = locked(&self.inodes);
        inodes
            .get(&number.0)
            .map(|known| known.handle.clone())
            .ok_or(Errno::STALE)
    }

    fn file(&self, number: FileHandle) -> Answer<Arc<OwnedFd>> {
        locked(&self.files).get(&number.0).cloned().ok_or(Errno::BADF)
    }

    fn keep(&self, file: OwnedFd) -> FileHandle {
        let number = self.next_file.fetch_add(1, Ordering::Relaxed);
        locked(&self.files).insert(number, Arc::new(file));
        FileHandle(number)
    }

    /// The folder, and the name in it that the request means.
    fn place(&self, parent: INodeNo, name: &OsStr) -> Answer<(Arc<OwnedFd>, std::ffi::OsString)> {
        let at = self.inode(parent)?;
        let name = names::find(self.options.names, &at, name);
        Ok((at, name))
    }

    /// Gives the kernel an inode, and counts the look-up.
    fn look(&self, at: &OwnedFd, name: &OsStr) -> Answer<FileAttr> {
        let handle = handle_of(at, name)?;
        let stat = fstat(&handle)?;
        let number = inode_number(&stat);
        let mut inodes = locked(&self.inodes);
        let known = inodes.entry(number).or_insert_with(|| Known {
            handle: Arc::new(handle),
            looked_up: 0,
        });
        known.looked_up += 1;
        Ok(self.attributes(INodeNo(number), &known.handle, &stat))
    }

    /// Makes the caller the owner of a new entry, and gives the kernel its inode.
    fn made(&self, request: &Request, at: &OwnedFd, name: &OsStr, mode: Option<u32>) -> Answer<FileAttr> {
        let handle = handle_of(at, name)?;
        let (user, group) = (Uid::from_raw(request.uid()), Gid::from_raw(request.gid()));
        chownat(&handle, "", Some(user), Some(group), AtFlags::EMPTY_PATH)?;
        if let Some(mode) = mode {
            let mode = Mode::from_raw_mode(mode & 0o7777);
            chmodat(CWD, through_proc(&handle), mode, AtFlags::empty())?;
        }
        self.look(at, name)
    }

    /// The offset from which on a file cannot be read.
    fn unreadable_from(&self, inode: &OwnedFd) -> Option<u64> {
        let (text, offset) = self.options.unreadable.as_ref()?;
        is_called(inode, text).then_some(*offset)
    }

    fn hides_length(&self, inode: &OwnedFd) -> bool {
        let text = self.options.without_length.as_ref();
        text.is_some_and(|text| is_called(inode, text))
    }

    fn attributes(&self, number: INodeNo, inode: &OwnedFd, stat: &Stat) -> FileAttr {
        let mut shown = attributes(number, stat);
        let is_known = self.options.length_once_read && locked(&self.read).contains(&number.0);
        if shown.kind == FileType::RegularFile && self.hides_length(inode) && !is_known {
            (shown.size, shown.blocks) = (0, 0);
        }
        shown
    }

    fn opened(&self, inode: &OwnedFd, flags: OFlags) -> Answer<(FileHandle, FopenFlags)> {
        let file = open(through_proc(inode), flags, Mode::empty())?;
        // With direct I/O a read may end early; the page cache would add zeros.
        let direct = if self.unreadable_from(inode).is_some() || self.hides_length(inode) {
            FopenFlags::FOPEN_DIRECT_IO
        } else {
            FopenFlags::empty()
        };
        Ok((self.keep(file), direct))
    }

    fn read_file(&self, inode: INodeNo, file: FileHandle, offset: u64, size: u32) -> Answer<Vec<u8>> {
        let mut size = size as usize;
        if let Some(from) = self.unreadable_from(self.inode(inode)?.as_ref()) {
            let before = from.saturating_sub(offset);
            if before == 0 {
                return Err(Errno::IO);
            }
            size = size.min(usize::try_from(before).unwrap_or(usize::MAX));
        }
        let file = self.file(file)?;
        locked(&self.read).insert(inode.0);
        let mut bytes = vec![0; size];
        let mut len = 0;
        while len < bytes.len() {
            match pread(&*file, &mut bytes[len..], offset + len as u64)? {
                0 => break,
                more => len += more,
            }
        }
        bytes.truncate(len);
        Ok(bytes)
    }

    fn write_file(&self, file: FileHandle, offset: u64, data: &[u8]) -> Answer<u32> {
        let len = data.len() as u64;
        let fits = |room: u64| (room == u64::MAX).then_some(room).or(room.checked_sub(len));
        let taken = self
            .room_bytes
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, fits);
        if taken.is_err() {
            return Err(Errno::NOSPC);
        }
        let file = self.file(file)?;
        let mut done = 0;
        while done < data.len() {
            done += pwrite(&*file, &data[done..], offset + done as u64)?;
        }
        u32::try_from(done).map_err(|_| Errno::INVAL)
    }

    fn set(&self, inode: INodeNo, wanted: &Wanted) -> Answer<FileAttr> {
        let handle = self.inode(inode)?;
        let path = through_proc(&handle);
        if wanted.user.is_some() || wanted.group.is_some() {
            let (user, group) = (wanted.user.map(Uid::from_raw), wanted.group.map(Gid::from_raw));
            chownat(&*handle, "", user, group, AtFlags::EMPTY_PATH)?;
        }
        if let Some(mode) = wanted.mode {
            chmodat(CWD, &*path, Mode::from_raw_mode(mode & 0o7777), AtFlags::empty())?;
        }
        if let Some(size) = wanted.size {
            let file = match wanted.file {
                Some(file) => self.file(file)?,
                None => Arc::new(open(&*path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?),
            };
            ftruncate(&*file, size)?;
        }
        if wanted.accessed.is_some() || wanted.modified.is_some() {
            let times = Timestamps {
                last_access: timespec(wanted.accessed),
                last_modification: timespec(wanted.modified),
            };
            utimensat(CWD, &*path, &times, AtFlags::empty())?;
        }
        Ok(self.attributes(inode, &handle, &fstat(&*handle)?))
    }

    fn rename_it(
        &self,
        (parent, name): (INodeNo, &OsStr),
        (new_parent, new_name): (INodeNo, &OsStr),
        flags: RenameFlags,
    ) -> Answer<()> {
        let (from, old) = self.place(parent, name)?;
        let (to, new) = self.place(new_parent, new_name)?;
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        renameat_with(&*from, old, &*to, new, flags)
    }
}

/// Attributes to set on a file.
struct Wanted {
    mode: Option<u32>,
    user: Option<u32>,
    group: Option<u32>,
    size: Option<u64>,
    accessed: Option<TimeOrNow>,
    modified: Option<TimeOrNow>,
    file: Option<FileHandle>,
}

fn timespec(time: Option<TimeOrNow>) -> Timespec {
    let plain = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
    match time {
        None => plain(0, UTIME_OMIT),
        Some(TimeOrNow::Now) => plain(0, UTIME_NOW),
        Some(TimeOrNow::SpecificTime(time)) => match time.duration_since(UNIX_EPOCH) {
            Ok(after) => plain(
                i64::try_from(after.as_secs()).unwrap_or(0),
                after.subsec_nanos().into(),
            ),
            // `fuser` decodes seconds before 1970 with their nanoseconds subtracted. This restores
            // the original value.
            Err(before) => {
                let before = before.duration();
                let seconds = i64::try_from(before.as_secs()).unwrap_or(0);
                plain(-seconds, before.subsec_nanos().into())
            }
        },
    }
}

fn system_time(seconds: i64, nanos: u64) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let begin = if seconds < 0 {
        UNIX_EPOCH - whole
    } else {
        UNIX_EPOCH + whole
    };
    begin + Duration::from_nanos(nanos)
}

/// The inode number; the backing folder has number 1, whatever its own number is.
fn inode_number(stat: &Stat) -> u64 {
    stat.st_ino.max(INodeNo::ROOT.0 + 1)
}

fn kind(mode: u32) -> FileType {
    match rustix::fs::FileType::from_raw_mode(mode) {
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::NamedPipe,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::CharDevice,
        rustix::fs::FileType::BlockDevice => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

fn attributes(number: INodeNo, stat: &Stat) -> FileAttr {
    FileAttr {
        ino: number,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        blocks: u64::try_from(stat.st_blocks).unwrap_or(0),
        atime: system_time(stat.st_atime, stat.st_atime_nsec),
        mtime: system_time(stat.st_mtime, stat.st_mtime_nsec),
        ctime: system_time(stat.st_ctime, stat.st_ctime_nsec),
        crtime: UNIX_EPOCH,
        kind: kind(stat.st_mode),
        perm: u16::try_from(stat.st_mode & 0o7777).unwrap_or(0),
        nlink: u32::try_from(stat.st_nlink).unwrap_or(u32::MAX),
        uid: stat.st_uid,
        gid: stat.st_gid,
        rdev: u32::try_from(stat.st_rdev).unwrap_or(0),
        blksize: 4096,
        flags: 0,
    }
}

/// The flags of the caller to use for the backing file as well.
fn open_flags(flags: i32) -> OFlags {
    let flags = OFlags::from_bits_retain(flags.cast_unsigned());
    flags.intersection(OFlags::ACCMODE | OFlags::TRUNC | OFlags::APPEND) | OFlags::CLOEXEC
}

fn answer_entry(made: Answer<FileAttr>, to: ReplyEntry) {
    match made {
        Ok(attr) => to.entry(&TTL, &attr, Generation(0)),
        Err(errno) => to.error(reply(errno)),
    }
}

fn answer_empty(done: Answer<()>, to: ReplyEmpty) {
    match done {
        Ok(()) => to.ok(),
        Err(errno) => to.error(reply(errno)),
    }
}

fn answer_xattr(value: Answer<Vec<u8>>, size: u32, to: ReplyXattr) {
    match value {
        Ok(value) if size == 0 => to.size(u32::try_from(value.len()).unwrap_or(u32::MAX)),
        Ok(value) if value.len() > size as usize => to.error(fuser::Errno::ERANGE),
        Ok(value) => to.data(&value),
        Err(errno) => to.error(reply(errno)),
    }
}

impl Filesystem for Passthrough {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, to: ReplyEntry) {
        let found = self
            .place(parent, name)
            .and_then(|(at, name)| self.look(&at, &name));
        answer_entry(found, to);
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        let mut inodes = locked(&self.inodes);
        if number == INodeNo::ROOT {
            return;
        }
        if let Some(known) = inodes.get_mut(&number.0) {
            known.looked_up = known.looked_up.saturating_sub(times);
            if known.looked_up == 0 {
                inodes.remove(&number.0);
            }
        }
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, to: ReplyAttr) {
        let found = self
            .inode(number)
            .and_then(|handle| Ok(self.attributes(number, &handle, &fstat(&*handle)?)));
        match found {
            Ok(attr) => to.attr(&TTL, &attr),
            Err(errno) => to.error(reply(errno)),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        file: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        to: ReplyAttr,
    ) {
        let wanted = Wanted {
            mode,
            user,
            group,
            size,
            accessed,
            modified,
            file,
        };
        match self.set(number, &wanted) {
            Ok(attr) => to.attr(&TTL, &attr),
            Err(errno) => to.error(reply(errno)),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, to: ReplyData) {
        let target = self
            .inode(number)
            .and_then(|handle| readlinkat(&*handle, "", Vec::new()));
        match target {
            Ok(target) => to.data(target.as_bytes()),
            Err(errno) => to.error(reply(errno)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        to: ReplyEntry,
    ) {
        let made = self.place(parent, name).and_then(|(at, name)| {
            let kind = rustix::fs::FileType::from_raw_mode(mode);
            mknodat(&*at, &*name, kind, Mode::RUSR | Mode::WUSR, device.into())?;
            self.made(request, &at, &name, Some(mode))
        });
        answer_entry(made, to);
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _: u32, to: ReplyEntry) {
        let made = self.place(parent, name).and_then(|(at, name)| {
            mkdirat(&*at, &*name, Mode::RWXU)?;
            self.made(request, &at, &name, Some(mode))
        });
        answer_entry(made, to);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, to: ReplyEmpty) {
        let place = self.place(parent, name);
        answer_empty(
            place.and_then(|(at, name)| unlinkat(&*at, &*name, AtFlags::empty())),
            to,
        );
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, to: ReplyEmpty) {
        let place = self.place(parent, name);
        answer_empty(
            place.and_then(|(at, name)| unlinkat(&*at, &*name, AtFlags::REMOVEDIR)),
            to,
        );
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, to: ReplyEntry) {
        let made = self.place(parent, name).and_then(|(at, name)| {
            symlinkat(target, &*at, &*name)?;
            self.made(request, &at, &name, None)
        });
        answer_entry(made, to);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        to: ReplyEmpty,
    ) {
        answer_empty(self.rename_it((parent, name), (new_parent, new_name), flags), to);
    }

    fn link(&self, _: &Request, number: INodeNo, parent: INodeNo, name: &OsStr, to: ReplyEntry) {
        let linked = self.inode(number).and_then(|handle| {
            let (at, name) = self.place(parent, name)?;
            linkat(CWD, through_proc(&handle), &*at, &*name, AtFlags::SYMLINK_FOLLOW)?;
            self.look(&at, &name)
        });
        answer_entry(linked, to);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, to: ReplyOpen) {
        let handle = self.inode(number);
        match handle.and_then(|handle| self.opened(&handle, open_flags(flags.0))) {
            Ok((file, direct)) => to.opened(file, direct),
            Err(errno) => to.error(reply(errno)),
        }
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        to: ReplyCreate,
    ) {
        let created = self.place(parent, name).and_then(|(at, name)| {
            let excl = OFlags::from_bits_retain(flags.cast_unsigned()) & OFlags::EXCL;
            let flags = open_flags(flags) | excl | OFlags::CREATE | OFlags::NOFOLLOW;
            let file = openat(&*at, &*name, flags, Mode::RUSR | Mode::WUSR)?;
            let attr = self.made(request, &at, &name, Some(mode))?;
            Ok((self.keep(file), attr))
        });
        match created {
            Ok((file, attr)) => to.created(&TTL, &attr, Generation(0), file, FopenFlags::empty()),
            Err(errno) => to.error(reply(errno)),
        }
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        file: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        to: ReplyData,
    ) {
        match self.read_file(number, file, offset, size) {
            Ok(bytes) => to.data(&bytes),
            Err(errno) => to.error(reply(errno)),
        }
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        file: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        to: ReplyWrite,
    ) {
        match self.write_file(file, offset, data) {
            Ok(len) => to.written(len),
            Err(errno) => to.error(reply(errno)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, to: ReplyEmpty) {
        to.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, file: FileHandle, _: bool, to: ReplyEmpty) {
        answer_empty(self.file(file).and_then(|file| rustix::fs::fsync(&*file)), to);
    }

    fn release(
        &self,
        _: &Request,
        number: INodeNo,
        file: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        to: ReplyEmpty,
    ) {
        locked(&self.read).remove(&number.0);
        locked(&self.files).remove(&file.0);
        to.ok();
    }

    fn readdir(&self, _: &Request, number: INodeNo, _: FileHandle, offset: u64, mut to: ReplyDirectory) {
        let listed = self.inode(number).and_then(|handle| names::list(&handle));
        let entries = match listed {
            Ok(entries) => entries,
            Err(errno) => return to.error(reply(errno)),
        };
        for (index, (name, inode, kind_there)) in entries.into_iter().enumerate() {
            let next = index as u64 + 1;
            let is_told = next <= offset;
            if !is_told && to.add(INodeNo(inode), next, kind(kind_there.as_raw_mode()), name) {
                break;
            }
        }
        to.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, to: ReplyEmpty) {
        to.ok();
    }

    fn statfs(&self, _: &Request, number: INodeNo, to: ReplyStatfs) {
        match self.inode(number).and_then(|handle| fstatvfs(&*handle)) {
            Ok(disk) => {
                let room = self.room_bytes.load(Ordering::SeqCst) / disk.f_frsize.max(1);
                let size = u32::try_from(disk.f_frsize).unwrap_or(4096);
                let (free, available) = (disk.f_bfree.min(room), disk.f_bavail.min(room));
                to.statfs(
                    disk.f_blocks,
                    free,
                    available,
                    disk.f_files,
                    disk.f_ffree,
                    size,
                    255,
                    size,
                );
            }
            Err(errno) => to.error(reply(errno)),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        to: ReplyEmpty,
    ) {
        let flags = XattrFlags::from_bits_retain(flags.cast_unsigned());
        let set = |handle: Arc<OwnedFd>| setxattr(through_proc(&handle), name, value, flags);
        answer_empty(self.inode(number).and_then(set), to);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, size: u32, to: ReplyXattr) {
        let value = self.inode(number).and_then(|handle| {
            let mut value = vec![0; 64 << 10];
            let len = getxattr(through_proc(&handle), name, &mut value[..])?;
            value.truncate(len);
            Ok(value)
        });
        answer_xattr(value, size, to);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, size: u32, to: ReplyXattr) {
        let value = self.inode(number).and_then(|handle| {
            let mut value = vec![0; 64 << 10];
            let len = listxattr(through_proc(&handle), &mut value[..])?;
            value.truncate(len);
            Ok(value)
        });
        answer_xattr(value, size, to);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, to: ReplyEmpty) {
        let remove = |handle: Arc<OwnedFd>| removexattr(through_proc(&handle), name);
        answer_empty(self.inode(number).and_then(remove), to);
    }

    fn lseek(&self, _: &Request, _: INodeNo, file: FileHandle, offset: i64, whence: i32, to: ReplyLseek) {
        const SEEK_DATA: i32 = 3;
        let from = u64::try_from(offset).unwrap_or(0);
        let from = if whence == SEEK_DATA {
            SeekFrom::Data(from)
        } else {
            SeekFrom::Hole(from)
        };
        match self.file(file).and_then(|file| seek(&*file, from)) {
            Ok(found) => to.offset(i64::try_from(found).unwrap_or(i64::MAX)),
            Err(errno) => to.error(reply(errno)),
        }
    }
}
