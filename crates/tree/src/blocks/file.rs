//! A file, written in whole blocks past the page cache if the system allows it, and else through
//! the page cache.
//!
//! Invariant: any number of threads may write at once, each byte by one of them. Writes
//! through the page cache happen while no direct write runs: a page may be larger than a block, and
//! hold old bytes of a neighbour that is being written directly.
//!
//! Directly written bytes are on the disk before a later change of the file's metadata is; bytes in
//! the page cache may not be. A power cut must not leave a file with its length and time but
//! without some of its bytes, because it would then count as restored. So a length that is set
//! early excludes the last block, and if more than the end was written through the page cache,
//! [`File::settle`] waits for it.

use std::os::fd::{AsFd, OwnedFd};
#[cfg(test)]
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use env::ALIGN_BYTES;
use rustix::fs::{fdatasync, fstat, ftruncate};
use rustix::io::{Errno, pwrite};

use crate::retry::retry;

/// A length that any file system which makes holes makes one of.
const PROBE_BYTES: u64 = 64 << 10;

/// The file, by both ways.
#[derive(Debug)]
pub(super) struct File {
    usual: OwnedFd,
    direct: Option<OwnedFd>,
    /// The system took back that it writes directly.
    refused: AtomicBool,
    /// Held by all direct writers, or by one writer through the page cache.
    ways: RwLock<()>,
    /// The file may have its final length before all bytes in the page cache are on the disk.
    lengthened: AtomicBool,
    /// The lowest end of any write through the page cache.
    usual_end_min: AtomicU64,
    /// At which write to fail.
    #[cfg(test)]
    failing: Mutex<Option<(u64, Errno)>>,
}

impl File {
    /// The same file, by descriptors of its own.
    ///
    /// # Errors
    /// The system's, for want of descriptors.
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

    /// Gives the empty file a length before its bytes: in the system, writes that lengthen a file
    /// wait for each other, and others need not. The last block, whole or not, later gives the file
    /// its `len` bytes. `false` if this gains nothing: writes through the page cache wait for each
    /// other anyway, and a file system without holes would write zeros first.
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
    /// without them. Not needed if only the end went through the page cache: without it the file is
    /// shorter than its `len` bytes. No thread writes any more.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn settle(&self, len: u64) -> Result<(), Errno> {
        if !self.is_exposed(len) {
            return Ok(());
        }
        match retry(|| fdatasync(&self.usual)) {
            // What cannot be waited for is not.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => Ok(()),
            other => other,
        }
    }

    /// Whether it could.
    pub(super) fn is_exposed(&self, len: u64) -> bool {
        self.lengthened.load(Ordering::Relaxed) && self.usual_end_min.load(Ordering::Relaxed) < len
    }

    /// Writes `buffer[begin..]`; the buffer's beginning is that of the block at `base`.
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

    /// Has everything go the usual way.
    #[cfg(test)]
    pub(super) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    /// Whether anything is written directly.
    #[cfg(test)]
    pub(super) fn is_direct(&self) -> bool {
        self.direct.is_some() && !self.refused.load(Ordering::Relaxed)
    }

    /// Has the write fail before which `writes` others came.
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

/// Whole blocks.
fn write_directly(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        let written = retry(|| pwrite(file, bytes, offset))?;
        if written == 0 || !written.is_multiple_of(ALIGN_BYTES) {
            // What is left does not begin with a block.
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

/// The same file, opened once more to be written directly; `None` where the system will not.
#[cfg(target_os = "linux")]
fn open_directly(file: &OwnedFd) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    use std::os::fd::AsRawFd;
    // The descriptor's own entry: no name that others could change is looked up.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    retry(|| open(&*path, flags, Mode::empty())).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_directly(_: &OwnedFd) -> Option<OwnedFd> {
    None
}
