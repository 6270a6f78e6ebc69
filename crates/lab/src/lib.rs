//! The laboratory: workloads of the papers, chunk traces as files, recordings of clients, and the
//! papers' experiments; loads on block devices.
//!
//! Generators and trace readers are sources for `simulate`, and trace writers are sinks. Everything
//! is deterministic: the same seed and settings give the same backups.

mod disk;
mod error;
pub mod generate;
pub mod recording;
pub mod reproduce;
mod rng;
#[cfg(test)]
mod test_output;
mod trace;

pub use error::LabError;
pub use trace::{DestorReader, DestorWriter, TraceReader, TraceWriter, open_trace};
