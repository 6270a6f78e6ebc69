//! The pipeline: read, chunk, fingerprint, look up, pack, commit.
//!
//! It has two halves. The client reads the source; the store decides and stores. They know each
//! other only by [`BackupSession`]. Stages are threads joined by named bounded queues ([`queue`]);
//! what is deduplicated depends on the order of chunks alone, never on timing (Guo 3.4, G10). See
//! docs/architecture.md, "Backup: how a byte travels".

mod backup;
mod backup_session;
pub mod brief;
mod buffer;
mod client;
#[cfg(feature = "testing")]
pub mod conformance;
mod copied_run;
mod counters;
pub mod dedup;
mod durable;
mod error;
mod message;
mod options;
mod parent;
pub mod queue;
mod region;
mod running;
mod sample;
mod stage;
mod store;
mod stored_region;
mod workers;

#[cfg(test)]
mod tests;

pub use backup::{backup_fed, backup_stream, backup_tree, single_stream, tree_streams};
pub use backup_session::{About, BackupSession, Committed, Distance, ResumedStream, Stream, Terms};
pub use client::changed_blocks::ChangedBlocks;
pub use client::directory::Faults;
pub use client::fed::StreamFeed;
pub use client::pools::ClientPools;
pub use client::read_regions::ReadRegions;
pub use client::run::{Client, Sent};
pub use client::spool::SpooledSource;
pub use client::stream_source::{Keeps, ReaderSource, StreamPiece, StreamSource, StreamSpec};
pub use copied_run::{CopiedRun, OpenRun};
pub use counters::{Counter, Counters, FileFate, FileObserver};
pub use dedup::{Cap, Capping};
pub use dedup::{Granularity, LookupMemory};
pub use durable::DurablePosition;
pub use error::IngestError;
pub use message::{Offer, OfferedChild, OfferedPlace, OfferedSegment, Verdict, Wanted};
pub use options::{COMPRESSION_LEVEL, IngestOptions, SLOW_LINE_LEVEL};
pub use parent::ParentTree;
pub use queue::QueueStats;
pub use region::OfferedRegion;
pub use sample::{VerifiedKnown, VerifyKnown};
pub use stage::StageStats;
pub use store::local::LocalSession;
pub use store::pools::StorePools;
pub use store::session::StoreSession;
pub use stored_region::{SendableRegion, StoredRegion};
