//! Errors of replaying backups.

use std::error::Error;
use std::io;

/// Backups that cannot be read, replayed or simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// An error of the operating system.
    #[error("{what}: {source}")]
    Io {
        /// What was read or written.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A file is no trace, or is damaged.
    #[error("{what}, at byte {at}: {why}; make the trace again")]
    Trace {
        /// What was read.
        what: String,
        /// The offset in the file.
        at: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The engine's policies failed.
    #[error(transparent)]
    Engine(#[from] ingest::IngestError),
    /// The user asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// Settings that make no sense.
    #[error("{0}")]
    Settings(String),
    /// A source or a sink of another crate failed.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

impl From<std::convert::Infallible> for SimulateError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
