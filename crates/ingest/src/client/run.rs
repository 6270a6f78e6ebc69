//! The client's half of a backup: joins its stages and runs a source through them.
//!
//! Every stage is one thread or several. A stage that fails drops its queues, which ends its
//! neighbours, and the client reports the first failure.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Scope};

use chunking::Chunker;
use env::{ALIGN_BYTES, Clock};

use crate::backup_session::BackupSession;
use crate::client::chunk::{self, ChunkState};
use crate::client::gather::GatherStage;
use crate::client::pools::ClientPools;
use crate::client::sections;
use crate::client::segment::SegmentStage;
use crate::client::source_input::{Around, SourceInput};
use crate::client::stages::ClientStages;
use crate::client::ungathered::Ungathered;
use crate::counters::Counters;
use crate::dedup::{Lane, Segmenter};
use crate::error::{Failure, Halt, IngestError, caught};
use crate::options::IngestOptions;
use crate::queue::{self, QueueStats};
use crate::region::RegionBuilder;
use crate::stage::StageStats;
use crate::workers::ThreadPool;

/// Bytes that a buffer holds at least.
const BUFFER_BYTES: usize = 1 << 20;

/// How one of the backup's streams is treated.
pub(crate) struct StreamCutter {
    pub(crate) chunker: Box<dyn Chunker>,
    /// Children of its segments on average; nodes above have as many as the store's config says.
    pub(crate) segment_children: u32,
}

/// The client's half of a backup.
#[derive(Clone, Copy)]
pub struct Client<'a> {
    /// The store.
    pub session: &'a dyn BackupSession,
    /// Shared by all backups of the process.
    pub pools: &'a ClientPools,
    /// How this backup is made.
    pub options: &'a IngestOptions,
    /// Counted as it goes.
    pub counters: &'a Counters,
    /// Set to stop the backup.
    pub cancel: &'a AtomicBool,
    /// The machine's.
    pub clock: &'a Arc<dyn Clock>,
}

/// Statistics of the client, after it sent all streams. The streams are stored, and not visible
/// until the session commits them.
#[derive(Debug)]
pub struct Sent {
    /// Statistics of the queues.
    pub queues: Vec<Arc<QueueStats>>,
    /// How the stages spent their time.
    pub stages: Vec<Arc<StageStats>>,
}

/// Runs `source` through the stages. On return the store has all the bytes that it wants.
pub(crate) fn run(
    client: Client<'_>,
    cutters: Vec<StreamCutter>,
    source: impl FnOnce(&mut SourceInput<'_>) -> Result<(), Halt>,
) -> Result<Sent, IngestError> {
    let clock = client.clock;
    let printer = &client.session.terms().fingerprinter;
    let (to_chunk, chunk_in) = queue::queue("chunk", 3, clock);
    let (to_segment, segment_in) = queue::queue("segment", 2, clock);
    let queues = vec![to_chunk.stats(), to_segment.stats()];
    // Bounded by `ungathered`.
    let (offered, offered_in) = crossbeam_channel::unbounded();
    let running = client.pools.begin();
    let ungathered = Ungathered::new(
        cutters.len(),
        running.ungathered_bytes_max(client.session.distance()),
    );
    let (stages, failure, is_broken) = (ClientStages::new(), Failure::default(), AtomicBool::new(false));
    let workers = client.pools.workers(client.options.workers, &stages.work);
    let jobs = workers.map_err(IngestError::NoThread)?;
    let readers = ThreadPool::new("section", sections::threads(client.options.readers), clock);

    let chunk_max = cutters
        .iter()
        .map(|cutter| cutter.chunker.chunk_bytes_max() as usize);
    let chunk_max = chunk_max.max().unwrap_or(0);
    // Whole blocks, so that a file's sections begin at block boundaries.
    let buffer_bytes = BUFFER_BYTES.max(4 * chunk_max);
    let buffer_bytes = buffer_bytes.next_multiple_of(ALIGN_BYTES);
    let pool = client.pools.buffers(buffer_bytes, chunk_max);
    let stream_count = cutters.len();
    let (mut chunk_states, mut segmenters) = (Vec::new(), Vec::new());
    for cutter in cutters {
        chunk_states.push(ChunkState::new(cutter.chunker));
        segmenters.push(Segmenter::new(printer.clone(), cutter.segment_children));
    }
    let region_bytes = client.session.terms().settings.region_bytes as usize;
    let region = |lane| RegionBuilder::new(lane, region_bytes, client.options.compression);
    let segment = SegmentStage::new(
        client.session,
        client.counters,
        segmenters,
        offered,
        (&ungathered, &**clock),
        &is_broken,
    );
    let gather = GatherStage {
        session: client.session,
        offered: offered_in,
        ungathered: &ungathered,
        waiting: (0..stream_count).map(|_| VecDeque::new()).collect(),
        full: Vec::new(),
        compression: client.options.compression,
        slow_line_level: client.options.slow_line_level,
        regions: [region(Lane::Content), region(Lane::Metadata)],
        workers: jobs.clone(),
        is_broken: &is_broken,
        failure: &failure,
    };
    let from_source = thread::scope(|scope| {
        let threads = Threads {
            scope,
            clock,
            failure: &failure,
            is_broken: &is_broken,
        };
        let started = (|| {
            threads.spawn("chunk", &stages.chunk, move || {
                chunk::run(chunk_states, &chunk_in, &to_segment, &jobs, printer).map_err(Halt::from)
            })?;
            threads.spawn("segment", &stages.segment, move || segment.run(&segment_in))?;
            threads.spawn("gather", &stages.gather, move || gather.run())
        })();
        started.map_err(IngestError::NoThread)?;
        stages.source.run(&**clock, || {
            let around = Around {
                counters: client.counters,
                cancel: client.cancel,
                failure: &failure,
                stages: &stages,
                clock: &**clock,
                readers: client.options.readers.max(1),
                turns: client.pools.turns(),
            };
            let mut input = SourceInput::new(stream_count, pool, to_chunk, readers, around);
            source(&mut input)
        })
    });
    let is_closed = matches!(from_source, Err(Halt::Closed));
    failure.note(from_source);
    match failure.take() {
        Some(error) => Err(error),
        None if is_closed || is_broken.into_inner() => Err(IngestError::StoreEnded),
        None => Ok(Sent {
            queues,
            stages: stages.into_list(),
        }),
    }
}

/// Spawns the stages' threads.
struct Threads<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    clock: &'scope Arc<dyn Clock>,
    failure: &'scope Failure,
    is_broken: &'scope AtomicBool,
}

impl<'scope> Threads<'scope, '_> {
    fn spawn(
        &self,
        name: &str,
        stage: &'scope StageStats,
        run: impl FnOnce() -> Result<(), Halt> + Send + 'scope,
    ) -> io::Result<()> {
        let (clock, failure) = (self.clock, self.failure);
        let is_broken = self.is_broken;
        let body = move || {
            let ended = caught(|| stage.run(&**clock, run));
            // The gatherer beside it does not end by itself.
            is_broken.fetch_or(ended.is_err(), Ordering::Release);
            failure.note(ended);
        };
        let builder = thread::Builder::new().name(name.to_owned());
        builder.spawn_scoped(self.scope, body).map(drop)
    }
}
