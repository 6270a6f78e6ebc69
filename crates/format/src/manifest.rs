//! Manifest revisions, the objects that end a session or change a backup (docs/format.md,
//! "Manifest").

mod encoding;

pub use encoding::{NAME_BYTES_MAX, PATH_BYTES_MAX, STREAMS_MAX, TEXT_BYTES_MAX};
pub(crate) use encoding::{read_adopted, read_series_name, read_span, series_name_rules, span_rules};
pub(crate) use encoding::{write_adopted, write_series_name, write_span};

use types::{
    ChunkLocation, ContainerId, ContainerKind, Fingerprint, Level, Revision, SequenceNumber, SessionId,
    UnixNanos,
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
    /// Revision 0: a later session took over what the checkpoint holds.
    Adopted {
        /// The adopting session.
        by: SessionId,
        /// The checkpoint it reads, and nothing later; `None`: the session had written none.
        checkpoint: Option<u32>,
    },
    /// A later revision: forgotten. Final, whatever follows.
    Forgotten,
    /// A later revision: the backup with other tags, hold, or the roots of a rewrite (R2).
    Revised(Backup),
}

/// What a committed backup is. Names and paths are bytes, as the system has them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// The series' name: how its folder's keyed hash is computed.
    pub series: SeriesName,
    /// The source's own idea of when the backup began. Shown, never decided by (INV-6).
    pub source_time: UnixNanos,
    /// How long it took, in nanoseconds of the source's monotonic clock.
    pub elapsed_nanos: u64,
    /// User name on the source.
    pub user: Vec<u8>,
    /// Version of the program that wrote it.
    pub program: String,
    /// Tags, sorted.
    pub tags: Vec<String>,
    /// Kept whatever retention says, until this time of the storage's clock.
    pub hold_until: Option<UnixNanos>,
    /// The streams, by role.
    pub streams: Vec<StreamRoot>,
    /// Every container the session wrote, as ranges of sequence numbers by kind.
    pub containers: Vec<ContainerSpan>,
    /// Sessions this one adopted: (session, checkpoint).
    pub adopted: Vec<(SessionId, Option<u32>)>,
    /// The backup whose unchanged files were taken by reference, and its revision.
    pub parents: Vec<(SessionId, Revision)>,
    /// Of an archival backup, the later one of its series that its recipes refer forward to (R2):
    /// the only one that they name.
    pub next: Option<SessionId>,
    /// Of a backup whose references were rewritten and that refers forward to none: the plain bytes
    /// that were copied for its layout. 0 where others' were, or where it was archival.
    pub rewritten: Option<u64>,
    /// What the backup counted.
    pub totals: BackupTotals,
}

/// What names a series: host and paths unless the user gave a name of their own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeriesName {
    /// The host.
    pub host: Vec<u8>,
    /// The paths, or the stream's name, sorted.
    pub paths: Vec<Vec<u8>>,
}

/// What a stream is in its backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamRole {
    /// The files' bytes, one after another, of a directory backup.
    Content,
    /// Its entries in path order.
    Listing,
    /// First path and offset of every 64 KiB of listing.
    Fences,
    /// A single stream: standard input or an image.
    Whole,
}

/// The root of a stream's recipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRoot {
    /// Its role.
    pub role: StreamRole,
    /// Where the root node lies.
    pub location: ChunkLocation,
    /// The root node's level.
    pub level: Level,
    /// The root node's fingerprint: what restore verifies up to (INV-5).
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
    /// How many, at least 1.
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

/// What a backup counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackupTotals {
    /// Regular files.
    pub files: u64,
    /// Folders.
    pub folders: u64,
    /// Everything else: links, devices, fifos, sockets.
    pub others: u64,
    /// Files new since the parent, or all without one.
    pub files_new: u64,
    /// Files read again.
    pub files_changed: u64,
    /// Files taken by reference.
    pub files_unchanged: u64,
    /// Entries that could not be read, or changed while being read.
    pub files_failed: u64,
    /// Bytes of all streams but listing and fences.
    pub bytes_logical: u64,
    /// Bytes read from the source.
    pub bytes_read: u64,
    /// Plain bytes of chunks that were stored anew.
    pub bytes_new: u64,
    /// Bytes of all containers written, mirrors included.
    pub bytes_stored: u64,
    /// Chunks in the streams (zero runs not counted).
    pub chunks: u64,
    /// Chunks stored anew.
    pub chunks_new: u64,
    /// Segments in the streams.
    pub segments: u64,
    /// Segments known whole.
    pub segments_known: u64,
}
