//! Manifest revisions, the objects that end a session or change a backup (docs/format.md,
//! "Manifest").

mod encoding;
mod limits;

pub use encoding::{NAME_BYTES_MAX, PATH_BYTES_MAX, STREAMS_MAX, TEXT_BYTES_MAX};
pub(crate) use encoding::{read_adopted, read_series_name, read_span, series_name_rules, span_rules};
pub(crate) use encoding::{write_adopted, write_series_name, write_span};
pub use limits::ensure_tags_within_limits;
pub use limits::{LimitError, PATHS_MAX, SERIES_NAME_BYTES_MAX, TAGS_BYTES_MAX, TAGS_MAX};

use types::{
    ChunkLocation, ContainerId, ContainerKind, Fingerprint, Level, Revision, SequenceNumber, SessionId,
    StoreId, UnixNanos,
};

/// One revision under `backups/<series>/<session>.<revision>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Manifest {
    /// Revision 0: the session became a backup.
    Commit(Backup),
    /// Revision 0: the session was ended by someone who found it dead.
    Expired {
        /// Who: the session (read or write) that ended it.
        by: SessionId,
    },
    /// Revision 0: another session found the session dead, and ended it.
    Adopted {
        /// The session (read or write) that ended it.
        by: SessionId,
        /// The checkpoint that it reads, and no later one; `None`: the session had written none.
        checkpoint: Option<u32>,
    },
    /// A later revision: the backup is forgotten. This is final, whatever revision follows.
    Forgotten,
    /// A later revision: the backup with other tags, another hold, or the roots of a rewrite (R2).
    Revised(Backup),
}

/// The data of a committed backup. Names and paths are bytes, as the system has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The series' name. The name of the series' folder is its keyed hash.
    pub series: SeriesName,
    /// When the backup began, by the source's clock. It is shown, but nothing is decided by it
    /// (INV-6).
    pub source_time: UnixNanos,
    /// The duration, in nanoseconds of the source's monotonic clock.
    pub elapsed_nanos: u64,
    /// User name on the source.
    pub user: Vec<u8>,
    /// Version of the program that wrote it.
    pub program: String,
    /// Tags, sorted.
    pub tags: Vec<String>,
    /// The backup cannot be forgotten before this time of the storage's clock.
    pub hold_until: Option<UnixNanos>,
    /// The streams, by role.
    pub streams: Vec<StreamRoot>,
    /// Every container that the session wrote, as ranges of sequence numbers for each kind.
    pub containers: Vec<ContainerSpan>,
    /// Sessions that this one adopted: (session, checkpoint).
    pub adopted: Vec<(SessionId, Option<u32>)>,
    /// The backups whose unchanged files were taken over by reference, with their revisions.
    pub parents: Vec<(SessionId, Revision)>,
    /// For a copy from another store: the backup that it is a copy of.
    pub origin: Option<Origin>,
    /// For an archival backup: the later one of its series that its recipes refer forward to (R2).
    /// They name no other.
    pub next: Option<SessionId>,
    /// For a backup whose references were rewritten and that refers forward to none: the plain
    /// bytes that were copied for its layout. 0 if the copies were made for other backups, or if it
    /// was archival.
    pub rewritten: Option<u64>,
    /// Counts of the backup.
    pub totals: BackupTotals,
}

/// The backup that was made from the source, of which others are copies. A copy of a copy has the
/// same origin as the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Origin {
    /// The store that it was made in.
    pub store: StoreId,
    /// Its number there.
    pub backup: SessionId,
}

/// The name of a series: host and paths, unless the user gave another name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct SeriesName {
    /// The host.
    pub host: Vec<u8>,
    /// The paths, or the stream's name, sorted.
    pub paths: Vec<Vec<u8>>,
}

/// The role of a stream in its backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamRole {
    /// The bytes of all files of a directory backup, one after another.
    Content,
    /// Fences: the first path of each part of the listing, of some 64 KiB.
    Listing,
    /// The fences of the listing.
    Fences,
    /// A single stream: standard input or an image.
    Whole,
}

/// The root of a stream's recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRoot {
    /// Its role.
    pub role: StreamRole,
    /// The location of the root node.
    pub location: ChunkLocation,
    /// The root node's level.
    pub level: Level,
    /// The root node's fingerprint. A restore verifies up to it (INV-5).
    pub fingerprint: Fingerprint,
    /// The stream's length in bytes.
    pub len: u64,
}

/// Consecutive containers of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContainerSpan {
    /// The kind.
    pub kind: ContainerKind,
    /// The first sequence number.
    pub first: SequenceNumber,
    /// The number of containers, at least 1.
    pub count: u32,
}

impl ContainerSpan {
    /// Sorts containers of one session into spans.
    #[must_use]
    pub fn collect(containers: impl IntoIterator<Item = (ContainerKind, SequenceNumber)>) -> Vec<Self> {
        let mut numbers: Vec<_> = containers.into_iter().collect();
        numbers.sort_unstable();
        numbers.dedup();
        let mut spans: Vec<Self> = Vec::new();
        for (kind, number) in numbers {
            match spans.last_mut() {
                Some(last) if last.kind == kind && last.first.get() + last.count == number.get() => {
                    last.count += 1;
                }
                _ => spans.push(Self {
                    kind,
                    first: number,
                    count: 1,
                }),
            }
        }
        spans
    }

    /// The containers of the span, as written by `session`.
    pub fn ids(self, session: SessionId) -> impl Iterator<Item = ContainerId> {
        let first = self.first.get();
        (first..first.saturating_add(self.count))
            .filter_map(|n| SequenceNumber::new(n).ok())
            .map(move |sequence| ContainerId {
                session,
                kind: self.kind,
                sequence,
            })
    }
}

/// Counts of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackupTotals {
    /// Regular files.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Everything else: links, devices, fifos, sockets.
    pub others: u64,
    /// Files that the parent does not have, or all files without a parent.
    pub files_new: u64,
    /// Files read again.
    pub files_changed: u64,
    /// Files taken over by reference.
    pub files_unchanged: u64,
    /// Entries that could not be read, or that changed while they were read.
    pub files_failed: u64,
    /// Bytes of all streams except listing and fences.
    pub bytes_logical: u64,
    /// Bytes read from the source.
    pub bytes_read: u64,
    /// Plain bytes of newly stored chunks.
    pub bytes_new: u64,
    /// Bytes of all containers written, mirrors included.
    pub bytes_stored: u64,
    /// Chunks in the streams (runs of zeros not counted).
    pub chunks: u64,
    /// Chunks newly stored.
    pub chunks_new: u64,
    /// Segments in the streams.
    pub segments: u64,
    /// Segments that were found whole.
    pub segments_known: u64,
}
