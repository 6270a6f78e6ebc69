//! The engine itself, with a store in memory, and concurrent backups of many streams.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use env::{Clock, Env, ManualClock, MemoryStorage, SeededEntropy, Storage, SystemClock};
use ingest::{Capping, IngestOptions, LookupMemory, StreamPiece, StreamSource};
use onefold::{
    AssembleOptions, AssembleStats, BackupOptions, BackupReport, Compression, Credential, ForgetRequest,
    ForgetWhat, InitOptions, Monitor, OpenOptions, PruneOptions, PruneReport, SessionId, Store, StoreStats,
};

use super::hollow::HollowStorage;
use crate::error::LabError;
use crate::reproduce::Progress;
pub(super) use crate::reproduce::figures::cores;
use crate::rng::noise;

/// Bytes of a chunk, of fixed length as in the paper.
pub(super) const CHUNK_BYTES: u32 = 4 << 10;
/// Bytes of a container, as in the paper.
pub(super) const CONTAINER_BYTES: u32 = 16 << 20;

/// Whether a store keeps data containers' regions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Payload {
    /// The regions stay: backups can be restored.
    Kept,
    /// The regions are dropped: [`HollowStorage`].
    GivenUp,
}

/// The seed of all stores' keys.
const KEYS: u64 = 11;

/// A store in memory. Chunks of 4 KiB, containers of 16 MiB, no compression, no password.
#[derive(Debug)]
pub(super) struct Engine {
    env: Env,
    store: Store,
    /// The storage's own clock. It stands still until the experiment moves it. The engine measures
    /// with the system's clock.
    storage_clock: ManualClock,
}

/// One stream to back up, a series of its own.
pub(super) struct Job<'a> {
    pub(super) name: String,
    pub(super) source: Box<dyn StreamSource + 'a>,
}

/// Backups that ran concurrently.
#[derive(Debug)]
pub(super) struct Ran {
    /// From the beginning of the first to the end of the last.
    pub(super) elapsed: Duration,
    pub(super) reports: Vec<BackupReport>,
}

impl Engine {
    pub(super) fn new(payload: Payload, options: &OpenOptions) -> Result<Self, LabError> {
        let storage_clock = ManualClock::new(SystemClock.wall());
        let memory = MemoryStorage::with_clock(Arc::new(storage_clock.clone()));
        let memory: Arc<dyn Storage> = Arc::new(memory);
        let storage = match payload {
            Payload::Kept => memory,
            Payload::GivenUp => Arc::new(HollowStorage::new(memory)),
        };
        // All stores cut and fingerprint data alike, so that their work can be compared.
        let env = Env {
            entropy: Arc::new(SeededEntropy::new(KEYS)),
            ..Env::system(storage)
        };
        let init = InitOptions::default().container_bytes(CONTAINER_BYTES);
        Store::init(&env, &Credential::None, &init, None)?;
        let store = Store::open(&env, &Credential::None, options)?;
        Ok(Self {
            env,
            store,
            storage_clock,
        })
    }

    /// Moves the storage's clock forward: existing objects become older.
    pub(super) fn pass(&self, time: Duration) {
        self.storage_clock.advance(time);
    }

    /// Opens the store again with these options, and with nothing cached.
    pub(super) fn reopen(&mut self, options: &OpenOptions) -> Result<(), LabError> {
        self.store = Store::open(&self.env, &Credential::None, options)?;
        Ok(())
    }

    pub(super) fn store(&self) -> &Store {
        &self.store
    }

    pub(super) fn env(&self) -> &Env {
        &self.env
    }

    pub(super) fn clock(&self) -> &dyn Clock {
        &*self.env.clock
    }

    pub(super) fn stats(&self) -> Result<StoreStats, LabError> {
        Ok(self.store.stats()?)
    }

    /// Backs up all jobs concurrently, each with its own thread and session. Their sources report
    /// progress.
    pub(super) fn back_up(
        &self,
        jobs: Vec<Job<'_>>,
        ingest: &IngestOptions,
        progress: &Progress,
    ) -> Result<Ran, LabError> {
        let options = BackupOptions::default()
            .host(b"laboratory".to_vec())
            .user(b"laboratory".to_vec())
            .tags(Vec::new())
            .ingest(ingest.clone());
        let began = self.clock().monotonic();
        let done: Vec<Result<BackupReport, LabError>> = std::thread::scope(|scope| {
            let running = jobs.into_iter().map(|mut job| {
                let options = &options;
                scope.spawn(move || {
                    let (name, source) = (Path::new(&job.name), &mut *job.source);
                    let monitor = Monitor::default();
                    let backed = self.store.backup_stream(
                        options,
                        name,
                        &onefold::StreamOptions::fixed(CHUNK_BYTES),
                        source,
                        &monitor,
                    );
                    Ok(backed?)
                })
            });
            let running: Vec<_> = running.collect();
            let ended = running.into_iter().map(|backup| match backup.join() {
                Ok(backed) => backed,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect()
        });
        let elapsed = self.clock().monotonic().saturating_sub(began);
        // The engine reports a stopped source as an error of the source.
        progress.advance(0)?;
        let reports: Result<_, _> = done.into_iter().collect();
        Ok(Ran {
            elapsed,
            reports: reports?,
        })
    }

    /// Restores all backups concurrently, each with its own thread, and discards the bytes. Returns
    /// the time, and the cost of each.
    pub(super) fn restore(
        &self,
        backups: &[SessionId],
        options: AssembleOptions,
    ) -> Result<(Duration, Vec<AssembleStats>), LabError> {
        let list = self.store.snapshots()?;
        let began = self.clock().monotonic();
        let done: Vec<Result<AssembleStats, LabError>> = std::thread::scope(|scope| {
            let wanted = list.snapshots.iter().filter(|one| backups.contains(&one.id));
            let running = wanted.map(|snapshot| {
                scope.spawn(move || {
                    let monitor = Monitor::default();
                    let dumped = self
                        .store
                        .dump(snapshot, None, &mut std::io::sink(), options, &monitor);
                    Ok(dumped?)
                })
            });
            let running: Vec<_> = running.collect();
            let ended = running.into_iter().map(|restore| match restore.join() {
                Ok(restored) => restored,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect()
        });
        let elapsed = self.clock().monotonic().saturating_sub(began);
        let stats: Result<Vec<_>, _> = done.into_iter().collect();
        Ok((elapsed, stats?))
    }

    pub(super) fn forget(&self, backups: &[SessionId]) -> Result<(), LabError> {
        let request = ForgetRequest::new(ForgetWhat::Named(
            backups.iter().map(ToString::to_string).collect(),
        ))
        .is_dry_run(false)
        .force_unreadable(false);
        self.store.forget(&request, &Monitor::default())?;
        Ok(())
    }

    /// Reclaims all free space. Returns the time.
    pub(super) fn prune(&self, options: &PruneOptions) -> Result<(Duration, PruneReport), LabError> {
        let began = self.clock().monotonic();
        let (report, _) = self.store.prune(options, &Monitor::default())?;
        Ok((self.clock().monotonic().saturating_sub(began), report))
    }
}

/// Options of backups here. Nothing is compressed, because random data does not shrink. Nothing is
/// capped.
pub(super) fn ingest_options(workers: usize, lookup_bytes: u64) -> IngestOptions {
    IngestOptions::for_cores(workers)
        .compression(Compression::Off)
        .lookup(LookupMemory::within(lookup_bytes))
        .capping(Some(Capping::NONE))
}

/// A file of the paper's synthetic data [Guo 4]. No chunk equals another, in this stream or any
/// other.
#[derive(Debug)]
pub(super) struct Unique<'a> {
    stream: u64,
    at: u64,
    len: u64,
    progress: &'a Progress,
}

impl<'a> Unique<'a> {
    /// `len` bytes of the stream with this number, in whole words.
    pub(super) fn new(stream: u64, len: u64, progress: &'a Progress) -> Self {
        Self {
            stream,
            at: 0,
            len: len.next_multiple_of(8),
            progress,
        }
    }

    /// Jobs that back up streams with these numbers.
    pub(super) fn jobs(streams: impl Iterator<Item = u64>, len: u64, progress: &'a Progress) -> Vec<Job<'a>> {
        let job = |stream| Job {
            name: format!("unique-{stream}"),
            source: Box::new(Self::new(stream, len, progress)),
        };
        streams.map(job).collect()
    }
}

impl StreamSource for Unique<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> std::io::Result<StreamPiece> {
        let room = buffer.len() / 8 * 8;
        let len = usize::try_from(self.len - self.at).map_or(room, |left| left.min(room));
        if len == 0 {
            return Ok(StreamPiece::End);
        }
        noise(self.stream, self.at / 8, &mut buffer[..len]);
        self.at += len as u64;
        advance(self.progress, len as u64)?;
        Ok(StreamPiece::Data(len))
    }
}

/// Reports progress from within a source. The source ends its backup if the user asked to stop.
pub(super) fn advance(progress: &Progress, bytes: u64) -> std::io::Result<()> {
    // The error must not be `Interrupted`: readers retry that one.
    progress.advance(bytes).map_err(std::io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn streams_of_unique_data_are_found_again_and_share_nothing() {
        let progress = Progress::new(std::sync::Arc::default());
        let engine = Engine::new(Payload::Kept, &OpenOptions::default()).unwrap();
        let options = ingest_options(2, 8 << 20);
        let bytes = 3 << 20;
        let first = engine
            .back_up(Unique::jobs(1..4, bytes, &progress), &options, &progress)
            .unwrap();
        for report in &first.reports {
            assert_eq!(
                (report.totals.bytes_logical, report.totals.bytes_new),
                (bytes, bytes)
            );
        }
        let again = engine
            .back_up(Unique::jobs(2..5, bytes, &progress), &options, &progress)
            .unwrap();
        let mut new: Vec<u64> = again
            .reports
            .iter()
            .map(|report| report.totals.bytes_new)
            .collect();
        new.sort_unstable();
        assert_eq!(new, [0, 0, bytes]);
        let ids: Vec<SessionId> = again.reports.iter().map(|report| report.id).collect();
        let (_, restored) = engine.restore(&ids, AssembleOptions::for_cores(2)).unwrap();
        assert_eq!(restored.iter().map(|stats| stats.bytes).sum::<u64>(), 3 * bytes);
        assert_eq!(progress.done(), 6 * bytes);
    }

    #[test]
    fn a_backup_ends_when_someone_asks() {
        let progress = Progress::new(std::sync::Arc::new(AtomicBool::new(true)));
        let engine = Engine::new(Payload::GivenUp, &OpenOptions::default()).unwrap();
        let ran = engine.back_up(
            Unique::jobs(0..1, 1 << 20, &progress),
            &ingest_options(1, 1 << 20),
            &progress,
        );
        assert!(ran.is_err_and(|error| error.is_interrupted()));
    }
}
