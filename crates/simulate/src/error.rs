//! What can go wrong with backups that are replayed.

use std::error::Error;
use std::io;

/// Backups that cannot be read, replayed or simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// The system's.
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
        /// Where.
        at: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// The engine's policies failed.
    #[error(transparent)]
    Engine(#[from] ingest::IngestError),
    /// A user asked to stop.
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
