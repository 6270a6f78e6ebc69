//! Opening of files and disks, and their locks.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::{FileCaching, failed, name};
use crate::block::device::DeviceError;
use crate::{Clock, SystemClock};

/// How often the lock of a disk is tried. The system's device manager locks each disk for a moment
/// after it was closed, to read what is on it.
const LOCK_TRIES: u32 = 50;
/// How often the claim of a disk is tried. A process that another thread starts has the disk open,
/// until it runs its own program. It is tried for a short time only, because commands on a pool
/// that is served try it before they ask the server.
const CLAIM_TRIES: u32 = 5;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// Makes an empty file. Returns false if there is an empty one, or a disk.
pub(super) fn make(path: &Path) -> Result<bool, DeviceError> {
    match OpenOptions::new().write(true).create_new(true).open(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let found = std::fs::metadata(path).map_err(|error| failed("stat", path, error))?;
            if found.is_file() && found.len() > 0 {
                return Err(DeviceError::AlreadyExists { device: name(path) });
            }
            Ok(false)
        }
        Err(error) => Err(failed("create", path, error)),
    }
}

/// Makes the file, its length and its name durable.
pub(super) fn settle(file: &File, path: &Path) -> Result<(), DeviceError> {
    let real = path.canonicalize();
    let real = real.map_err(|error| failed("find", path, error))?;
    let folder = real.parent().unwrap_or(&real);
    file.sync_all()
        .and_then(|()| File::open(folder)?.sync_all())
        .map_err(|error| failed("flush", path, error))
}

/// Who else may have a device open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Others {
    /// Nobody. It can be written to.
    Nobody,
    /// Readers.
    Readers,
    /// Anybody.
    Anybody,
}

/// Opens and locks a file or a disk. Also returns whether it is a disk.
pub(super) fn open(path: &Path, caching: FileCaching, others: Others) -> Result<(File, bool), DeviceError> {
    let is_read_only = others != Others::Nobody;
    // A fifo would block the opening, so its kind is looked up before.
    let is_disk = kind(path, &std::fs::metadata(path))?;
    let mut flags = match caching {
        FileCaching::PageCache => OFlags::empty(),
        FileCaching::Direct => direct().ok_or_else(|| DeviceError::NoDirect { device: name(path) })?,
    };
    if is_disk && !is_read_only {
        // The claim of a disk. Mounts have one, too.
        flags |= OFlags::EXCL;
    }
    let flags = i32::try_from(flags.bits()).expect("the flags are bits of an int");
    let mut options = OpenOptions::new();
    options.read(true).write(!is_read_only).custom_flags(flags);
    let file = claim(&options, path, is_disk).map_err(|error| match error.kind() {
        io::ErrorKind::ResourceBusy => DeviceError::InUse { device: name(path) },
        io::ErrorKind::InvalidInput if caching == FileCaching::Direct => {
            DeviceError::NoDirect { device: name(path) }
        }
        _ => failed("open", path, error),
    })?;
    // The name may mean something else meanwhile.
    if kind(path, &file.metadata())? != is_disk {
        return Err(DeviceError::Unfit { device: name(path) });
    }
    let operation = match others {
        Others::Nobody => FlockOperation::NonBlockingLockExclusive,
        Others::Readers => FlockOperation::NonBlockingLockShared,
        Others::Anybody => return Ok((file, is_disk)),
    };
    lock(&file, path, is_disk, operation)?;
    Ok((file, is_disk))
}

/// The flag that makes reads and writes bypass the page cache.
#[cfg(target_os = "linux")]
const fn direct() -> Option<OFlags> {
    Some(OFlags::DIRECT)
}

/// Other systems have no such flag.
#[cfg(not(target_os = "linux"))]
const fn direct() -> Option<OFlags> {
    None
}

/// Opens the same file so many times again, for flushes. Returns none where the system has no way
/// to do so without the name, which may mean another file meanwhile.
pub(super) fn again(file: &File, times: usize) -> Vec<File> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let opened = (0..times).map(|_| File::open(&own));
    opened.collect::<io::Result<_>>().unwrap_or_default()
}

/// Whether it is a disk.
fn kind(path: &Path, metadata: &io::Result<std::fs::Metadata>) -> Result<bool, DeviceError> {
    match metadata {
        Ok(found) if found.is_file() => Ok(false),
        Ok(found) if found.file_type().is_block_device() => Ok(true),
        Ok(_) => Err(DeviceError::Unfit { device: name(path) }),
        Err(error) => {
            let code = error.raw_os_error().unwrap_or(libc::EIO);
            Err(failed("stat", path, io::Error::from_raw_os_error(code)))
        }
    }
}

/// Opens a file, or a disk, which nobody else may claim.
fn claim(options: &OpenOptions, path: &Path, is_disk: bool) -> io::Result<File> {
    let mut tries = if is_disk { CLAIM_TRIES } else { 1 };
    loop {
        tries -= 1;
        match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && tries > 0 => {
                SystemClock.sleep(PAUSE);
            }
            opened => return opened,
        }
    }
}

fn lock(file: &File, path: &Path, is_disk: bool, operation: FlockOperation) -> Result<(), DeviceError> {
    let mut tries = if is_disk { LOCK_TRIES } else { 1 };
    loop {
        tries -= 1;
        match rustix::fs::flock(file, operation) {
            Ok(()) => return Ok(()),
            Err(Errno::WOULDBLOCK) if tries == 0 => {
                return Err(DeviceError::InUse { device: name(path) });
            }
            Err(Errno::WOULDBLOCK) => SystemClock.sleep(PAUSE),
            Err(error) => return Err(failed("lock", path, error.into())),
        }
    }
}
