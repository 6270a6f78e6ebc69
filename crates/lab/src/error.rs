//! Errors of the laboratory.

use simulate::SimulateError;

/// A workload or an experiment failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Making, replaying or simulating backups failed, or the user asked to stop.
    #[error(transparent)]
    Simulate(#[from] SimulateError),
    /// A store of the engine failed. An experiment made and used it.
    #[error(transparent)]
    Store(Box<onefold::Error>),
    /// A pool or a volume failed. An experiment made and used it.
    #[error(transparent)]
    Volume(#[from] volume::VolumeError),
    /// A host of an experiment failed.
    #[error("host {number}: {why}")]
    Host {
        /// Its number, from 0.
        number: u16,
        /// What it said.
        why: String,
    },
    /// A file is no recording, or is damaged.
    #[error("{what}, at byte {at}: {why}; record it again")]
    Recording {
        /// The recording.
        what: String,
        /// The offset in the file.
        at: u64,
        /// What is wrong.
        why: String,
    },
    /// A server does not do what it did when it was recorded.
    #[error("{what}, connection {connection}: {why}")]
    Diverged {
        /// The recording.
        what: String,
        /// The number of the connection in it.
        connection: u32,
        /// What the server does.
        why: String,
    },
    /// A connection could not be made or used.
    #[error(transparent)]
    Connection(#[from] transport::TransportError),
}

impl LabError {
    /// Whether the user asked to stop.
    #[must_use]
    pub const fn is_interrupted(&self) -> bool {
        matches!(self, Self::Simulate(SimulateError::Interrupted))
    }

    /// An error of the operating system; `what` was read or written.
    pub(crate) fn io(what: &str, source: std::io::Error) -> Self {
        let what = what.to_owned();
        SimulateError::Io { what, source }.into()
    }

    /// Settings that make no sense.
    pub(crate) fn settings(why: impl Into<String>) -> Self {
        SimulateError::Settings(why.into()).into()
    }
}

impl From<env::DeviceError> for LabError {
    fn from(error: env::DeviceError) -> Self {
        Self::Volume(error.into())
    }
}

impl From<ddi::DdiError> for LabError {
    fn from(error: ddi::DdiError) -> Self {
        Self::Volume(error.into())
    }
}

impl From<onefold::Error> for LabError {
    fn from(error: onefold::Error) -> Self {
        match error.kind() {
            onefold::ErrorKind::Interrupted => SimulateError::Interrupted.into(),
            _ => Self::Store(Box::new(error)),
        }
    }
}

impl From<ingest::IngestError> for LabError {
    fn from(error: ingest::IngestError) -> Self {
        Self::Simulate(error.into())
    }
}

impl From<LabError> for SimulateError {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Simulate(error) => error,
            LabError::Store(error) => Self::Other(error),
            other => Self::Other(Box::new(other)),
        }
    }
}

impl From<std::convert::Infallible> for LabError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
