//! The report of a backup.

use std::sync::Arc;

use format::manifest::BackupTotals;
use format::series::SeriesSettings;
use index::ResolverStats;
use ingest::{Committed, QueueStats, Sent, StageStats, VerifiedKnown};
use types::SessionId;

use crate::heal::Healed;
use crate::monitor::Monitor;
use crate::warning::Warning;

/// A backup that was made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BackupReport {
    /// Its id.
    pub id: SessionId,
    /// The source is as in this backup, and [`BackupOptions::only_if_changed`] was set: no backup
    /// was made.
    ///
    /// [`BackupOptions::only_if_changed`]: crate::BackupOptions::only_if_changed
    pub same_as: Option<SessionId>,
    /// The backup from which unchanged files were taken.
    pub parent: Option<SessionId>,
    /// Dead sessions whose data was taken over, as of their last checkpoints.
    pub adopted: Vec<SessionId>,
    /// Where a stream continued, in bytes, if an interrupted backup had stored the bytes before.
    pub resumed_at: Option<u64>,
    /// Counts of files, chunks and bytes.
    pub totals: BackupTotals,
    /// Files that could not be read, and keep the content of the previous backup.
    pub files_kept: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_nanos: u64,
    /// Statistics of the queues.
    pub queues: Vec<Arc<QueueStats>>,
    /// The settings of the series when the backup began.
    pub settings: SeriesSettings,
    /// The cost of look-ups: with layout `hybrid` one for each segment, and none for chunks.
    pub lookups: ResolverStats,
    /// Chunks that were found, and stored again because of the cap.
    pub chunks_capped: u64,
    /// Their bytes.
    pub bytes_capped: u64,
    /// How the stages spent their time.
    pub stages: Vec<Arc<StageStats>>,
    /// The sample of reused containers. The backup stored bad chunks of them again.
    pub verified: VerifiedKnown,
    /// Damaged containers of earlier backups that this backup healed.
    pub healed: Vec<Healed>,
    /// Errors that did not affect the backup, which is safe: a damaged manifest of the series,
    /// trouble with the index, maintenance that the next backup tries again.
    pub warnings: Vec<Warning>,
}

impl BackupReport {
    /// The report of a committed backup. `before` is the parent, and where a stream continued. It
    /// has no settings of the series and nothing that was healed: the store knows these.
    #[must_use]
    pub fn of(
        committed: Committed,
        sent: Sent,
        before: (Option<SessionId>, Option<u64>),
        elapsed_nanos: u64,
        warnings: Vec<Warning>,
        monitor: &Monitor,
    ) -> Self {
        let adopted = committed.adopted.iter();
        let adopted = adopted.filter(|(_, has_checkpoint)| *has_checkpoint);
        Self {
            id: committed.session,
            same_as: committed.same_as,
            parent: before.0,
            adopted: adopted.map(|(session, _)| *session).collect(),
            resumed_at: before.1,
            totals: committed.totals,
            files_kept: monitor.counters.files_kept.get(),
            elapsed_nanos,
            queues: [sent.queues, committed.queues].concat(),
            settings: SeriesSettings::unset(None),
            lookups: committed.lookups,
            chunks_capped: monitor.counters.chunks_capped.get(),
            bytes_capped: monitor.counters.bytes_capped.get(),
            stages: [sent.stages, committed.stages].concat(),
            verified: committed.verified,
            healed: Vec::new(),
            warnings,
        }
    }
}
