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
}

impl LabError {
    /// Whether the user asked to stop.
    #[must_use]
    pub const fn is_interrupted(&self) -> bool {
        matches!(self, Self::Simulate(SimulateError::Interrupted))
    }

    /// Settings that make no sense.
    pub(crate) fn settings(why: impl Into<String>) -> Self {
        SimulateError::Settings(why.into()).into()
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
        }
    }
}

impl From<std::convert::Infallible> for LabError {
    fn from(never: std::convert::Infallible) -> Self {
        match never {}
    }
}
