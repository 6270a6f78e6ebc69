//! Simulates backups and restores without a store. The simulator computes which bytes a store
//! would keep, and which containers a restore would read; the engine's own policies decide. The
//! crate also cuts real data into chunks, reads traces, and recommends settings for a user's data.
//!
//! A [`Source`] replays backups, chunk by chunk, into a [`Sink`]. The [`Simulator`] is a sink; a
//! [`Cutter`] replays files. The same backups and settings give the same figures.

pub mod analyze;
mod cut;
mod error;
pub mod plot;
mod simulator;
mod trace;

pub use cut::{Cutter, Cutting, Visit, trace_printer, walk};
pub use error::SimulateError;
pub use simulator::{
    AVERAGED, Ahead, Assembly, Average, Averages, Finding, Looked, Memory, Outcome, Policy, Restored,
    SamplingRate, Schedule, Settings, Simulator, Step, mean, over_time,
};
pub use trace::{BackupHead, Chunk, Extent, Sink, Source};
