//! Reading a disk image or a block device from front to back; holes are told, not read (R8).

use std::path::Path;

use rustix::fs::{Advice, Mode, OFlags, SeekFrom, fadvise, open, seek};
use rustix::io::{Errno, pread};

use crate::folder::retry;
use crate::{Action, Piece, TreeError};

/// An image being read. One thread; a fault leaves it where it was.
#[derive(Debug)]
pub struct ImageReader {
    file: std::os::fd::OwnedFd,
    path: Vec<u8>,
    len: u64,
    position: u64,
    data_end: u64,
}

impl ImageReader {
    /// Opens an image or device, following links.
    ///
    /// # Errors
    /// [`TreeError::System`].
    pub fn open(path: &Path) -> Result<Self, TreeError> {
        use std::os::unix::ffi::OsStrExt;
        let bytes = path.as_os_str().as_bytes().to_vec();
        let file = retry(|| {
            open(
                path,
                OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY,
                Mode::empty(),
            )
        });
        let file = file.map_err(|e| TreeError::reading(&bytes[..], Action::Open, e))?;
        // The length of a block device is not in its metadata.
        let len = retry(|| seek(&file, SeekFrom::End(0)));
        let len = len.map_err(|e| TreeError::reading(&bytes[..], Action::ReadMetadata, e))?;
        // Advice that is refused costs nothing but speed.
        fadvise(&file, 0, None, Advice::Sequential).ok();
        Ok(Self {
            file,
            path: bytes,
            len,
            position: 0,
            data_end: 0,
        })
    }

    /// Its length in bytes when it was opened.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it had no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads on.
    ///
    /// # Errors
    /// [`TreeError::System`]; [`TreeError::Changed`] where the image has become shorter.
    ///
    /// # Panics
    /// When the buffer is empty.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<Piece, TreeError> {
        assert!(!buffer.is_empty(), "a buffer to read into");
        if self.position >= self.len {
            return Ok(Piece::End);
        }
        if self.position >= self.data_end {
            let begin = self.position;
            self.find_data();
            if self.position > begin {
                return Ok(Piece::Hole(self.position - begin));
            }
        }
        let left = usize::try_from(self.data_end - self.position).unwrap_or(usize::MAX);
        let want = left.min(buffer.len());
        let read = retry(|| pread(&self.file, &mut buffer[..want], self.position));
        match read.map_err(|e| TreeError::reading(&self.path[..], Action::Read, e))? {
            0 => Err(TreeError::Changed {
                path: self.path.clone(),
                change: crate::Change::Shrunk,
            }),
            n => {
                self.position += n as u64;
                Ok(Piece::Data(n))
            }
        }
    }

    /// Moves to the next data and finds its end. Where holes cannot be told, all is data.
    fn find_data(&mut self) {
        self.position = match retry(|| seek(&self.file, SeekFrom::Data(self.position))) {
            Ok(data) => data.clamp(self.position, self.len),
            Err(Errno::NXIO) => self.len,
            Err(_) => {
                self.data_end = self.len;
                return;
            }
        };
        self.data_end = match retry(|| seek(&self.file, SeekFrom::Hole(self.position))) {
            Ok(hole) if hole > self.position => hole.min(self.len),
            _ => self.len,
        };
    }
}
