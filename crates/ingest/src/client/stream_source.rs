//! A source of a single stream, and the pieces that it returns.

use std::io::{self, Read};

use recipe::TreeRoot;
use types::ByteRange;

/// The next piece of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPiece {
    /// This many bytes, at least 1, in the buffer.
    Data(usize),
    /// This many zeros, which need not be read.
    Zeros(u64),
    /// A range of an earlier backup's stream, by reference: nothing is read (B3). If the stream has
    /// fixed chunks, the range must begin and end at their multiples, in both streams. The source
    /// rounds the ranges that it reads outward.
    Copy {
        /// The position of the earlier stream among the streams given to the backup.
        parent: usize,
        /// The range in it.
        range: ByteRange,
    },
    /// The end of the stream.
    End,
}

/// How much a source keeps of what it has given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// Little or nothing.
    Few,
    /// So much that a later position should become durable.
    Many,
    /// As much as it can. It must give nothing new before it can release some of it.
    Full,
}

/// A source of one stream.
pub trait StreamSource: Send {
    /// Returns the next piece.
    ///
    /// # Errors
    /// The system's. Then there is no backup, because a part of a stream is useless.
    fn next(&mut self, buffer: &mut [u8]) -> io::Result<StreamPiece>;

    /// Moves to a position before the first read, because an interrupted backup has stored the
    /// bytes before it. Returns whether it did. If it cannot, the source is read up to there.
    ///
    /// A source that [goes back](Self::goes_back) also moves to it when a backup begins anew.
    ///
    /// # Errors
    /// The system's; if the source has released these bytes.
    fn skip_to(&mut self, position: u64) -> io::Result<bool> {
        let _ = position;
        Ok(false)
    }

    /// Whether [`Self::skip_to`] moves back, too, so that a backup that lost its store may begin
    /// anew with this source.
    fn goes_back(&self) -> bool {
        false
    }

    /// The bytes before this position are durable: no backup of this stream will move before the
    /// last MiB of them. Returns how much the source keeps.
    fn release(&mut self, position: u64) -> Keeps {
        let _ = position;
        Keeps::Few
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

/// The properties of a stream, besides its bytes.
#[derive(Debug, Clone, Copy)]
pub struct StreamSpec<'a> {
    /// Its name in messages.
    pub name: &'a str,
    /// Cuts fixed chunks of this length; otherwise content-defined ones.
    pub fixed_chunk_bytes: Option<u32>,
    /// The streams of earlier backups that ranges are copied from. The session has declared these
    /// backups its parents.
    pub parents: &'a [TreeRoot],
}
