//! A backup session on a store that this process has open.
//!
//! The store's half of a backup: stages that decide, pack, and close, a thread each, and the
//! writers of the store. A stage that fails drops its queues, which ends its neighbours, and the
//! first failure is the one reported. A writer serves other sessions too: where it fails, the
//! packer and the client see that a failure was noted. The next session adopts what was put before.

use std::collections::{BTreeMap, VecDeque};
use std::iter;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use container::Containers;
use format::config::Settings;
use format::manifest::{Backup, BackupTotals, StreamRole, StreamRoot};
use index::{HookKind, Index, ResolverOptions, ResolverStats};
use recipe::{StoreReader, TreeBuilder, TreeRoot};
use types::{ByteRange, SessionId};

use crate::backup_session::{About, BackupSession, Committed, ResumedStream, Stream, Terms};
use crate::counters::Counters;
use crate::dedup::{Capping, Deduplicator, Granularity, Lane, Lookups, SharedPlaces};
use crate::error::{Failure, Halt, IngestError, caught};
use crate::message::{Offer, Verdict};
use crate::options::IngestOptions;
use crate::queue::{self, QueueStats, Receiver, Sender};
use crate::region::RegionBuilder;
use crate::running::Running;
use crate::stage::StageStats;
use crate::store::builders::Builders;
use crate::store::close::{CheckpointClock, CloseStage, Closed, SealedNotice, ToClose};
use crate::store::decide::{ChunkBytes, DecideStage, Decisions, ToPack};
use crate::store::opening::Opening;
use crate::store::pack::{PackStage, PackStream, WaitingRegions};
use crate::store::pools::StorePools;
use crate::store::refetch::Refetch;
use crate::store::region_order::RegionOrder;
use crate::store::sealed_containers::{CopyLane, SealedContainers};
use crate::store::sequences::{Limits, Sequences};
use crate::store::session::StoreSession;
use crate::store::unplaced::Unplaced;
use crate::store::write::Writers;

/// How long one wait for the end of the look-up stage lasts.
const DRAIN: Duration = Duration::from_millis(500);

/// A backup session on a local store. Dropped before its commit, it leaves a checkpoint for the
/// next one.
#[derive(Debug)]
pub struct LocalSession {
    terms: Terms,
    store: Arc<StoreSession>,
    streams: Vec<Stream>,
    inputs: Mutex<Option<Inputs>>,
    verdicts: Receiver<Verdict>,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    counters: Arc<Counters>,
    queues: Vec<Arc<QueueStats>>,
    stages: Vec<Arc<StageStats>>,
    _running: Running,
}

/// Where the client's offers go.
#[derive(Debug, Clone)]
struct Inputs {
    offers: Sender<Vec<Offer>>,
    regions: Sender<ToPack>,
}

/// What the stages leave.
#[derive(Debug, Default)]
struct Shared {
    failure: Arc<Failure>,
    closed: Mutex<Option<Closed>>,
    lookups: Arc<Mutex<ResolverStats>>,
    unplaced: Unplaced,
}

impl LocalSession {
    /// Starts the store's half of a backup with these streams. All sessions of a store share
    /// `pools`.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn start(
        store: Arc<StoreSession>,
        settings: Settings,
        granularity: Granularity,
        streams: Vec<Stream>,
        pools: &StorePools,
        options: &IngestOptions,
        counters: &Arc<Counters>,
    ) -> Result<Self, IngestError> {
        let terms = Terms {
            fingerprinter: store.containers().fingerprinter().clone(),
            settings,
            granularity,
            is_suspect: store.is_suspect(),
            has_previous: store.has_previous(),
            resumed: store.resumed().iter().map(ResumedStream::of).collect(),
        };
        // A tree needs no position: it takes its unchanged files from the backup before.
        let is_single = streams.iter().all(|stream| stream.role == StreamRole::Whole);
        let options = &options.clone().is_resumable(options.is_resumable && is_single);
        let clock = Arc::clone(store.clock());
        // Handed over directly: the client holds the bytes of a segment until they are gathered. A
        // segment of an image may have 32 MiB (INV-7).
        let (offers, offers_in) = queue::queue("look up", 0, &clock);
        let (to_pack, pack_in) = queue::queue("pack", 16, &clock);
        let (to_close, close_in) = queue::unbounded("close", &clock);
        // So are verdicts. The packer waits for neither half, so this closes no circle.
        let (verdict, verdicts) = queue::queue("gather", 0, &clock);
        // Notices go against the stream: a bound here could close a circle of waiting stages.
        let (notices_tx, notices_rx) = crossbeam_channel::unbounded();
        let queues = vec![offers.stats(), to_pack.stats(), to_close.stats(), verdict.stats()];
        let names = ["look up", "pack", "write", "close"];
        let local = Self {
            streams,
            inputs: Mutex::new(Some(Inputs {
                offers,
                regions: to_pack.clone(),
            })),
            verdicts,
            shared: Arc::default(),
            threads: Mutex::default(),
            counters: Arc::clone(counters),
            queues,
            stages: names.into_iter().map(StageStats::new).collect(),
            terms,
            store,
            _running: pools.begin(),
        };
        let parts = Parts {
            local: &local,
            pools,
            options,
            counters,
            limits: Limits {
                container_bytes: u64::from(settings.container_bytes),
                region_bytes: settings.region_bytes as usize,
            },
            sequences: Sequences::new(local.store.session().id()),
            places: [SharedPlaces::default(), SharedPlaces::default()],
        };
        let decide = parts.decide(to_pack, verdict, notices_rx);
        let pack = parts.pack(to_close)?;
        let close = parts.close(notices_tx);
        local.spawn("look-up", 0, move || decide.run(&offers_in))?;
        local.spawn("pack", 1, move || pack.run(&pack_in))?;
        let shared = Arc::clone(&local.shared);
        local.spawn("close", 3, move || {
            let closed = close.run(&close_in)?;
            *lock(&shared.closed) = Some(closed);
            Ok(())
        })?;
        Ok(local)
    }

    /// The store as this session sees it.
    #[must_use]
    pub fn store(&self) -> &Arc<StoreSession> {
        &self.store
    }

    fn spawn(
        &self,
        name: &str,
        stage: usize,
        run: impl FnOnce() -> Result<(), Halt> + Send + 'static,
    ) -> Result<(), IngestError> {
        let (stage, clock) = (Arc::clone(&self.stages[stage]), Arc::clone(self.store.clock()));
        let shared = Arc::clone(&self.shared);
        let body = move || shared.failure.note(caught(|| stage.run(&*clock, run)));
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
        lock(&self.threads).push(thread.map_err(IngestError::NoThread)?);
        Ok(())
    }

    fn inputs(&self) -> Result<Inputs, IngestError> {
        if self.shared.failure.is_noted() {
            return Err(self.reason());
        }
        let inputs = lock(&self.inputs).clone();
        inputs.ok_or(IngestError::StoreEnded)
    }

    /// Ends the stages: no more messages come.
    fn end(&self) {
        drop(lock(&self.inputs).take());
        // The look-up stage must not wait for a client that takes no verdicts any more.
        while self.verdicts.recv_within(DRAIN).is_ok() {}
        for thread in lock(&self.threads).drain(..) {
            drop(thread.join());
        }
    }

    /// Why the store's half stopped. [`IngestError::StoreEnded`]: the reason was returned before.
    fn reason(&self) -> IngestError {
        self.end();
        self.shared.failure.take().unwrap_or(IngestError::StoreEnded)
    }
}

impl BackupSession for LocalSession {
    fn terms(&self) -> &Terms {
        &self.terms
    }

    fn reader(&self) -> &dyn StoreReader {
        &self.store.nodes
    }

    fn unsound(&self, stream: &TreeRoot, range: ByteRange) -> Result<Vec<ByteRange>, IngestError> {
        Ok(self.store.unsound(stream, range))
    }

    fn submit(&self, offers: Vec<Offer>) -> Result<(), IngestError> {
        let inputs = self.inputs()?;
        let mut segments = Vec::with_capacity(offers.len());
        let mut is_sent = true;
        for offer in offers {
            match offer {
                Offer::Region(region) => is_sent &= inputs.regions.send(ToPack::Region(region)).is_ok(),
                other => segments.push(other),
            }
        }
        if !segments.is_empty() {
            is_sent &= inputs.offers.send(segments).is_ok();
        }
        drop(inputs);
        if is_sent { Ok(()) } else { Err(self.reason()) }
    }

    fn verdicts(&self, wait: Duration) -> Result<Vec<Verdict>, IngestError> {
        let mut verdicts = match self.verdicts.recv_within(wait) {
            Ok(verdict) => Vec::from_iter(verdict),
            Err(queue::Closed) => return Err(self.reason()),
        };
        while let Some(verdict) = self.verdicts.try_recv() {
            verdicts.push(verdict);
        }
        // A client that only waits learns of a failed put here.
        if verdicts.is_empty() && self.shared.failure.is_noted() {
            return Err(self.reason());
        }
        Ok(verdicts)
    }

    fn unplaced(&self) -> usize {
        self.shared.unplaced.now()
    }

    fn durable(&self, known: u64, wait: Duration) -> Result<u64, IngestError> {
        let position = self.store.durable.beyond(known, wait);
        // The reason is told once, and a caller that only looks would lose it.
        if position <= known && !wait.is_zero() && self.shared.failure.is_noted() {
            return Err(self.reason());
        }
        Ok(position)
    }

    fn request_durable(&self) -> Result<(), IngestError> {
        self.store.durable.request();
        Ok(())
    }

    fn commit(&self, about: About) -> Result<Committed, IngestError> {
        self.end();
        if let Some(error) = self.shared.failure.take() {
            return Err(error);
        }
        let closed = lock(&self.shared.closed).take();
        let closed = closed.ok_or(IngestError::StoreEnded)?;
        let root = |(stream, root): (&Stream, &TreeRoot)| stream.with_root(root);
        let streams: Vec<StreamRoot> = self.streams.iter().zip(&closed.roots).map(root).collect();
        let session = self.store.session();
        let totals = self.counters.with_stored(about.counted);
        if about.only_if_changed
            && let Some((backup, roots)) = self.store.same_as(&closed.roots)?
        {
            session.end()?;
            let streams = self.streams.iter().zip(roots).map(root).collect();
            let same_as = Some(backup);
            return Ok(self.made(session.id(), same_as, streams, totals));
        }
        let adopted = session.adopted().into_iter();
        let adopted = Vec::from_iter(adopted.map(|(id, checkpoint)| (id, checkpoint.is_some())));
        let covered = Vec::from_iter(iter::once(session.id()).chain(adopted.iter().map(|(id, _)| *id)));
        let backup = Backup {
            series: about.name,
            source_time: about.source_time,
            elapsed_nanos: about.elapsed_nanos,
            user: about.user,
            program: about.program,
            tags: about.tags,
            hold_until: about.hold_until,
            streams: streams.clone(),
            containers: closed.containers.clone(),
            adopted: Vec::new(),
            parents: Vec::new(),
            origin: about.origin,
            next: None,
            rewritten: None,
            totals,
        };
        let mut published = Ok(());
        let committed = session.commit_and(backup, || published = self.store.publish_hooks(&covered))?;
        let warnings = committed
            .warnings
            .map(Into::into)
            .into_iter()
            .chain(published.err());
        Ok(Committed {
            containers: closed.containers,
            adopted,
            warnings: warnings.collect(),
            ..self.made(committed.session, None, streams, totals)
        })
    }
}

impl LocalSession {
    /// The report of a commit that put nothing and met no trouble.
    fn made(
        &self,
        session: SessionId,
        same_as: Option<SessionId>,
        streams: Vec<StreamRoot>,
        totals: BackupTotals,
    ) -> Committed {
        Committed {
            session,
            same_as,
            streams,
            totals,
            containers: Vec::new(),
            adopted: Vec::new(),
            warnings: Vec::new(),
            lookups: *lock(&self.shared.lookups),
            verified: self.store.verified(),
            queues: self.queues.clone(),
            stages: self.stages.clone(),
        }
    }
}

impl Drop for LocalSession {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the stages are made of.
struct Parts<'a> {
    local: &'a LocalSession,
    pools: &'a StorePools,
    options: &'a IngestOptions,
    counters: &'a Arc<Counters>,
    limits: Limits,
    sequences: Sequences,
    places: [SharedPlaces; Lane::COUNT],
}

impl Parts<'_> {
    fn decide(
        &self,
        to_pack: Sender<ToPack>,
        verdicts: Sender<Verdict>,
        sealed: crossbeam_channel::Receiver<SealedNotice>,
    ) -> DecideStage {
        let store = &self.local.store;
        let region = |lane| RegionBuilder::new(lane, self.limits.region_bytes, self.options.compression);
        let lanes = self.local.streams.iter().map(|stream| stream.lane);
        let counters = Arc::clone(self.counters);
        DecideStage {
            counters: Arc::clone(&counters),
            sealed,
            dedup: Deduplicator::<_, Index, Containers, ChunkBytes>::new(
                self.lookups(),
                lanes,
                self.places.clone(),
                counters,
            ),
            outlet: Decisions {
                to_pack,
                verdicts,
                wanted: Vec::new(),
                refetched: [region(Lane::Content), region(Lane::Metadata)],
                unflushed: 0,
                unplaced: self.local.shared.unplaced.clone(),
                refetch: Refetch::new(store.containers().clone()),
                insists: store.insists(),
            },
            opening: Opening::new(store, &self.options.lookup),
            asked: None,
            behind: VecDeque::new(),
            behind_chunks: 0,
            open: self.local.streams.len(),
            stats: Arc::clone(&self.local.shared.lookups),
            session: Arc::clone(store),
        }
    }

    fn lookups(&self) -> Lookups<Index, Containers> {
        let memory = self.options.lookup;
        let resolver = |kind, cache_bytes| {
            let eviction = memory.eviction;
            let options = ResolverOptions {
                cache_bytes,
                eviction,
            };
            self.local.store.resolver(kind, options)
        };
        let chunks = resolver(HookKind::Data, memory.catalog_bytes);
        let granularity = self.local.terms.granularity;
        Lookups {
            hooks_halved: chunks.index().rates_of_answers().data.halvings(),
            chunks,
            segments: resolver(HookKind::Node, memory.node_bytes),
            memory,
            unit: granularity,
            capping: match granularity {
                Granularity::Chunk => self.options.capping.unwrap_or_default(),
                Granularity::Segment { .. } => Capping::NONE,
            },
            container_bytes: self.limits.container_bytes,
        }
    }

    fn pack(&self, closer: Sender<ToClose>) -> Result<PackStage, IngestError> {
        let options = self.options;
        let workers = self.pools.writers(options.writers, &self.local.stages[2]);
        let writers = Writers {
            workers: workers.map_err(IngestError::NoThread)?,
            containers: self.local.store.containers().clone(),
            closer: closer.clone(),
            failure: Arc::clone(&self.local.shared.failure),
            session: Arc::clone(&self.local.store),
        };
        let children = self.local.terms.settings.node_avg_children;
        let resumed = self.local.store.resumed();
        let tree = |at: usize| match resumed.get(at) {
            Some(tree) => tree.clone(),
            None => TreeBuilder::new(self.local.terms.fingerprinter.clone(), children),
        };
        let streams = 0..self.local.streams.len();
        Ok(PackStage {
            builders: Builders::new(
                Arc::clone(&self.local.store),
                self.limits,
                options.compression,
                self.sequences.clone(),
                self.pools.clone(),
                writers,
            ),
            streams: streams
                .map(|at| PackStream::new(tree(at), &self.local.streams[at]))
                .collect(),
            places: self.places.clone(),
            held: (options.small_bytes_max > 0).then(|| WaitingRegions::new(options.small_bytes_max)),
            fresh: BTreeMap::new(),
            fresh_max: options.lookup.own_segments_max.max(1),
            repeats_waiting: 0,
            order: RegionOrder::default(),
            answers: VecDeque::new(),
            closer,
            unplaced: self.local.shared.unplaced.clone(),
            is_resumable: options.is_resumable,
        })
    }

    fn close(&self, notices: crossbeam_channel::Sender<SealedNotice>) -> CloseStage {
        let store = &self.local.store;
        CloseStage {
            counters: Arc::clone(self.counters),
            options: self.options.clone(),
            notices,
            copies: CopyLane::new(
                store.containers().clone(),
                Arc::clone(self.counters),
                self.options.compression,
                self.limits,
                self.sequences.clone(),
            ),
            containers: SealedContainers::default(),
            streams: Vec::new(),
            bytes_at_position: self.counters.bytes_stored.get(),
            position_at: store.clock().monotonic(),
            checkpoint_clock: CheckpointClock::start(store.clock().monotonic()),
            references: Vec::new(),
            session: Arc::clone(store),
        }
    }
}

fn lock<T>(what: &Mutex<T>) -> MutexGuard<'_, T> {
    what.lock().unwrap_or_else(PoisonError::into_inner)
}
