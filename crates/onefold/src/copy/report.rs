//! What to copy, and what became of it.

use std::collections::BTreeSet;

use ingest::IngestOptions;
use restore::AssembleOptions;
use session::Filter;
use types::SessionId;

use crate::backup_report::BackupReport;
use crate::snapshots::Snapshot;

/// Which backups to copy, and how. By default all that the destination does not have.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CopyRequest {
    /// These: ids, or `latest`. Empty: all that pass the filter.
    pub ids: Vec<String>,
    /// Chooses among all backups, or which one is `latest`.
    pub filter: Filter,
    /// Copies nothing, and says what it would copy.
    pub is_dry_run: bool,
    /// Copies these too if the destination has them: its own are damaged.
    pub(crate) again: BTreeSet<SessionId>,
    /// Memory and threads of reading.
    pub assembling: AssembleOptions,
    /// The options of the pipeline into the destination.
    pub ingest: IngestOptions,
}

types::setters!(CopyRequest {
    ids: Vec<String>,
    filter: Filter,
    is_dry_run: bool,
    assembling: AssembleOptions,
    ingest: IngestOptions,
});

/// A step of a run, told as it happens.
#[derive(Debug)]
#[non_exhaustive]
pub enum CopyStep<'a> {
    /// The destination has this backup already.
    Skipped {
        /// In the source.
        from: &'a Snapshot,
        /// Its number in the destination.
        has: SessionId,
    },
    /// A backup is copied now, or would be.
    Begins(&'a Snapshot),
    /// It was copied.
    Copied(&'a Copied),
    /// It was not copied: data of the source is damaged.
    Failed(&'a NotCopied),
    /// It was not copied: it was forgotten in the source since the run began.
    Forgotten(&'a Snapshot),
}

/// A backup that was copied.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Copied {
    /// In the source.
    pub from: Snapshot,
    /// What was made in the destination.
    pub made: BackupReport,
    /// Whether both stores are of one fingerprint domain.
    pub is_within_domain: bool,
    /// The earlier backup of the source whose copy gave what did not change.
    pub upon: Option<SessionId>,
    /// Bytes read from the source, without nodes and catalogs.
    pub bytes_read: u64,
}

/// A backup that was not copied, because its data cannot be read.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NotCopied {
    /// In the source.
    pub from: Snapshot,
    /// The first error.
    pub why: String,
    /// The files that are known to be affected. There may be more.
    pub files: Vec<Vec<u8>>,
}

/// The result of a run.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CopyReport {
    /// The copied backups, in order.
    pub copied: Vec<Copied>,
    /// Those that would be copied, in a dry run.
    pub due: Vec<Snapshot>,
    /// Those that the destination has, with their numbers there.
    pub skipped: Vec<(SessionId, SessionId)>,
    /// Those that were not copied.
    pub failed: Vec<NotCopied>,
    /// Those that were forgotten in the source meanwhile, and not copied.
    pub forgotten: Vec<SessionId>,
    /// What is wrong with manifests of the destination that cannot be read. If one is of a copy,
    /// its backup was copied once more.
    pub unread_there: Vec<String>,
    /// Manifests of the source that cannot be read, of backups that were asked for and not copied:
    /// what is wrong with each.
    pub unread: Vec<String>,
    /// What is wrong with manifest revisions above those whose tags and holds the copies have.
    pub older: Vec<(SessionId, String)>,
}
