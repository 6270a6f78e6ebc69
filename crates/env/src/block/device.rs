//! The door to a block device: [`BlockDevice`], and how its operations fail.

use std::fmt;
use std::io::{self, IoSlice, IoSliceMut};

/// Bytes of a block. Every offset and length of a [`BlockDevice`] is a multiple of it.
pub const BLOCK_BYTES: u64 = BLOCK_LEN as u64;

/// The same as the length of an array.
pub(super) const BLOCK_LEN: usize = 4096;

/// A file or a disk of blocks.
///
/// Any number of threads may call everything at once. Overlapping requests that run at the same
/// time have no order. A read beside a write of the same block may return bytes of before and of
/// after. After two writes at once, each part of 512 bytes is of one of them.
///
/// A write that returned is seen by every later read, and survives a kill of the process. It
/// survives a power cut only after a [`Self::flush`] that began later. Until then, a power cut
/// keeps any subset of the written blocks. A block may have any of the bytes that were written to
/// it since the last flush, and may be torn into parts of 512 bytes. A power cut undoes a
/// [`Self::grow`] like a write.
///
/// After an error of a write, each of its parts of 512 bytes is old or new. After an error of a
/// flush, nobody knows what is durable, and no later flush repairs that, because the system may
/// have dropped the pages. So the device is *poisoned*: all later writes, flushes, discards and
/// growths of this open device fail with [`DeviceError::Poisoned`]. Reads work.
pub trait BlockDevice: fmt::Debug + Send + Sync {
    /// The length in bytes, a multiple of [`BLOCK_BYTES`].
    fn len(&self) -> u64;

    /// Whether there is no block.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads blocks. Blocks that nobody wrote have zeros on a new file, and any bytes on a disk.
    ///
    /// # Errors
    /// [`DeviceError`]. Then the buffer has any bytes.
    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<(), DeviceError>;

    /// How many reads of one [`Self::read_many`] run at the same time. With 1, it gains nothing
    /// over [`Self::read_at`].
    fn reads_at_once(&self) -> usize {
        1
    }

    /// Does several reads, at the same time if the device can, and returns when all are done. Each
    /// has an outcome of its own, which is that of a [`Self::read_at`].
    fn read_many(&self, reads: &mut [BlockRead<'_>]) {
        for read in reads {
            read.done = self.read_at(read.offset, read.out);
        }
    }

    /// Overwrites blocks.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Reads blocks that follow each other into several buffers, with one request if the system
    /// can. Each buffer has whole blocks.
    ///
    /// # Errors
    /// As [`Self::read_at`].
    fn read_vectored_at(&self, offset: u64, out: &mut [IoSliceMut<'_>]) -> Result<(), DeviceError> {
        let mut at = offset;
        for part in out {
            self.read_at(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Overwrites blocks that follow each other from several buffers, with one request if the
    /// system can. Each buffer has whole blocks.
    ///
    /// # Errors
    /// As [`Self::write_at`].
    fn write_vectored_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        let mut at = offset;
        for part in parts {
            self.write_at(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    /// Makes durable the writes of this disk or file that returned before this call.
    ///
    /// # Errors
    /// [`DeviceError`]. After it the device is poisoned.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Tells the device that the content of these blocks is not needed. They read as anything
    /// until they are written, and after a power cut as something else again. A device that cannot
    /// do it does nothing.
    ///
    /// # Errors
    /// [`DeviceError`].
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError>;

    /// Makes a file longer; reads the length of a disk again, which its owner may have grown. Never
    /// makes it shorter.
    ///
    /// # Errors
    /// [`DeviceError`], also if a disk is shorter than `len` bytes.
    fn grow(&self, len: u64) -> Result<(), DeviceError>;
}

/// One of the reads of [`BlockDevice::read_many`].
#[derive(Debug)]
pub struct BlockRead<'a> {
    /// The first byte.
    pub offset: u64,
    /// Where the bytes go.
    pub out: &'a mut [u8],
    /// The outcome, once it is done.
    pub done: Result<(), DeviceError>,
}

impl<'a> BlockRead<'a> {
    /// A read that is to be done.
    #[must_use]
    pub const fn new(offset: u64, out: &'a mut [u8]) -> Self {
        Self {
            offset,
            out,
            done: Ok(()),
        }
    }
}

/// A failed operation of a block device.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The range is not within the device, or not made of whole blocks. The caller is wrong.
    #[error("{device}: bytes {offset} to {end} are not whole blocks within its {len} bytes")]
    OutOfRange {
        /// The device.
        device: String,
        /// The first byte.
        offset: u64,
        /// The end.
        end: u64,
        /// The device's length.
        len: u64,
    },
    /// Another process has the device open, or the system has mounted it.
    #[error("{device}: in use by another process, or mounted; end that process or unmount it first")]
    InUse {
        /// The device.
        device: String,
    },
    /// There is no such file or disk.
    #[error("{device}: no such file or disk")]
    NotFound {
        /// The device.
        device: String,
    },
    /// A new device is to be made of a file that exists.
    #[error("{device}: exists already; name another file, or remove this one if nobody needs it")]
    AlreadyExists {
        /// The device.
        device: String,
    },
    /// The file system under a file is full, or the disk is one that promises more than it has.
    #[error("{device}: the file system or disk under it has no space left; free some there")]
    NoSpace {
        /// The device.
        device: String,
    },
    /// It is neither a file nor a disk.
    #[error("{device}: neither a file nor a disk; name one of these")]
    Unfit {
        /// The device.
        device: String,
    },
    /// The file system has no direct requests.
    #[error("{device}: its file system has no direct requests; use the page cache")]
    NoDirect {
        /// The device.
        device: String,
    },
    /// A disk is shorter than it has to be, or somebody has cut a file that is open.
    #[error("{device}: has {len} bytes, but must have {wanted}; use a larger disk or restore the file")]
    TooShort {
        /// The device.
        device: String,
        /// The bytes that it has.
        len: u64,
        /// The bytes that it must have.
        wanted: u64,
    },
    /// The user may not open the device, or it was opened for reading only.
    #[error("{device}: {action} is not allowed; give this user the right to read and write it")]
    Denied {
        /// The operation.
        action: &'static str,
        /// The device.
        device: String,
    },
    /// A flush of this device failed earlier.
    #[error(
        "{device}: an earlier flush failed, and nobody knows what is on the disk; \
         look after the disk, and open the device again"
    )]
    Poisoned {
        /// The device.
        device: String,
    },
    /// The machine was stopped or the process killed. Only tests' devices return this.
    #[error("{action}: the machine was stopped or the process killed")]
    Gone {
        /// The operation.
        action: &'static str,
    },
    /// Anything else that the system reports.
    #[error("{device}: {action} failed: {source}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The device.
        device: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Checks that the range is made of whole blocks of the device.
pub(super) fn check_range(
    device: &dyn fmt::Display,
    device_len: u64,
    offset: u64,
    len: u64,
) -> Result<(), DeviceError> {
    let end = offset.saturating_add(len);
    let is_whole = offset.is_multiple_of(BLOCK_BYTES) && len.is_multiple_of(BLOCK_BYTES);
    if is_whole && end <= device_len {
        return Ok(());
    }
    Err(DeviceError::OutOfRange {
        device: device.to_string(),
        offset,
        end,
        len: device_len,
    })
}

/// Checks that each of these lengths is of whole blocks, and the range of all of them. Returns
/// their sum.
#[cfg(any(unix, test, feature = "testing"))]
pub(super) fn check_parts(
    device: &dyn fmt::Display,
    device_len: u64,
    offset: u64,
    lens: impl Iterator<Item = usize>,
) -> Result<usize, DeviceError> {
    let mut sum = 0_usize;
    for len in lens {
        check_range(device, device_len, offset.saturating_add(sum as u64), len as u64)?;
        sum += len;
    }
    check_range(device, device_len, offset, sum as u64)?;
    Ok(sum)
}
