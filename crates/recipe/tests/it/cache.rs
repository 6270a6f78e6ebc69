//! The node cache over sealed containers: one region read serves neighbouring nodes, whatever the
//! budget.

use std::collections::HashMap;
use std::sync::Arc;

use container::{Compression, ContainerBuilder, Containers, PendingEntry, compress_region};
use crypto::{DomainKey, EncryptionKey, MasterKeys};
use env::{Env, ManualClock, MemoryStorage, SeededEntropy};
use format::node::Node;
use recipe::{
    Child, ChunkRef, ChunkRefs, KnownNode, NodeCache, NodeSink, NodeSource, RecipeError, TreeBuilder,
    TreeRoot,
};
use types::{ChunkLocation, ContainerKind, Fingerprint, Generation, Level, StoreId, UnixNanos};

use crate::store::{at, printer};

const REGION_BYTES: usize = 600;

fn environment() -> Env {
    Env {
        storage: Arc::new(MemoryStorage::new()),
        clock: Arc::new(ManualClock::new(UnixNanos::new(0))),
        entropy: Arc::new(SeededEntropy::new(1)),
    }
}

fn open(env: &Env) -> Containers {
    let keys = MasterKeys {
        domain: DomainKey::from_bytes([5; 32]),
        encryption: EncryptionKey::from_bytes([6; 32]),
    };
    Containers::new(env.clone(), StoreId::from_bytes([7; 16]), &keys, 1 << 20)
}

/// Packs entries with their bytes into regions of a given size, and puts the container.
fn put(containers: &Containers, mut builder: ContainerBuilder, entries: &[(PendingEntry, Vec<u8>)]) -> usize {
    let (mut plain, mut pending, mut regions) = (Vec::new(), Vec::new(), 0);
    for (n, (entry, bytes)) in entries.iter().enumerate() {
        plain.extend_from_slice(bytes);
        pending.push(*entry);
        if plain.len() >= REGION_BYTES || n + 1 == entries.len() {
            builder.append(
                compress_region(std::mem::take(&mut plain), Compression::Off),
                &pending,
            );
            pending.clear();
            regions += 1;
        }
    }
    containers.put(&builder.seal(containers).unwrap()).unwrap();
    regions
}

/// Nodes of one recipe container, encoded, in order.
#[derive(Default)]
struct Nodes {
    entries: Vec<(PendingEntry, Vec<u8>)>,
    known: HashMap<(Level, Fingerprint), KnownNode>,
}

impl NodeSink for Nodes {
    fn find(&mut self, fingerprint: &Fingerprint, level: Level) -> Result<Option<KnownNode>, RecipeError> {
        Ok(self.known.get(&(level, *fingerprint)).copied())
    }

    fn store(&mut self, fingerprint: &Fingerprint, node: &Node) -> Result<ChunkLocation, RecipeError> {
        let location = at(
            ContainerKind::Recipe,
            0,
            u32::try_from(self.entries.len()).unwrap(),
        );
        let mut bytes = Vec::new();
        let entry = PendingEntry::node(*fingerprint, node, &mut bytes).unwrap();
        self.entries.push((entry, bytes));
        let known = KnownNode {
            location,
            containers_max: node.containers_max,
        };
        self.known.insert((node.level, *fingerprint), known);
        Ok(location)
    }
}

/// A store with one data container, and the tree over its chunks. The nodes are not stored yet.
fn stream(containers: &Containers) -> (Nodes, TreeRoot) {
    let mut nodes = Nodes::default();
    let mut builder = TreeBuilder::new(printer(), 8);
    let mut chunks = Vec::new();
    for n in 0..1500u32 {
        let bytes = n.to_le_bytes().repeat(3);
        let fingerprint = printer().chunk(&bytes);
        let place = at(ContainerKind::Data, 0, n);
        builder
            .push(Child::chunk(fingerprint, 12, place), &mut nodes)
            .unwrap();
        if n % 100 == 7 {
            builder.push_zeros(100).unwrap();
        }
        chunks.push((PendingEntry::chunk(fingerprint, 12), bytes));
    }
    put(
        containers,
        ContainerBuilder::new(at(ContainerKind::Data, 0, 0).container, Generation::FIRST),
        &chunks,
    );
    let root = builder.finish(&mut nodes).unwrap();
    (nodes, root)
}

fn recipe_container() -> ContainerBuilder {
    ContainerBuilder::new(at(ContainerKind::Recipe, 0, 0).container, Generation::FIRST)
}

fn all(cache: &NodeCache, root: &TreeRoot) -> Vec<ChunkRef> {
    ChunkRefs::whole(cache, root).map(Result::unwrap).collect()
}

#[test]
fn a_region_is_read_once_and_serves_its_nodes() {
    let containers = open(&environment());
    let (nodes, root) = stream(&containers);
    let regions = put(&containers, recipe_container(), &nodes.entries);
    assert!(regions > 5 && nodes.entries.len() > 10 * regions);
    let cache = NodeCache::new(containers.clone(), 1 << 20);
    let before = containers.stats().reads;
    let refs = all(&cache, &root);
    assert_eq!(refs.len(), 1515);
    assert_eq!(containers.stats().reads - before, regions as u64);
    assert_eq!(all(&cache, &root), refs);
    assert_eq!(containers.stats().reads - before, regions as u64);
    cache.clear();
    assert_eq!(cache.bytes(), 0);
    assert_eq!(all(&cache, &root), refs);
}

#[test]
fn a_budget_costs_reads_and_nothing_else() {
    let containers = open(&environment());
    let (nodes, root) = stream(&containers);
    put(&containers, recipe_container(), &nodes.entries);
    let refs = all(&NodeCache::new(containers.clone(), 1 << 20), &root);
    for budget in [0, 5000, 50_000] {
        let cache = NodeCache::new(containers.clone(), budget);
        assert_eq!(all(&cache, &root), refs);
        // A single node may exceed the budget.
        assert!(
            cache.bytes() <= budget.max(5000),
            "{} of {budget} bytes",
            cache.bytes()
        );
    }
}

#[test]
fn a_malformed_node_is_named_and_harms_no_other() {
    let containers = open(&environment());
    let (mut nodes, _) = stream(&containers);
    let whole = nodes.entries.clone();
    let len = nodes.entries[3].1.len();
    nodes.entries[3].1 = vec![0xff; len];
    put(&containers, recipe_container(), &nodes.entries);
    let cache = NodeCache::new(containers, 1 << 20);
    let bad = at(ContainerKind::Recipe, 0, 3);
    let error = cache.node(bad).unwrap_err();
    assert!(
        matches!(error, RecipeError::Malformed { node, .. } if node == bad),
        "{error}"
    );
    for slot in [2, 4] {
        let node = cache.node(at(ContainerKind::Recipe, 0, slot)).unwrap();
        assert_eq!(*node, Node::decode(&whole[slot as usize].1).unwrap());
    }
    let beyond = at(ContainerKind::Recipe, 0, 900_000);
    assert!(matches!(cache.node(beyond), Err(RecipeError::Container(_))));
    let chunk = at(ContainerKind::Data, 0, 3);
    assert!(cache.node(chunk).is_err());
}

/// A thread that misses a node of a region waits for the thread that is reading the region, and
/// reads nothing itself. Whether two threads meet is a matter of chance, so the test repeats it
/// often.
#[test]
fn threads_that_want_nodes_of_one_region_read_it_once() {
    let containers = open(&environment());
    let (nodes, root) = stream(&containers);
    put(&containers, recipe_container(), &nodes.entries);
    let (threads, rounds) = (4, 500);
    let before = containers.stats().reads;
    for _ in 0..rounds {
        let cache = NodeCache::new(containers.clone(), 1 << 20);
        let begin = std::sync::Barrier::new(threads);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    begin.wait();
                    assert_eq!(cache.node(root.location).unwrap().level, root.level);
                });
            }
        });
    }
    assert_eq!(containers.stats().reads - before, rounds);
}

/// A failed read of a region must not block other threads.
#[test]
fn all_threads_that_want_a_malformed_node_get_the_error() {
    let containers = open(&environment());
    let (mut nodes, _) = stream(&containers);
    let len = nodes.entries[3].1.len();
    nodes.entries[3].1 = vec![0xff; len];
    put(&containers, recipe_container(), &nodes.entries);
    for budget in [0, 1 << 20] {
        let cache = NodeCache::new(containers.clone(), budget);
        std::thread::scope(|scope| {
            for n in 0..8 {
                let cache = &cache;
                scope.spawn(move || {
                    for slot in 0..5 {
                        let node = cache.node(at(ContainerKind::Recipe, 0, (slot + n) % 5));
                        assert_eq!(node.is_err(), (slot + n) % 5 == 3);
                    }
                });
            }
        });
    }
}
