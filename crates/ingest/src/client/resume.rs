//! Continues an interrupted stream: skips the source's bytes that are stored, or reads and drops
//! them. It compares the last of them with the stored ones.
//!
//! If the source had other bytes there, the backup would mix two contents. Comparing all bytes
//! would cost as much as resuming saves.

use std::io::{self, Read};

use recipe::StreamBytes;
use types::ByteRange;

use crate::backup_session::{BackupSession, ResumedStream};
use crate::client::source_input::SourceInput;
use crate::client::stream_source::{StreamPiece, StreamSource};
use crate::error::{Halt, IngestError};

/// How many of the last stored bytes to compare, if their node has as many.
pub(crate) const COMPARED_BYTES: u64 = 1 << 20;

/// Moves the source to the end of the stored bytes. Returns a piece that reaches beyond it: zeros,
/// or a copied range.
pub(crate) fn skip(
    name: &str,
    input: &SourceInput<'_>,
    session: &dyn BackupSession,
    source: &mut dyn StreamSource,
    resumed: ResumedStream,
) -> Result<Option<StreamPiece>, Halt> {
    let counters = input.counters();
    let compared = resumed.last.map_or(0, |last| last.len.min(COMPARED_BYTES));
    let from = resumed.len - compared;
    let fault = |offset: u64, source: io::Error| IngestError::Source {
        name: name.to_owned(),
        offset,
        source,
    };
    let (mut offset, mut behind) = (0, None);
    if source.skip_to(from).map_err(|error| fault(0, error))? {
        offset = from;
        counters.bytes_logical.add(from);
    }
    let stored = match &resumed.last {
        Some(last) => StreamBytes::new(session.reader(), last, last.len - compared, compared),
        None => return Ok(None),
    };
    let mut stored = stored.map_err(IngestError::Previous)?;
    let mut buffer = vec![0; 1 << 16];
    while offset < resumed.len {
        input.ensure_wanted()?;
        let left = resumed.len - offset;
        let room = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let piece = source
            .next(&mut buffer[..room])
            .map_err(|error| fault(offset, error))?;
        let (len, rest) = match piece {
            StreamPiece::Data(len) => (len as u64, None),
            StreamPiece::Zeros(len) => {
                let rest = len.saturating_sub(left);
                (len - rest, (rest > 0).then_some(StreamPiece::Zeros(rest)))
            }
            StreamPiece::Copy { parent, range: whole } => {
                let rest = whole.len.saturating_sub(left);
                let range = ByteRange {
                    offset: whole.end() - rest,
                    len: rest,
                };
                let copy = StreamPiece::Copy { parent, range };
                (whole.len - rest, (rest > 0).then_some(copy))
            }
            StreamPiece::End => {
                let what = format!(
                    "it ends here, and the interrupted backup had stored {}",
                    resumed.len
                );
                return Err(fault(offset, io::Error::new(io::ErrorKind::UnexpectedEof, what)).into());
            }
        };
        // Bytes before the compared ones are dropped.
        let before = from.saturating_sub(offset).min(len);
        let is_same = is_next(&mut stored, len - before, |at, stored| match piece {
            StreamPiece::Data(_) => buffer[to_usize(before) + at] == stored,
            StreamPiece::Zeros(_) => stored == 0,
            // A copied range is not read, so there is nothing to compare.
            _ => true,
        })?;
        if !is_same {
            let what = "its bytes before this are others than those that the interrupted backup stored; \
                        back it up without resuming";
            return Err(fault(offset, io::Error::new(io::ErrorKind::InvalidData, what)).into());
        }
        offset += len;
        // The interrupted backup has what is skipped, so a source that keeps bytes drops them.
        source.release(offset.min(from));
        counters.bytes_logical.add(len);
        behind = rest;
    }
    Ok(behind)
}

/// Whether each of the reader's next bytes is right, by its position among them.
fn is_next(
    stored: &mut impl Read,
    len: u64,
    is_expected: impl Fn(usize, u8) -> bool,
) -> Result<bool, IngestError> {
    let mut bytes = Vec::new();
    let read = stored.take(len).read_to_end(&mut bytes);
    read.map_err(|error| IngestError::Previous(recipe::RecipeError::Other(error.into())))?;
    let is_same = bytes.iter().enumerate().all(|(at, byte)| is_expected(at, *byte));
    Ok(is_same && bytes.len() as u64 == len)
}

fn to_usize(n: u64) -> usize {
    usize::try_from(n).expect("a place in a buffer")
}
