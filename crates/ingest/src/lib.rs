//! The pipeline: read, chunk, fingerprint, look up, pack, commit.
//!
//! Stages are threads joined by named bounded queues ([`queue`]); what is deduplicated depends on the
//! order of chunks alone, never on timing (Guo 3.4, G10). See docs/architecture.md, "How a byte travels".

mod backup;
mod buffer;
mod builders;
mod chunk;
mod close;
mod content;
mod counters;
pub mod dedup;
mod directory;
mod door;
mod error;
mod lookup;
mod options;
mod pack;
mod parallel_walk;
mod parent;
mod parent_check;
mod piece;
mod pipeline;
mod previous;
pub mod queue;
mod read_ahead;
mod refetch;
mod region;
mod sample;
mod sealed_containers;
mod sections;
mod source_input;
mod stage;
mod stream;
mod unchanged_entries;
mod unread;
mod workers;
mod write;

#[cfg(test)]
mod tests;

pub use backup::{Backed, Ingest, backup_stream, backup_tree};
pub use counters::{Counter, Counters};
pub use dedup::{Cap, Capping};
pub use dedup::{Granularity, LookupMemory};
pub use directory::Faults;
pub use door::Door;
pub use error::IngestError;
pub use options::{COMPRESSION_LEVEL, IngestOptions};
pub use parent::ParentTree;
pub use queue::QueueStats;
pub use sample::{VerifiedKnown, VerifyKnown};
pub use stage::StageStats;
pub use stream::{ReaderSource, StreamPiece, StreamSource};
