//! What to back up, and how.

use std::path::PathBuf;

use ingest::IngestOptions;
use tree::{Excludes, FolderId, Marker, Roots, WalkOptions};

/// What every backup needs to know.
#[derive(Debug, Clone)]
pub struct BackupOptions {
    /// The host's name.
    pub host: Vec<u8>,
    /// The user's name.
    pub user: Vec<u8>,
    /// Tags.
    pub tags: Vec<String>,
    /// How the pipeline is run.
    pub ingest: IngestOptions,
}

/// What of a tree to back up.
#[derive(Debug)]
pub struct TreeOptions {
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// Where relative paths begin; absolute.
    pub current_folder: PathBuf,
    /// What to leave out.
    pub excludes: Excludes,
    /// Leave out folders with a `CACHEDIR.TAG`.
    pub exclude_caches: bool,
    /// Stay on the paths' file systems.
    pub one_file_system: bool,
    /// A folder to leave out wholly: the store itself.
    pub leave_out: Option<PathBuf>,
    /// Read all files, also those that look unchanged.
    pub force: bool,
    /// Do not compare ctimes.
    pub ignore_ctime: bool,
    /// Do not compare inode numbers.
    pub ignore_inode: bool,
}

impl TreeOptions {
    /// The walk that these options ask for; with `count_only`, one that only counts.
    #[must_use]
    pub fn walk(&self, count_only: bool) -> WalkOptions {
        WalkOptions {
            roots: Roots::new(&self.current_folder, &self.paths),
            excludes: self.excludes.clone(),
            markers: self
                .exclude_caches
                .then(Marker::cache_folder)
                .into_iter()
                .collect(),
            one_file_system: self.one_file_system,
            leave_out: self
                .leave_out
                .as_deref()
                .and_then(FolderId::of)
                .into_iter()
                .collect(),
            count_only,
            ..WalkOptions::default()
        }
    }
}
