//! Joins the stages and runs a backup through them.
//!
//! Every stage is a thread or several; a stage that fails drops its queues, which ends its neighbours, and the
//! first failure is the one reported. Of the writers one may fail while the others still take what comes: they
//! and the source look whether a failure was noted. Whatever was put before stays for the next session to adopt.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use chunking::Chunker;
use env::{ALIGN_BYTES, AlignedPool};
use index::{HookKind, ResolverOptions, ResolverStats};
use recipe::TreeBuilder;

use crate::buffer::BufferPool;
use crate::builders::{Builders, Limits, Sequences};
use crate::chunk::{self, ChunkState};
use crate::close::{CheckpointClock, CloseStage, Closed};
use crate::counters::Counters;
use crate::dedup::Granularity;
use crate::dedup::{Capping, Deduplicator, Lane, Lookups, Segmenter, SharedPlaces};
use crate::door::Door;
use crate::error::{Failure, Halt, IngestError};
use crate::lookup::{LookupStage, ToPacker};
use crate::options::IngestOptions;
use crate::pack::{PackStage, PackStream, WaitingRegions};
use crate::queue::{self, QueueStats};
use crate::refetch::Refetch;
use crate::region::RegionBuilder;
use crate::sealed_containers::{CopyLane, SealedContainers};
use crate::source_input::{Around, SourceInput};
use crate::stage::{StageStats, Stages};
use crate::{sections, workers, write};

/// Bytes a buffer holds.
const BUFFER_BYTES: usize = 1 << 20;

/// What a container may have over its target: a region, and what its catalog takes beyond the estimate.
const CONTAINER_SLACK_BYTES: usize = 1 << 20;

/// How one of the backup's streams is treated.
pub(crate) struct StreamSpec {
    pub(crate) chunker: Box<dyn Chunker>,
    pub(crate) lane: Lane,
    /// Children of its segments on average; nodes above have as many as the store's config says.
    pub(crate) segment_children: u32,
}

/// The settings of the store and the series that shape what is stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) node_avg_children: u32,
    pub(crate) region_bytes: u32,
    pub(crate) container_bytes: u32,
    pub(crate) unit: Granularity,
}

/// What a pipeline run leaves.
pub(crate) struct Ran {
    pub(crate) closed: Closed,
    pub(crate) queues: Vec<Arc<QueueStats>>,
    pub(crate) lookups: ResolverStats,
    pub(crate) stages: Vec<Arc<StageStats>>,
}

/// Runs `source` through the pipeline. On return all containers are put, none is necessarily durable, and
/// no manifest is written.
pub(crate) fn run(
    door: &Door,
    specs: Vec<StreamSpec>,
    shape: Shape,
    options: &IngestOptions,
    counters: &Counters,
    cancel: &AtomicBool,
    source: impl FnOnce(&mut SourceInput<'_>) -> Result<(), Halt>,
) -> Result<Ran, IngestError> {
    let clock = door.clock();
    let printer = door.fingerprinter();
    let chunk_max = specs
        .iter()
        .map(|spec| spec.chunker.chunk_bytes_max() as usize)
        .max()
        .unwrap_or(0);
    // Whole blocks, so that a file's sections begin at block boundaries.
    let buffer_bytes = BUFFER_BYTES.max(4 * chunk_max).next_multiple_of(ALIGN_BYTES);
    let pool = BufferPool::new(buffer_bytes, chunk_max);
    let limits = Limits {
        container_bytes: u64::from(shape.container_bytes),
        region_bytes: shape.region_bytes as usize,
    };

    let (to_chunk, chunk_in) = queue::queue("chunk", 3, clock);
    let (to_lookup, lookup_in) = queue::queue("look up", 4, clock);
    let (to_pack, pack_in) = queue::queue("pack", 64, clock);
    let (to_write, write_in) = queue::queue("write", 1, clock);
    let (to_close, close_in) = queue::queue("close", 0, clock);
    // Notices go against the stream: a bound here could close a circle of waiting stages.
    let (notices_tx, notices_rx) = crossbeam_channel::unbounded();
    let queues = vec![
        to_chunk.stats(),
        to_lookup.stats(),
        to_pack.stats(),
        to_write.stats(),
        to_close.stats(),
    ];
    let (jobs, job_queue) = workers::queue(options.workers * 2, clock);
    let (readers, reader_queue) = workers::queue(sections::READERS, clock);
    let all_stages = Stages::new();

    let sequences = Sequences::new(door.session().id());
    let mut chunk_states = Vec::new();
    let (mut segmenters, mut lanes) = (Vec::new(), Vec::new());
    let mut pack_streams = Vec::new();
    for spec in specs {
        let StreamSpec {
            chunker,
            lane,
            segment_children,
        } = spec;
        chunk_states.push(ChunkState::new(chunker));
        segmenters.push(Segmenter::new(printer.clone(), segment_children));
        lanes.push(lane);
        let tree = TreeBuilder::new(printer.clone(), shape.node_avg_children);
        pack_streams.push(PackStream::new(tree));
    }
    let stream_count = chunk_states.len();
    let region = |lane| RegionBuilder::new(lane, limits.region_bytes, options.compression);
    let memory = options.lookup;
    let places = [SharedPlaces::default(), SharedPlaces::default()];
    let resolver = |kind, cache_bytes| {
        let eviction = memory.eviction;
        door.resolver(
            kind,
            ResolverOptions {
                cache_bytes,
                eviction,
            },
        )
    };
    let chunks = resolver(HookKind::Data, memory.catalog_bytes);
    let with_hooks = Lookups {
        hooks_halved: chunks.index().rates_of_answers().data.halvings(),
        chunks,
        segments: resolver(HookKind::Node, memory.node_bytes),
        memory,
        unit: shape.unit,
        capping: match shape.unit {
            Granularity::Chunk => options.capping.unwrap_or_default(),
            Granularity::Segment { .. } => Capping::NONE,
        },
        container_bytes: limits.container_bytes,
    };
    let lookups = Mutex::new(ResolverStats::default());
    let lookup = LookupStage {
        door,
        printer: printer.clone(),
        counters,
        sealed: notices_rx,
        segmenters,
        dedup: Deduplicator::new(with_hooks, lanes, places.clone(), counters),
        to_pack: ToPacker {
            regions: [region(Lane::Content), region(Lane::Metadata)],
            workers: jobs.clone(),
            output: to_pack,
            stored: Refetch::new(door.containers()),
            insists: door.insists(),
        },
        stats: &lookups,
    };
    let held = (options.small_bytes_max > 0).then(|| WaitingRegions::new(options.small_bytes_max));
    // As many as are ever full at once are worth keeping.
    let container_buffers = AlignedPool::new(
        shape.container_bytes as usize + CONTAINER_SLACK_BYTES,
        options.writers + 1,
    );
    let builders = Builders::new(
        door,
        limits,
        options.compression,
        sequences.clone(),
        container_buffers,
        to_write,
    );
    let pack = PackStage {
        builders,
        streams: pack_streams,
        places,
        held,
        fresh: BTreeMap::new(),
        fresh_max: memory.own_segments_max.max(1),
        repeats_waiting: 0,
        closer: to_close.clone(),
    };
    let copies = CopyLane::new(
        door.containers(),
        counters,
        options.compression,
        limits,
        sequences,
    );
    let close = CloseStage {
        door,
        counters,
        options,
        notices: notices_tx,
        copies,
        ledger: SealedContainers::default(),
        checkpoint_clock: CheckpointClock::start(clock.monotonic()),
        references: Vec::new(),
    };

    let failure = &Failure::default();
    let stages = &all_stages;
    let note = |result: Result<(), Halt>| failure.note(result);
    let (from_source, closed) = thread::scope(|scope| {
        let spawn = |name: &str| thread::Builder::new().name(name.to_owned());
        let started = (|| -> std::io::Result<_> {
            for number in 0..options.workers.max(1) {
                let job_queue = job_queue.clone();
                spawn(&format!("work-{number}"))
                    .spawn_scoped(scope, move || stages.work.run(&**clock, || job_queue.run()))?;
            }
            drop(job_queue);
            for number in 0..sections::READERS {
                let reader_queue = reader_queue.clone();
                spawn(&format!("section-{number}"))
                    .spawn_scoped(scope, move || stages.read.run(&**clock, || reader_queue.run()))?;
            }
            drop(reader_queue);
            let (printer, jobs) = (printer.clone(), jobs);
            spawn("chunk").spawn_scoped(scope, move || {
                stages.chunk.run(&**clock, || {
                    note(
                        chunk::run(chunk_states, &chunk_in, &to_lookup, &jobs, &printer).map_err(Halt::from),
                    );
                });
            })?;
            spawn("look-up").spawn_scoped(scope, move || {
                stages.look_up.run(&**clock, move || note(lookup.run(&lookup_in)));
            })?;
            spawn("pack").spawn_scoped(scope, move || {
                stages.pack.run(&**clock, move || note(pack.run(&pack_in)));
            })?;
            for number in 0..options.writers.max(1) {
                let (write_in, to_close) = (write_in.clone(), to_close.clone());
                spawn(&format!("write-{number}")).spawn_scoped(scope, move || {
                    stages.write.run(&**clock, move || {
                        note(write::run(door.containers(), &write_in, &to_close, failure));
                    });
                })?;
            }
            drop(write_in);
            drop(to_close);
            spawn("close").spawn_scoped(scope, move || {
                match stages.close.run(&**clock, move || close.run(&close_in)) {
                    Ok(closed) => Some(closed),
                    Err(halt) => {
                        note(Err(halt));
                        None
                    }
                }
            })
        })();
        let closer = match started {
            Ok(closer) => closer,
            Err(source) => {
                let error = IngestError::Source {
                    name: "a new thread".to_owned(),
                    offset: 0,
                    source,
                };
                return (Err(Halt::Failed(error)), None);
            }
        };
        let from_source = stages.source.run(&**clock, || {
            let around = Around {
                counters,
                cancel,
                failure,
                stages,
                clock: &**clock,
            };
            let mut feeder = SourceInput::new(stream_count, pool, to_chunk, readers, around);
            source(&mut feeder)
        });
        (from_source, closer.join().unwrap_or_default())
    });
    failure.note(from_source);
    match (failure.take(), closed) {
        (None, Some(closed)) => {
            let lookups = lookups.into_inner().unwrap_or_else(PoisonError::into_inner);
            Ok(Ran {
                closed,
                queues,
                lookups,
                stages: all_stages.into_list(),
            })
        }
        (Some(error), _) => Err(error),
        (None, None) => Err(IngestError::Internal("the pipeline stopped without saying why")),
    }
}
