//! Statistics of a pool and its volumes.

use std::sync::Arc;

use env::BLOCK_BYTES;
use format::pool::EXTENT_BLOCKS;
use format::pool::header::VolumeSettings;
use types::VolumeId;

use crate::counters::VolumeCounts;
use crate::error::Result;
use crate::pool::Pool;
use crate::volume::Volume;

/// How full a pool is, and what follows (04-volumes, "Full pool").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fill {
    /// The finder keeps its pace.
    Normal,
    /// From 85 % on, the finder works without a pause.
    High,
    /// From 97 % on, only writes in place are certain to succeed.
    Critical,
}

impl Fill {
    fn of(used_share: f64) -> Self {
        match used_share {
            share if share >= 0.97 => Self::Critical,
            share if share >= 0.85 => Self::High,
            _ => Self::Normal,
        }
    }
}

/// A pool in numbers. Bytes are of whole blocks.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PoolStats {
    /// The device.
    pub pool_bytes: u64,
    /// Free extents, and free blocks of volumes.
    pub free_bytes: u64,
    /// How full it is.
    pub fill: Fill,
    /// The lengths of all volumes.
    pub logical_bytes: u64,
    /// Blocks of volumes that are not zeros.
    pub mapped_bytes: u64,
    /// Distinct blocks that hold them.
    pub unique_bytes: u64,
    /// What sharing saves: mapped less unique. As much may be needed if all of it is written again:
    /// the space at risk.
    pub shared_bytes: u64,
    /// Blocks that the finder has to examine.
    pub backlog_bytes: u64,
    /// Blocks of which references wait for the collector.
    pub unreferenced_bytes: u64,
    /// Blocks that the finder or the collector could not read, and has set aside.
    pub unreadable_bytes: u64,
    /// The duplicates index on disk.
    pub index_bytes: u64,
    /// Whether the index matches the volumes.
    pub index_matches: bool,
    /// The volumes, by name. A removed volume whose blocks are not all free yet has no name.
    pub volumes: Vec<VolumeStats>,
}

/// A volume in numbers.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VolumeStats {
    /// The name.
    pub name: String,
    /// The number.
    pub id: VolumeId,
    /// The length.
    pub logical_bytes: u64,
    /// Blocks that are not zeros.
    pub mapped_bytes: u64,
    /// Blocks of it that are in the duplicates index.
    pub counted_bytes: u64,
    /// Blocks that the finder has to examine.
    pub backlog_bytes: u64,
    /// References that wait for the collector.
    pub unreferenced: u64,
    /// Blocks that the finder or the collector could not read, and has set aside.
    pub unreadable_bytes: u64,
    /// Free blocks that it keeps.
    pub free_bytes: u64,
    /// Memory of the cached map and of the set of dirty blocks.
    pub memory_bytes: u64,
    /// Bytes a second that the finder examined while it worked.
    pub finder_bytes_per_s: f64,
    /// The settings.
    pub settings: VolumeSettings,
    /// Numbers since it was opened.
    pub counts: VolumeCounts,
}

impl Volume {
    /// Blocks that the finder has to examine.
    pub(crate) fn backlog(&self) -> u64 {
        // First: a search that ends in between has found them all.
        let is_searched = self.is_searched();
        let found = self.dirty.count();
        if is_searched {
            return found;
        }
        // After a start the finder looks for private blocks, and until then these are all of them.
        let core = self.core();
        let private = core.mapped.saturating_sub(core.counted);
        found.max(private.saturating_sub(core.different.len() as u64))
    }

    /// The volume in numbers.
    #[must_use]
    pub fn stats(&self) -> VolumeStats {
        let counts = self.counters.counts();
        // A checkpoint holds the head while it waits for the core.
        let (name, settings) = (self.name(), self.settings());
        // No finder examines others.
        let is_examined = settings.deduplicate && !name.is_empty();
        let backlog = if is_examined { self.backlog() } else { 0 };
        let core = self.core();
        let seconds = counts.finder_ns as f64 / 1e9;
        VolumeStats {
            name,
            id: self.id,
            logical_bytes: self.len_bytes(),
            mapped_bytes: core.mapped * BLOCK_BYTES,
            counted_bytes: core.counted * BLOCK_BYTES,
            backlog_bytes: backlog * BLOCK_BYTES,
            unreferenced: core.references().map(|one| u64::from(one.count)).sum(),
            unreadable_bytes: core.unreadable.len() as u64 * BLOCK_BYTES,
            free_bytes: core.free_len() * BLOCK_BYTES,
            memory_bytes: (self.map.cached() * crate::map::LEAF_MEMORY_BYTES) as u64
                + self.dirty.memory_bytes(),
            finder_bytes_per_s: if seconds > 0.0 {
                (counts.examined * BLOCK_BYTES) as f64 / seconds
            } else {
                0.0
            },
            settings,
            counts,
        }
    }
}

impl Pool {
    /// How full the pool is.
    #[must_use]
    pub fn fill(&self) -> Fill {
        self.fill_of(&self.all()).1
    }

    fn fill_of(&self, volumes: &[Arc<Volume>]) -> (u64, Fill) {
        let (free, all) = {
            let table = self.shared.table();
            (table.free() * EXTENT_BLOCKS, table.len() as u64 * EXTENT_BLOCKS)
        };
        let kept: u64 = volumes.iter().map(|volume| volume.core().free_len()).sum();
        let free = free + kept;
        (free, Fill::of(1.0 - free as f64 / all.max(1) as f64))
    }

    /// The pool in numbers.
    ///
    /// # Errors
    /// Errors of the index.
    pub fn stats(&self) -> Result<PoolStats> {
        let all = self.all();
        let (free, fill) = self.fill_of(&all);
        let index = self.shared.index.statistics()?;
        let mut volumes: Vec<VolumeStats> = all.iter().map(|volume| volume.stats()).collect();
        volumes.sort_by(|a, b| a.name.cmp(&b.name));
        let sum = |of: fn(&VolumeStats) -> u64| volumes.iter().map(of).sum::<u64>();
        let (mapped, counted) = (sum(|one| one.mapped_bytes), sum(|one| one.counted_bytes));
        let unique = mapped - counted + index.rows() * BLOCK_BYTES;
        Ok(PoolStats {
            pool_bytes: self.shared.device.len(),
            free_bytes: free * BLOCK_BYTES,
            fill,
            logical_bytes: volumes
                .iter()
                .filter(|one| !one.name.is_empty())
                .map(|one| one.logical_bytes)
                .sum(),
            mapped_bytes: mapped,
            unique_bytes: unique,
            shared_bytes: mapped.saturating_sub(unique),
            backlog_bytes: sum(|one| one.backlog_bytes),
            unreferenced_bytes: sum(|one| one.unreferenced) * BLOCK_BYTES,
            unreadable_bytes: sum(|one| one.unreadable_bytes),
            index_bytes: index.disk_bytes,
            index_matches: self.shared.check_index().is_ok(),
            volumes: volumes
                .into_iter()
                .filter(|one| !one.name.is_empty() || one.mapped_bytes > 0 || one.unreferenced > 0)
                .collect(),
        })
    }
}
