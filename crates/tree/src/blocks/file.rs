//! A file, written in whole blocks past the page cache where the system lets us, and the usual way elsewhere.
//!
//! What must hold: any number of threads may write at once, each byte by one of them. What goes the usual way is
//! written while nothing is written directly: a page of the page cache may be larger than a block, and hold old
//! bytes of a neighbour that is being written past it.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use env::ALIGN_BYTES;
use rustix::fs::{fstat, ftruncate};
use rustix::io::{Errno, pwrite};

use crate::folder::retry;

/// A length that any file system which makes holes makes one of.
const PROBE_BYTES: u64 = 64 << 10;

/// The file, by both ways.
#[derive(Debug)]
pub(super) struct File {
    usual: OwnedFd,
    direct: Option<OwnedFd>,
    /// The system took back that it writes directly.
    refused: AtomicBool,
    /// Held by all who write directly, and by one who writes the usual way.
    ways: RwLock<()>,
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
        })
    }

    /// Gives the file, which is empty, its length before its bytes: writes that lengthen a file wait for each
    /// other in the system, and others need not. `false` where that gains nothing: written the usual way,
    /// writes wait for each other all the same, and a file system without holes would write zeros first.
    pub(super) fn set_len_early(&self, len: u64) -> bool {
        let is_hole = || -> Result<bool, Errno> {
            retry(|| ftruncate(&self.usual, PROBE_BYTES.min(len)))?;
            Ok(fstat(&self.usual)?.st_blocks == 0)
        };
        self.direct.is_some()
            && fstat(&self.usual).is_ok_and(|stat| stat.st_size == 0 && stat.st_blocks == 0)
            && is_hole() == Ok(true)
            && retry(|| ftruncate(&self.usual, len)).is_ok()
    }

    /// Writes `buffer[begin..]`; the buffer's beginning is that of the block at `base`.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write(&self, buffer: &[u8], base: u64, begin: usize) -> Result<(), Errno> {
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
                Ok(()) => at = last,
                Err(Errno::INVAL | Errno::OPNOTSUPP) => self.refused.store(true, Ordering::Relaxed),
                Err(errno) => return Err(errno),
            }
        }
        if begin == first && at == buffer.len() {
            return Ok(());
        }
        let _usually = self.ways.write().unwrap_or_else(PoisonError::into_inner);
        write_all(&self.usual, &buffer[begin..first], base + begin as u64)?;
        write_all(&self.usual, &buffer[at..], base + at as u64)
    }

    /// Has everything go the usual way.
    #[cfg(test)]
    pub(super) fn refuse(&self) {
        self.refused.store(true, Ordering::Relaxed);
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
