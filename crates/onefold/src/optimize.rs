//! Changes backups out of line, so that the newest one restores fast: older ones become archival
//! (R2, R5), or the layout of the newest is repaired (L9).
//!
//! The live window of a series is its newest backups, a number of them that the settings give. The
//! other backups are due: each will refer forward to the next one that is not forgotten. An
//! archival backup is also due if its next backup was forgotten since, whatever its position and
//! the present layout. It will refer to the next backup that is left, or to none. A held backup
//! stays as it is. If an archival window is set, backups beyond it are forgotten first.

mod due;
mod window;

use std::collections::BTreeSet;

use format::names;
use format::series::Layout;
use reclaim::{Due, ReclaimError, Repair};
use session::{ManifestList, Session};
use tracing::{info, warn};
use types::{SeriesId, SessionId, UnixNanos};

use crate::error::{Error, Result};
use crate::monitor::{Monitor, WorkUnit};
use crate::series::AllSettings;
use crate::store::Store;
use crate::warning::Warning;

use due::{DueOf, RepairOf, due, due_repairs};
use window::Expiring;

pub use due::{DueBackup, DueRepair, HeldBackup};
pub use reclaim::{Optimized, Repaired};
pub use window::Expired;

/// The target of this module's events in `tracing`'s logs.
const OPTIMIZE: &str = "onefold::optimize";

/// The backups to make archival, or to repair.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OptimizeRequest {
    /// Only backups of this series. `None`: of every series whose settings request it.
    pub series: Option<SeriesId>,
    /// A live window to use instead of the one in the settings. Then the layout does not matter,
    /// and nothing is forgotten.
    pub live: Option<u16>,
    /// How much layout repair may copy, in percent, instead of the settings. Then the layout does
    /// not matter either.
    pub repair: Option<u16>,
    /// Threads that read and write containers; 0 means one.
    pub workers: usize,
}

types::setters!(OptimizeRequest {
    series: Option<SeriesId>,
    live: Option<u16>,
    repair: Option<u16>,
    workers: usize,
});

impl OptimizeRequest {
    /// Whether the request includes backups of this series.
    fn is_of(&self, series: SeriesId) -> bool {
        self.series.is_none_or(|asked| asked == series)
    }
}

/// The result of an optimization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptimizeReport {
    /// Backups that had left the retention windows of their series, and were forgotten; oldest
    /// first.
    pub expired: Vec<Expired>,
    /// The result for each backup that was due, oldest first.
    pub backups: Vec<(SessionId, Optimized)>,
    /// The result for each backup whose layout was to be repaired.
    pub repaired: Vec<(SessionId, Repaired)>,
    /// Backups that stay as they are because they are held.
    pub held: Vec<HeldBackup>,
    /// Backups that cannot be rewritten, and why. They are unchanged.
    pub failed: Vec<(SessionId, String)>,
    /// Rewrites of dead processes that were completed or forgotten.
    pub completed: u64,
    /// Warnings.
    pub warnings: Vec<Warning>,
}

/// What an optimization would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptimizePreview {
    /// Backups that have left the retention windows of their series, oldest first.
    pub expiring: Vec<Expired>,
    /// Backups that have left their live windows and are not archival yet, or that refer forward to
    /// a forgotten backup; oldest first.
    pub backups: Vec<DueBackup>,
    /// Backups whose layout would be repaired. For each series whose settings request it: the
    /// newest backup, if it was not repaired and is not incremental.
    pub repairs: Vec<DueRepair>,
    /// Backups that stay as they are because they are held.
    pub held: Vec<HeldBackup>,
    /// Warnings.
    pub warnings: Vec<Warning>,
}

impl Store {
    /// Computes what [`Self::optimize`] would do. It writes nothing, so it judges holds by the
    /// clock of this host.
    ///
    /// # Errors
    /// Of the storage.
    pub fn preview_optimize(&self, request: &OptimizeRequest) -> Result<OptimizePreview> {
        let now = self.env.clock.wall();
        let settings = self.settings_for(request)?;
        let mut list = self.manifests.list()?;
        let expiring = find_expiring(request, &settings, &list, now)?;
        list.forget(&expiring.gone.iter().map(|one| one.id).collect());
        let found = find_due(request, &settings, &list, &expiring.held, now);
        // These will be archival by then, so their data does not count.
        let archival = found.due.iter().filter(|(_, due)| due.onto.is_some());
        let archival = archival.map(|(_, due)| due.id).collect();
        let repairs = find_repairs(request, &settings, &list, &archival, now);
        let warnings = [settings.damaged, expiring.warnings, found.unread].concat();
        Ok(OptimizePreview {
            expiring: expiring.gone,
            backups: found.due.into_iter().map(|(_, due)| due).collect(),
            repairs: repairs.into_iter().map(|(_, due)| due).collect(),
            held: found.held,
            warnings,
        })
    }

    /// Forgets backups that have left the retention windows of their series, makes backups archival
    /// that have left the live windows, and repairs the layout of the newest ones. It frees no
    /// space: [`Self::prune`] removes the unused data.
    ///
    /// # Errors
    /// If the caller asks to stop; of the storage. Then the backups before are done, and the others
    /// are unchanged.
    pub fn optimize(&self, request: &OptimizeRequest, monitor: &Monitor) -> Result<OptimizeReport> {
        self.ensure_writable()?;
        let _past = self.past_cache();
        let options = reclaim::OptimizeOptions {
            workers: request.workers.max(1),
            node_cache_bytes: self.options.node_cache_bytes,
        };
        // The process that publishes a rewrite has a running session.
        let session =
            Session::begin_read_with(&self.manifests, self.options.process, self.options.policy, None)?;
        let heartbeats = self.heartbeats.add(&session)?;
        let mut report = OptimizeReport::default();
        let done = self.optimize_beside(&session, &options, request, monitor, &mut report);
        drop(heartbeats);
        let ended = session.end().map(drop).map_err(Error::from);
        let done = done.and(ended);
        // Damage of the backups that it read: the next one need not meet it again.
        let is_interrupted = matches!(done, Err(Error::Reclaim(ReclaimError::Interrupted)));
        let met = if is_interrupted {
            Vec::new()
        } else {
            self.note_met()
        };
        if done.is_ok() {
            report.warnings.extend(met);
        } else {
            let expired = report.expired.iter();
            let expired = expired.map(|expired| Warning::ExpiredAllTheSame { backup: expired.id });
            met.into_iter()
                .chain(expired)
                .for_each(|note| monitor.add_note(note));
        }
        done.map(|()| report)
    }

    fn optimize_beside(
        &self,
        session: &Session,
        options: &reclaim::OptimizeOptions,
        request: &OptimizeRequest,
        monitor: &Monitor,
        report: &mut OptimizeReport,
    ) -> Result<()> {
        let index = self.index()?;
        let complete = |context: &reclaim::Context<'_>| reclaim::complete(context, session);
        let (completed, warnings) = self.reclaiming(Some(&index), monitor, complete)?;
        report.completed = completed;
        report.warnings = warnings;
        let now = self.env.storage.head(&names::claim(session.id()))?.put_at;
        let settings = self.settings_for(request)?;
        report.warnings.extend_from_slice(&settings.damaged);
        // Forget first, so that no backup is rewritten that expires.
        let list = self.manifests.list()?;
        let expiring = find_expiring(request, &settings, &list, now)?;
        let (expired, unsure) = self.forget_expired(&list, &expiring.gone, monitor)?;
        report.expired = expired;
        report.warnings.extend(expiring.warnings);
        report.warnings.extend(unsure);
        // A forgotten backup is no backup any more.
        let list = if expiring.gone.is_empty() {
            list
        } else {
            self.manifests.list()?
        };
        let found = find_due(request, &settings, &list, &expiring.held, now);
        let all = found.due;
        info!(target: OPTIMIZE, expired = report.expired.len(), due = all.len(), held = found.held.len(), "begins");
        report.held = found.held;
        report.warnings.extend(found.unread);
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
            // Backups that failed, or were no longer due, are no longer to be done.
            bytes += due.bytes;
            if !matches!(done, Err(Error::Reclaim(ReclaimError::Interrupted))) {
                monitor.add_done_up_to(bytes);
            }
            log_rewrite(
                "reverse deduplication",
                due.id,
                done.as_ref().map(|(done, _)| done.is_done),
            );
            match done {
                Ok((done, warnings)) => {
                    report.backups.push((due.id, done));
                    report.warnings.extend(warnings);
                }
                Err(error) if is_of_backup(&error) => report.failed.push((due.id, error.to_string())),
                Err(error) => return Err(error),
            }
        }
        for (series, due) in find_repairs(request, &settings, &self.manifests.list()?, &BTreeSet::new(), now)
        {
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
            log_rewrite(
                "layout repair",
                due.id,
                done.as_ref().map(|(done, _)| done.is_done),
            );
            match done {
                Ok((done, warnings)) => {
                    report.repaired.push((due.id, done));
                    report.warnings.extend(warnings);
                }
                Err(error) if is_of_backup(&error) => report.failed.push((due.id, error.to_string())),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The settings that apply to a request.
    fn settings_for(&self, request: &OptimizeRequest) -> Result<AllSettings> {
        if request.live.is_some() && request.repair.is_some() {
            return Ok(AllSettings::default());
        }
        AllSettings::read(self, |series| request.is_of(series))
    }
}

/// Logs the result for one backup.
fn log_rewrite(how: &'static str, backup: SessionId, done: std::result::Result<bool, &Error>) {
    match done {
        Ok(is_done) => info!(target: OPTIMIZE, %backup, is_done, "{how}"),
        Err(error) => warn!(target: OPTIMIZE, %backup, %error, "{how}"),
    }
}

/// Backups that have left their retention windows at this time of the storage. Empty if the request
/// has a live window of its own.
fn find_expiring(
    request: &OptimizeRequest,
    settings: &AllSettings,
    list: &ManifestList,
    now: UnixNanos,
) -> Result<Expiring> {
    let is_asked =
        |series: &SeriesId| request.live.is_none() && request.is_of(*series) && settings.are_sure(*series);
    let set = |series| {
        let asked = Some(series).filter(is_asked)?;
        Some(settings.of(Some(asked), None).0)
    };
    window::expiring(list, &set, now)
}

/// Backups to repair at this time of the storage, once these are archival.
fn find_repairs(
    request: &OptimizeRequest,
    settings: &AllSettings,
    list: &ManifestList,
    archival: &BTreeSet<SessionId>,
    now: UnixNanos,
) -> Vec<RepairOf> {
    let percent = |series| {
        let (set, _) = settings.of(Some(series), None);
        request.repair.unwrap_or(set.repair_percent)
    };
    let mut all = due_repairs(list, &percent, archival, now);
    all.retain(|(series, _)| request.is_of(*series));
    all
}

/// Backups that are due, due but held, and due but unreadable.
struct Found {
    due: Vec<DueOf>,
    held: Vec<HeldBackup>,
    unread: Vec<Warning>,
}

/// Backups that are due at this time of the storage.
fn find_due(
    request: &OptimizeRequest,
    settings: &AllSettings,
    list: &ManifestList,
    expired: &BTreeSet<SessionId>,
    now: UnixNanos,
) -> Found {
    let live = |series| {
        let (set, _) = settings.of(Some(series), None);
        let of_layout = (set.layout == Layout::Hybrid).then_some(set.live_window);
        request.live.or(of_layout)
    };
    let (mut all, mut held) = due(list, &live, expired, now);
    all.retain(|(series, _)| request.is_of(*series));
    held.retain(|(series, _)| request.is_of(*series));
    let mut unread = Vec::new();
    // An unreadable revision may have other roots, and the data that lower revisions reach may be
    // removed.
    all.retain(|(series, due)| {
        let of_one = list.unread_of(*series, due.id);
        unread.extend(of_one.map(|object| Warning::BackupUnread {
            backup: due.id,
            object: object.name.clone(),
            why: object.why.clone(),
        }));
        of_one.is_none()
    });
    Found {
        due: all,
        held: held.into_iter().map(|(_, held)| held).collect(),
        unread,
    }
}

/// Whether the error concerns only this backup. Then the others may still be rewritten.
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
