//! The duplicates index (DDI): fingerprint of a block's content -> the block and its references.
//!
//! A pool has one index for all its volumes [DEDIS 2.2]. It is exact: it has one row for each
//! content that a volume has counted, so each duplicate is found. It is on disk, and needs memory
//! only for a cache. Each batch takes effect exactly once, also if its sender repeats it.
//!
//! [`DuplicatesIndex`] is the interface. [`FjallIndex`] is the one of the product, and
//! [`MemoryIndex`] a plain model of it. The feature `testing` adds code for tests: `fault` has an
//! index that fails and forgets, and every index must pass the suite `conformance`.

mod client;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod embedded;
mod encoding;
mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fault;
mod index;
mod memory;
mod row;
mod rules;

pub use client::operations_digest;
pub use embedded::{FjallIndex, FjallOptions};
pub use error::{DdiError, RebuildFault};
pub use index::{BucketStatistics, DuplicatesIndex, Rebuild, Statistics};
pub use memory::MemoryIndex;
pub use row::{Bucket, ClientPosition, Operation, Outcome, Row, RowKey};
