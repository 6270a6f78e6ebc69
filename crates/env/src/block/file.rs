//! A file or a disk as a block device.
//!
//! Invariant: one process at a time has a device open for writing, and then nobody has it open for
//! reading, but for [`FileDevice::open_beside`]. A lock of the system ensures it, and ends with the
//! process. The lock works between processes of one host, and between hosts only if their file
//! system says so. A disk is also claimed from the system, so a mounted disk is never opened for
//! writing.
//!
//! Any number of threads may call everything at once. After a flush that failed, the device is
//! poisoned ([`BlockDevice`]): the system may have dropped the pages that it could not write.

mod flushes;
mod opening;
mod queue;
mod requests;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;

use super::device::{BLOCK_BYTES, BlockDevice, BlockRead, DeviceError, check_parts, check_range};
use flushes::Flushes;
use opening::Others;
use queue::Queue;
use requests::Requests;

/// Flushes that run at once.
const WAYS: usize = 4;

/// Where written blocks are before a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileCaching {
    /// In the system's page cache, which also serves reads.
    #[default]
    PageCache,
    /// Nowhere: requests go to the disk. Memory that does not begin at a multiple of
    /// [`ALIGN_BYTES`](crate::ALIGN_BYTES) is copied.
    Direct,
}

/// A file or a disk.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    path: PathBuf,
    len: AtomicU64,
    requests: Requests,
    /// For several direct reads at once; `None` with the page cache, or if the system has none.
    queue: Option<Queue>,
    is_disk: bool,
    is_read_only: bool,
    /// The file again, opened for each flush that may run beside others.
    ways: Vec<File>,
    flushes: Flushes,
    /// Held while the file gets longer, because a shorter length would cut it.
    growing: Mutex<()>,
}

impl FileDevice {
    /// Makes a file of so many bytes, rounded down to whole blocks, without space on the disk yet.
    /// An empty file may exist. The file and its name are durable afterwards. The path may name a
    /// disk: then the disk is opened, and must have at least `len` bytes.
    ///
    /// # Errors
    /// [`DeviceError::AlreadyExists`] if the path is an existing file that is not empty;
    /// [`DeviceError::TooShort`]; as [`Self::open`]. A file that this call made is removed.
    pub fn create(path: &Path, len: u64, caching: FileCaching) -> Result<Self, DeviceError> {
        let is_new = opening::make(path)?;
        let made = Self::open(path, caching).and_then(|device| {
            // Another process may have filled the file before this one had the lock.
            let is_free = device.is_disk || device.real_len()? == 0;
            if !is_free {
                return Err(DeviceError::AlreadyExists { device: name(path) });
            }
            Ok(device)
        });
        let ready = made.and_then(|device| {
            device.grow(len)?;
            if !device.is_disk {
                opening::settle(&device.file, path)?;
            }
            Ok(device)
        });
        let is_ours = |error: &DeviceError| {
            is_new
                && !matches!(
                    error,
                    DeviceError::InUse { .. } | DeviceError::AlreadyExists { .. }
                )
        };
        ready.inspect_err(|error| {
            if is_ours(error) {
                // The error of the creation tells more than one of the removal.
                std::fs::remove_file(path).ok();
            }
        })
    }

    /// Opens a file or a disk for reading and writing, alone. A file's last bytes that fill no
    /// block are not of the device.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`]; [`DeviceError::InUse`], also for a mounted disk;
    /// [`DeviceError::Denied`]; [`DeviceError::Unfit`]; [`DeviceError::NoDirect`];
    /// [`DeviceError::Io`].
    pub fn open(path: &Path, caching: FileCaching) -> Result<Self, DeviceError> {
        Self::open_for(path, caching, Others::Nobody)
    }

    /// Opens a file or a disk for reading, beside other readers. While it is open, nobody can open
    /// it for writing. Writes, discards and growths fail with [`DeviceError::Denied`].
    ///
    /// # Errors
    /// As [`Self::open`]. A mounted disk is no error.
    pub fn open_read_only(path: &Path, caching: FileCaching) -> Result<Self, DeviceError> {
        Self::open_for(path, caching, Others::Readers)
    }

    /// Opens a file or a disk for reading, without a lock: another process may change it meanwhile.
    /// So a read may return bytes of before and of after. Writes, discards and growths fail with
    /// [`DeviceError::Denied`].
    ///
    /// # Errors
    /// As [`Self::open`], but never [`DeviceError::InUse`].
    pub fn open_beside(path: &Path) -> Result<Self, DeviceError> {
        Self::open_for(path, FileCaching::PageCache, Others::Anybody)
    }

    fn open_for(path: &Path, caching: FileCaching, others: Others) -> Result<Self, DeviceError> {
        let (file, is_disk) = opening::open(path, caching, others)?;
        let ways = opening::again(&file, WAYS);
        let device = Self {
            flushes: Flushes::new(ways.len()),
            ways,
            file,
            path: path.to_owned(),
            len: AtomicU64::new(0),
            requests: Requests::new(caching),
            queue: (caching == FileCaching::Direct).then(Queue::new).flatten(),
            is_disk,
            is_read_only: others != Others::Nobody,
            growing: Mutex::default(),
        };
        let len = device.real_len()?;
        device.len.store(len - len % BLOCK_BYTES, Ordering::Release);
        Ok(device)
    }

    /// Whether it is a disk, and no file.
    #[must_use]
    pub fn is_disk(&self) -> bool {
        self.is_disk
    }

    /// The bytes of the file or disk.
    fn real_len(&self) -> Result<u64, DeviceError> {
        use std::io::{Seek, SeekFrom};
        (&self.file)
            .seek(SeekFrom::End(0))
            .map_err(|error| self.failed("seek", error))
    }

    fn failed(&self, action: &'static str, error: io::Error) -> DeviceError {
        if error.kind() == io::ErrorKind::UnexpectedEof
            && let Ok(len) = self.real_len()
        {
            return DeviceError::TooShort {
                device: name(&self.path),
                len,
                wanted: self.len(),
            };
        }
        failed(action, &self.path, error)
    }

    /// Whether the device may be changed.
    fn check_changes(&self, action: &'static str) -> Result<(), DeviceError> {
        let device = || name(&self.path);
        if self.is_read_only {
            return Err(DeviceError::Denied {
                action,
                device: device(),
            });
        }
        if self.flushes.has_failed() {
            return Err(DeviceError::Poisoned { device: device() });
        }
        Ok(())
    }

    fn check(&self, offset: u64, lens: impl Iterator<Item = usize>) -> Result<(), DeviceError> {
        check_parts(&self.path.display(), self.len(), offset, lens).map(drop)
    }
}

impl Drop for FileDevice {
    fn drop(&mut self) {
        crate::unlock::unlock(&self.file);
    }
}

impl BlockDevice for FileDevice {
    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        self.read_vectored_at(offset, &mut [IoSliceMut::new(out)])
    }

    fn reads_at_once(&self) -> usize {
        self.queue.as_ref().map_or(1, |_| Queue::READS_MAX)
    }

    /// Direct reads to aligned memory are queued together. All others are done one by one.
    fn read_many(&self, reads: &mut [BlockRead<'_>]) {
        let mut queued = Vec::with_capacity(reads.len());
        for read in reads {
            let suits =
                Queue::suits(read.out) && self.check(read.offset, [read.out.len()].into_iter()).is_ok();
            if self.queue.is_some() && suits {
                queued.push(read);
            } else {
                read.done = self.read_at(read.offset, read.out);
            }
        }
        let results = match &self.queue {
            Some(queue) if queued.len() > 1 => queue.read(&self.file, &mut queued),
            _ => vec![None; queued.len()],
        };
        for (read, result) in queued.into_iter().zip(results) {
            read.done = match result.map(usize::try_from) {
                Some(Ok(len)) if len == read.out.len() => Ok(()),
                // A read that was not done, or in part, or interrupted, or failed: done again by
                // itself, it succeeds or tells its error.
                _ => self.read_at(read.offset, read.out),
            };
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.write_vectored_at(offset, &[IoSlice::new(bytes)])
    }

    fn read_vectored_at(&self, offset: u64, out: &mut [IoSliceMut<'_>]) -> Result<(), DeviceError> {
        self.check(offset, out.iter().map(|part| part.len()))?;
        let read = self.requests.read(&self.file, offset, out);
        read.map_err(|error| self.failed("read", error))
    }

    fn write_vectored_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        self.check(offset, parts.iter().map(|part| part.len()))?;
        self.check_changes("write")?;
        let written = self.requests.write(&self.file, offset, parts);
        written.map_err(|error| self.failed("write", error))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let sync = |way: usize| self.ways.get(way).unwrap_or(&self.file).sync_data();
        match self.flushes.flush(sync) {
            None => Err(DeviceError::Poisoned {
                device: name(&self.path),
            }),
            Some(outcome) => outcome.map_err(|error| self.failed("flush", error)),
        }
    }

    /// Punches a hole into a file. A disk gets the same request; then it frees the blocks and they
    /// read as zeros, or it does nothing.
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_range(&self.path.display(), self.len(), offset, len)?;
        self.check_changes("discard")?;
        if len == 0 {
            return Ok(());
        }
        punch_hole(&self.file, offset, len).map_err(|error| self.failed("discard", error.into()))
    }

    fn grow(&self, len: u64) -> Result<(), DeviceError> {
        self.check_changes("grow")?;
        let wanted = len - len % BLOCK_BYTES;
        let _growing = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = self.real_len()?;
        if found < wanted && !self.is_disk {
            self.file
                .set_len(wanted)
                .map_err(|error| self.failed("grow", error))?;
            found = wanted;
        }
        self.len.fetch_max(found - found % BLOCK_BYTES, Ordering::AcqRel);
        if found < wanted {
            return Err(DeviceError::TooShort {
                device: name(&self.path),
                len: found,
                wanted,
            });
        }
        Ok(())
    }
}

/// Frees the bytes, if the system and the file system can.
#[cfg(target_os = "linux")]
fn punch_hole(file: &File, offset: u64, len: u64) -> Result<(), Errno> {
    use rustix::fs::FallocateFlags;
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, flags, offset, len) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        failed => failed,
    }
}

/// Other systems have no such call, so the bytes stay.
#[cfg(not(target_os = "linux"))]
fn punch_hole(_: &File, _: u64, _: u64) -> Result<(), Errno> {
    Ok(())
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> DeviceError {
    let device = name(path);
    match source.kind() {
        io::ErrorKind::NotFound => DeviceError::NotFound { device },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            DeviceError::Denied { action, device }
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DeviceError::NoSpace { device },
        _ => DeviceError::Io {
            action,
            device,
            source,
        },
    }
}
