//! A store of one layout, and timed operations on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::{Entropy, Env, MemoryStorage, SeededEntropy};
use ingest::{Capping, IngestOptions};
use onefold::{
    AssembleOptions, AssembleStats, BackupOptions, BackupReport, Compression, Credential, ForgetRequest,
    ForgetWhat, InitOptions, Monitor, OpenOptions, OptimizeReport, OptimizeRequest, PruneLimits,
    PruneOptions, PruneReport, PruneUnused, Repaired, SessionId, Snapshot, Store, StreamOptions,
};

use super::array::{DiskArray, Disks};
use super::cold;
use super::content::Content;
use crate::error::LabError;
use crate::reproduce::figures::cores;

/// The keys decide where data is cut. With these, a figure is the same in each run.
const KEYS_SEED: u64 = 2014;

/// A store without a password.
#[derive(Debug)]
pub(in crate::reproduce) struct Engine {
    env: Env,
    store: Store,
    folder: Option<PathBuf>,
    capping: Capping,
    compression: Compression,
}

/// Bytes of a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::reproduce) struct Stored {
    /// Containers of chunks, including their catalogs.
    pub(in crate::reproduce) chunks: u64,
    /// All objects.
    pub(in crate::reproduce) all: u64,
}

/// The results of reverse deduplication, and of the prune after it.
#[derive(Debug)]
pub(in crate::reproduce) struct Reversed {
    pub(in crate::reproduce) optimized: OptimizeReport,
    pub(in crate::reproduce) pruned: PruneReport,
    pub(in crate::reproduce) optimizing: Duration,
    pub(in crate::reproduce) pruning: Duration,
}

impl Engine {
    /// A new store, in memory or in a new folder. It has the keys of [`KEYS_SEED`], or the domain
    /// of another store. Stores of one domain cut and fingerprint data alike.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(in crate::reproduce) fn new(
        folder: Option<&Path>,
        init: &InitOptions,
        domain_of: Option<&Self>,
    ) -> Result<Self, LabError> {
        let env = match folder {
            None => Env::system(Arc::new(MemoryStorage::new())),
            Some(folder) => Env::create_local(folder).map_err(onefold::Error::from)?,
        };
        let entropy: Arc<dyn Entropy> = Arc::new(SeededEntropy::new(KEYS_SEED));
        let env = Env { entropy, ..env };
        Self::made(env, folder, init, domain_of)
    }

    /// A new store in memory, with all keys from a seed.
    ///
    /// # Errors
    /// Errors of the engine.
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

    /// Opens the store in a folder, with nothing of it read before.
    ///
    /// # Errors
    /// Errors of the engine.
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

    /// Makes backups with this cap. Without this call there is none.
    pub(in crate::reproduce) fn capped(self, capping: Capping) -> Self {
        Self { capping, ..self }
    }

    /// Compresses backups as by default. Without this call they are stored uncompressed. Rewritten
    /// data is always compressed.
    pub(in crate::reproduce) fn compressed(self) -> Self {
        let compression = IngestOptions::for_cores(1).compression;
        Self { compression, ..self }
    }

    fn timed<T>(&self, work: impl FnOnce() -> Result<T, LabError>) -> Result<(Duration, T), LabError> {
        let began = self.env.clock.monotonic();
        let done = work()?;
        Ok((self.env.clock.monotonic().saturating_sub(began), done))
    }

    /// Backs up a content: images of machines in blocks, other content in content-defined chunks.
    /// It is durable at the end of the returned time.
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

    /// Makes backups archival that left their live window. Then reclaims with the defaults of
    /// prune: a twentieth may stay unused.
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

    /// Repairs the layout of the newest backup, if it is due, within so many percent of the newly
    /// stored bytes.
    ///
    /// # Errors
    /// Errors of the engine. A backup that cannot be repaired is an error.
    pub(in crate::reproduce) fn repair(&self, percent: u16) -> Result<Option<Repaired>, LabError> {
        let request = OptimizeRequest::default().repair(Some(percent)).workers(cores());
        let report = self.store.optimize(&request, &Monitor::default())?;
        if let Some((backup, why)) = report.failed.first() {
            return Err(LabError::settings(format!(
                "the engine did not repair the layout of backup {backup}: {why}"
            )));
        }
        Ok(report.repaired.first().map(|(_, repaired)| *repaired))
    }

    /// Reclaims all free space, however much must be copied for it.
    pub(in crate::reproduce) fn prune_all(&self) -> Result<(Duration, PruneReport), LabError> {
        self.prune(PruneLimits::default().unused_max(PruneUnused::Bytes(0)))
    }

    /// Reclaims within these limits.
    ///
    /// # Errors
    /// Errors of the engine.
    pub(in crate::reproduce) fn prune(
        &self,
        limits: PruneLimits,
    ) -> Result<(Duration, PruneReport), LabError> {
        let options = PruneOptions::default().limits(limits);
        let (took, (report, _)) = self.timed(|| Ok(self.store.prune(&options, &Monitor::default())?))?;
        Ok((took, report))
    }

    /// Forgets these backups, and reclaims all space that they free.
    pub(in crate::reproduce) fn expire(
        &self,
        backups: &[SessionId],
    ) -> Result<(Duration, PruneReport), LabError> {
        let took = self.forget(backups)?;
        let (pruning, report) = self.prune_all()?;
        Ok((took + pruning, report))
    }

    /// Forgets these backups.
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

    /// Restores a backup with a store that was just opened, and discards the bytes. A store on disk
    /// is read from disk: the page cache has nothing of it.
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

    /// The same with simulated disks with heads. The page cache may have the store's files.
    ///
    /// # Errors
    /// Errors of the engine.
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
        self.timed(|| {
            Ok(store.dump(
                &snapshot,
                None,
                &mut std::io::sink(),
                options,
                &Monitor::default(),
            )?)
        })
    }

    /// Containers that each backup reads, the oldest first, counted by the engine for an area of
    /// 128 MiB.
    pub(in crate::reproduce) fn containers_read(&self) -> Result<Vec<u64>, LabError> {
        let list = self.store.snapshots()?;
        self.containers_read_by(&list.snapshots)
    }

    /// The same count for one backup.
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
        wanted.ok_or_else(|| LabError::settings(format!("the store has no backup {backup}")))
    }

    /// The bytes that the store takes.
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
