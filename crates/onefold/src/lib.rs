//! The library: opens a store and wires the floors below.
//!
//! A [`Store`] is made by [`Store::init`] or opened by [`Store::open`], over the storage of an
//! [`Env`]. Backups ([`Store::backup_tree`], [`Store::backup_stream`]), restores, checks and the
//! rest are its methods. Long ones take a [`Monitor`], which counts, collects warnings, and stops
//! them. `docs/library.md` shows how the parts fit together, and `examples/` has programs.
//!
//! ```
//! use onefold::{BackupOptions, Credential, Env, Filter, InitOptions, Monitor, OpenOptions};
//! use onefold::{RestoreRequest, Store, TreeOptions};
//!
//! # let place = tempfile::tempdir()?;
//! # let (folder, target) = (place.path().join("folder"), place.path().join("target"));
//! # std::fs::create_dir(&folder)?;
//! # std::fs::write(folder.join("letter"), "Dear reader")?;
//! let env = Env::create_local(place.path().join("store"))?;
//! let credential = Credential::password("correct horse battery staple");
//! Store::init(&env, &credential, &InitOptions::default(), None)?;
//!
//! let store = Store::open(&env, &credential, &OpenOptions::default())?;
//! let monitor = Monitor::default();
//! let options = BackupOptions::default().host("laptop");
//! let tree = TreeOptions::new([&folder]);
//! let report = store.backup_tree(&options, &tree, &monitor, &mut |fault| eprintln!("{fault}"))?;
//! assert_eq!(report.totals.files_new, 1);
//!
//! let snapshot = store.find("latest", &Filter::default())?;
//! let request = RestoreRequest::default();
//! let report = store.restore(&snapshot, &target, &request, &monitor, &mut |_| {})?;
//! assert_eq!((report.files, report.faults), (1, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod archive;
mod backup;
mod backup_file;
mod backup_options;
mod backup_report;
mod backup_run;
mod cache;
pub mod calls;
mod check;
mod copy;
mod covered;
mod credential;
mod damage;
mod diff;
mod dry_run;
mod dump;
mod error;
pub mod errors;
mod find;
mod first_listings;
mod forget;
pub mod halves;
mod heal;
mod hosted;
mod image;
mod index_rebuild;
mod keys;
mod monitor;
pub mod operations;
mod optimize;
mod past_cache;
mod prune;
mod reading;
mod repair;
pub mod repository;
mod restore;
mod restore_preview;
mod restore_request;
mod restore_whole;
mod revise;
mod scope;
pub mod self_test;
mod series;
mod settings;
mod shares;
mod snapshots;
mod stats;
mod store;
mod stored;
mod streams;
mod tidying;
pub mod walk;
mod warning;

pub use ::index::HookKind;
pub use ::index::sampling::{SampleLevel, SamplingRate, SamplingRates};
pub use ::index::{IndexStats, MemoryStats, Warning as IndexWarning};
pub use ::restore::{
    AssembleOptions, AssembleStats, Fault, Output as StreamOutput, RestoreCounters, VerifyStats,
};
pub use archive::{ArchiveFault, ArchiveFormat, ArchiveReport, ArchiveRequest};
pub use backup_file::BackupFile;
pub use backup_options::{BackupOptions, PROGRAM, ParentStream, StreamOptions, TreeOptions};
pub use backup_report::BackupReport;
pub use cache::{CacheOptions, DATA_FOLDERS};
pub use check::{CheckReport, Damage, Finding, ReadData};
pub use container::Compression;
pub use copy::{Copied, CopyReport, CopyRequest, CopyStep, NotCopied};
pub use credential::Credential;
pub use crypto::Argon2Cost;
pub use diff::{Change, DiffCounts, DiffKind, DiffReport, DiffRequest};
pub use dry_run::dry_run;
pub use env::{
    Access, AlignedBuffer, Clock, Entropy, Env, LocalOptions, LocalStorage, LockState, ManualClock,
    MemoryStorage, ObjectBytes, ObjectMeta, ProcessLock, PublishWay, Storage, SystemClock, SystemEntropy,
    return_large_memory,
};
#[cfg(feature = "remote")]
pub use env::{
    LocationError, ObjectStoreLocation, ObjectStoreOptions, ObjectStoreStorage, StorageClass,
    StorageClassError,
};
pub use error::{Error, ErrorKind, Result};
pub use find::{FindReport, FindRequest, Found};
pub use forget::{ForgetReport, ForgetRequest, ForgetWhat};
pub use format::config::Settings as StoreSettings;
pub use format::listing::{Content, EntryKind, EntryState, ListingEntry};
pub use format::manifest::{Backup, BackupTotals, ContainerSpan, Origin, SeriesName, StreamRole, StreamRoot};
pub use format::node::NodeEntry;
pub use format::series::{ArchivalWindow, Layout, SeriesSettings};
pub use heal::{HealReport, Healed};
pub use hosted::{HostedBackup, SessionWatch};
pub use image::ImageSource;
pub use index::{Eviction, ResolverStats};
pub use index_rebuild::RebuildReport;
pub use ingest::{
    COMPRESSION_LEVEL, Cap, Capping, ChangedBlocks, Counter, Counters, Faults, FileFate, FileObserver,
    IngestOptions, Keeps, LookupMemory, QueueStats, ReaderSource, SLOW_LINE_LEVEL, StageStats, StreamPiece,
    StreamSource, VerifiedKnown, VerifyKnown,
};
pub use keys::KeyInfo;
pub use monitor::{Monitor, RestoreFate, WorkUnit};
pub use optimize::{
    DueBackup, DueRepair, Expired, HeldBackup, OptimizePreview, OptimizeReport, OptimizeRequest, Optimized,
    Repaired,
};
pub use prune::{PruneLimits, PruneOptions, PrunePlan, PrunePreview, PruneReport, PruneUnused};
pub use reclaim::retention::{
    Candidate, Decision, Group, GroupBy, GroupKey, Limit, Period, Policy, Reason, Rule, TimeSpan, Times,
};
pub use reclaim::{Waiting, WaitingRole, Warning as ReclaimWarning};
pub use repair::{RepairReport, RepairStep};
pub use restore_preview::RestorePreview;
pub use restore_request::{RestoreReport, RestoreRequest};
pub use revise::{Held, HoldEnd, Retagged, TagChange, Which};
pub use scope::Scope;
pub use series::{Series, SeriesList, SettingsOf, root_paths};
pub use session::{DamagedObject, Filter, SessionPolicy};
pub use settings::SettingsChange;
pub use shares::{SeriesShare, Shares};
pub use snapshots::{Snapshot, SnapshotList};
pub use stats::{BackupLayout, KindStats, MEASURED_ASSEMBLY_BYTES, StoreStats};
pub use store::{InitOptions, OpenOptions, Store};
pub use tree::order::is_within;
pub use tree::{
    Doubt, ExcludeBuilder, Excludes, Overwrite, Owners, PatternDoubt, Sparse, TreeError, TypedPath, WholeFile,
};
pub use types::{
    ByteLen, ByteRange, ChunkLocation, ContainerId, ContainerKind, FileTime, Fingerprint, Generation, Level,
    NameError, ObjectName, OutOfRange, RegionIndex, Revision, SequenceNumber, SeriesId, SessionId, Slot,
    SlotRange, StoreId, UnixNanos, shell_word, shell_words,
};
pub use warning::Warning;
