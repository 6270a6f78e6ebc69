//! What a running backup needs of the store: look-ups, containers, its session.
//!
//! A look-up takes a permit of the session, treats as absent what its view says, and gives the permit back
//! when what was found is on its way to the packer, from where checkpoints are collected (rule 4 of
//! reclamation). Nothing is returned from a container that is gone, whoever remembers its catalog. A node is
//! returned only from a container that a committed manifest names, whichever of its names, and only if every slot that it
//! refers to is there (INV-9).

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use container::{CatalogView, Containers};
use crypto::Fingerprinter;
use env::{Clock, ObjectMeta, StorageError};
use format::names;
use format::node::{Node, NodeEntry};
use index::{Eviction, HookKind, HookWriter, Index, Resolver, ResolverOptions};
use recipe::{KnownNode, NodeCache, NodeSource, TreeRoot};
use session::{EpochGuard, NamedContainers, Session};
use types::{
    ChunkLocation, ContainerId, ContainerKind, Fingerprint, Generation, SequenceNumber, SessionId, SlotRange,
};

use crate::buffer::BufferPool;
use crate::dedup::Holdings;
use crate::error::IngestError;
use crate::previous::segment_containers;
use crate::sample::{Sample, VerifiedKnown, VerifyKnown};

/// Longest edge of a copied range inside a chunk.
const EDGE_BYTES_MAX: usize = chunking::CHUNK_BYTES_MAX as usize;

/// Memory for the catalogs of nodes above segments: there is one in some 500 segments.
const UPPER_NODES_CACHE_BYTES: u64 = 256 << 10;

/// A trimmed generation is a trailer alone: what is longer has its regions.
const TRIMMED_BYTES_MAX: u64 = 1 << 20;

/// Of each session's containers, which are there and which are gone; nothing where that cannot be told.
type Standing = HashMap<(SessionId, ContainerKind), Option<HashMap<SequenceNumber, bool>>>;

/// The store as a running backup sees it.
#[derive(Debug)]
pub struct Door {
    session: Session,
    nodes: NodeCache,
    index: Index,
    /// For nodes above segments, which the packer alone asks for.
    upper_nodes: Mutex<Resolver<Index>>,
    named: NamedContainers,
    previous: Vec<TreeRoot>,
    /// The containers of the previous backup's segments, once asked for.
    previous_containers: OnceLock<HashSet<ContainerId>>,
    hooks: Mutex<HookWriter>,
    taken_over: BTreeSet<ContainerId>,
    collect: AtomicBool,
    edges: BufferPool,
    /// Containers that exist, by session; `None` where the storage does not tell.
    standing: Mutex<Standing>,
    /// Containers that may be trimmed and have no body in the listing, and whether it is there, once it was asked.
    suspects: Mutex<HashMap<ContainerId, Option<bool>>>,
    /// The containers that the backup reads before it refers to them.
    sample: Sample,
    /// Whether an unreadable chunk of the previous backup ends this backup, so that it is made
    /// again.
    insists: bool,
}

impl Door {
    /// A session's door: `named` are the containers of committed backups, and those it adopted.
    #[must_use]
    pub fn new(session: Session, nodes: NodeCache, index: &Index, named: NamedContainers) -> Self {
        let hooks = index.session(session.id());
        let options = ResolverOptions {
            cache_bytes: UPPER_NODES_CACHE_BYTES,
            eviction: Eviction::ContainerLru,
        };
        let containers = nodes.containers().clone();
        let upper_nodes = Resolver::new(index.clone(), containers, HookKind::Node, options);
        Self {
            upper_nodes: Mutex::new(upper_nodes.without(session.id())),
            index: index.clone(),
            nodes,
            named,
            previous: Vec::new(),
            previous_containers: OnceLock::new(),
            hooks: Mutex::new(hooks),
            taken_over: BTreeSet::new(),
            collect: AtomicBool::new(false),
            edges: BufferPool::new(EDGE_BYTES_MAX, 0),
            standing: Mutex::default(),
            suspects: Mutex::default(),
            sample: Sample::new(VerifyKnown::NONE, session.id(), 0),
            insists: false,
            session,
        }
    }

    /// Reads this share of the reused containers before the backup refers to them.
    #[must_use]
    pub fn verifying(mut self, how: VerifyKnown) -> Self {
        if how.share <= 0.0 {
            return self;
        }
        let mut chance = [0; 8];
        self.containers().env().entropy.fill(&mut chance);
        self.sample = Sample::new(how, self.session.id(), u64::from_le_bytes(chance));
        self
    }

    /// Ends the backup when a chunk of the previous backup has to be stored once more and cannot be
    /// read. The caller then makes the backup again, and that one reads the file. Without this the
    /// backup refers to the unreadable chunk.
    #[must_use]
    pub fn insisting(mut self, insists: bool) -> Self {
        self.insists = insists;
        self
    }

    pub(crate) fn insists(&self) -> bool {
        self.insists
    }

    /// What the sample has read and found.
    #[must_use]
    pub fn verified(&self) -> VerifiedKnown {
        self.sample.verified()
    }

    /// Whether the sample has read these slots of an earlier session and found them bad.
    pub(crate) fn is_rotten(&self, id: ContainerId, slots: SlotRange) -> bool {
        id.session != self.session.id() && self.sample.is_bad(self.containers(), id, slots)
    }

    /// Of equal nodes, those that the series' previous backup refers to are preferred: these are its streams.
    #[must_use]
    pub fn with_previous(mut self, streams: Vec<TreeRoot>) -> Self {
        self.previous = streams;
        self
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The hooks that the session has gathered, to be published once its manifest stands.
    #[must_use]
    pub fn into_hooks(self) -> HookWriter {
        self.hooks.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn nodes(&self) -> &NodeCache {
        &self.nodes
    }

    pub(crate) fn containers(&self) -> &Containers {
        self.nodes.containers()
    }

    pub(crate) fn fingerprinter(&self) -> &Fingerprinter {
        self.containers().fingerprinter()
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.containers().env().clock
    }

    pub(crate) fn edge_buffers(&self) -> &BufferPool {
        &self.edges
    }

    /// Look-ups of one kind, with a cache of their own; this session's own containers are left out.
    pub(crate) fn resolver(&self, kind: HookKind, options: ResolverOptions) -> Resolver<Index> {
        Resolver::new(self.index.clone(), self.containers().clone(), kind, options).without(self.session.id())
    }

    /// Whether segments of the series' previous backup lie in a container: what is near in the stream is then
    /// likely near there. Reads the nodes above segments at the first call.
    fn is_of_previous(&self, id: ContainerId) -> bool {
        self.previous_containers
            .get_or_init(|| segment_containers(&self.nodes, &self.previous))
            .contains(&id)
    }

    /// Begins a look-up.
    pub(crate) fn look_up(&self) -> Lookup<'_> {
        Lookup {
            door: self,
            permit: self.session.look_up(),
        }
    }

    /// Whether a container of which something is known still exists: one that is lost is listed nowhere before
    /// somebody checks, and its catalog may be cached. Lists each session's once. One that was put after that, by
    /// a session that still runs, or was lost before, is asked for by its name, once.
    pub(crate) fn stands(&self, id: ContainerId) -> bool {
        if id.session == self.session.id() {
            return true;
        }
        self.is_listed(id) && self.has_body(id)
    }

    /// Whether what a trimmed container's regions are in is there. That is asked of those alone, once, that may be trimmed
    /// and have no body in the listing.
    fn has_body(&self, id: ContainerId) -> bool {
        let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(known) = suspects.get_mut(&id) else {
            return true;
        };
        *known.get_or_insert_with(|| {
            let view = self.containers().catalog(id).ok();
            let Some(body) = view.and_then(|view| view.body()) else {
                return true;
            };
            let storage = &self.containers().env().storage;
            let own = names::body(id, body);
            let names = [own.clone(), names::container(id, body), own];
            let is_missing = |name| matches!(storage.head(name), Err(StorageError::NotFound { .. }));
            !names.iter().all(is_missing)
        })
    }

    fn is_listed(&self, id: ContainerId) -> bool {
        let storage = &self.containers().env().storage;
        let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
        let listed = standing.entry((id.session, id.kind)).or_insert_with(|| {
            let objects = storage.list(&names::container_folder(id.kind, id.session)).ok()?;
            let mut suspects = self.suspects.lock().unwrap_or_else(PoisonError::into_inner);
            suspects.extend(without_body(&objects).map(|id| (id, None)));
            let ids = objects
                .iter()
                .filter_map(|object| names::parse_container(&object.name));
            Some(ids.map(|(id, _)| (id.sequence, true)).collect())
        });
        listed.as_mut().is_none_or(|sequences| {
            *sequences.entry(id.sequence).or_insert_with(|| {
                let asked = storage.head(&names::container(id, Generation::FIRST));
                !matches!(asked, Err(StorageError::NotFound { .. }))
            })
        })
    }

    /// Whether a container's catalog can be read. One whose cannot counts as gone from now on: whatever is known
    /// of it, nothing that it holds can be restored.
    pub(crate) fn has_catalog(&self, id: ContainerId) -> bool {
        let Err(error) = self.containers().catalog(id) else {
            return true;
        };
        if error.is_damage() {
            let mut standing = self.standing.lock().unwrap_or_else(PoisonError::into_inner);
            let listed = standing.entry((id.session, id.kind)).or_default();
            listed.get_or_insert_default().insert(id.sequence, false);
        }
        false
    }

    /// Makes the chunks of a container that was put findable.
    pub(crate) fn publish(&self, catalog: &Arc<CatalogView>) -> Result<(), IngestError> {
        self.containers().insert_catalog(Arc::clone(catalog));
        self.hooks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(catalog)?;
        Ok(())
    }

    /// Makes the chunks of an adopted container findable.
    ///
    /// # Errors
    /// Of the storage.
    pub fn add_adopted(&mut self, catalog: &Arc<CatalogView>) -> Result<(), IngestError> {
        self.taken_over.insert(catalog.id());
        self.publish(catalog)
    }

    /// Asks the look-up stage to let a checkpoint be collected.
    pub(crate) fn request_collection(&self) {
        self.collect.store(true, Ordering::Release);
    }

    /// Whether that was asked for; answered once.
    pub(crate) fn take_collection_request(&self) -> bool {
        self.collect.load(Ordering::Acquire) && self.collect.swap(false, Ordering::AcqRel)
    }
}

/// A look-up under way.
pub(crate) struct Lookup<'a> {
    door: &'a Door,
    permit: EpochGuard,
}

impl Holdings for Lookup<'_> {
    type Index = Index;
    type Catalogs = Containers;

    /// Reclamation took it, it is damaged, or its container is gone.
    fn is_absent(&self, location: ChunkLocation) -> bool {
        let view = self.permit.view();
        let slots = SlotRange::one(location.slot);
        view.is_absent(location)
            || !self.door.stands(location.container)
            || self.door.is_rotten(location.container, slots)
    }

    fn taken_over(&self) -> &BTreeSet<ContainerId> {
        &self.door.taken_over
    }

    /// A node that cannot be read, or refers to a slot that is not there, is not known.
    fn find_segment(
        &self,
        segments: &mut Resolver<Index>,
        fingerprint: &Fingerprint,
    ) -> Result<Option<(KnownNode, Arc<Node>)>, IngestError> {
        let found = self.find_node(segments, fingerprint, |node| {
            node.level.get() == 1 && node.entries.iter().all(|entry| self.is_whole(entry))
        })?;
        Ok(found.map(|(location, node)| {
            let known = KnownNode {
                location,
                containers_max: node.containers_max,
            };
            (known, node)
        }))
    }
}

impl Lookup<'_> {
    /// Where a node with just these entries lies. Equal content in other places does not count: what those
    /// places hold has not been looked at.
    pub(crate) fn find_same(
        &self,
        fingerprint: &Fingerprint,
        wanted: &Node,
    ) -> Result<Option<ChunkLocation>, IngestError> {
        let mut upper = self
            .door
            .upper_nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let found = self.find_node(&mut upper, fingerprint, |node| node == wanted)?;
        Ok(found.map(|(location, _)| location))
    }

    fn find_node(
        &self,
        resolver: &mut Resolver<Index>,
        fingerprint: &Fingerprint,
        is_wanted: impl Fn(&Node) -> bool,
    ) -> Result<Option<(ChunkLocation, Arc<Node>)>, IngestError> {
        let is_absent = |location: ChunkLocation| !self.is_named(location) || self.is_absent(location);
        let prefers = |id| self.door.is_of_previous(id);
        let mut places = Vec::new();
        resolver.resolve(fingerprint, &is_absent, &prefers, &mut places)?;
        let read = |location| Some((location, self.door.nodes.node(location).ok()?));
        let mut nodes = places.into_iter().filter_map(read);
        Ok(nodes.find(|(_, node)| is_wanted(node)))
    }

    /// Whether a committed manifest names the container that a node lies in.
    fn is_named(&self, location: ChunkLocation) -> bool {
        self.door.named.contains(location.container)
    }

    fn is_whole(&self, entry: &NodeEntry) -> bool {
        match *entry {
            NodeEntry::Zeros { .. } => true,
            NodeEntry::Forward { .. } => false,
            NodeEntry::Run {
                container,
                first,
                count,
                ..
            } => {
                let view = self.permit.view();
                SlotRange::new(first, count).is_some_and(|slots| {
                    view.is_whole(container, slots)
                        && self.door.stands(container)
                        && !self.door.is_rotten(container, slots)
                })
            }
        }
    }
}

/// Of the containers in a listing those that may be trimmed, and of which no body is listed.
fn without_body(objects: &[ObjectMeta]) -> impl Iterator<Item = ContainerId> {
    let bodies: HashSet<ContainerId> = objects
        .iter()
        .filter_map(|object| names::parse_body(&object.name))
        .map(|(id, _)| id)
        .collect();
    let short = objects.iter().filter(|object| object.len <= TRIMMED_BYTES_MAX);
    let generations = short.filter_map(|object| names::parse_container(&object.name));
    generations
        .filter(|(id, generation)| *generation > Generation::FIRST && !id.kind.is_mirrored())
        .map(|(id, _)| id)
        .filter(move |id| !bodies.contains(id))
}
