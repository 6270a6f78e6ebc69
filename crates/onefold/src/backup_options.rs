//! What to back up, and how.

use std::path::PathBuf;

use format::manifest::StreamRole;
use ingest::IngestOptions;
use tree::{Excludes, FolderId, Marker, Roots, WalkOptions};
use types::SessionId;

/// What every backup needs to know. By default of no host, no user and no tags; backups of one host
/// and the same paths are a series.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
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

types::setters!(BackupOptions {
    tags: Vec<String>,
    ingest: IngestOptions,
});

impl BackupOptions {
    /// With this name of the host.
    #[must_use]
    pub fn host(mut self, host: impl Into<Vec<u8>>) -> Self {
        self.host = host.into();
        self
    }

    /// With this name of the user.
    #[must_use]
    pub fn user(mut self, user: impl Into<Vec<u8>>) -> Self {
        self.user = user.into();
        self
    }
}

/// What of a tree to back up; by default nothing.
#[derive(Debug, Clone)]
#[non_exhaustive]
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

/// How one stream is backed up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamOptions {
    /// Fixed chunks of so many bytes, as a disk image wants; content-defined ones otherwise.
    pub fixed_chunk_bytes: Option<u32>,
    /// The streams that [`ingest::StreamPiece::Copy`] refers to, by position.
    pub parents: Vec<ParentStream>,
    /// Goes on where an interrupted backup of the series was, if it was resumable
    /// ([`IngestOptions::is_resumable`]). The source gives the bytes that it gave then: what was
    /// stored is not read again.
    pub resumes: bool,
}

/// A stream of an earlier backup, of any series of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParentStream {
    /// The backup; it must not be forgotten.
    pub backup: SessionId,
    /// Which of its streams.
    pub role: StreamRole,
}

types::setters!(StreamOptions {
    fixed_chunk_bytes: Option<u32>,
    parents: Vec<ParentStream>,
    resumes: bool,
});

impl StreamOptions {
    /// Fixed chunks of so many bytes.
    #[must_use]
    pub fn fixed(chunk_bytes: u32) -> Self {
        Self {
            fixed_chunk_bytes: Some(chunk_bytes),
            ..Self::default()
        }
    }
}

types::setters!(TreeOptions {
    paths: Vec<PathBuf>,
    current_folder: PathBuf,
    excludes: Excludes,
    exclude_caches: bool,
    one_file_system: bool,
    leave_out: Option<PathBuf>,
    force: bool,
    ignore_ctime: bool,
    ignore_inode: bool,
});

impl Default for TreeOptions {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            current_folder: PathBuf::from("/"),
            excludes: Excludes::default(),
            exclude_caches: false,
            one_file_system: false,
            leave_out: None,
            force: false,
            ignore_ctime: false,
            ignore_inode: false,
        }
    }
}

impl TreeOptions {
    /// These files and folders, with all that is in them. Relative paths begin at the root, unless
    /// [`Self::current_folder`] says otherwise.
    #[must_use]
    pub fn new(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self::default().paths(paths.into_iter().map(Into::into).collect())
    }

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
