//! Reclaiming space: what `reclaim` does, with this store's doors.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use ::index::Index;
use container::Compression;
use reclaim::{Context, Packing, Progress, Waiting, reserve};
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

/// What a prune would do, before it does it: [`Store::plan_prune`]. It holds nothing in the store, so
/// a dropped plan has changed nothing.
#[derive(Debug)]
#[must_use = "a plan does nothing until it is executed"]
pub struct PrunePlan<'a> {
    store: &'a Store,
    options: PruneOptions,
    preview: PrunePreview,
    warnings: Vec<Warning>,
}

impl PrunePlan<'_> {
    /// What would be done.
    #[must_use]
    pub const fn preview(&self) -> &PrunePreview {
        &self.preview
    }

    /// What should be said besides.
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
    /// As [`Store::prune`].
    pub fn execute(self, monitor: &Monitor) -> Result<(PruneReport, Vec<Warning>)> {
        self.store.prune(&self.options, monitor)
    }
}

impl Store {
    /// Reclaims what no backup reaches, beside whoever else works on the store. What should be said besides the report
    /// comes back with it. On a disk that is full the reserve is given up first, and made again afterwards.
    ///
    /// # Errors
    /// When what lives cannot be told, another prunes, or someone asks to stop; of the storage. The store is as readable as
    /// before, and the next prune goes on from there.
    pub fn prune(&self, options: &PruneOptions, monitor: &Monitor) -> Result<(PruneReport, Vec<Warning>)> {
        self.ensure_writable()?;
        self.containers.clear_catalogs();
        let (done, was_full) = self.with_reserve(|was_full| {
            let index = self.index()?;
            let mut options = options.clone();
            if was_full {
                // Space is wanted now, more than that a backup which was broken off can go on.
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

    /// Runs what may be needed on a full disk; where it is full, once more without the reserve.
    /// Says whether there was one.
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
        // As much as there is room for, or somebody takes what is left of it. The rest is made when there is more: by a
        // prune, or by the next backup.
        drop(reserve::grow(&self.env, 0, self.settings().container_bytes));
        (done, true)
    }

    /// What [`Self::prune`] would do, were these backups forgotten too. Writes nothing.
    ///
    /// # Errors
    /// As [`Self::prune`].
    pub fn preview_prune(
        &self,
        options: &PruneOptions,
        forget: &BTreeSet<SessionId>,
        monitor: &Monitor,
    ) -> Result<(PrunePreview, Vec<Warning>)> {
        self.reclaiming(None, monitor, |context| {
            reclaim::preview(context, options, forget)
        })
    }

    /// Plans a prune: reads and decides, and writes nothing. [`PrunePlan::preview`] says what would
    /// be done, and [`PrunePlan::execute`] does it.
    ///
    /// # Errors
    /// As [`Self::prune`].
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
        let done = work(&context)?;
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
