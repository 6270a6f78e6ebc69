//! Reclaims space: runs `reclaim` on this store.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::index::Index;
use container::Compression;
use reclaim::{Context, Packing, Progress, ReclaimError, Waiting, reserve};
use types::SessionId;

use crate::error::Result;
use crate::monitor::{Monitor, WorkUnit};
use crate::store::Store;
use crate::warning::Warning;

pub use reclaim::{
    Limits as PruneLimits, Preview as PrunePreview, PruneOptions, PruneReport, Unused as PruneUnused,
};

/// What is said beside the report.
#[derive(Debug)]
struct Watcher<'a> {
    monitor: &'a Monitor,
    warnings: Mutex<Vec<Warning>>,
}

impl Progress for Watcher<'_> {
    fn add_nodes(&self, nodes: u64) {
        self.monitor.add_done_of(WorkUnit::Nodes, nodes);
    }
    fn set_total(&self, containers: u64) {
        self.monitor.begin_part(WorkUnit::Containers, containers);
    }
    fn set_total_bytes(&self, bytes: u64) {
        self.monitor.begin_part(WorkUnit::Bytes, bytes);
    }
    fn waits_for(&self, sessions: &[Waiting]) {
        self.monitor.set_waiting(sessions);
    }
    fn add_done(&self, containers: u64) {
        self.monitor.add_done(containers);
    }
    fn warn(&self, warning: reclaim::Warning) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.push(warning.into());
    }
    fn is_cancelled(&self) -> bool {
        self.monitor.is_cancelled()
    }
}

/// What a prune would do, before it does it: [`Store::plan_prune`]. A plan holds nothing in the
/// store: a dropped one has changed nothing.
#[derive(Debug)]
#[must_use = "a plan does nothing until it is executed"]
pub struct PrunePlan<'a> {
    store: &'a Store,
    options: PruneOptions,
    preview: PrunePreview,
    warnings: Vec<Warning>,
}

impl PrunePlan<'_> {
    /// What the prune would do.
    #[must_use]
    pub const fn preview(&self) -> &PrunePreview {
        &self.preview
    }

    /// Warnings of the plan.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Prunes as [`Store::prune`] does, with the options of the plan: it decides anew. It removes
    /// nothing that a backup or a running session needs by now, and it also removes what was
    /// forgotten since. Where nobody has changed the store since, it removes what
    /// [`Self::preview`] says, but for sizes that are estimates there, and for what it decides
    /// after it has ended a dead session or finished a prune that was killed.
    ///
    /// # Errors
    /// Those of [`Store::prune`].
    pub fn execute(self, monitor: &Monitor) -> Result<(PruneReport, Vec<Warning>)> {
        self.store.prune(&self.options, monitor)
    }
}

impl Store {
    /// Reclaims the data that no backup reaches, while other processes may use the store. Returns
    /// warnings besides the report. If the disk is full, it deletes the reserve and tries again,
    /// and makes the reserve again afterwards.
    ///
    /// # Errors
    /// If it is not known which data is live, if another process prunes, or if the caller asks to
    /// stop; of the storage. The store is as readable as before, and the next prune continues.
    pub fn prune(&self, options: &PruneOptions, monitor: &Monitor) -> Result<(PruneReport, Vec<Warning>)> {
        self.ensure_writable()?;
        let _past = self.past_cache();
        let (done, was_full) = self.with_reserve(|was_full| {
            let index = self.index()?;
            let mut options = options.clone();
            if was_full {
                // Free space is more important now than resuming an interrupted backup.
                options.abandoned_after = Duration::ZERO;
                options.is_full = true;
            }
            self.reclaiming(Some(&index), monitor, |context| reclaim::prune(context, &options))
        });
        let (report, mut warnings) = done?;
        let stored = report.bytes_stored;
        if let Err(error) = reserve::grow(&self.env, stored, self.settings().container_bytes) {
            warnings.push(Warning::NoReserve {
                why: error.to_string(),
            });
        } else if was_full && !reserve::exists(&*self.env.storage)? {
            warnings.push(Warning::NoRoomForReserve);
        }
        Ok((report, warnings))
    }

    /// Runs `work`, and if the disk is full, runs it once more without the reserve. Returns whether
    /// there was a reserve in that case.
    pub(crate) fn with_reserve<T>(&self, mut work: impl FnMut(bool) -> Result<T>) -> (Result<T>, bool) {
        let done = work(false);
        if !done.as_ref().is_err_and(crate::Error::is_no_space) {
            return (done, false);
        }
        let had_reserve = reserve::give_up(&*self.env.storage).unwrap_or(false);
        let done = work(true);
        if !had_reserve {
            return (done, false);
        }
        // Make the reserve as large as there is room for, before another program takes the space. A
        // prune or the next backup makes it larger once there is more room.
        drop(reserve::grow(&self.env, 0, self.settings().container_bytes));
        (done, true)
    }

    /// Computes what [`Self::prune`] would do if these backups were forgotten too. It writes
    /// nothing.
    ///
    /// # Errors
    /// Those of [`Self::prune`].
    pub fn preview_prune(
        &self,
        options: &PruneOptions,
        forget: &BTreeSet<SessionId>,
        monitor: &Monitor,
    ) -> Result<(PrunePreview, Vec<Warning>)> {
        let _past = self.past_cache();
        self.reclaiming(None, monitor, |context| {
            reclaim::preview(context, options, forget)
        })
    }

    /// Plans a prune: reads and decides, and writes nothing. [`PrunePlan::preview`] shows what a
    /// prune would do now, and [`PrunePlan::execute`] runs one.
    ///
    /// # Errors
    /// Those of [`Self::prune`].
    pub fn plan_prune(&self, options: &PruneOptions, monitor: &Monitor) -> Result<PrunePlan<'_>> {
        let (preview, warnings) = self.preview_prune(options, &BTreeSet::new(), monitor)?;
        Ok(PrunePlan {
            store: self,
            options: options.clone(),
            preview,
            warnings,
        })
    }

    pub(crate) fn reclaiming<T>(
        &self,
        index: Option<&Index>,
        monitor: &Monitor,
        work: impl FnOnce(&Context<'_>) -> reclaim::Result<T>,
    ) -> Result<(T, Vec<Warning>)> {
        let nodes = self.nodes();
        let watcher = Watcher {
            monitor,
            warnings: Mutex::default(),
        };
        let context = Context {
            sealer: &self.sealer,
            manifests: &self.manifests,
            containers: &self.containers,
            nodes: &nodes,
            packing: Packing {
                region_bytes: self.settings().region_bytes as usize,
                compression: Compression::Level(ingest::COMPRESSION_LEVEL),
                container_bytes: u64::from(self.settings().container_bytes),
            },
            index,
            policy: self.options.policy,
            process: self.options.process,
            progress: &watcher,
        };
        let done = match work(&context) {
            Err(error) => {
                if index.is_some() && !matches!(error, ReclaimError::Interrupted) {
                    self.note_met()
                        .into_iter()
                        .for_each(|note| monitor.add_note(note));
                }
                return Err(error.into());
            }
            Ok(done) => done,
        };
        let mut warnings = watcher
            .warnings
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        // A dry run writes nothing.
        if index.is_some() {
            warnings.extend(self.record_met()?);
        }
        Ok((done, warnings))
    }
}
