//! A store of one layout, and what is done with it, with its times.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::{Env, MemoryStorage, SeededEntropy};
use ingest::{Capping, IngestOptions};
use onefold::{
    AssembleOptions, AssembleStats, BackupOptions, BackupReport, Compression, Credential, ForgetRequest,
    ForgetWhat, InitOptions, Monitor, OpenOptions, OptimizeReport, OptimizeRequest, PruneLimits,
    PruneOptions, PruneReport, PruneUnused, Repaired, SessionId, Snapshot, Store, StreamOptions,
    StreamOutput,
};

use super::array::{DiskArray, Disks};
use super::cold;
use super::content::Content;
use crate::error::LabError;
use crate::reproduce::figures::cores;

/// A store. No password.
#[derive(Debug)]
pub(in crate::reproduce) struct Engine {
    env: Env,
    store: Store,
    folder: Option<PathBuf>,
    capping: Capping,
    compression: Compression,
}

/// Bytes that a store takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::reproduce) struct Stored {
    /// Containers of chunks, with the catalogs in them.
    pub(in crate::reproduce) chunks: u64,
    /// Everything.
    pub(in crate::reproduce) all: u64,
}

/// What reverse deduplication did, and the prune after it.
#[derive(Debug)]
pub(in crate::reproduce) struct Reversed {
    pub(in crate::reproduce) optimized: OptimizeReport,
    pub(in crate::reproduce) pruned: PruneReport,
    pub(in crate::reproduce) optimizing: Duration,
    pub(in crate::reproduce) pruning: Duration,
}

impl Engine {
    /// A new store in memory, or in a folder that is made, of a domain of its own or of another
    /// store: data is cut and fingerprinted there as it is here then.
    ///
    /// # Errors
    /// Of the engine.
    pub(in crate::reproduce) fn new(
        folder: Option<&Path>,
        init: &InitOptions,
        domain_of: Option<&Self>,
    ) -> Result<Self, LabError> {
        let env = match folder {
            None => Env::system(Arc::new(MemoryStorage::new())),
            Some(folder) => Env::create_local(folder).map_err(onefold::Error::from)?,
        };
        Self::made(env, folder, init, domain_of)
    }

    /// A new store in memory, all of whose keys follow from a seed.
    ///
    /// # Errors
    /// Of the engine.
    pub(in crate::reproduce) fn seeded(seed: u64, init: &InitOptions) -> Result<Self, LabError> {
        let env = Env {
            entropy: Arc::new(SeededEntropy::new(seed)),
            ..Env::system(Arc::new(MemoryStorage::new()))
        };
        Self::made(env, None, init, None)
    }

    fn made(
        env: Env,
        folder: Option<&Path>,
        init: &InitOptions,
        domain_of: Option<&Self>,
    ) -> Result<Self, LabError> {
        let domain_of = domain_of.map(|other| &other.store);
        Store::init(&env, &Credential::None, init, domain_of)?;
        Self::with(env, folder)
    }

    /// The store in a folder, nothing of it read before.
    ///
    /// # Errors
    /// Of the engine.
    pub(in crate::reproduce) fn open(folder: &Path) -> Result<Self, LabError> {
        let env = Env::local(folder).map_err(onefold::Error::from)?;
        Self::with(env, Some(folder))
    }

    fn with(env: Env, folder: Option<&Path>) -> Result<Self, LabError> {
        let store = Store::open(&env, &Credential::None, &OpenOptions::default())?;
        Ok(Self {
            env,
            store,
            folder: folder.map(Path::to_owned),
            capping: Capping::NONE,
            compression: Compression::Off,
        })
    }

    /// Backups have this cap, and not none.
    pub(in crate::reproduce) fn capped(self, capping: Capping) -> Self {
        Self { capping, ..self }
    }

    /// Backups are compressed as by default, and not stored as they are: what is rewritten always
    /// is.
    pub(in crate::reproduce) fn compressed(self) -> Self {
        let compression = IngestOptions::for_cores(1).compression;
        Self { compression, ..self }
    }

    fn timed<T>(&self, work: impl FnOnce() -> Result<T, LabError>) -> Result<(Duration, T), LabError> {
        let began = self.env.clock.monotonic();
        let done = work()?;
        Ok((self.env.clock.monotonic().saturating_sub(began), done))
    }

    /// Backs up a content, in chunks that follow it or, for images of machines, in blocks. Durable
    /// at the end of the time.
    pub(in crate::reproduce) fn back_up(
        &self,
        content: &Content,
        is_in_blocks: bool,
    ) -> Result<(Duration, BackupReport), LabError> {
        let options = BackupOptions::default()
            .host(b"laboratory".to_vec())
            .user(b"laboratory".to_vec())
            .tags(Vec::new())
            .ingest(
                IngestOptions::for_cores(cores())
                    .compression(self.compression)
                    .capping(Some(self.capping)),
            );
        let fixed = is_in_blocks.then_some(self.store.settings().chunk_avg_bytes);
        let stream = StreamOptions::default().fixed_chunk_bytes(fixed);
        let name = Path::new(&content.series);
        self.timed(|| {
            let mut source = content.source();
            let monitor = Monitor::default();
            Ok(self
                .store
                .backup_stream(&options, name, &stream, &mut source, &monitor)?)
        })
    }

    /// Makes archival what has left its live window, and reclaims what that lets go of, as a prune
    /// does that is told nothing: a twentieth may stay unused.
    pub(in crate::reproduce) fn optimize(&self) -> Result<Reversed, LabError> {
        let request = OptimizeRequest::default().workers(cores());
        let (took, optimized) = self.timed(|| Ok(self.store.optimize(&request, &Monitor::default())?))?;
        let (pruning, pruned) = self.prune(PruneLimits::default())?;
        Ok(Reversed {
            optimized,
            pruned,
            optimizing: took,
            pruning,
        })
    }

    /// Repairs the layout of the newest backup, if it is due, within so many percent of what was
    /// stored anew.
    ///
    /// # Errors
    /// Of the engine; a backup that cannot be repaired is one.
    pub(in crate::reproduce) fn repair(&self, percent: u16) -> Result<Option<Repaired>, LabError> {
        let request = OptimizeRequest::default().repair(Some(percent)).workers(cores());
        let report = self.store.optimize(&request, &Monitor::default())?;
        if let Some((backup, why)) = report.failed.first() {
            return Err(LabError::settings(format!(
                "the layout of backup {backup} was not repaired: {why}"
            )));
        }
        Ok(report.repaired.first().map(|(_, repaired)| *repaired))
    }

    /// Reclaims all that is free, whatever is copied for it.
    pub(in crate::reproduce) fn prune_all(&self) -> Result<(Duration, PruneReport), LabError> {
        self.prune(PruneLimits::default().unused_max(PruneUnused::Bytes(0)))
    }

    /// Reclaims within these limits.
    ///
    /// # Errors
    /// Of the engine.
    pub(in crate::reproduce) fn prune(
        &self,
        limits: PruneLimits,
    ) -> Result<(Duration, PruneReport), LabError> {
        let options = PruneOptions::default().limits(limits);
        let (took, (report, _)) = self.timed(|| Ok(self.store.prune(&options, &Monitor::default())?))?;
        Ok((took, report))
    }

    /// Forgets these and reclaims all that is free then.
    pub(in crate::reproduce) fn expire(
        &self,
        backups: &[SessionId],
    ) -> Result<(Duration, PruneReport), LabError> {
        let took = self.forget(backups)?;
        let (pruning, report) = self.prune_all()?;
        Ok((took + pruning, report))
    }

    /// Forgets these.
    pub(in crate::reproduce) fn forget(&self, backups: &[SessionId]) -> Result<Duration, LabError> {
        let request = ForgetRequest::new(ForgetWhat::Named(
            backups.iter().map(ToString::to_string).collect(),
        ))
        .is_dry_run(false)
        .force_unreadable(false);
        let (took, _) = self.timed(|| Ok(self.store.forget(&request, &Monitor::default())?))?;
        Ok(took)
    }

    /// All backups, the oldest first.
    pub(in crate::reproduce) fn backups(&self) -> Result<Vec<SessionId>, LabError> {
        let list = self.store.snapshots()?;
        Ok(list.snapshots.iter().map(|snapshot| snapshot.id).collect())
    }

    /// Restores a backup by a store that was opened anew, and where it is on disk from there:
    /// nothing of it is in the page cache. Nobody keeps what comes.
    pub(in crate::reproduce) fn restore(
        &self,
        backup: SessionId,
        options: AssembleOptions,
    ) -> Result<(Duration, AssembleStats), LabError> {
        if let Some(folder) = &self.folder {
            self.env.storage.barrier().map_err(onefold::Error::from)?;
            cold::drop_cached(folder)?;
        }
        self.restore_through(&self.env, backup, options)
    }

    /// The same from disks with heads, which are modelled: the store's files may be in the page
    /// cache.
    ///
    /// # Errors
    /// Of the engine.
    pub(in crate::reproduce) fn restore_from(
        &self,
        disks: Disks,
        backup: SessionId,
        options: AssembleOptions,
    ) -> Result<(Duration, AssembleStats), LabError> {
        let storage = DiskArray::new(Arc::clone(&self.env.storage), Arc::clone(&self.env.clock), disks);
        let env = Env {
            storage: Arc::new(storage),
            ..self.env.clone()
        };
        self.restore_through(&env, backup, options)
    }

    fn restore_through(
        &self,
        env: &Env,
        backup: SessionId,
        options: AssembleOptions,
    ) -> Result<(Duration, AssembleStats), LabError> {
        let store = Store::open(env, &Credential::None, &OpenOptions::default())?;
        let snapshot = self.snapshot(backup)?;
        self.timed(|| Ok(store.dump(&snapshot, None, &mut Nowhere, options, &Monitor::default())?))
    }

    /// Containers that each backup reads, the oldest first, with the engine's own measure: an area
    /// of 128 MiB.
    pub(in crate::reproduce) fn containers_read(&self) -> Result<Vec<u64>, LabError> {
        let list = self.store.snapshots()?;
        self.containers_read_by(&list.snapshots)
    }

    /// That of one backup.
    pub(in crate::reproduce) fn containers_read_of(&self, backup: SessionId) -> Result<u64, LabError> {
        let snapshot = self.snapshot(backup)?;
        Ok(self.containers_read_by(&[snapshot])?.iter().sum())
    }

    fn containers_read_by(&self, snapshots: &[Snapshot]) -> Result<Vec<u64>, LabError> {
        let layouts = self.store.layouts(snapshots, &Monitor::default())?;
        Ok(layouts.iter().map(|layout| layout.containers_read).collect())
    }

    fn snapshot(&self, backup: SessionId) -> Result<Snapshot, LabError> {
        let mut all = self.store.snapshots()?.snapshots.into_iter();
        let wanted = all.find(|snapshot| snapshot.id == backup);
        wanted.ok_or_else(|| LabError::settings(format!("backup {backup} is gone")))
    }

    /// What it takes.
    pub(in crate::reproduce) fn stored(&self) -> Result<Stored, LabError> {
        let stats = self.store.stats()?;
        let of_chunks = ["data", "archive", "small"];
        let chunks = stats.kinds.iter().filter(|(kind, _)| of_chunks.contains(*kind));
        Ok(Stored {
            chunks: chunks.map(|(_, kind)| kind.bytes).sum(),
            all: stats.stored_bytes(),
        })
    }
}

/// What is restored goes nowhere.
struct Nowhere;

impl StreamOutput for Nowhere {
    fn write(&mut self, _: &[u8]) -> std::io::Result<()> {
        Ok(())
    }
    fn skip_zeros(&mut self, _: u64) -> std::io::Result<()> {
        Ok(())
    }
}
