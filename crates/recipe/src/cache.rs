//! Decoded nodes of a store, within a byte budget.
//!
//! A miss reads one region and decodes every node in it. Nodes are written in the order of a walk,
//! so the neighbours are needed next. The cache drops the least recently used node first.
//!
//! Invariant: only the newest node may exceed the budget (INV-7). Any node can be dropped at any
//! time (INV-4). Threads share the cache. If several miss nodes of one region, one reads it and the
//! others wait. If that read fails, they read it themselves. No lock is held while reading.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use container::{CatalogView, ContainerError, Containers, PlainRegion, RegionBuffer};
use crypto::Fingerprinter;
use format::node::{Node, NodeEntry};
use types::{ChunkLocation, ContainerId, RegionIndex, Slot};

use crate::child::CHUNK_LEVEL;
use crate::error::RecipeError;
use crate::source::{NodeSource, StoreReader, StreamRoots};
use crate::stream::StreamName;
use crate::tree_root::TreeRoot;

/// How often a read follows a replaced generation before it fails.
const GENERATIONS_FOLLOWED_MAX: u32 = 4;

/// The nodes of a store. Clones share the cache.
#[derive(Debug, Clone)]
pub struct NodeCache {
    containers: Containers,
    budget_bytes: u64,
    shared: Arc<Shared>,
    /// Streams of later backups that archival ones refer to.
    streams: Option<Arc<dyn StreamRoots>>,
}

#[derive(Debug, Default)]
struct Shared {
    held: Mutex<CachedNodes>,
    /// Signals that a thread has finished reading a region, successfully or not.
    read: Condvar,
}

#[derive(Debug, Default)]
struct CachedNodes {
    nodes: HashMap<ChunkLocation, CachedNode>,
    /// By time of last use.
    order: BTreeMap<u64, ChunkLocation>,
    next_use: u64,
    bytes: u64,
    /// Regions that some thread is reading.
    reading: HashSet<(ContainerId, RegionIndex)>,
}

/// The turn to read a region. Other threads that want nodes of it wait until this is dropped.
struct Reading<'a> {
    cache: &'a NodeCache,
    of: (ContainerId, RegionIndex),
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.cache.lock().reading.remove(&self.of);
        self.cache.shared.read.notify_all();
    }
}

#[derive(Debug)]
struct CachedNode {
    node: Arc<Node>,
    used: u64,
}

impl NodeCache {
    /// A cache of at most `budget_bytes` of decoded nodes over the store's containers.
    #[must_use]
    pub fn new(containers: Containers, budget_bytes: u64) -> Self {
        Self {
            containers,
            budget_bytes,
            shared: Arc::default(),
            streams: None,
        }
    }

    /// Adds the streams that nodes may refer forward to.
    #[must_use]
    pub fn with_streams(mut self, streams: Arc<dyn StreamRoots>) -> Self {
        self.streams = Some(streams);
        self
    }

    /// The containers below.
    #[must_use]
    pub const fn containers(&self) -> &Containers {
        &self.containers
    }

    /// Memory of the cached nodes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Drops every cached node, because reclamation may have removed some.
    pub fn clear(&self) {
        let mut held = self.lock();
        *held = CachedNodes {
            reading: std::mem::take(&mut held.reading),
            ..CachedNodes::default()
        };
    }

    fn lock(&self) -> MutexGuard<'_, CachedNodes> {
        // No code panics under the lock, and any node may be dropped.
        self.shared.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached node, or else the turn to read its region. `Err(None)`: read without a turn,
    /// because the catalog has no such place, or because waiting has not brought the node.
    fn held_or_turn(
        &self,
        view: &CatalogView,
        location: ChunkLocation,
    ) -> Result<Arc<Node>, Option<Reading<'_>>> {
        let Some(region) = view.region_of(location.slot) else {
            return Err(None);
        };
        let of = (view.id(), region);
        let mut held = self.lock();
        let mut has_waited = false;
        loop {
            if let Some(node) = held.get(location) {
                return Ok(node);
            }
            // The other thread did not cache the node: it is malformed, or memory is short. This
            // thread must not wait again.
            if has_waited {
                return Err(None);
            }
            if held.reading.insert(of) {
                return Err(Some(Reading { cache: self, of }));
            }
            while held.reading.contains(&of) {
                held = self
                    .shared
                    .read
                    .wait(held)
                    .unwrap_or_else(PoisonError::into_inner);
            }
            has_waited = true;
        }
    }

    /// Reads the region of a slot, following newer generations of its container.
    fn read_from(
        &self,
        mut view: Arc<CatalogView>,
        at: ChunkLocation,
    ) -> Result<(Arc<CatalogView>, PlainRegion), RecipeError> {
        for _ in 0..GENERATIONS_FOLLOWED_MAX {
            let read = match view.region_of(at.slot) {
                Some(region) => self.containers.read_region(&view, region),
                None => Err(no_slot(&view, at.slot)),
            };
            let error = match read {
                Ok(plain) => return Ok((view, plain)),
                Err(error) => error,
            };
            let gone = matches!(error, ContainerError::Vanished { .. });
            if !gone && !error.is_damage() {
                return Err(error.into());
            }
            match self.containers.newer(&view) {
                Ok(Some(newer)) => view = newer,
                Err(newer) if gone => return Err(newer.into()),
                // The first error says more than the failure to find a newer generation.
                Ok(None) | Err(_) => return Err(error.into()),
            }
        }
        let (container, generation) = (view.id(), view.generation());
        Err(ContainerError::Vanished {
            container,
            generation,
        }
        .into())
    }

    /// Keeps every node of a region. Malformed nodes are skipped: a reader of one gets the error.
    fn keep_all(&self, view: &CatalogView, region: &PlainRegion) {
        let nodes = view.positions_in(region.index()).filter_map(|position| {
            let entry = view
                .entries()
                .get(position)
                .filter(|entry| entry.level != CHUNK_LEVEL)?;
            let at = ChunkLocation {
                container: view.id(),
                slot: entry.slot,
            };
            Some((at, decode(view, region, position).ok()?))
        });
        // Decoded before the lock is taken.
        let nodes: Vec<_> = nodes.collect();
        let mut held = self.lock();
        for (at, node) in nodes {
            held.keep(at, node, self.budget_bytes);
        }
    }
}

impl NodeSource for NodeCache {
    fn node(&self, location: ChunkLocation) -> Result<Arc<Node>, RecipeError> {
        if let Some(node) = self.lock().get(location) {
            return Ok(node);
        }
        let view = self.containers.catalog(location.container)?;
        // The turn lasts until the nodes are cached.
        let _turn = match self.held_or_turn(&view, location) {
            Ok(node) => return Ok(node),
            Err(turn) => turn,
        };
        let (view, region) = self.read_from(view, location)?;
        let missing = || no_slot(&view, location.slot);
        let position = view.position(location.slot).ok_or_else(missing)?;
        let node = decode(&view, &region, position)?;
        self.keep_all(&view, &region);
        self.lock().keep(location, Arc::clone(&node), self.budget_bytes);
        Ok(node)
    }

    fn catalog(&self, container: ContainerId) -> Result<Arc<CatalogView>, RecipeError> {
        Ok(self.containers.catalog(container)?)
    }

    fn stream(&self, node: ChunkLocation, name: StreamName) -> Result<TreeRoot, RecipeError> {
        let root = self.streams.as_ref().and_then(|streams| streams.root(name));
        root.ok_or(RecipeError::NoLaterBackup { node, name })
    }

    fn fingerprinter(&self) -> &Fingerprinter {
        self.containers.fingerprinter()
    }
}

impl StoreReader for NodeCache {
    fn region(&self, at: ChunkLocation) -> Result<(Arc<CatalogView>, PlainRegion), RecipeError> {
        let view = self.containers.catalog(at.container)?;
        self.read_from(view, at)
    }

    fn read_regions_into(
        &self,
        view: &CatalogView,
        regions: &[RegionIndex],
        buffer: &mut RegionBuffer,
    ) -> Result<(), RecipeError> {
        Ok(self.containers.read_regions_into(view, regions, buffer)?)
    }

    fn newer_catalog(&self, view: &CatalogView) -> Result<Option<Arc<CatalogView>>, RecipeError> {
        Ok(self.containers.newer(view)?)
    }

    fn is_far(&self) -> bool {
        self.containers.env().storage.is_far()
    }

    fn chunk(&self, at: ChunkLocation) -> Result<Vec<u8>, RecipeError> {
        Ok(self.containers.read_chunk(at)?)
    }

    fn verify(&self, view: &CatalogView, slot: Slot, bytes: &[u8]) -> Result<(), RecipeError> {
        Ok(self.containers.verify_chunk(view, slot, bytes)?)
    }
}

impl CachedNodes {
    fn get(&mut self, at: ChunkLocation) -> Option<Arc<Node>> {
        let held = self.nodes.get_mut(&at)?;
        self.order.remove(&held.used);
        held.used = self.next_use;
        self.order.insert(self.next_use, at);
        self.next_use += 1;
        Some(Arc::clone(&held.node))
    }

    /// Keeps a node as the most recently used, and drops others if the budget is exceeded.
    fn keep(&mut self, at: ChunkLocation, node: Arc<Node>, budget_bytes: u64) {
        self.drop_node(at);
        self.bytes += bytes_of(&node);
        self.order.insert(self.next_use, at);
        self.nodes.insert(
            at,
            CachedNode {
                node,
                used: self.next_use,
            },
        );
        self.next_use += 1;
        while self.bytes > budget_bytes && self.nodes.len() > 1 {
            let Some((_, oldest)) = self.order.first_key_value() else {
                break;
            };
            self.drop_node(*oldest);
        }
    }

    fn drop_node(&mut self, at: ChunkLocation) {
        if let Some(held) = self.nodes.remove(&at) {
            self.order.remove(&held.used);
            self.bytes -= bytes_of(&held.node);
        }
    }
}

/// Decodes the node at this position of the catalog, from the region that holds it.
fn decode(view: &CatalogView, region: &PlainRegion, position: usize) -> Result<Arc<Node>, RecipeError> {
    let entry = view.entries().get(position);
    let slot = entry.map_or(Slot::MAX, |entry| entry.slot);
    let place = view
        .place_at(position)
        .filter(|place| place.region == region.index());
    let bytes = place.and_then(|place| {
        let offset = place.offset as usize;
        region
            .bytes()
            .get(offset..offset.checked_add(place.len as usize)?)
    });
    let bytes = bytes.ok_or_else(|| no_slot(view, slot))?;
    let at = ChunkLocation {
        container: view.id(),
        slot,
    };
    let node = Node::decode(bytes).map_err(|source| RecipeError::Malformed { node: at, source })?;
    Ok(Arc::new(node))
}

fn no_slot(view: &CatalogView, slot: Slot) -> ContainerError {
    ContainerError::NoSlot {
        container: view.id(),
        generation: view.generation(),
        slot,
    }
}

/// Memory of a node, tables included.
fn bytes_of(node: &Node) -> u64 {
    let tables = size_of::<(u64, ChunkLocation)>() + size_of::<(ChunkLocation, CachedNode)>();
    (2 * tables + size_of::<Node>() + node.entries.capacity() * size_of::<NodeEntry>()) as u64
}
