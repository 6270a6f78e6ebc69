//! What can go wrong in the laboratory.

use std::io;

/// A workload that cannot be made, written or read.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The system's.
    #[error("{what}: {source}")]
    Io {
        /// What was read or written.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// Not a trace, or damaged.
    #[error("{what}, at byte {at}: {why}; make the trace again")]
    Trace {
        /// What was read.
        what: String,
        /// Where.
        at: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// Of the engine, over what the laboratory gives it.
    #[error(transparent)]
    Engine(#[from] ingest::IngestError),
    /// Someone asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// A store of the engine's, which experiments make and use.
    #[error(transparent)]
    Store(Box<onefold::Error>),
    /// Settings that make no sense.
    #[error("{0}")]
    Settings(String),
}

impl From<onefold::Error> for LabError {
    fn from(error: onefold::Error) -> Self {
        match error.kind() {
            onefold::ErrorKind::Interrupted => Self::Interrupted,
            _ => Self::Store(Box::new(error)),
        }
    }
}

impl From<std::convert::Infallible> for LabError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
