//! Making older backups of a series archival, out of line (R2, R5).
//!
//! Which backups are live is said by the live window: the newest so many of a series. The others are due, each onto the next one
//! that is not forgotten; so is an archival one again whose next backup was forgotten since.

use std::collections::BTreeMap;

use reclaim::Due;
use session::{ManifestEntry, ManifestList};
use types::{SeriesId, SessionId};

use crate::error::Result;
use crate::monitor::{Monitor, WorkUnit};
use crate::store::Store;

pub use reclaim::Optimized;

/// What is to be made archival.
#[derive(Debug, Clone, Default)]
pub struct OptimizeRequest {
    /// The live window of each series, in backups, at least 1; those that are not named stay as they are.
    pub live: BTreeMap<SeriesId, usize>,
    /// Threads that read and write containers; 0: one.
    pub workers: usize,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptimizeReport {
    /// What became of each backup that was due, oldest first.
    pub backups: Vec<(SessionId, Optimized)>,
    /// Rewrites of processes that had died, which were completed or let go.
    pub completed: u64,
    /// What should be said besides.
    pub warnings: Vec<String>,
}

impl Store {
    /// Makes those backups archival that have left their live windows. Frees nothing by itself: what they let go of
    /// [`Self::prune`] removes.
    ///
    /// # Errors
    /// Where a backup cannot be read, or someone asks to stop: those before it are done, and it and the others are as they were;
    /// of the storage.
    pub fn optimize(&self, request: &OptimizeRequest, monitor: &Monitor) -> Result<OptimizeReport> {
        self.ensure_writable()?;
        let (done, _) = self.with_reserve(|_| self.optimize_once(request, monitor));
        done
    }

    fn optimize_once(&self, request: &OptimizeRequest, monitor: &Monitor) -> Result<OptimizeReport> {
        let options = reclaim::OptimizeOptions {
            policy: self.options.policy,
            process: self.options.process,
            workers: request.workers.max(1),
            node_cache_bytes: self.options.node_cache_bytes,
        };
        let mut report = OptimizeReport::default();
        let (completed, warnings) = self.reclaiming(None, monitor, reclaim::complete)?;
        report.completed = completed;
        report.warnings = warnings;
        let all = due(&self.manifests.list()?, &request.live);
        monitor.begin_part(WorkUnit::Backups, all.len() as u64);
        for due in all {
            let (done, warnings) =
                self.reclaiming(None, monitor, |context| reclaim::optimize(context, &options, due))?;
            report.backups.push((due.backup, done));
            report.warnings.extend(warnings);
            monitor.add_done(1);
        }
        Ok(report)
    }
}

/// The backups that have left their live windows and do not refer forward to the next one, oldest first.
fn due(list: &ManifestList, live: &BTreeMap<SeriesId, usize>) -> Vec<Due> {
    let mut series: BTreeMap<SeriesId, Vec<&ManifestEntry>> = BTreeMap::new();
    for entry in list.backups().filter(|entry| live.contains_key(&entry.series())) {
        series.entry(entry.series()).or_default().push(entry);
    }
    let mut all = Vec::new();
    for (series, backups) in series {
        let live = live.get(&series).copied().unwrap_or(1).max(1);
        let archival = backups.len().saturating_sub(live);
        let of_window = backups.windows(2).take(archival);
        all.extend(of_window.filter_map(|pair| {
            let [older, later] = pair else { return None };
            let due = Due {
                series,
                backup: older.session(),
                onto: later.session(),
            };
            let backup = older.backup()?;
            (backup.next != Some(due.onto) && backup.hold_until.is_none()).then_some(due)
        }));
    }
    all.sort_unstable_by_key(|due| due.backup);
    all
}
