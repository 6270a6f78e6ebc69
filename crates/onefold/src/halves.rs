//! The types of the interface between the two halves of a backup.
//!
//! The traits of [`repository`](crate::repository) name them. So a program that uses this crate
//! alone can wrap a repository:
//!
//! ```
//! use std::sync::Arc;
//!
//! use onefold::calls::{Call, Report};
//! use onefold::halves::ClientPools;
//! use onefold::repository::{Beginning, Pinned, Repository, RunningBackup};
//! use onefold::{Clock, Monitor, Result, Snapshot, SnapshotList};
//!
//! /// A repository that hides the backups of other hosts.
//! struct OfHost<'a>(&'a dyn Repository, &'a [u8]);
//!
//! impl Repository for OfHost<'_> {
//!     fn clock(&self) -> &Arc<dyn Clock> {
//!         self.0.clock()
//!     }
//!     fn snapshots(&self) -> Result<SnapshotList> {
//!         let mut list = self.0.snapshots()?;
//!         list.snapshots.retain(|snapshot| snapshot.backup.series.host == self.1);
//!         Ok(list)
//!     }
//!     fn pin_all(&self, snapshots: &[Snapshot], monitor: &Monitor) -> Result<Box<dyn Pinned + '_>> {
//!         self.0.pin_all(snapshots, monitor)
//!     }
//!     fn client_pools(&self) -> &ClientPools {
//!         self.0.client_pools()
//!     }
//!     fn call(&self, call: &Call, monitor: &Monitor) -> Result<Report> {
//!         self.0.call(call, monitor)
//!     }
//!     fn begin(&self, how: &Beginning<'_>, monitor: &Monitor) -> Result<Box<dyn RunningBackup + '_>> {
//!         self.0.begin(how, monitor)
//!     }
//! }
//! ```

pub use container::{CatalogView, PlainRegion, RegionBuffer};
pub use crypto::Fingerprinter;
pub use format::node::Node;
pub use ingest::dedup::Lane;
pub use ingest::{About, BackupSession, ClientPools, Committed, Distance, Granularity, Offer};
pub use ingest::{ResumedStream, Sent, Stream, Terms, Verdict};
pub use recipe::{Child, NodeSource, RecipeError, StoreReader, StreamName, TreeRoot};
pub use types::{ByteRange, ChunkLocation, ContainerId, RegionIndex, Slot};
