//! The reader's stage for a single stream: standard input, a disk image with its holes, or what a
//! program makes of earlier backups and new bytes.

use std::io::{self, Read};

use recipe::TreeRoot;
use types::ByteRange;

use crate::backup_session::BackupSession;
use crate::client::parent_check::ParentCheck;
use crate::client::piece::CopyRange;
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

    /// Goes to a position that is not 0, before anything was read: an interrupted backup has stored
    /// what is before it.
    ///
    /// # Errors
    /// [`io::ErrorKind::Unsupported`] where the source cannot; the system's.
    fn skip_to(&mut self, position: u64) -> io::Result<()> {
        let _ = position;
        Err(io::ErrorKind::Unsupported.into())
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

    /// Reads what is before, and drops it.
    fn skip_to(&mut self, position: u64) -> io::Result<()> {
        let skipped = io::copy(&mut self.0.by_ref().take(position), &mut io::sink())?;
        if skipped < position {
            let what = format!("the stream ends at {skipped}, and {position} bytes of it were stored before");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, what));
        }
        Ok(())
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

/// Feeds one stream.
pub(crate) fn feed(
    input: &mut SourceInput<'_>,
    session: &dyn BackupSession,
    spec: StreamSpec<'_>,
    source: &mut dyn StreamSource,
) -> Result<(), Halt> {
    let counters = input.counters();
    counters.set_current(spec.name.as_bytes());
    let parents = spec.parents.iter();
    let mut feed = Feed {
        spec,
        checks: parents.map(|root| ParentCheck::new(session, *root)).collect(),
        offset: session.terms().resumed_at.first().copied().unwrap_or(0),
        is_aligned: true,
    };
    if feed.offset > 0 {
        source.skip_to(feed.offset).map_err(|error| feed.fault(error))?;
        counters.bytes_logical.add(feed.offset);
    }
    loop {
        let piece = source
            .next(input.spare(WHOLE)?)
            .map_err(|error| feed.fault(error))?;
        feed.take(input, piece)?;
        if piece == StreamPiece::End {
            break;
        }
    }
    counters.files.add(1);
    counters.files_new.add(1);
    input.end(WHOLE)
}

/// A stream that is being fed.
struct Feed<'a> {
    spec: StreamSpec<'a>,
    checks: Vec<ParentCheck<'a>>,
    offset: u64,
    /// The last copied range ended where a fixed chunk does.
    is_aligned: bool,
}

impl Feed<'_> {
    fn take(&mut self, input: &mut SourceInput<'_>, piece: StreamPiece) -> Result<(), Halt> {
        let len = match piece {
            StreamPiece::Data(len) => {
                input.advance(WHOLE, len);
                len as u64
            }
            StreamPiece::Zeros(len) => {
                input.zeros(WHOLE, len)?;
                len
            }
            StreamPiece::Copy { parent, range } => {
                self.copy(input, parent, range)?;
                range.len
            }
            StreamPiece::End => return Ok(()),
        };
        if !self.is_aligned && !matches!(piece, StreamPiece::Copy { .. }) {
            return Err(self.misaligned().into());
        }
        self.offset += len;
        input.counters().bytes_logical.add(len);
        Ok(())
    }

    fn copy(&mut self, input: &mut SourceInput<'_>, parent: usize, range: ByteRange) -> Result<(), Halt> {
        let Some((root, check)) = self.spec.parents.get(parent).zip(self.checks.get_mut(parent)) else {
            let what = format!("there is no stream number {parent} to copy from");
            return Err(self.refused(what).into());
        };
        let end = range.offset.checked_add(range.len);
        if end.is_none_or(|end| end > root.len) {
            let what = format!(
                "{} bytes at {} are to be copied of a stream of {}",
                range.len, range.offset, root.len
            );
            return Err(self.refused(what).into());
        }
        let chunk = u64::from(self.spec.fixed_chunk_bytes.unwrap_or(1)).max(1);
        if !self.is_aligned || !self.offset.is_multiple_of(chunk) || !range.offset.is_multiple_of(chunk) {
            return Err(self.misaligned().into());
        }
        if !check.is_sound(range) {
            return Err(IngestError::UnsoundCopy {
                name: self.spec.name.to_owned(),
                offset: self.offset,
                range,
            }
            .into());
        }
        self.is_aligned = range.len.is_multiple_of(chunk);
        let ByteRange { offset, len } = range;
        let root = std::sync::Arc::new(*root);
        input.copy(WHOLE, CopyRange { root, offset, len })
    }

    fn misaligned(&self) -> IngestError {
        let chunk = self.spec.fixed_chunk_bytes.unwrap_or(1);
        self.refused(format!(
            "a copied range must begin and end at multiples of the chunks' {chunk} bytes in both streams"
        ))
    }

    fn refused(&self, what: String) -> IngestError {
        self.fault(io::Error::new(io::ErrorKind::InvalidInput, what))
    }

    fn fault(&self, source: io::Error) -> IngestError {
        IngestError::Source {
            name: self.spec.name.to_owned(),
            offset: self.offset,
            source,
        }
    }
}
