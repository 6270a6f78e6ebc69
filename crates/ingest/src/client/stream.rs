//! The reader's stage for a single stream: standard input, a disk image with its holes, or a stream
//! that a program makes of earlier backups and new bytes.

use std::io;
use std::time::Duration;

use types::ByteRange;

use crate::backup_session::BackupSession;
use crate::client::parent_check::ParentCheck;
use crate::client::piece::CopyRange;
use crate::client::resume;
use crate::client::source_input::SourceInput;
use crate::client::stream_source::{Keeps, StreamPiece, StreamSource, StreamSpec};
use crate::dedup::StreamIndex;
use crate::error::{Halt, IngestError};

/// The position of the stream in its manifest.
pub(crate) const WHOLE: StreamIndex = StreamIndex(0);

/// How long a full source waits before it asks again for a later durable position.
const WAIT: Duration = Duration::from_millis(500);

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
        offset: 0,
        is_aligned: true,
        asked_at: None,
    };
    if let Some(resumed) = session.terms().resumed.first() {
        let rest = resume::skip(spec.name, input, session, source, *resumed)?;
        feed.offset = resumed.len;
        if let Some(rest) = rest {
            feed.take(input, rest)?;
        }
    } else {
        source.skip_to(0).map_err(|error| feed.fault(error))?;
    }
    loop {
        feed.release(input, session, source)?;
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
    /// The durable position at which a later one was last asked for.
    asked_at: Option<u64>,
}

impl Feed<'_> {
    /// Lets the source release what is durable, and waits while the source is full.
    fn release(
        &mut self,
        input: &SourceInput<'_>,
        session: &dyn BackupSession,
        source: &mut dyn StreamSource,
    ) -> Result<(), Halt> {
        let mut durable = session.durable(0, Duration::ZERO)?;
        loop {
            let keeps = source.release(durable);
            if keeps == Keeps::Few {
                return Ok(());
            }
            if self.asked_at != Some(durable) {
                self.asked_at = Some(durable);
                session.request_durable()?;
            }
            if keeps == Keeps::Many {
                return Ok(());
            }
            input.ensure_wanted()?;
            let known = durable;
            durable = session.durable(known, WAIT)?;
            if durable == known {
                self.asked_at = None;
            }
        }
    }

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
        if !check.ask(range)? {
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
