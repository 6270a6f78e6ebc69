//! What a restore is asked for, and its result.

use std::path::PathBuf;

use restore::{AssembleOptions, AssembleStats, VerifyStats};
use tree::Excludes;

/// The options of a restore; by default everything, as it was.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct RestoreRequest {
    /// Restore only these paths of the backup, with everything below them. If this and `patterns`
    /// are empty: everything.
    pub include: Vec<Vec<u8>>,
    /// Also restore entries that match these patterns, with everything below them.
    pub patterns: Excludes,
    /// Leave out entries that match these patterns.
    pub excludes: Excludes,
    /// The folder of the backup that becomes the target. Empty: the paths are made below the
    /// target.
    pub base: Vec<u8>,
    /// What to do with existing entries.
    pub overwrite: tree::Overwrite,
    /// The owners of the restored entries.
    pub owners: tree::Owners,
    /// Where restored files get holes.
    pub sparse: tree::Sparse,
    /// Afterwards, delete what the folders in the target have and the backup's do not. An existing
    /// folder gives way to a file of the same name. Has no meaning for a stream.
    pub delete: bool,
    /// Folders of which nothing is deleted: the store itself.
    pub spared: Vec<PathBuf>,
    /// Afterwards, read the restored files again and compare them with the backup.
    pub verify: bool,
    /// Memory and threads.
    pub assembling: AssembleOptions,
}

types::setters!(RestoreRequest {
    include: Vec<Vec<u8>>,
    patterns: Excludes,
    excludes: Excludes,
    base: Vec<u8>,
    overwrite: tree::Overwrite,
    owners: tree::Owners,
    sparse: tree::Sparse,
    delete: bool,
    spared: Vec<PathBuf>,
    verify: bool,
    assembling: AssembleOptions,
});

impl RestoreRequest {
    /// Everything, as it was.
    #[must_use]
    pub fn new(assembling: AssembleOptions) -> Self {
        Self {
            assembling,
            ..Self::default()
        }
    }
}

/// The result of a restore.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Files restored.
    pub files: u64,
    /// Other entries restored.
    pub others: u64,
    /// Existing files that stayed.
    pub kept: u64,
    /// Bytes of content written to files.
    pub bytes: u64,
    /// Files with the content of an earlier backup, because they could not be read when this one
    /// was made.
    pub older: u64,
    /// Entries that were deleted, because the backup does not have them.
    pub deleted: u64,
    /// What was compared afterwards, if it was requested.
    pub verified: Option<VerifyStats>,
    /// Entries that could not be restored as they were.
    pub faults: u64,
    /// For each path to include, whether the backup has anything there. A stream has its own name
    /// alone.
    pub is_included: Vec<bool>,
    /// The cost of assembling.
    pub assemble: AssembleStats,
    /// How long it took, in nanoseconds.
    pub elapsed_nanos: u64,
}
