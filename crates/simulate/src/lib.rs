//! What a store would hold of backups, and what restores would read, computed without a store. The
//! crate has chunks of real data or of a trace, a simulator in which the engine's own policies
//! decide, and the analysis that recommends settings for a user's data.
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
