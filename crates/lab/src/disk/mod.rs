//! A load on a block device: writers and readers of blocks of 4 KiB whose contents follow a
//! distribution of duplicates (D10).
//!
//! The description of the load is that of DEDISbench, by the same authors as DEDIS: a file says how
//! many contents have how many duplicates, and TPC-C's NURand chooses the places, so that some
//! blocks are written far more often than others. All of it follows from a seed; only the times
//! depend on the machine.

mod distribution;
mod load;
mod places;
mod process;
#[cfg(test)]
mod tests;

pub(crate) use distribution::Distribution;
pub(crate) use load::{Disk, Kind, Measured, Until, Worker, run};
pub use places::Access;
pub(crate) use process::{Process, Traffic};

/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u64 = 4096;
