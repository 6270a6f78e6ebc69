//! Backups as lists of fingerprints and lengths, replayed without their bytes.

use types::Fingerprint;

use crate::error::SimulateError;

/// How much of the data a backup holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Full,
    /// The changes since the last one.
    Incremental,
}

/// The description of a backup before its chunks.
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

/// Receives replayed backups.
pub trait Sink {
    /// Begins a backup.
    ///
    /// # Errors
    /// Errors of the sink.
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError>;

    /// Adds the next chunks of the backup, at least one.
    ///
    /// # Errors
    /// Errors of the sink.
    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError>;

    /// Ends the backup.
    ///
    /// # Errors
    /// Errors of the sink.
    fn end(&mut self) -> Result<(), SimulateError>;
}

/// Replays backups.
pub trait Source {
    /// Replays all backups, the oldest first.
    ///
    /// # Errors
    /// Errors of the source or the sink.
    fn replay(&mut self, sink: &mut dyn Sink) -> Result<(), SimulateError>;
}
