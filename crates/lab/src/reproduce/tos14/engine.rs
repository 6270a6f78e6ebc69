//! A store of one layout, and what is done with it, with its times.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use env::{Env, MemoryStorage};
use ingest::{Capping, IngestOptions};
use onefold::{
    AssembleOptions, AssembleStats, BackupOptions, BackupReport, Compression, Credential, ForgetRequest,
    ForgetWhat, InitOptions, Layout, Monitor, OpenOptions, OptimizeReport, OptimizeRequest, PruneLimits,
    PruneOptions, PruneReport, PruneUnused, SessionId, SettingsChange, Store, StreamOutput,
};

use super::cold;
use super::data::Content;
use crate::error::LabError;
use crate::reproduce::figures::cores;

/// Bytes of a chunk, on average or of fixed length, as in the paper.
pub(super) const CHUNK_BYTES: u32 = 4 << 10;

/// How backups are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Layout `inline`, no cap: the paper's Conv.
    Conventional,
    /// Layout `hybrid`.
    Hybrid {
        /// Bytes of a segment on average.
        segment_bytes: u32,
        /// Backups that stay as they were written.
        live: u16,
    },
}

/// A store. Chunks of 4 KiB, no compression, no password.
#[derive(Debug)]
pub(super) struct Engine {
    env: Env,
    store: Store,
    folder: Option<PathBuf>,
}

/// Bytes that a store takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stored {
    /// Containers of chunks, with the catalogs in them.
    pub(super) chunks: u64,
    /// Everything.
    pub(super) all: u64,
}

/// What reverse deduplication did, and the prune after it.
#[derive(Debug)]
pub(super) struct Reversed {
    pub(super) optimized: OptimizeReport,
    pub(super) pruned: PruneReport,
    pub(super) optimizing: Duration,
    pub(super) pruning: Duration,
}

impl Engine {
    /// A new store in memory, or in a folder that is made.
    pub(super) fn new(folder: Option<&Path>, form: Form, container_bytes: u32) -> Result<Self, LabError> {
        let env = match folder {
            None => Env::system(Arc::new(MemoryStorage::new())),
            Some(folder) => Env::create_local(folder).map_err(onefold::Error::from)?,
        };
        let series = match form {
            Form::Conventional => SettingsChange::default(),
            Form::Hybrid { segment_bytes, live } => SettingsChange {
                layout: Some(Layout::Hybrid),
                live_window: Some(live),
                segment_bytes: Some(segment_bytes),
                ..SettingsChange::default()
            },
        };
        let init = InitOptions {
            container_bytes,
            chunk_avg_bytes: CHUNK_BYTES,
            series,
            ..InitOptions::default()
        };
        Store::init(&env, &Credential::None, &init, None)?;
        Self::with(env, folder)
    }

    /// The store in a folder, nothing of it read before.
    pub(super) fn open(folder: &Path) -> Result<Self, LabError> {
        let env = Env::local(folder).map_err(onefold::Error::from)?;
        Self::with(env, Some(folder))
    }

    fn with(env: Env, folder: Option<&Path>) -> Result<Self, LabError> {
        let store = Store::open(&env, &Credential::None, &OpenOptions::default())?;
        Ok(Self {
            env,
            store,
            folder: folder.map(Path::to_owned),
        })
    }

    fn timed<T>(&self, work: impl FnOnce() -> Result<T, LabError>) -> Result<(Duration, T), LabError> {
        let began = self.env.clock.monotonic();
        let done = work()?;
        Ok((self.env.clock.monotonic().saturating_sub(began), done))
    }

    /// Backs up a content, in chunks that follow it or, for images of machines, in blocks. Durable at the end of the time.
    pub(super) fn back_up(
        &self,
        content: &Content,
        is_in_blocks: bool,
    ) -> Result<(Duration, BackupReport), LabError> {
        let options = BackupOptions {
            host: b"laboratory".to_vec(),
            user: b"laboratory".to_vec(),
            tags: Vec::new(),
            ingest: IngestOptions {
                compression: Compression::Off,
                capping: Some(Capping::NONE),
                ..IngestOptions::for_cores(cores())
            },
        };
        let fixed = is_in_blocks.then_some(CHUNK_BYTES);
        let name = Path::new(&content.series);
        self.timed(|| {
            let mut source = content.source();
            let monitor = Monitor::default();
            Ok(self
                .store
                .backup_stream(&options, name, fixed, &mut source, &monitor)?)
        })
    }

    /// Makes archival what has left its live window, and reclaims what that lets go of, as a prune does that is told nothing: a
    /// twentieth may stay unused.
    pub(super) fn optimize(&self) -> Result<Reversed, LabError> {
        let request = OptimizeRequest {
            workers: cores(),
            ..OptimizeRequest::default()
        };
        let (took, optimized) = self.timed(|| Ok(self.store.optimize(&request, &Monitor::default())?))?;
        let (pruning, pruned) = self.prune(PruneLimits::default())?;
        Ok(Reversed {
            optimized,
            pruned,
            optimizing: took,
            pruning,
        })
    }

    /// Reclaims all that is free, whatever is copied for it.
    pub(super) fn prune_all(&self) -> Result<(Duration, PruneReport), LabError> {
        self.prune(PruneLimits {
            unused_max: PruneUnused::Bytes(0),
            ..PruneLimits::default()
        })
    }

    fn prune(&self, limits: PruneLimits) -> Result<(Duration, PruneReport), LabError> {
        let options = PruneOptions {
            limits,
            ..PruneOptions::default()
        };
        let (took, (report, _)) = self.timed(|| Ok(self.store.prune(&options, &Monitor::default())?))?;
        Ok((took, report))
    }

    /// Forgets these and reclaims all that is free then.
    pub(super) fn expire(&self, backups: &[SessionId]) -> Result<(Duration, PruneReport), LabError> {
        let request = ForgetRequest {
            what: ForgetWhat::Named(backups.iter().map(ToString::to_string).collect()),
            is_dry_run: false,
            even_unread: false,
        };
        let (took, _) = self.timed(|| Ok(self.store.forget(&request, &Monitor::default())?))?;
        let (pruning, report) = self.prune_all()?;
        Ok((took + pruning, report))
    }

    /// All backups, the oldest first.
    pub(super) fn backups(&self) -> Result<Vec<SessionId>, LabError> {
        let list = self.store.snapshots()?;
        Ok(list.snapshots.iter().map(|snapshot| snapshot.id).collect())
    }

    /// Restores a backup by a store that was opened anew, and where it is on disk from there: nothing of it is in the page cache.
    /// Nobody keeps what comes.
    pub(super) fn restore(
        &self,
        backup: SessionId,
        options: AssembleOptions,
    ) -> Result<(Duration, AssembleStats), LabError> {
        if let Some(folder) = &self.folder {
            self.env.storage.barrier().map_err(onefold::Error::from)?;
            cold::drop_cached(folder)?;
        }
        let store = Store::open(&self.env, &Credential::None, &OpenOptions::default())?;
        let list = store.snapshots()?;
        let wanted = list.snapshots.iter().find(|snapshot| snapshot.id == backup);
        let snapshot = wanted.ok_or_else(|| LabError::Settings(format!("backup {backup} is gone")))?;
        self.timed(|| Ok(store.dump(snapshot, None, &mut Nowhere, options, &Monitor::default())?))
    }

    /// Containers that each backup reads, the oldest first, with the engine's own measure: an area of 128 MiB.
    pub(super) fn containers_read(&self) -> Result<Vec<u64>, LabError> {
        let list = self.store.snapshots()?;
        let layouts = self.store.layouts(&list.snapshots, &Monitor::default())?;
        Ok(layouts.iter().map(|layout| layout.containers_read).collect())
    }

    /// What it takes.
    pub(super) fn stored(&self) -> Result<Stored, LabError> {
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
