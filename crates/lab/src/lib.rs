//! The laboratory: workloads of the papers, chunk traces, and a simulator that runs the engine's own policies over
//! them without payload.
//!
//! A [`Source`] replays backups, chunk by chunk, into a [`Sink`]: a generator or a trace on the one side, a trace or
//! the simulator on the other. Everything is deterministic: the same seed and settings give the same backups, and the
//! same backups the same figures.

pub mod analyze;
mod cut;
mod dice;
mod error;
pub mod generate;
pub mod reproduce;
pub mod simulate;
mod trace;
#[cfg(test)]
mod written;

pub use cut::{Cutter, Cutting};
pub use error::LabError;
pub use trace::{
    BackupHead, Chunk, DestorReader, DestorWriter, Extent, Sink, Source, TraceReader, TraceWriter, open_trace,
};
