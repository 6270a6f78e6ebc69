//! Which series and backups take how much of a store: what would come back without them.

use std::collections::BTreeMap;

use format::manifest::SeriesName;
use types::{SeriesId, SessionId};

use crate::error::Result;
use crate::monitor::Monitor;
use crate::store::Store;
use crate::warning::Warning;

/// The part of a series in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SeriesShare {
    /// The series.
    pub id: SeriesId,
    /// Its host and paths.
    pub name: SeriesName,
    /// Its backups.
    pub backups: u64,
    /// Bytes of their streams together.
    pub logical_bytes: u64,
    /// Bytes that they added to the store when they were made.
    pub added_bytes: u64,
    /// About how many stored bytes no other series has: what would come back without it. `None`: a
    /// backup of it cannot be read whole.
    pub exclusive_bytes: Option<u64>,
}

/// The parts of all series and backups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shares {
    /// The series, the one with most exclusive bytes first.
    pub series: Vec<SeriesShare>,
    /// About how many stored bytes no other backup has. A backup that cannot be read whole has no
    /// entry.
    pub backups: BTreeMap<SessionId, u64>,
}

impl Store {
    /// Finds what only one series or backup has. It reads all nodes of all backups, and catalogs,
    /// and no data. Returns warnings besides the result.
    ///
    /// # Errors
    /// If the caller asks to stop; of the storage.
    pub fn shares(&self, monitor: &Monitor) -> Result<(Shares, Vec<Warning>)> {
        let (exclusive, warnings) = self.reclaiming(None, monitor, reclaim::exclusive)?;
        let mut series: BTreeMap<SeriesId, SeriesShare> = BTreeMap::new();
        for snapshot in self.snapshots()?.snapshots {
            let backup = &snapshot.backup;
            let id = self.series_id(&backup.series);
            let share = series.entry(id).or_insert_with(|| SeriesShare {
                id,
                name: backup.series.clone(),
                backups: 0,
                logical_bytes: 0,
                added_bytes: 0,
                exclusive_bytes: exclusive.by_series.get(&id).copied(),
            });
            share.backups += 1;
            share.logical_bytes += backup.totals.bytes_logical;
            share.added_bytes += backup.totals.bytes_stored;
        }
        let mut series: Vec<SeriesShare> = series.into_values().collect();
        series.sort_by_key(|share| std::cmp::Reverse(share.exclusive_bytes));
        let shares = Shares {
            series,
            backups: exclusive.by_backup,
        };
        Ok((shares, warnings))
    }
}
