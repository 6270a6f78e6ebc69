//! Names of streams.

use std::fmt;

use types::{SeriesId, SessionId};

/// A stream of a backup, as forward references name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StreamName {
    /// The series.
    pub series: SeriesId,
    /// The backup.
    pub backup: SessionId,
    /// The stream's position in the manifest.
    pub stream: u16,
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stream {} of backup {}", self.stream, self.backup)
    }
}
