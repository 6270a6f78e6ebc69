//! Reads a disk image or a block device from front to back. It reports holes without reading them
//! (R8).

use std::path::Path;

use rustix::fs::{Advice, FileType, Mode, OFlags, SeekFrom, fadvise, fstat, open, seek};
use rustix::io::{Errno, pread};

use crate::retry::retry;
use crate::{Action, Piece, TreeError};

/// An image that is being read. For one thread. After an error its position is unchanged.
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
    /// [`TreeError::NotAnImage`], [`TreeError::System`].
    pub fn open(path: &Path) -> Result<Self, TreeError> {
        use std::os::unix::ffi::OsStrExt;
        let bytes = path.as_os_str().as_bytes().to_vec();
        let file = retry(|| {
            open(
                path,
                // Do not wait: a pipe would wait for its other end.
                OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK,
                Mode::empty(),
            )
        });
        let file = file.map_err(|e| TreeError::reading(&bytes[..], Action::Open, e))?;
        let stat = retry(|| fstat(&file));
        let stat = stat.map_err(|e| TreeError::reading(&bytes[..], Action::ReadMetadata, e))?;
        if !matches!(
            FileType::from_raw_mode(stat.st_mode),
            FileType::RegularFile | FileType::BlockDevice
        ) {
            return Err(TreeError::NotAnImage { path: bytes });
        }
        // The length of a block device is not in its metadata.
        let len = retry(|| seek(&file, SeekFrom::End(0)));
        let len = len.map_err(|e| TreeError::reading(&bytes[..], Action::ReadMetadata, e))?;
        // If the system refuses the advice, reading is only slower.
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

    /// Continues at a position.
    ///
    /// # Errors
    /// [`TreeError::Changed`] if the image is shorter.
    pub fn skip_to(&mut self, position: u64) -> Result<(), TreeError> {
        if position > self.len {
            return Err(self.shrunk());
        }
        (self.position, self.data_end) = (position, position);
        Ok(())
    }

    /// Reads the next piece.
    ///
    /// # Errors
    /// [`TreeError::System`]; [`TreeError::Changed`] if the image has become shorter.
    ///
    /// # Panics
    /// If the buffer is empty.
    pub fn next(&mut self, buffer: &mut [u8]) -> Result<Piece, TreeError> {
        assert!(!buffer.is_empty(), "a buffer to read into");
        if self.position >= self.len {
            return Ok(Piece::End);
        }
        if self.position >= self.data_end {
            let begin = self.position;
            self.find_data();
            if self.position > begin {
                // If a file has become shorter, the range behind its end looks like a hole.
                let now = retry(|| seek(&self.file, SeekFrom::End(0)));
                let now = now.map_err(|e| TreeError::reading(&self.path[..], Action::ReadMetadata, e))?;
                if now < self.position {
                    return Err(self.shrunk());
                }
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

    fn shrunk(&self) -> TreeError {
        TreeError::Changed {
            path: self.path.clone(),
            change: crate::Change::Shrunk,
        }
    }

    /// Moves to the next data and finds its end. If the system does not report holes, everything is
    /// data.
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

#[cfg(test)]
mod tests {
    use std::fs::{self, OpenOptions};

    use super::*;

    #[test]
    fn holes_are_reported_and_data_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("image");
        let mut bytes = vec![0; 3 << 20];
        bytes[1 << 20..(1 << 20) + 4096].fill(7);
        let file = fs::File::create(&path).unwrap();
        file.set_len(3 << 20).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &bytes[1 << 20..(1 << 20) + 4096], 1 << 20).unwrap();
        let mut image = ImageReader::open(&path).unwrap();
        let (mut read, mut buffer) = (Vec::new(), vec![0; 10_000]);
        loop {
            match image.next(&mut buffer).unwrap() {
                Piece::Data(len) => read.extend_from_slice(&buffer[..len]),
                Piece::Hole(len) => read.resize(read.len() + usize::try_from(len).unwrap(), 0),
                Piece::End => break,
            }
        }
        assert!(read == bytes);
    }

    #[test]
    fn only_files_and_block_devices_are_images() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        for path in [pipe.as_path(), dir.path(), Path::new("/dev/null")] {
            assert!(
                matches!(ImageReader::open(path), Err(TreeError::NotAnImage { .. })),
                "{path:?}"
            );
        }
    }

    #[test]
    fn an_image_that_becomes_shorter_is_an_error() {
        for cut in [0, 10_000, 1 << 20] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("image");
            fs::write(&path, vec![1; 2 << 20]).unwrap();
            let mut image = ImageReader::open(&path).unwrap();
            let mut buffer = vec![0; 10_000];
            assert_eq!(image.next(&mut buffer).unwrap(), Piece::Data(10_000));
            OpenOptions::new()
                .write(true)
                .open(&path)
                .unwrap()
                .set_len(cut)
                .unwrap();
            let rest = std::iter::repeat_with(|| image.next(&mut buffer));
            let end = rest.take(1000).find(|piece| !matches!(piece, Ok(Piece::Data(_))));
            assert!(matches!(end, Some(Err(TreeError::Changed { .. }))), "{end:?}");
        }
    }
}
