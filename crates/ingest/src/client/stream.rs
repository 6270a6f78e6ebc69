//! The reader's stage for a single stream: standard input, or a disk image with its holes.

use std::io::{self, Read};

use crate::client::source_input::SourceInput;
use crate::dedup::StreamIndex;
use crate::error::{Halt, IngestError};

/// The position of the stream in its manifest.
pub(crate) const WHOLE: StreamIndex = StreamIndex(0);

/// What comes next of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamPiece {
    /// So many bytes, at least 1, were put into the buffer.
    Data(usize),
    /// So many zeros follow that need not be read.
    Zeros(u64),
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

/// Feeds one stream.
pub(crate) fn feed(
    feeder: &mut SourceInput<'_>,
    name: &str,
    source: &mut dyn StreamSource,
) -> Result<(), Halt> {
    let counters = feeder.counters();
    counters.set_current(name.as_bytes());
    let mut offset = 0;
    loop {
        match source.next(feeder.spare(WHOLE)?) {
            Ok(StreamPiece::Data(len)) => {
                feeder.advance(WHOLE, len);
                offset += len as u64;
                counters.bytes_logical.add(len as u64);
            }
            Ok(StreamPiece::Zeros(len)) => {
                feeder.zeros(WHOLE, len)?;
                offset += len;
                counters.bytes_logical.add(len);
            }
            Ok(StreamPiece::End) => break,
            Err(source) => {
                return Err(IngestError::Source {
                    name: name.to_owned(),
                    offset,
                    source,
                }
                .into());
            }
        }
    }
    counters.files.add(1);
    counters.files_new.add(1);
    feeder.end(WHOLE)
}
