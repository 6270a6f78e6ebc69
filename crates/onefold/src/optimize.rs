//! Making older backups of a series archival, out of line (R2, R5).
//!
//! Which backups are live is said by the live window: the newest so many of a series. The others are due, each onto the next one
//! that is not forgotten; so is an archival one again whose next backup was forgotten since. A held backup stays as it is.

use std::collections::BTreeMap;

use format::series::Layout;
use reclaim::Due;
use session::{ManifestEntry, ManifestList, Session};
use types::{SeriesId, SessionId};

use crate::error::Result;
use crate::monitor::{Monitor, WorkUnit};
use crate::series::AllSettings;
use crate::store::Store;

pub use reclaim::Optimized;

/// What is to be made archival.
#[derive(Debug, Clone, Default)]
pub struct OptimizeRequest {
    /// Backups of this series alone; `None`: of every series whose layout is `hybrid`.
    pub series: Option<SeriesId>,
    /// A live window instead of the one that is set; then the layout has no say either.
    pub live: Option<u16>,
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

/// A backup that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueBackup {
    /// It.
    pub id: SessionId,
    /// The one that it will refer forward to.
    pub onto: SessionId,
    /// Bytes of its streams.
    pub bytes: u64,
}

impl Store {
    /// The backups that have left their live windows and are not archival yet, oldest first.
    ///
    /// # Errors
    /// Of the storage.
    pub fn due(&self, request: &OptimizeRequest) -> Result<Vec<DueBackup>> {
        let due = self.find_due(request)?;
        Ok(due.into_iter().map(|(_, due)| due).collect())
    }

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
        // Whoever puts what was rewritten in its place has a session that runs.
        let session = Session::begin_read_with(&self.manifests, self.options.process, self.options.policy)?;
        let pulse = session.start_pulse()?;
        let done = self.optimize_beside(&session, &options, request, monitor);
        drop(pulse);
        let ended = session.end();
        let report = done?;
        ended?;
        Ok(report)
    }

    fn optimize_beside(
        &self,
        session: &Session,
        options: &reclaim::OptimizeOptions,
        request: &OptimizeRequest,
        monitor: &Monitor,
    ) -> Result<OptimizeReport> {
        let mut report = OptimizeReport::default();
        let complete = |context: &reclaim::Context<'_>| reclaim::complete(context, session);
        let (completed, warnings) = self.reclaiming(None, monitor, complete)?;
        report.completed = completed;
        report.warnings = warnings;
        let all = self.find_due(request)?;
        monitor.begin_part(WorkUnit::Bytes, all.iter().map(|(_, due)| due.bytes).sum());
        for (series, due) in all {
            let what = Due {
                series,
                backup: due.id,
                onto: due.onto,
            };
            let (done, warnings) = self.reclaiming(None, monitor, |context| {
                reclaim::optimize(context, options, what, session)
            })?;
            report.backups.push((due.id, done));
            report.warnings.extend(warnings);
        }
        Ok(report)
    }

    fn find_due(&self, request: &OptimizeRequest) -> Result<Vec<(SeriesId, DueBackup)>> {
        let is_asked = |series| request.series.is_none_or(|asked| asked == series);
        let settings = match request.live {
            None => AllSettings::read(self, is_asked)?,
            Some(_) => AllSettings::default(),
        };
        let live = |series| {
            let (set, _) = settings.of(Some(series), None);
            let of_layout = (set.layout == Layout::Hybrid).then_some(set.live_window);
            request.live.or(of_layout).filter(|_| is_asked(series))
        };
        Ok(due(&self.manifests.list()?, &live))
    }
}

/// Those that have left their live windows and do not refer forward to the next one, oldest first.
fn due(list: &ManifestList, live: &dyn Fn(SeriesId) -> Option<u16>) -> Vec<(SeriesId, DueBackup)> {
    let mut series: BTreeMap<SeriesId, Vec<&ManifestEntry>> = BTreeMap::new();
    for entry in list.backups() {
        series.entry(entry.series()).or_default().push(entry);
    }
    let mut all = Vec::new();
    for (series, backups) in series {
        let Some(live) = live(series) else { continue };
        let archival = backups.len().saturating_sub(live.max(1).into());
        let of_window = backups.windows(2).take(archival);
        all.extend(of_window.filter_map(|pair| {
            let [older, later] = pair else { return None };
            let backup = older.backup()?;
            let due = DueBackup {
                id: older.session(),
                onto: later.session(),
                bytes: backup.streams.iter().map(|stream| stream.len).sum(),
            };
            let is_due = backup.next != Some(due.onto) && backup.hold_until.is_none();
            is_due.then_some((series, due))
        }));
    }
    all.sort_unstable_by_key(|(_, due)| due.id);
    all
}
