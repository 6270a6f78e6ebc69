//! Large files in sections, which any threads may read at the same time.
//!
//! A section that is in the page cache is read from there. Any other is read past the cache, if the
//! system can. Copying into fresh pages costs more than the disk read, and a file that is read once
//! must not evict pages that others use. The reader asks the system beforehand whether a section is
//! cached. (An attempt to read it from the cache would start read-ahead, and then the same bytes
//! would be read again past the cache.)
//!
//! Sections follow from the file's state at its opening. If one cannot be read in full (the file
//! has become shorter, or the disk fails), this way of reading ends. The
//! [`FileReader`](super::FileReader) has received the sections before it, in order, and continues
//! from there.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread};
use types::ByteRange;

use crate::retry::retry;

/// Direct reads need multiples of this, in offset, length and memory.
const BLOCK_BYTES: usize = 4096;
/// If the average distance between two holes is less than this, a file is read piece by piece.
const STRETCH_BYTES_MIN: u64 = 4 << 20;

/// A file that several threads read.
#[derive(Debug)]
struct Shared {
    file: OwnedFd,
    /// The same file, opened for reads past the page cache.
    direct: Option<OwnedFd>,
}

/// The rest of a large file, which is read in sections.
#[derive(Debug)]
pub struct Sections {
    shared: Arc<Shared>,
    holes: Vec<(u64, u64)>,
    position: u64,
    end: u64,
}

/// The next section of a large file.
#[derive(Debug)]
pub enum Section {
    /// Bytes to read.
    Data(DataSection),
    /// This many zeros that the file does not store.
    Hole(u64),
}

/// A part of a file, for any thread to read.
#[derive(Debug)]
pub struct DataSection {
    shared: Arc<Shared>,
    offset: u64,
    len: usize,
}

impl Sections {
    /// Makes sections of a file of this length with these holes. `None`: the file is small, or in
    /// many pieces.
    pub(super) fn of(file: &OwnedFd, len: u64, holes: &[(u64, u64)]) -> Option<Self> {
        if len / (holes.len() as u64 + 1) < STRETCH_BYTES_MIN {
            return None;
        }
        let file = file.try_clone().ok()?;
        let direct = open_direct(&file);
        if direct.is_none() {
            // If the system refuses the advice, reading is only slower.
            fadvise(&file, 0, None, Advice::Sequential).ok();
        }
        Some(Self {
            shared: Arc::new(Shared { file, direct }),
            holes: holes.iter().rev().copied().collect(),
            position: 0,
            end: len,
        })
    }

    /// Whether the file can be read past the page cache.
    #[cfg(test)]
    pub(super) fn is_direct(&self) -> bool {
        self.shared.direct.is_some()
    }

    /// The next section, of at most `most` bytes; `None` at the end.
    ///
    /// # Panics
    /// If `most` is 0.
    pub fn next(&mut self, most: usize) -> Option<Section> {
        assert!(most > 0, "a section has bytes");
        let mut until = self.end;
        if let Some(&(offset, len)) = self.holes.last() {
            if offset == self.position {
                self.holes.pop();
                self.position += len;
                return Some(Section::Hole(len));
            }
            until = until.min(offset);
        }
        let offset = self.position;
        let len = usize::try_from(until - offset).map_or(most, |left| left.min(most));
        self.position += len as u64;
        (len > 0).then(|| {
            Section::Data(DataSection {
                shared: Arc::clone(&self.shared),
                offset,
                len,
            })
        })
    }
}

impl DataSection {
    /// Its length in bytes, by the file's length at its opening.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; no section is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads it into the beginning of a buffer that is at least as long. Returns whether it was
    /// read in full. Memory after its last byte may change up to the end of a block.
    ///
    /// # Panics
    /// If the buffer is shorter than the section.
    #[must_use]
    pub fn read(&self, buffer: &mut [u8]) -> bool {
        let range = ByteRange {
            offset: self.offset,
            len: self.len as u64,
        };
        let cached = match self.shared.direct {
            Some(_) => env::cached_bytes(&self.shared.file, range),
            None => Some(range.len),
        };
        self.read_knowing(buffer, cached)
    }

    /// Reads it, if so many of its bytes are cached. `None`: the system does not tell.
    pub(super) fn read_knowing(&self, buffer: &mut [u8], cached: Option<u64>) -> bool {
        assert!(buffer.len() >= self.len, "a buffer for the whole section");
        match cached {
            // The count is of whole pages.
            Some(cached) if cached >= self.len as u64 => {}
            Some(_) if self.read_direct(buffer) => return true,
            Some(_) => {}
            None => return self.read_trying(buffer),
        }
        self.read_plainly(&mut buffer[..self.len])
    }

    /// Like [`Self::read`], if the only way to learn what is cached is to read it without waiting.
    fn read_trying(&self, buffer: &mut [u8]) -> bool {
        match self.read_cached(&mut buffer[..self.len]) {
            Ok(true) => return true,
            Ok(false) if self.read_direct(buffer) => return true,
            // The system cannot tell what is cached, or does not read past the cache.
            Ok(false) | Err(_) => {}
        }
        self.read_plainly(&mut buffer[..self.len])
    }

    /// Reads the bytes that are in the page cache. `false`: some are not.
    #[cfg(target_os = "linux")]
    fn read_cached(&self, buffer: &mut [u8]) -> Result<bool, Errno> {
        use std::io::IoSliceMut;

        use rustix::io::{ReadWriteFlags, preadv2};
        let len = buffer.len();
        let mut slices = [IoSliceMut::new(buffer)];
        match preadv2(
            &self.shared.file,
            &mut slices,
            self.offset,
            ReadWriteFlags::NOWAIT,
        ) {
            Ok(read) => Ok(read == len),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn read_cached(&self, _: &mut [u8]) -> Result<bool, Errno> {
        Err(Errno::NOTSUP)
    }

    /// Reads past the page cache, if that is possible here.
    fn read_direct(&self, buffer: &mut [u8]) -> bool {
        let blocks = self.len.next_multiple_of(BLOCK_BYTES);
        let aligned = buffer.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
            && self.offset.is_multiple_of(BLOCK_BYTES as u64)
            && blocks <= buffer.len();
        match &self.shared.direct {
            Some(direct) if aligned => {
                retry(|| pread(direct, &mut buffer[..blocks], self.offset)).is_ok_and(|read| read >= self.len)
            }
            _ => false,
        }
    }

    fn read_plainly(&self, buffer: &mut [u8]) -> bool {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = self.offset + filled as u64;
            match retry(|| pread(&self.shared.file, &mut buffer[filled..], at)) {
                Ok(0) | Err(_) => return false,
                Ok(read) => filled += read,
            }
        }
        true
    }
}

/// Opens the open file once more, for direct reads, because flags belong to an open file. `None` if
/// that is impossible; then everything is read through the page cache.
#[cfg(target_os = "linux")]
fn open_direct(file: &OwnedFd) -> Option<OwnedFd> {
    use rustix::fs::{Mode, OFlags, open};
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file));
    let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    retry(|| open(path.as_str(), flags, Mode::empty())).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_direct(_: &OwnedFd) -> Option<OwnedFd> {
    None
}
