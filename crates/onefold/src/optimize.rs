//! What is done to backups out of line, to restore the newest fast: older ones become archival (R2, R5), or the newest is put in order
//! (L9).
//!
//! Which backups are live is said by the live window: the newest so many of a series. The others are due, each onto the next one
//! that is not forgotten. So is an archival one, wherever it stands and whatever the layout is now, whose next backup was
//! forgotten since: onto the next that is left, or, where none is, to refer to no other. A held backup stays as it is.

use std::collections::BTreeMap;
use std::sync::Arc;

use format::manifest::Backup;
use format::names;
use format::series::Layout;
use index::Index;
use reclaim::{Due, ReclaimError, Repair};
use session::{ManifestEntry, ManifestList, Session};
use types::{SeriesId, SessionId, UnixNanos};

use crate::error::{Error, Result};
use crate::monitor::{Monitor, WorkUnit};
use crate::series::AllSettings;
use crate::store::Store;

pub use reclaim::{Optimized, Repaired};

/// What is to be made archival, or put in order.
#[derive(Debug, Clone, Default)]
pub struct OptimizeRequest {
    /// Backups of this series alone; `None`: of every series whose settings say so.
    pub series: Option<SeriesId>,
    /// A live window instead of the one that is set; then the layout has no say either.
    pub live: Option<u16>,
    /// What layout repair may copy, in percent, instead of what is set; then the layout has no say either.
    pub repair: Option<u16>,
    /// Threads that read and write containers; 0: one.
    pub workers: usize,
}

impl OptimizeRequest {
    /// Whether backups of this series are asked for.
    fn is_of(&self, series: SeriesId) -> bool {
        self.series.is_none_or(|asked| asked == series)
    }
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OptimizeReport {
    /// What became of each backup that was due, oldest first.
    pub backups: Vec<(SessionId, Optimized)>,
    /// What became of the layout of each backup that was to be repaired.
    pub repaired: Vec<(SessionId, Repaired)>,
    /// Backups that cannot be rewritten, and why: they are as they were.
    pub failed: Vec<(SessionId, String)>,
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
    /// The one that it will refer forward to, if any is left.
    pub onto: Option<SessionId>,
    /// Bytes of its streams.
    pub bytes: u64,
}

/// A backup whose layout is to be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueRepair {
    /// It.
    pub id: SessionId,
    /// Bytes of its streams.
    pub bytes: u64,
    /// Plain bytes that may be copied.
    pub budget: u64,
}

/// With its series.
type DueOf = (SeriesId, DueBackup);
type RepairOf = (SeriesId, DueRepair);

impl Store {
    /// The backups that have left their live windows and are not archival yet, oldest first.
    ///
    /// # Errors
    /// Of the storage.
    pub fn due(&self, request: &OptimizeRequest) -> Result<Vec<DueBackup>> {
        let (due, _) = self.find_due(request, &self.settings_for(request)?, self.env.clock.wall())?;
        Ok(due.into_iter().map(|(_, due)| due).collect())
    }

    /// The backups whose layout is to be repaired: of each series whose settings say so the newest, if it was not, and if it is no
    /// incremental one.
    ///
    /// # Errors
    /// Of the storage.
    pub fn due_repairs(&self, request: &OptimizeRequest) -> Result<Vec<DueRepair>> {
        let due = self.find_repairs(request, &self.settings_for(request)?, self.env.clock.wall())?;
        Ok(due.into_iter().map(|(_, due)| due).collect())
    }

    /// Makes those backups archival that have left their live windows, and repairs the layout of the newest ones. Frees nothing by itself: what they let go of
    /// [`Self::prune`] removes.
    ///
    /// # Errors
    /// Where someone asks to stop, or of the storage: those before are done, and the others are as they were.
    pub fn optimize(&self, request: &OptimizeRequest, monitor: &Monitor) -> Result<OptimizeReport> {
        self.ensure_writable()?;
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
        let index = Index::open(Arc::clone(&self.env.storage), self.id(), self.index_options())?;
        let complete = |context: &reclaim::Context<'_>| reclaim::complete(context, session);
        let (completed, warnings) = self.reclaiming(Some(&index), monitor, complete)?;
        report.completed = completed;
        report.warnings = warnings;
        let now = self.env.storage.head(&names::claim(session.id()))?.put_at;
        let settings = self.settings_for(request)?;
        report.warnings.extend_from_slice(&settings.damaged);
        let (all, unread) = self.find_due(request, &settings, now)?;
        report.warnings.extend(unread);
        monitor.begin_part(WorkUnit::Bytes, all.iter().map(|(_, due)| due.bytes).sum());
        let what = |(series, due): &DueOf| Due {
            series: *series,
            backup: due.id,
            onto: due.onto,
            now,
        };
        let todo: Vec<Due> = all.iter().map(what).collect();
        let mut sharing = reclaim::Sharing::default();
        let mut bytes = 0;
        for (n, (_, due)) in all.iter().enumerate() {
            let done = self.reclaiming(None, monitor, |context| {
                reclaim::optimize(context, options, &todo[n..], &mut sharing, session)
            });
            // What failed, or was not due any more, is not to be done.
            bytes += due.bytes;
            if !matches!(done, Err(Error::Reclaim(ReclaimError::Interrupted))) {
                monitor.add_done_up_to(bytes);
            }
            match done {
                Ok((done, warnings)) => {
                    report.backups.push((due.id, done));
                    report.warnings.extend(warnings);
                }
                Err(error) if is_of_backup(&error) => report.failed.push((due.id, error.to_string())),
                Err(error) => return Err(error),
            }
        }
        for (series, due) in self.find_repairs(request, &settings, now)? {
            let what = Repair {
                series,
                backup: due.id,
                budget: due.budget,
                now,
            };
            monitor.begin_part(WorkUnit::Bytes, due.bytes);
            let done = self.reclaiming(Some(&index), monitor, |context| {
                reclaim::repair(context, options, what, session)
            });
            if done.is_ok() {
                monitor.add_done_up_to(monitor.work_total());
            }
            match done {
                Ok((done, warnings)) => {
                    report.repaired.push((due.id, done));
                    report.warnings.extend(warnings);
                }
                Err(error) if is_of_backup(&error) => report.failed.push((due.id, error.to_string())),
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }

    /// The settings that have a say.
    fn settings_for(&self, request: &OptimizeRequest) -> Result<AllSettings> {
        if request.live.is_some() && request.repair.is_some() {
            return Ok(AllSettings::default());
        }
        AllSettings::read(self, |series| request.is_of(series))
    }

    /// What is to be repaired at that time of the storage.
    fn find_repairs(
        &self,
        request: &OptimizeRequest,
        settings: &AllSettings,
        now: UnixNanos,
    ) -> Result<Vec<RepairOf>> {
        let percent = |series| {
            let (set, _) = settings.of(Some(series), None);
            let of_layout = (set.layout == Layout::Inline).then_some(set.repair_percent);
            request.repair.or(of_layout).unwrap_or(0)
        };
        let mut all = due_repairs(&self.manifests.list()?, &percent, now);
        all.retain(|(series, _)| request.is_of(*series));
        Ok(all)
    }

    /// What is due at that time of the storage, and what is not because it cannot be read.
    fn find_due(
        &self,
        request: &OptimizeRequest,
        settings: &AllSettings,
        now: UnixNanos,
    ) -> Result<(Vec<DueOf>, Vec<String>)> {
        let live = |series| {
            let (set, _) = settings.of(Some(series), None);
            let of_layout = (set.layout == Layout::Hybrid).then_some(set.live_window);
            request.live.or(of_layout)
        };
        let list = self.manifests.list()?;
        let mut all = due(&list, &live, now);
        all.retain(|(series, _)| request.is_of(*series));
        let mut warnings = Vec::new();
        // It may say of other roots, and what lower revisions reach may be gone.
        all.retain(|(series, due)| {
            let unread = list.unread_of(*series, due.id);
            warnings
                .extend(unread.map(|unread| format!("{unread}: backup {} stays as it is for now", due.id)));
            unread.is_none()
        });
        Ok((all, warnings))
    }
}

/// Whether it is about this backup alone: the others may be rewritten all the same.
fn is_of_backup(error: &Error) -> bool {
    match error {
        Error::Reclaim(
            ReclaimError::NotRewritten { source, .. } | ReclaimError::NotRepaired { source, .. },
        ) => source.is_gone(),
        Error::Reclaim(ReclaimError::Container(error)) => error.is_gone(),
        Error::Reclaim(ReclaimError::TooLarge { .. }) => true,
        _ => false,
    }
}

/// Of each series the newest backup, where it was not repaired and something may be copied for it: so many percent of what its backups
/// have stored anew, less what was copied for them. What the first one stored counts for itself alone. A backup that is shorter than half of the longest one is taken for an incremental
/// one, whose order nobody else shares: what is stored anew for it counts for the next full one.
fn due_repairs(list: &ManifestList, percent: &dyn Fn(SeriesId) -> u16, now: UnixNanos) -> Vec<RepairOf> {
    let mut series: BTreeMap<SeriesId, Vec<(&ManifestEntry, &Backup)>> = BTreeMap::new();
    for entry in list.backups() {
        let backup = entry.backup().map(|backup| (entry, backup));
        series.entry(entry.series()).or_default().extend(backup);
    }
    let len = |backup: &Backup| backup.streams.iter().map(|stream| stream.len).sum::<u64>();
    let mut all = Vec::new();
    for (series, backups) in series {
        let Some((entry, newest)) = backups.last().copied() else {
            continue;
        };
        let longest = backups.iter().map(|(_, backup)| len(backup)).max().unwrap_or(0);
        let is_full = |backup: &Backup| len(backup) >= longest.div_ceil(2);
        let is_repaired = newest.rewritten.is_some_and(|copied| copied > 0);
        let percent = u128::from(percent(series));
        let counted = if backups.len() > 1 {
            &backups[1..]
        } else {
            &backups[..]
        };
        let budget = counted.iter().fold(0u64, |left, (_, backup)| {
            let more = u128::from(backup.totals.bytes_new) * percent / 100;
            let all = left.saturating_add(u64::try_from(more).unwrap_or(u64::MAX));
            all.saturating_sub(backup.rewritten.unwrap_or(0))
        });
        let is_held = newest.hold_until.is_some_and(|until| until > now);
        let is_free = newest.next.is_none() && !is_held && !entry.is_in_doubt();
        if budget > 0 && is_free && !is_repaired && is_full(newest) {
            let (id, bytes) = (entry.session(), len(newest));
            all.push((series, DueRepair { id, bytes, budget }));
        }
    }
    all
}

/// Those that have left their live windows and do not refer forward to the next one, and those that refer forward to what was
/// forgotten; oldest first.
fn due(list: &ManifestList, live: &dyn Fn(SeriesId) -> Option<u16>, now: UnixNanos) -> Vec<DueOf> {
    let mut series: BTreeMap<SeriesId, Vec<&ManifestEntry>> = BTreeMap::new();
    for entry in list.backups() {
        series.entry(entry.series()).or_default().push(entry);
    }
    let is_there = |id| list.get(id).is_some_and(|entry| entry.backup().is_some());
    let mut all = Vec::new();
    for (series, backups) in series {
        let live = live(series).map_or(backups.len(), |live| live.max(1).into());
        for (n, older) in backups.iter().enumerate() {
            let Some(backup) = older.backup() else { continue };
            let onto = backups.get(n + 1).map(|later| later.session());
            let is_archival = n + live < backups.len();
            let has_lost = backup.next.is_some_and(|next| !is_there(next));
            let is_held = backup.hold_until.is_some_and(|until| until > now);
            if is_held || backup.next == onto || !(is_archival || has_lost) {
                continue;
            }
            let due = DueBackup {
                id: older.session(),
                onto,
                bytes: backup.streams.iter().map(|stream| stream.len).sum(),
            };
            all.push((series, due));
        }
    }
    all.sort_unstable_by_key(|(_, due)| due.id);
    all
}
