//! A backup's streams through the pipeline, for whoever commits them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use chunking::{Cdc, CdcSizes, Chunker, Fixed};
use format::config::Settings;
use format::manifest::{ContainerSpan, StreamRole, StreamRoot};
use index::ResolverStats;
use recipe::TreeRoot;
use tree::WalkOptions;

use crate::counters::Counters;
use crate::dedup::Granularity;
use crate::dedup::Lane;
use crate::directory::{self, Faults};
use crate::door::Door;
use crate::error::IngestError;
use crate::options::IngestOptions;
use crate::parent::ParentTree;
use crate::pipeline::{self, Shape, StreamSpec};
use crate::queue::QueueStats;
use crate::stage::StageStats;
use crate::stream::{self, StreamSource};

/// What every backup is given.
#[derive(Debug, Clone, Copy)]
pub struct Ingest<'a> {
    /// The store.
    pub door: &'a Door,
    /// What shapes the store's bytes.
    pub settings: &'a Settings,
    /// What is referred to, and what is stored.
    pub unit: Granularity,
    /// How this backup is made.
    pub options: &'a IngestOptions,
    /// Counted as it goes.
    pub counters: &'a Counters,
    /// Set by whoever wants the backup to stop.
    pub cancel: &'a AtomicBool,
}

/// Streams that are stored; not durable and not visible until the session commits them.
#[derive(Debug)]
pub struct Backed {
    /// The streams' roots.
    pub streams: Vec<StreamRoot>,
    /// The containers that the session put.
    pub containers: Vec<ContainerSpan>,
    /// What the queues saw.
    pub queues: Vec<Arc<QueueStats>>,
    /// What look-ups cost.
    pub lookups: ResolverStats,
    /// What the stages did with their time.
    pub stages: Vec<Arc<StageStats>>,
}

/// Stores a directory tree.
///
/// # Errors
/// Of the store, or [`IngestError::Interrupted`]. Faults of single entries go to `faults`.
pub fn backup_tree(
    ingest: Ingest<'_>,
    walk: WalkOptions,
    parent: Option<&ParentTree>,
    faults: &mut Faults<'_>,
) -> Result<Backed, IngestError> {
    let roles = [StreamRole::Content, StreamRole::Listing, StreamRole::Fences];
    let specs = vec![
        ingest.cdc(Lane::Content)?,
        ingest.cdc(Lane::Metadata)?,
        ingest.cdc(Lane::Metadata)?,
    ];
    let door = ingest.door;
    ingest.run(&roles, specs, |feeder| {
        directory::feed(feeder, walk, door, parent, faults)
    })
}

/// Stores a single stream: content-defined chunks, or fixed ones of so many bytes.
///
/// # Errors
/// Of the store or of the source, or [`IngestError::Interrupted`].
pub fn backup_stream(
    ingest: Ingest<'_>,
    name: &str,
    fixed_chunk_bytes: Option<u32>,
    source: &mut dyn StreamSource,
) -> Result<Backed, IngestError> {
    let spec = match fixed_chunk_bytes {
        Some(bytes) => ingest.spec(Box::new(Fixed::new(bytes)?), bytes, Lane::Content),
        None => ingest.cdc(Lane::Content)?,
    };
    let specs = vec![spec];
    ingest.run(&[StreamRole::Whole], specs, |feeder| {
        stream::feed(feeder, name, source)
    })
}

impl Ingest<'_> {
    fn cdc(&self, lane: Lane) -> Result<StreamSpec, IngestError> {
        let Settings {
            chunk_min_bytes: min,
            chunk_avg_bytes: avg,
            chunk_max_bytes: max,
            ..
        } = *self.settings;
        let sizes = CdcSizes { min, avg, max };
        let chunker = Cdc::new(sizes, &self.door.fingerprinter().gear_table())?;
        Ok(self.spec(Box::new(chunker), avg, lane))
    }

    fn spec(&self, chunker: Box<dyn Chunker>, chunk_bytes: u32, lane: Lane) -> StreamSpec {
        let children_avg = self.settings.node_avg_children;
        StreamSpec {
            chunker,
            lane,
            segment_children: self.unit.segment_children(chunk_bytes, children_avg),
        }
    }

    fn run(
        &self,
        roles: &[StreamRole],
        specs: Vec<StreamSpec>,
        source: impl FnOnce(&mut crate::source_input::SourceInput<'_>) -> Result<(), crate::error::Halt>,
    ) -> Result<Backed, IngestError> {
        let Settings {
            node_avg_children,
            region_bytes,
            container_bytes,
            ..
        } = *self.settings;
        let shape = Shape {
            node_avg_children,
            region_bytes,
            container_bytes,
            unit: self.unit,
        };
        let ran = pipeline::run(
            self.door,
            specs,
            shape,
            self.options,
            self.counters,
            self.cancel,
            source,
        )?;
        let root = |(role, root): (&StreamRole, TreeRoot)| StreamRoot {
            role: *role,
            location: root.location,
            level: root.level,
            fingerprint: root.fingerprint,
            len: root.len,
        };
        Ok(Backed {
            streams: roles.iter().zip(ran.closed.roots).map(root).collect(),
            containers: ran.closed.containers,
            queues: ran.queues,
            lookups: ran.lookups,
            stages: ran.stages,
        })
    }
}
