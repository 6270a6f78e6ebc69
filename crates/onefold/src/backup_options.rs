//! The options of a backup: its source, and how to back it up.

use std::path::PathBuf;
use std::sync::Arc;

use format::manifest::{BackupTotals, Origin, SeriesName, StreamRole};
use format::names;
use ingest::{About, Counters, IngestOptions};
use tree::{Excludes, FolderId, Marker, Roots, StoreFolder, WalkOptions};
use types::{SessionId, UnixNanos};

/// This program with its version, as manifests and servers know it.
pub const PROGRAM: &str = concat!("onefold ", env!("CARGO_PKG_VERSION"));

/// The options of every backup. By default there is no host, no user and no tag. Backups of one
/// host and the same paths are a series.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct BackupOptions {
    /// The host's name.
    pub host: Vec<u8>,
    /// The user's name.
    pub user: Vec<u8>,
    /// Tags.
    pub tags: Vec<String>,
    /// Make no backup if the source is as in the backup before.
    pub only_if_changed: bool,
    /// The options of the pipeline.
    pub ingest: IngestOptions,
    /// The facts of the original, if the backup is a copy.
    pub(crate) original: Option<Arc<Original>>,
}

/// The facts of a backup that its copy has too.
#[derive(Debug, Clone)]
pub(crate) struct Original {
    pub(crate) source_time: UnixNanos,
    pub(crate) elapsed_nanos: u64,
    pub(crate) program: String,
    pub(crate) hold_until: Option<UnixNanos>,
    pub(crate) origin: Option<Origin>,
    pub(crate) totals: BackupTotals,
}

types::setters!(BackupOptions {
    tags: Vec<String>,
    only_if_changed: bool,
    ingest: IngestOptions,
});

impl BackupOptions {
    /// The facts of a backup for its manifest, once its streams were sent.
    #[must_use]
    pub fn about(
        &self,
        name: SeriesName,
        source_time: UnixNanos,
        elapsed_nanos: u64,
        counters: &Counters,
    ) -> About {
        let mut tags = self.tags.clone();
        tags.sort_unstable();
        tags.dedup();
        let counted = counters.of_client();
        let of_now = About {
            name,
            source_time,
            elapsed_nanos,
            user: self.user.clone(),
            program: PROGRAM.to_owned(),
            tags,
            only_if_changed: self.only_if_changed,
            hold_until: None,
            origin: None,
            counted,
        };
        let Some(original) = &self.original else {
            return of_now;
        };
        About {
            source_time: original.source_time,
            elapsed_nanos: original.elapsed_nanos,
            program: original.program.clone(),
            hold_until: original.hold_until,
            origin: original.origin,
            counted: BackupTotals {
                bytes_read: counted.bytes_read,
                ..original.totals
            },
            ..of_now
        }
    }

    /// Sets the name of the host.
    #[must_use]
    pub fn host(mut self, host: impl Into<Vec<u8>>) -> Self {
        self.host = host.into();
        self
    }

    /// Sets the name of the user.
    #[must_use]
    pub fn user(mut self, user: impl Into<Vec<u8>>) -> Self {
        self.user = user.into();
        self
    }
}

/// The source of a backup of a tree; by default empty.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TreeOptions {
    /// Files and folders.
    pub paths: Vec<PathBuf>,
    /// The folder at which relative paths begin; absolute.
    pub current_folder: PathBuf,
    /// Patterns of paths to leave out.
    pub excludes: Excludes,
    /// Leave out folders with a `CACHEDIR.TAG`.
    pub exclude_caches: bool,
    /// Leave out the content of folders with one of these files, except that file.
    pub markers: Vec<Marker>,
    /// Leave out what the lines of files with one of these names say, below the folder of the file,
    /// by the rules of `.gitignore`.
    pub ignore_files: Vec<Vec<u8>>,
    /// Leave out regular files with more bytes.
    pub file_bytes_max: Option<u64>,
    /// Stay on the paths' file systems.
    pub one_file_system: bool,
    /// The store's folder: leave out the store, and not what else is there.
    pub leave_out: Option<PathBuf>,
    /// Read all files, including those that look unchanged.
    pub force: bool,
    /// Do not compare ctimes.
    pub ignore_ctime: bool,
    /// Do not compare inode numbers.
    pub ignore_inode: bool,
}

/// The options of a backup of one stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StreamOptions {
    /// Cuts fixed chunks of this length, as a disk image needs; otherwise content-defined ones.
    pub fixed_chunk_bytes: Option<u32>,
    /// The streams that [`ingest::StreamPiece::Copy`] refers to, by position.
    pub parents: Vec<ParentStream>,
    /// Continues an interrupted backup of the series, if it was resumable
    /// ([`IngestOptions::is_resumable`]). The source must give the same bytes again: bytes that
    /// were stored are not read again.
    pub resumes: bool,
}

/// A stream of an earlier backup, of any series of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ParentStream {
    /// The backup. It must not be forgotten.
    pub backup: SessionId,
    /// The role of the stream.
    pub role: StreamRole,
}

impl ParentStream {
    /// The stream with this role of a backup.
    #[must_use]
    pub const fn new(backup: SessionId, role: StreamRole) -> Self {
        Self { backup, role }
    }
}

types::setters!(StreamOptions {
    fixed_chunk_bytes: Option<u32>,
    parents: Vec<ParentStream>,
    resumes: bool,
});

impl StreamOptions {
    /// Cuts fixed chunks of this length.
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
    markers: Vec<Marker>,
    ignore_files: Vec<Vec<u8>>,
    file_bytes_max: Option<u64>,
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
            markers: Vec::new(),
            ignore_files: Vec::new(),
            file_bytes_max: None,
            one_file_system: false,
            leave_out: None,
            force: false,
            ignore_ctime: false,
            ignore_inode: false,
        }
    }
}

impl TreeOptions {
    /// These files and folders, with their content. Relative paths begin at the root, unless
    /// [`Self::current_folder`] is set.
    #[must_use]
    pub fn new(paths: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        Self::default().paths(paths.into_iter().map(Into::into).collect())
    }

    /// The walk for these options. With `count_only`, it only counts.
    #[must_use]
    pub fn walk(&self, count_only: bool) -> WalkOptions {
        WalkOptions {
            roots: Roots::new(&self.current_folder, &self.paths),
            excludes: self.excludes.clone(),
            markers: self
                .exclude_caches
                .then(Marker::cache_folder)
                .into_iter()
                .chain(self.markers.iter().cloned())
                .collect(),
            ignore_files: self.ignore_files.clone(),
            file_bytes_max: self.file_bytes_max,
            one_file_system: self.one_file_system,
            store: self.leave_out.as_deref().and_then(FolderId::of).map(|folder| {
                let names = names::TOP_FOLDER.iter().chain(&env::LOCAL_FOLDERS);
                StoreFolder {
                    folder,
                    names: names.map(|name| name.as_bytes().to_vec()).collect(),
                }
            }),
            count_only,
            ..WalkOptions::default()
        }
    }
}
