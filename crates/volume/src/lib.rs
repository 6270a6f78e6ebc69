//! Pools of blocks, and the volumes that share them: DEDIS on one host [DEDIS 2].
//!
//! A [`Pool`] is a file or a disk. A [`Volume`] maps its blocks to blocks of the pool, and serves
//! reads and writes (D1). In the background, the finder shares equal blocks of all volumes (D2),
//! and the collector frees blocks that no volume refers to (D4). The duplicates index (`ddi`)
//! counts the references.
//!
//! What must hold (`docs/volumes.md`): a kill of the process loses no acknowledged write. A power
//! cut loses no flushed write. A write in place changes no metadata, computes no hash, and does not
//! ask the index.

mod background;
mod batch;
mod check;
mod checkpoint;
mod collector;
mod core;
mod counters;
mod dirty;
mod error;
mod extents;
mod finder;
mod finding;
mod found_log;
mod free;
mod gifts;
mod head;
#[cfg(test)]
mod hooked;
mod husk;
mod leaf;
mod lock;
mod log;
mod map;
mod names;
mod pool;
mod read;
mod readers;
mod recount;
mod recovery;
mod references;
mod replay;
mod resize;
mod scrub;
mod shared;
mod slot;
mod space;
mod start;
mod stats;
mod unreadable;
mod volume;
mod write;

pub use background::Background;
pub use counters::{Latency, VolumeCounts};
pub use error::{Result, VolumeError};
pub use finder::Found;
pub use finding::{Checked, FINDINGS_MAX, Finding, Use};
pub use format::pool::frame::PoolId;
pub use format::pool::header::VolumeSettings;
pub use pool::{MAP_CACHE_BYTES_DEFAULT, Pool, PoolOptions};
pub use read::{Status, VolumeRead};
pub use recount::Recounted;
pub use stats::{Fill, PoolStats, VolumeStats};
pub use volume::Volume;
