//! A file or a disk as a block device.
//!
//! Invariant: one process at a time has a device open for writing; a lock of the system ensures it,
//! and ends with the process. Direct requests need aligned memory: a request from other memory is
//! copied through an aligned buffer.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};

use super::device::{BLOCK_BYTES, BlockDevice, DeviceError, check_range};
use crate::{ALIGN_BYTES, AlignedBuffer};

/// Where written blocks are before a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FileCaching {
    /// In the system's page cache, which also serves reads.
    #[default]
    PageCache,
    /// Nowhere: requests go to the disk.
    Direct,
}

/// A file or a disk.
#[derive(Debug)]
pub struct FileDevice {
    file: File,
    path: PathBuf,
    len: AtomicU64,
    caching: FileCaching,
    is_disk: bool,
}

impl FileDevice {
    /// Makes a file of so many bytes, without space on the disk yet. The path may name a disk: then
    /// the disk is opened, and must have at least `len` bytes.
    ///
    /// # Errors
    /// [`DeviceError::AlreadyExists`] if the path is an existing file that is not empty.
    pub fn create(path: &Path, len: u64, caching: FileCaching) -> Result<Self, DeviceError> {
        let made = OpenOptions::new().write(true).create_new(true).open(path);
        match made {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let found = std::fs::metadata(path).map_err(|error| failed("stat", path, error))?;
                if !found.file_type().is_block_device() && found.len() > 0 {
                    return Err(DeviceError::AlreadyExists { device: name(path) });
                }
            }
            Err(error) => return Err(failed("create", path, error)),
        }
        let device = Self::open(path, caching)?;
        device.grow(len)?;
        Ok(device)
    }

    /// Opens a file or a disk for reading and writing, alone.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`], [`DeviceError::InUse`], [`DeviceError::Io`].
    pub fn open(path: &Path, caching: FileCaching) -> Result<Self, DeviceError> {
        Self::open_with(path, caching, FlockOperation::NonBlockingLockExclusive)
    }

    fn open_with(path: &Path, caching: FileCaching, lock: FlockOperation) -> Result<Self, DeviceError> {
        let flags = match caching {
            FileCaching::PageCache => OFlags::empty(),
            FileCaching::Direct => OFlags::DIRECT,
        };
        let mut options = OpenOptions::new();
        let flags = i32::try_from(flags.bits()).expect("the flag is a bit of an int");
        options.read(true).write(true).custom_flags(flags);
        let file = options.open(path).map_err(|error| failed("open", path, error))?;
        rustix::fs::flock(&file, lock).map_err(|error| match error {
            rustix::io::Errno::WOULDBLOCK => DeviceError::InUse { device: name(path) },
            other => failed("lock", path, other.into()),
        })?;
        let kind = file.metadata().map_err(|error| failed("stat", path, error))?;
        let device = Self {
            is_disk: kind.file_type().is_block_device(),
            file,
            path: path.to_owned(),
            len: AtomicU64::new(0),
            caching,
        };
        device.len.store(device.real_len()?, Ordering::Release);
        Ok(device)
    }

    /// The whole blocks of the file or disk, in bytes.
    fn real_len(&self) -> Result<u64, DeviceError> {
        use std::io::{Seek, SeekFrom};
        let len = (&self.file)
            .seek(SeekFrom::End(0))
            .map_err(|error| self.failed("seek", error))?;
        Ok(len - len % BLOCK_BYTES)
    }

    fn failed(&self, action: &'static str, error: io::Error) -> DeviceError {
        failed(action, &self.path, error)
    }

    /// Whether a request from this memory needs a copy.
    fn needs_copy(&self, memory: &[u8]) -> bool {
        self.caching == FileCaching::Direct && !memory.as_ptr().addr().is_multiple_of(ALIGN_BYTES)
    }
}

impl BlockDevice for FileDevice {
    fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        check_range(&self.path.display(), self.len(), offset, out.len() as u64)?;
        if self.needs_copy(out) {
            let mut buffer = AlignedBuffer::with_capacity(out.len());
            buffer.grow_to(out.len());
            self.file
                .read_exact_at(&mut buffer, offset)
                .map_err(|error| self.failed("read", error))?;
            out.copy_from_slice(&buffer);
            return Ok(());
        }
        self.file
            .read_exact_at(out, offset)
            .map_err(|error| self.failed("read", error))
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        check_range(&self.path.display(), self.len(), offset, bytes.len() as u64)?;
        let written = if self.needs_copy(bytes) {
            let mut buffer = AlignedBuffer::with_capacity(bytes.len());
            buffer.extend_from_slice(bytes);
            self.file.write_all_at(&buffer, offset)
        } else {
            self.file.write_all_at(bytes, offset)
        };
        written.map_err(|error| self.failed("write", error))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.file.sync_data().map_err(|error| self.failed("flush", error))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_range(&self.path.display(), self.len(), offset, len)?;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.file, flags, offset, len) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => Ok(()),
            Err(error) => Err(self.failed("discard", error.into())),
        }
    }

    fn grow(&self, len: u64) -> Result<(), DeviceError> {
        let len = len - len % BLOCK_BYTES;
        let mut found = self.real_len()?;
        if found < len && !self.is_disk {
            self.file
                .set_len(len)
                .map_err(|error| self.failed("grow", error))?;
            found = len;
        }
        self.len.fetch_max(found, Ordering::AcqRel);
        check_range(&self.path.display(), found, 0, len)
    }
}

fn name(path: &Path) -> String {
    path.display().to_string()
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> DeviceError {
    let device = name(path);
    match source.kind() {
        io::ErrorKind::NotFound => DeviceError::NotFound { device },
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DeviceError::NoSpace { device },
        _ => DeviceError::Io {
            action,
            device,
            source,
        },
    }
}
