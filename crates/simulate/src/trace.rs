//! Backups as lists of fingerprints and lengths, replayed without their bytes.

use types::Fingerprint;

use crate::error::SimulateError;

/// How much of the data a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Full,
    /// What changed since the last one.
    Incremental,
}

/// What is said of a backup before its chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupHead {
    /// Its name, of at most 65,535 bytes.
    pub name: String,
    /// How much it holds.
    pub extent: Extent,
}

/// A chunk of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Its fingerprint; `None` for a run of zeros.
    pub fingerprint: Option<Fingerprint>,
    /// Its bytes, at least 1.
    pub len: u32,
}

/// What backups are replayed into.
pub trait Sink {
    /// A backup begins.
    ///
    /// # Errors
    /// Of the sink.
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError>;

    /// Its next chunks, at least one.
    ///
    /// # Errors
    /// Of the sink.
    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError>;

    /// It is complete.
    ///
    /// # Errors
    /// Of the sink.
    fn end(&mut self) -> Result<(), SimulateError>;
}

/// What replays backups.
pub trait Source {
    /// Replays all backups, the oldest first.
    ///
    /// # Errors
    /// Of the source or the sink.
    fn replay(&mut self, sink: &mut dyn Sink) -> Result<(), SimulateError>;
}
