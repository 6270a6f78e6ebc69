//! What a backup says of itself.

use std::sync::Arc;

use format::manifest::BackupTotals;
use format::series::SeriesSettings;
use index::ResolverStats;
use ingest::{QueueStats, StageStats, VerifiedKnown};
use types::SessionId;

use crate::heal::Healed;
use crate::warning::Warning;

/// A backup that was made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct BackupReport {
    /// Its id.
    pub id: SessionId,
    /// The backup that unchanged files were taken from.
    pub parent: Option<SessionId>,
    /// Sessions that had died, and what they had stored by their last checkpoint was taken over.
    pub adopted: Vec<SessionId>,
    /// Where a stream went on, in bytes, if an interrupted backup had stored what is before.
    pub resumed_at: Option<u64>,
    /// What was counted.
    pub totals: BackupTotals,
    /// Files that could not be read, and stay as the backup before has them.
    pub files_kept: u64,
    /// How long it took, in nanoseconds.
    pub elapsed_nanos: u64,
    /// What the queues saw.
    pub queues: Vec<Arc<QueueStats>>,
    /// What was set for the series as the backup began.
    pub settings: SeriesSettings,
    /// What look-ups cost: of layout `hybrid` one a segment, and none a chunk.
    pub lookups: ResolverStats,
    /// Chunks that were found and stored again, for the cap's sake.
    pub chunks_capped: u64,
    /// Their bytes.
    pub bytes_capped: u64,
    /// What the stages did with their time.
    pub stages: Vec<Arc<StageStats>>,
    /// The sample of reused containers; the backup stored again what was bad there.
    pub verified: VerifiedKnown,
    /// Damaged containers of earlier backups that this backup healed.
    pub healed: Vec<Healed>,
    /// What was found wrong beside the backup, which is safe: a damaged manifest of the series,
    /// something of the index, housekeeping that the next backup tries again.
    pub warnings: Vec<Warning>,
}
