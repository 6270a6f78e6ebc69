//! A file that is written in whole blocks past the page cache if the system allows it, and
//! otherwise through the page cache.
//!
//! Invariant: any number of threads may write at once. One thread writes each byte. A write through
//! the page cache runs while no direct write does: a page may be larger than a block, and may hold
//! old bytes of a neighbour that is being written directly.
//!
//! Directly written bytes reach the disk before a later change of the file's metadata. Bytes in the
//! page cache may not. A power cut must not leave a file with its length and time but without some
//! of its bytes, because it would then count as restored. So a length that is set early excludes
//! the last block, and if more than the end was written through the page cache, [`File::settle`]
//! waits for it.

use std::os::fd::{AsFd, OwnedFd};
#[cfg(test)]
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use env::ALIGN_BYTES;
use rustix::fs::{fdatasync, fstat, ftruncate};
use rustix::io::{Errno, pwrite};

use crate::retry::retry;

/// A file system that supports holes makes a hole of this length.
const PROBE_BYTES: u64 = 64 << 10;

/// The file, opened for direct writes and for the page cache.
#[derive(Debug)]
pub(super) struct File {
    usual: OwnedFd,
    direct: Option<OwnedFd>,
    /// The system refused a direct write.
    refused: AtomicBool,
    /// Locked by all direct writers, or by one writer through the page cache.
    ways: RwLock<()>,
    /// The file may have its final length before all bytes in the page cache are on the disk.
    lengthened: AtomicBool,
    /// The lowest end of any write through the page cache.
    usual_end_min: AtomicU64,
    /// The write that is to fail in a test, and its error.
    #[cfg(test)]
    failing: Mutex<Option<(u64, Errno)>>,
}

impl File {
    /// The same file, with descriptors of its own.
    ///
    /// # Errors
    /// The system's, if no descriptor is free.
    pub(super) fn new(file: impl AsFd) -> Result<Self, Errno> {
        let usual = retry(|| rustix::io::fcntl_dupfd_cloexec(&file, 0))?;
        Ok(Self {
            direct: open_directly(&usual),
            usual,
            refused: AtomicBool::new(false),
            ways: RwLock::new(()),
            lengthened: AtomicBool::new(false),
            usual_end_min: AtomicU64::new(u64::MAX),
            #[cfg(test)]
            failing: Mutex::new(None),
        })
    }

    /// Gives the empty file a length before its bytes. In the system, writes that lengthen a file
    /// wait for each other, and other writes need not. The last block, whole or not, later gives
    /// the file its `len` bytes. `false`: this gains nothing, because writes through the page cache
    /// wait for each other anyway, or a file system without holes would write zeros first.
    pub(super) fn set_len_early(&self, len: u64) -> bool {
        let early = len.saturating_sub(1) / ALIGN_BYTES as u64 * ALIGN_BYTES as u64;
        let is_hole = || -> Result<bool, Errno> {
            retry(|| ftruncate(&self.usual, PROBE_BYTES.min(early)))?;
            Ok(fstat(&self.usual)?.st_blocks == 0)
        };
        let is_done = self.direct.is_some()
            && fstat(&self.usual).is_ok_and(|stat| stat.st_size == 0 && stat.st_blocks == 0)
            && is_hole() == Ok(true)
            && retry(|| ftruncate(&self.usual, early)).is_ok();
        self.lengthened.fetch_or(is_done, Ordering::Relaxed);
        is_done
    }

    /// Waits until bytes in the page cache are on the disk, if the file could otherwise look whole
    /// without them. It need not wait if only the end was written through the page cache: without
    /// the end the file is shorter than its `len` bytes. Call it when no thread writes any more.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn settle(&self, len: u64) -> Result<(), Errno> {
        if !self.is_exposed(len) {
            return Ok(());
        }
        match retry(|| fdatasync(&self.usual)) {
            // The system cannot wait for these bytes.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
            other => other,
        }
    }

    /// Whether the file could look whole without some bytes in the page cache.
    pub(super) fn is_exposed(&self, len: u64) -> bool {
        self.lengthened.load(Ordering::Relaxed) && self.usual_end_min.load(Ordering::Relaxed) < len
    }

    /// Writes `buffer[begin..]`. The buffer begins with the block at `base`.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write(&self, buffer: &[u8], base: u64, begin: usize) -> Result<(), Errno> {
        #[cfg(test)]
        self.fail_if_told()?;
        let first = begin.next_multiple_of(ALIGN_BYTES).min(buffer.len());
        let last = (buffer.len() & !(ALIGN_BYTES - 1)).max(first);
        let mut at = first;
        if let Some(direct) = self
            .direct
            .as_ref()
            .filter(|_| !self.refused.load(Ordering::Relaxed))
        {
            let _directly = self.ways.read().unwrap_or_else(PoisonError::into_inner);
            match write_directly(direct, &buffer[first..last], base + first as u64) {
                Ok(()) => {
                    at = last;
                    self.lengthened.fetch_or(first < last, Ordering::Relaxed);
                }
                Err(Errno::INVAL | Errno::OPNOTSUPP) => self.refused.store(true, Ordering::Relaxed),
                Err(errno) => return Err(errno),
            }
        }
        if begin == first && at == buffer.len() {
            return Ok(());
        }
        let _usually = self.ways.write().unwrap_or_else(PoisonError::into_inner);
        for (from, to) in [(begin, first), (at, buffer.len())] {
            if from < to {
                let end = base + to as u64;
                self.usual_end_min.fetch_min(end, Ordering::Relaxed);
                write_all(&self.usual, &buffer[from..to], base + from as u64)?;
            }
        }
        Ok(())
    }

    /// Makes all later writes use the page cache.
    #[cfg(test)]
    pub(super) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Whether the file can be written directly.
    #[cfg(test)]
    pub(super) fn is_direct(&self) -> bool {
        self.direct.is_some() && !self.refused.load(Ordering::Relaxed)
    }

    /// Makes the write after the next `writes` writes fail.
    #[cfg(test)]
    pub(super) fn fail_after(&self, writes: u64, errno: Errno) {
        *self.failing.lock().unwrap() = Some((writes, errno));
    }

    #[cfg(test)]
    fn fail_if_told(&self) -> Result<(), Errno> {
        match &mut *self.failing.lock().unwrap() {
            Some((0, errno)) => Err(*errno),
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

/// Writes whole blocks.
fn write_directly(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = retry(|| pwrite(file, bytes, offset))?;
        if written == 0 || !written.is_multiple_of(ALIGN_BYTES) {
            // The rest does not begin with a block.
            return Err(Errno::INVAL);
        }
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// Writes all bytes at an offset.
pub(crate) fn write_all(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match retry(|| pwrite(file, bytes, offset))? {
            0 => return Err(Errno::IO),
            n => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
        }
    }
    Ok(())
}

/// Opens the same file once more, for direct writes. `None`: the system refuses.
#[cfg(target_os = "linux")]
fn open_directly(file: &OwnedFd) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    use std::os::fd::AsRawFd;
    // The descriptor's own entry, so no name is looked up that another process could change.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    retry(|| open(&*path, flags, Mode::empty())).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_directly(_: &OwnedFd) -> Option<OwnedFd> {
    None
}
