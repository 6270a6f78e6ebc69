//! The figures of a pool and its volumes, with the names that they have in JSON. These names stay.

use serde::{Deserialize, Serialize};
use volume::{Fill, Latency, PoolStats, VolumeSettings, VolumeStats};

/// A pool in figures. `pool_bytes` is the sum of `free_bytes`, `unique_bytes` and `other_bytes`;
/// `mapped_bytes` the sum of `unique_bytes` and `shared_bytes`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct PoolFigures {
    /// The device.
    pub(crate) pool_bytes: u64,
    /// Space for new blocks.
    pub(crate) free_bytes: u64,
    /// The sizes of all volumes.
    pub(crate) logical_bytes: u64,
    /// What of the volumes holds data; the rest reads as zeros.
    pub(crate) mapped_bytes: u64,
    /// The distinct blocks that hold it.
    pub(crate) unique_bytes: u64,
    /// What is saved.
    pub(crate) shared_bytes: u64,
    /// What would be needed if every shared block was written with other data.
    pub(crate) space_at_risk_bytes: u64,
    /// What the finder has to examine.
    pub(crate) backlog_bytes: u64,
    /// Blocks that the collector has to look at.
    pub(crate) unreferenced_bytes: u64,
    /// Blocks that the device could not read since the pool was opened, and that are set aside.
    #[serde(default)]
    pub(crate) unreadable_bytes: u64,
    /// Maps, logs, and blocks that will be free.
    pub(crate) other_bytes: u64,
    /// The duplicates index, outside of the pool.
    pub(crate) index_bytes: u64,
    /// Whether the index matches the pool. If not, `volume recount` is due.
    pub(crate) index_matches: bool,
    /// `normal`, `high` (from 85 % on) or `critical` (from 97 % on).
    pub(crate) fill: String,
    /// Whether a server has the pool open.
    pub(crate) is_served: bool,
    /// Volumes that could not be recovered, and why.
    pub(crate) failed: Vec<String>,
    /// The volumes, by name.
    pub(crate) volumes: Vec<VolumeFigures>,
}

/// A volume in figures. Counters begin when the pool is opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct VolumeFigures {
    /// Empty for a removed volume whose blocks are not all free yet.
    pub(crate) name: String,
    pub(crate) id: u64,
    pub(crate) logical_bytes: u64,
    pub(crate) mapped_bytes: u64,
    /// Blocks that are in the duplicates index: examined, and shared if they are equal.
    pub(crate) registered_bytes: u64,
    pub(crate) backlog_bytes: u64,
    pub(crate) unreferenced_bytes: u64,
    #[serde(default)]
    pub(crate) unreadable_bytes: u64,
    pub(crate) free_bytes: u64,
    pub(crate) memory_bytes: u64,
    pub(crate) finder_bytes_per_s: f64,
    /// Connections of clients that have it open.
    pub(crate) connections: u64,
    pub(crate) settings: Settings,
    pub(crate) reads: Times,
    pub(crate) writes: Times,
    pub(crate) flushes: Times,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// Blocks that were overwritten where they were.
    pub(crate) blocks_in_place: u64,
    /// Blocks that had been zeros.
    pub(crate) blocks_first: u64,
    /// Copies-on-write.
    pub(crate) blocks_copied: u64,
    /// Blocks written elsewhere because the last change of the map was not durable yet.
    pub(crate) blocks_unsettled: u64,
    /// Of all blocks that had data and were written, the share that was overwritten in place; null
    /// if there was none.
    pub(crate) in_place_share: Option<f64>,
    pub(crate) log_bytes: u64,
    pub(crate) examined_bytes: u64,
    /// What the finder found to be known.
    pub(crate) found_bytes: u64,
    pub(crate) zeroed_bytes: u64,
    /// Blocks that were written while the finder examined them.
    pub(crate) orphaned_bytes: u64,
    /// Blocks with a known fingerprint and another content.
    pub(crate) different_bytes: u64,
    /// References that the collector gave back.
    pub(crate) given_back: u64,
    pub(crate) freed_bytes: u64,
    pub(crate) checkpoints: u64,
}

/// Settings of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) deduplicate: bool,
    pub(crate) compare_bytes: bool,
    pub(crate) interval_s: u32,
    pub(crate) quiet_intervals: u8,
    pub(crate) finder_limit_bytes_per_s: u64,
}

impl From<VolumeSettings> for Settings {
    fn from(settings: VolumeSettings) -> Self {
        Self {
            deduplicate: settings.deduplicate,
            compare_bytes: settings.compare_bytes,
            interval_s: settings.interval_s,
            quiet_intervals: settings.quiet_intervals,
            finder_limit_bytes_per_s: settings.finder_bytes_per_s,
        }
    }
}

/// How long operations took, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) count: u64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
}

impl From<Latency> for Times {
    fn from(latency: Latency) -> Self {
        Self {
            count: latency.count,
            mean_us: latency.mean_us,
            p50_us: latency.p50_us,
            p99_us: latency.p99_us,
            p999_us: latency.p999_us,
        }
    }
}

impl PoolFigures {
    /// The figures of these statistics. `connections` tells how many clients a volume has.
    pub(crate) fn of(
        stats: &PoolStats,
        failed: Vec<String>,
        is_served: bool,
        connections: &dyn Fn(&str) -> u64,
    ) -> Self {
        Self {
            pool_bytes: stats.pool_bytes,
            free_bytes: stats.free_bytes,
            logical_bytes: stats.logical_bytes,
            mapped_bytes: stats.mapped_bytes,
            unique_bytes: stats.unique_bytes,
            shared_bytes: stats.shared_bytes,
            space_at_risk_bytes: stats.shared_bytes,
            backlog_bytes: stats.backlog_bytes,
            unreferenced_bytes: stats.unreferenced_bytes,
            unreadable_bytes: stats.unreadable_bytes,
            other_bytes: stats
                .pool_bytes
                .saturating_sub(stats.free_bytes + stats.unique_bytes),
            index_bytes: stats.index_bytes,
            index_matches: stats.index_matches,
            fill: match stats.fill {
                Fill::Normal => "normal",
                Fill::High => "high",
                Fill::Critical => "critical",
            }
            .to_owned(),
            is_served,
            failed,
            volumes: stats
                .volumes
                .iter()
                .map(|one| VolumeFigures::of(one, connections(&one.name)))
                .collect(),
        }
    }
}

impl VolumeFigures {
    /// The figures of these statistics.
    pub(crate) fn of(stats: &VolumeStats, connections: u64) -> Self {
        let bytes = |blocks: u64| blocks * env::BLOCK_BYTES;
        let counts = &stats.counts;
        let rewritten = counts.blocks_in_place + counts.blocks_copied + counts.blocks_unsettled;
        Self {
            name: stats.name.clone(),
            id: stats.id.get().into(),
            logical_bytes: stats.logical_bytes,
            mapped_bytes: stats.mapped_bytes,
            registered_bytes: stats.counted_bytes,
            backlog_bytes: stats.backlog_bytes,
            unreferenced_bytes: bytes(stats.unreferenced),
            unreadable_bytes: stats.unreadable_bytes,
            free_bytes: stats.free_bytes,
            memory_bytes: stats.memory_bytes,
            finder_bytes_per_s: stats.finder_bytes_per_s,
            connections,
            settings: stats.settings.into(),
            reads: counts.reads.into(),
            writes: counts.writes.into(),
            flushes: counts.flushes.into(),
            read_bytes: counts.read_bytes,
            written_bytes: counts.written_bytes,
            blocks_in_place: counts.blocks_in_place,
            blocks_first: counts.blocks_first,
            blocks_copied: counts.blocks_copied,
            blocks_unsettled: counts.blocks_unsettled,
            in_place_share: (rewritten > 0).then(|| counts.blocks_in_place as f64 / rewritten as f64),
            log_bytes: bytes(counts.log_written),
            examined_bytes: bytes(counts.examined),
            found_bytes: bytes(counts.shared),
            zeroed_bytes: bytes(counts.zeroed),
            orphaned_bytes: bytes(counts.orphaned),
            different_bytes: bytes(counts.different),
            given_back: counts.given_back,
            freed_bytes: bytes(counts.freed),
            checkpoints: counts.checkpoints,
        }
    }
}
