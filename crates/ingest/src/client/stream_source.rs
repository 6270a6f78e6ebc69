//! A source of a single stream, and what it says piece by piece.

use std::io::{self, Read};

use recipe::TreeRoot;
use types::ByteRange;

/// What comes next of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPiece {
    /// So many bytes, at least 1, were put into the buffer.
    Data(usize),
    /// So many zeros follow that need not be read.
    Zeros(u64),
    /// A range of an earlier backup's stream follows, by reference: nothing is read (B3). Where the
    /// stream has fixed chunks, the range begins and ends at their multiples, in both streams; a
    /// source rounds what it reads outward.
    Copy {
        /// Which of the streams that the backup was begun upon.
        parent: usize,
        /// Its bytes.
        range: ByteRange,
    },
    /// Nothing.
    End,
}

/// A source of one stream.
pub trait StreamSource: Send {
    /// Reads on.
    ///
    /// # Errors
    /// The system's; the backup is then not made, since half a stream is of no use to anybody.
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece>;

    /// Goes to a position, before anything was read: an interrupted backup has stored what is
    /// before. Says whether it did; a source that cannot is read up to there.
    ///
    /// # Errors
    /// The system's.
    fn skip_to(&mut self, position: u64) -> io::Result<bool> {
        let _ = position;
        Ok(false)
    }
}

/// A reader of bytes, such as standard input.
#[derive(Debug)]
pub struct ReaderSource<R>(pub R);

impl<R: Read + Send> StreamSource for ReaderSource<R> {
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece> {
        loop {
            match self.0.read(buffer) {
                Ok(0) => return Ok(StreamPiece::End),
                Ok(len) => return Ok(StreamPiece::Data(len)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// What a stream is, besides its bytes.
#[derive(Debug, Clone, Copy)]
pub struct StreamSpec<'a> {
    /// What messages call it.
    pub name: &'a str,
    /// Fixed chunks of so many bytes; content-defined ones otherwise.
    pub fixed_chunk_bytes: Option<u32>,
    /// The streams of earlier backups that ranges are copied from. The session has declared these
    /// backups its parents.
    pub parents: &'a [TreeRoot],
}
