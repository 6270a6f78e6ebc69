//! The library: opens a store and wires the floors below.
//!
//! A [`Store`] is made by [`Store::init`] or opened by [`Store::open`], over any [`env::Storage`]. Backups
//! ([`Store::backup_tree`], [`Store::backup_stream`]), restores, checks and the rest are its methods; each
//! takes a [`Monitor`] to be watched and stopped by. Errors say what, where and what to do next.

mod backup;
mod backup_options;
mod backup_report;
mod backup_run;
mod check;
mod credential;
mod damage;
mod dump;
mod error;
mod forget;
mod heal;
mod image;
mod index_rebuild;
mod monitor;
mod optimize;
mod prune;
mod reading;
mod restore;
mod revise;
mod series;
mod settings;
mod snapshots;
mod stats;
mod store;
mod streams;
mod warning;

pub use ::index::{IndexStats, MemoryStats, Warning as IndexWarning};
pub use ::restore::plan::Assembly;
pub use ::restore::{AssembleOptions, AssembleStats, Fault, Output as StreamOutput};
pub use backup_options::{BackupOptions, TreeOptions};
pub use backup_report::BackupReport;
pub use check::{CheckReport, Damage, Finding, ReadData};
pub use container::Compression;
pub use credential::Credential;
pub use env::{Access, Env};
pub use error::{Error, ErrorKind, Result};
pub use forget::{ForgetReport, ForgetRequest, ForgetWhat};
pub use format::listing::{Content, EntryKind, EntryState, ListingEntry};
pub use format::manifest::{BackupTotals, SeriesName};
pub use format::series::{ArchivalWindow, Layout, SeriesSettings};
pub use heal::{HealReport, Healed};
pub use image::ImageSource;
pub use index::{Eviction, ResolverStats};
pub use index_rebuild::RebuildReport;
pub use ingest::{
    COMPRESSION_LEVEL, Cap, Capping, Counters, IngestOptions, LookupMemory, QueueStats, ReaderSource,
    StageStats, StreamPiece, StreamSource, VerifiedKnown, VerifyKnown,
};
pub use monitor::{Monitor, WorkUnit};
pub use optimize::{
    DueBackup, DueRepair, Expired, HeldBackup, OptimizePreview, OptimizeReport, OptimizeRequest, Optimized,
    Repaired,
};
pub use prune::{PruneLimits, PruneOptions, PrunePreview, PruneReport, PruneUnused};
pub use reclaim::retention::{
    Candidate, Decision, Group, GroupBy, GroupKey, Limit, Period, Policy, Reason, Rule, TimeSpan, Times,
};
pub use reclaim::{Waiting, WaitingRole, Warning as ReclaimWarning};
pub use restore::{RestoreReport, RestoreRequest};
pub use revise::{Held, HoldEnd, Retagged, TagChange, Which};
pub use series::{Series, SeriesList, SettingsOf, root_paths};
pub use session::{DamagedObject, Filter, SessionPolicy};
pub use settings::SettingsChange;
pub use snapshots::{Snapshot, SnapshotList};
pub use stats::{BackupLayout, KindStats, MEASURED_ASSEMBLY_BYTES, StoreStats};
pub use store::{InitOptions, KeyInfo, OpenOptions, Store};
pub use tree::order::is_within;
pub use tree::{
    Doubt, ExcludeBuilder, Excludes, Overwrite, Owners, PatternDoubt, Sparse, TreeError, TypedPath, Walk,
};
pub use types::{
    ByteLen, ContainerId, FileTime, SeriesId, SessionId, StoreId, UnixNanos, shell_word, shell_words,
};
pub use warning::Warning;
