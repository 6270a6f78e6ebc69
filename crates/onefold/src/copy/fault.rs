//! Why a backup was not copied: one of the two stores failed, or the source's data is damaged.

use std::ops::Range;

use ingest::IngestError;
use recipe::RecipeError;
use restore::RestoreError;
use session::SessionError;
use types::ByteRange;

use crate::error::Error;

/// Bytes of the source that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LostRange {
    /// The number of the stream.
    pub(super) stream: usize,
    /// Its bytes.
    pub(super) range: ByteRange,
}

impl LostRange {
    pub(super) fn new(stream: usize, range: ByteRange) -> Self {
        Self { stream, range }
    }
}

/// Why a copy ended.
#[derive(Debug)]
pub(super) enum CopyFault {
    /// The source could not be read.
    Source {
        /// The first error.
        error: Error,
        /// What is known to be lost.
        lost: Vec<LostRange>,
    },
    /// The destination failed, or somebody asked to stop.
    Other(Error),
}

impl CopyFault {
    /// An error of reading the source.
    pub(super) fn of_source(error: impl Into<Error>) -> Self {
        Self::Source {
            error: error.into(),
            lost: Vec::new(),
        }
    }

    /// A node of the source cannot be read, and with it this range of a stream.
    pub(super) fn lost(stream: usize, range: Range<u64>, error: RecipeError) -> Self {
        let range = ByteRange {
            offset: range.start,
            len: range.end.saturating_sub(range.start),
        };
        Self::Source {
            error: RestoreError::Recipe(error).into(),
            lost: vec![LostRange::new(stream, range)],
        }
    }
}

impl From<IngestError> for CopyFault {
    fn from(error: IngestError) -> Self {
        Self::Other(error.into())
    }
}

impl From<Error> for CopyFault {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

/// Whether the source as a whole cannot be read now: its storage refuses or is gone, or the reader
/// itself fails. Then no other backup can be read either, and nothing is known to be damaged.
pub(super) fn is_of_whole_source(error: &Error) -> bool {
    let is_of_reader = matches!(
        error,
        Error::Recipe(RecipeError::Other(_))
            | Error::Restore(RestoreError::NoMore(_) | RestoreError::Recipe(RecipeError::Other(_)))
    );
    is_of_reader || error.is_outage()
}

/// Whether a copy without an earlier one to build upon may succeed. A refused setting may be one of
/// the copy itself: then the second attempt is refused for it, too. So may what a server refuses
/// before anything was sent.
pub(super) fn may_be_of_earlier(error: &Error, has_sent: bool) -> bool {
    match error {
        Error::Ingest(error) => error.is_of_previous(),
        Error::Setting(_) | Error::Session(SessionError::NoBackup { .. }) => true,
        Error::NotFound(_) | Error::Elsewhere { is_broken: false, .. } => !has_sent,
        _ => false,
    }
}
