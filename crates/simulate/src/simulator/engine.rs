//! A store in which the engine's own policy decides: sampled hooks, catalogs through a cache,
//! segments, capping ([`ingest::dedup`], [`index::Resolver`], [`index::MemoryIndex`]; G3, G4, L3,
//! L8, L9).
//!
//! The simulation has no bytes. A container is full when the engine's would be if nothing
//! compresses ([`container::SizeCount`]). Each backup is a session, and backups of less than a MiB
//! are no exception. Nodes above segments are left out. The deletion of a backup deletes at once
//! what only this backup referred to.

use std::collections::BTreeSet;
use std::sync::Arc;

use format::node::Node;
use index::sampling::{Anchors, SamplingRate};
use index::{
    CandidateLists, Catalog, Eviction, Hook, HookIndex, HookKind, IndexError, MemoryIndex, MemoryStats,
    Resolver, ResolverOptions, ResolverStats,
};
use ingest::dedup::{
    Bytes, Deduplicator, Holdings, Lane, Lookups, Segment, SegmentChild, Segmenter, SharedPlaces, StreamIndex,
};
use ingest::{Capping, Counters, Granularity, IngestError, LookupMemory};
use recipe::KnownNode;
use types::{ChunkLocation, ContainerId, Fingerprint, SessionId};

use super::catalogs::Listed;
use super::containers::Containers;
use super::nodes::Nodes;
use super::recipe::{Part, Recipe};
use super::session::{Filled, OpenSession};
use super::stored::Stored;
use crate::cut::trace_printer;
use crate::error::SimulateError;
use crate::trace::Chunk;

/// Settings of the engine's policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How many containers a window may refer to.
    pub capping: Capping,
    /// Memory of one backup's look-ups.
    pub memory: LookupMemory,
    /// Memory of the index, in bytes.
    pub index_bytes: usize,
    /// The maximum of R, however much memory the index has. A lower maximum makes hooks more
    /// sparse.
    pub sampling: SamplingRate,
    /// Chunks of a segment on average.
    pub segment_chunks: u32,
    /// The least bytes of a region. Containers are filled by whole regions.
    pub region_bytes: u32,
    /// Whether prefetched catalogs stay for the next backup. No backup of the engine does this.
    pub warm: bool,
}

impl Default for Policy {
    /// The policy of the command line's backups.
    fn default() -> Self {
        Self {
            capping: Capping::default(),
            memory: LookupMemory::default(),
            index_bytes: 256 << 20,
            sampling: SamplingRate::ONE,
            segment_chunks: 512,
            region_bytes: 128 << 10,
            warm: false,
        }
    }
}

/// Counts of a backup's look-ups, and of the index.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Looked {
    /// Segments of the backup.
    pub segments: u64,
    /// Segments that were found whole.
    pub segments_known: u64,
    /// Chunks that were stored.
    pub chunks_new: u64,
    /// Chunks that were found, and stored again because of the cap.
    pub chunks_capped: u64,
    /// Bytes of these chunks.
    pub bytes_capped: u64,
    /// Look-ups of chunks and segments together.
    pub lookups: ResolverStats,
    /// The index, after the backup's hooks were added.
    pub index: MemoryStats,
    /// One chunk in so many has a hook in the index.
    pub period: u64,
}

/// The engine's index, shared with the look-ups of a backup.
#[derive(Debug, Clone)]
struct Hooks(Arc<MemoryIndex>);

impl Hooks {
    /// Adds hooks of a container: of its chunks, at `of_chunks` or a lower rate, or of its nodes.
    fn add(&self, id: ContainerId, kind: HookKind, prints: &[Fingerprint], of_chunks: SamplingRate) {
        let rate = match kind {
            HookKind::Data => of_chunks,
            // The rate of nodes falls last; only the index's memory lowers it.
            HookKind::Node => SamplingRate::ONE,
        };
        let anchors = Anchors::of(prints.iter().map(|print| (kind, print)));
        let hooks = prints.iter().map(|print| Hook::of(kind, print, id, &anchors));
        self.0.add(hooks.filter(|hook| hook.standing.stays_at(rate)));
    }
}

impl HookIndex for Hooks {
    fn candidates_without(
        &self,
        apart: Option<SessionId>,
        fingerprint: &Fingerprint,
        kind: HookKind,
        out: &mut Vec<ContainerId>,
    ) {
        self.0.candidates_without(apart, fingerprint, kind, out);
    }

    fn lookups_together(&self) -> usize {
        self.0.lookups_together()
    }

    fn candidates_together(
        &self,
        apart: Option<SessionId>,
        fingerprints: &[Fingerprint],
        kind: HookKind,
        out: &mut CandidateLists,
    ) {
        self.0.candidates_together(apart, fingerprints, kind, out);
    }
}

/// Catalogs of stored containers.
#[derive(Debug, Clone)]
struct Shelves(Arc<Stored>);

impl index::CatalogSource for Shelves {
    type Catalog = Listed;

    fn catalog(&self, id: ContainerId) -> Result<Option<Listed>, IndexError> {
        Ok(Listed::of(&self.0, id))
    }
}

/// The view of one look-up.
struct View<'a>(&'a Stored);

impl Holdings for View<'_> {
    type Index = Hooks;
    type Catalogs = Shelves;

    fn is_absent(&self, at: ChunkLocation) -> bool {
        let at = self.0.containers.at(at);
        !at.is_some_and(|at| self.0.containers.is_there(at))
    }

    fn is_removed(&self, at: ChunkLocation) -> bool {
        self.is_absent(at)
    }

    fn keeps_segment(&self, at: ChunkLocation) -> bool {
        self.0.nodes.named_at(at).is_some()
    }

    fn taken_over(&self) -> &BTreeSet<ContainerId> {
        static NONE: BTreeSet<ContainerId> = BTreeSet::new();
        &NONE
    }

    fn find_segment(
        &self,
        segments: &mut Resolver<Hooks, Shelves>,
        fingerprint: &Fingerprint,
    ) -> Result<Option<(KnownNode, Arc<Node>)>, IngestError> {
        let is_absent = |at: ChunkLocation| self.0.nodes.named_at(at).is_none();
        let prefers = |id: ContainerId| self.0.previous.contains(&id);
        let mut places = Vec::new();
        segments.resolve(fingerprint, &is_absent, &prefers, &mut places)?;
        let found = places
            .into_iter()
            .find_map(|location| Some((location, self.0.nodes.named_at(location)?)));
        Ok(found.map(|(location, node)| {
            let known = KnownNode {
                location,
                containers_max: node.containers_max,
            };
            (known, Arc::clone(node))
        }))
    }
}

/// A backup under way.
#[derive(Debug)]
struct Backup {
    dedup: Deduplicator<Arc<Counters>, Hooks, Shelves, ()>,
    segmenter: Segmenter<()>,
    session: OpenSession,
    counters: Arc<Counters>,
    done: Vec<Segment<()>>,
}

const STREAM: StreamIndex = StreamIndex(0);

/// Finds the chunks that the engine would find.
#[derive(Debug)]
pub(super) struct EngineStore {
    pub(super) container_bytes: u64,
    policy: Policy,
    index: Hooks,
    stored: Arc<Stored>,
    backup: Option<Backup>,
    /// Look-ups of the previous backup, whose memory is reused.
    kept: [Option<Resolver<Hooks, Shelves>>; 2],
}

impl EngineStore {
    pub(super) fn new(container_bytes: u64, policy: Policy) -> Result<Self, SimulateError> {
        let chunks = policy.segment_chunks;
        if !chunks.is_power_of_two() || !(4..=16_384).contains(&chunks) || policy.region_bytes == 0 {
            return Err(SimulateError::Settings(
                "a segment has a power of two from 4 to 16,384 chunks on average, and a region at least one byte".to_owned(),
            ));
        }
        Ok(Self {
            container_bytes,
            policy,
            index: Hooks(Arc::new(MemoryIndex::new(policy.index_bytes))),
            stored: Arc::default(),
            backup: None,
            kept: [None, None],
        })
    }

    pub(super) fn containers(&self) -> &Containers {
        &self.stored.containers
    }

    pub(super) fn nodes(&self) -> &Nodes {
        &self.stored.nodes
    }

    pub(super) fn begin(&mut self) -> Result<(), SimulateError> {
        let stored = alone(&mut self.stored);
        let session = stored.containers.begin_session()?;
        stored.nodes.begin_session()?;
        let memory = self.policy.memory;
        let (index, stored) = (&self.index, &self.stored);
        let resolver = |kind, cache_bytes, kept: Option<Resolver<Hooks, Shelves>>| {
            let eviction: Eviction = memory.eviction;
            let options = ResolverOptions {
                cache_bytes,
                eviction,
            };
            let shelves = Shelves(Arc::clone(stored));
            let resolver = match kept {
                Some(kept) => kept.over(shelves),
                None => Resolver::new(index.clone(), shelves, kind, options),
            };
            resolver.without(session)
        };
        let [chunks, segments] = std::mem::take(&mut self.kept);
        let counters = Arc::new(Counters::default());
        let places = [SharedPlaces::default(), SharedPlaces::default()];
        let lookups = Lookups {
            chunks: resolver(HookKind::Data, memory.catalog_bytes, chunks),
            segments: resolver(HookKind::Node, memory.node_bytes, segments),
            hooks_halved: self.rate().halvings(),
            memory,
            unit: Granularity::Chunk,
            capping: self.policy.capping,
            container_bytes: self.container_bytes,
        };
        self.backup = Some(Backup {
            dedup: Deduplicator::new(lookups, [Lane::Content], places.clone(), Arc::clone(&counters)),
            segmenter: Segmenter::new(trace_printer(), self.policy.segment_chunks),
            session: OpenSession::new(
                Arc::clone(&self.stored),
                session,
                self.container_bytes,
                u64::from(self.policy.region_bytes),
                places[Lane::Content.number()].clone(),
            )?,
            counters,
            done: Vec::new(),
        });
        Ok(())
    }

    /// The sampling rate of hooks of chunks.
    fn rate(&self) -> SamplingRate {
        self.policy.sampling.min(self.index.0.rates().data)
    }

    /// Takes the next chunk of a backup.
    pub(super) fn take(&mut self, chunk: &Chunk) -> Result<(), SimulateError> {
        let Some(backup) = &mut self.backup else {
            return Err(SimulateError::Settings("a chunk is of no backup".to_owned()));
        };
        let len = u64::from(chunk.len);
        match chunk.fingerprint {
            None => backup.segmenter.push_zeros(len),
            Some(fingerprint) => {
                backup.counters.chunks.add(1);
                let bytes = Bytes::Read(());
                let child = SegmentChild {
                    fingerprint,
                    len,
                    bytes,
                };
                backup.segmenter.push(child, &mut backup.done);
            }
        }
        backup.place_all(&self.stored)
    }

    /// Ends the backup. Returns its recipe, the bytes stored for it, and the counts of its
    /// look-ups.
    pub(super) fn end(&mut self) -> Result<(Recipe, u64, Looked), SimulateError> {
        let Some(mut backup) = self.backup.take() else {
            return Err(SimulateError::Settings("the end is of no backup".to_owned()));
        };
        backup.segmenter.finish(&mut backup.done);
        backup.place_all(&self.stored)?;
        backup
            .dedup
            .end_window(&|| View(&self.stored), &mut backup.session, STREAM)?;
        let Backup {
            dedup,
            session,
            counters,
            ..
        } = backup;
        let lookups = dedup.stats();
        self.kept = dedup.into_resolvers().map(|mut resolver| {
            if !self.policy.warm {
                resolver.forget();
            }
            Some(resolver.over(Shelves(Arc::default())))
        });
        let filled = session.finish()?;
        let recipe = self.commit(filled)?;
        let looked = Looked {
            segments: counters.segments.get(),
            segments_known: counters.segments_known.get(),
            chunks_new: counters.chunks_new.get(),
            chunks_capped: counters.chunks_capped.get(),
            bytes_capped: counters.bytes_capped.get(),
            lookups,
            index: self.index.0.stats(),
            period: self.rate().period(),
        };
        Ok((recipe, counters.bytes_new.get(), looked))
    }

    /// Stores what a backup wrote. Look-ups find it from now on.
    fn commit(&mut self, filled: Filled) -> Result<Recipe, SimulateError> {
        let stored = alone(&mut self.stored);
        for container in filled.containers {
            let number = stored.containers.push(container)?;
            let id = stored.containers.id(number);
            let chunks = stored.containers.get(number).into_iter();
            let prints: Vec<Fingerprint> = chunks
                .flat_map(|container| container.chunks.iter().map(|held| held.fingerprint))
                .collect();
            self.index.add(id, HookKind::Data, &prints, self.policy.sampling);
        }
        for (id, prints) in stored.nodes.add(filled.nodes)? {
            self.index.add(id, HookKind::Node, &prints, self.policy.sampling);
        }
        let mut recipe = filled.recipe;
        stored.previous.clear();
        for part in &recipe.parts {
            let Part::Node(number) = *part else { continue };
            let node = Arc::clone(stored.nodes.node(number));
            if stored.nodes.name(number) {
                for at in stored.chunks_of(&node) {
                    stored.containers.name(at);
                }
            }
            let (chunks, bytes) = stored.nodes.size(number);
            recipe.chunks += chunks;
            recipe.bytes += bytes;
            stored.previous.insert(stored.nodes.location(number).container);
        }
        Ok(recipe)
    }

    /// Deletes backups, and what only they referred to. As in the engine, hooks of deleted
    /// containers stay and lead nowhere. A container that lost a part is hooked again, because its
    /// anchor may have changed.
    pub(super) fn forget(&mut self, recipes: &[Recipe]) {
        let stored = alone(&mut self.stored);
        let mut rewritten = BTreeSet::new();
        for part in recipes.iter().flat_map(|recipe| &recipe.parts) {
            let Part::Node(number) = *part else { continue };
            let node = Arc::clone(stored.nodes.node(number));
            if stored.nodes.unname(number) {
                rewritten.insert(stored.nodes.location(number).container);
                for at in stored.chunks_of(&node) {
                    if stored.containers.unname(at).is_some() {
                        rewritten.insert(stored.containers.id(at.container));
                    }
                }
            }
        }
        for id in rewritten {
            let Some(left) = Listed::of(&self.stored, id) else {
                continue;
            };
            let kind = left.kind();
            let prints: Vec<Fingerprint> = left.fingerprints(kind).map(|(print, _)| print).collect();
            self.index.add(id, kind, &prints, self.policy.sampling);
        }
    }
}

impl Backup {
    fn place_all(&mut self, stored: &Stored) -> Result<(), SimulateError> {
        for segment in self.done.drain(..) {
            self.dedup
                .take(&|| View(stored), &mut self.session, STREAM, segment)?;
        }
        Ok(())
    }
}

/// No backup is under way, so nobody shares it.
fn alone(stored: &mut Arc<Stored>) -> &mut Stored {
    Arc::get_mut(stored).expect("look-ups end with their backup")
}
