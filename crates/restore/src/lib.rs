//! Restores: plans that look ahead, prefetching, assembly, verification.
//!
//! Nothing leaves unverified (INV-5). References come from recipes whose nodes were recomputed up
//! to the manifest's root, and every chunk's bytes are hashed before they are handed on. A restore
//! never asks the index (G2).

mod assemble;
mod batch;
pub mod belady;
mod charge;
mod counters;
mod error;
mod fetch;
mod listing;
mod memory_budget;
mod message;
pub mod plan;
mod pool;
mod preview;
mod read_sizes;
mod read_split;
mod recipe_prefetch;
mod references;
mod send;
mod stream;
mod tree;
mod verify;

#[cfg(test)]
mod belady_tests;
#[cfg(test)]
mod recipe_prefetch_tests;
#[cfg(test)]
mod same_bytes_tests;
#[cfg(test)]
mod test_store;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tree_tests;

pub use assemble::{AssembleOptions, assemble};
pub use counters::RestoreCounters;
pub use error::RestoreError;
pub use listing::{BackupListing, Children, Entries, FenceFault, Wanted, for_each_difference};
pub use message::AssembleStats;
pub use preview::{Preview, preview_tree, remove_surplus};
pub use references::references;
pub use send::Sink;
pub use stream::{Output, read_ranges, restore_stream};
pub use tree::{Fault, TreeSource, TreeStats, restore_tree};
pub use verify::{VerifyStats, verify_tree};
