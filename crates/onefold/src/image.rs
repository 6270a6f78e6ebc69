//! A disk image or block device as the source of a single stream.

use std::io;
use std::path::Path;

use ingest::{StreamPiece, StreamSource};
use tree::{ImageReader, Piece};

use crate::error::Result;

/// An image. Its holes become zeros without being read.
#[derive(Debug)]
pub struct ImageSource(ImageReader);

impl ImageSource {
    /// Opens an image or device.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> Result<Self> {
        Ok(Self(ImageReader::open(path)?))
    }

    /// Its length in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Whether it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl StreamSource for ImageSource {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        Ok(match self.0.next(buffer).map_err(io::Error::other)? {
            Piece::Data(len) => StreamPiece::Data(len),
            Piece::Hole(len) => StreamPiece::Zeros(len),
            Piece::End => StreamPiece::End,
        })
    }

    fn skip_to(&mut self, position: u64) -> io::Result<bool> {
        self.0.skip_to(position).map(|()| true).map_err(io::Error::other)
    }

    fn goes_back(&self) -> bool {
        true
    }
}
