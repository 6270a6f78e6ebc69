//! Streams stored in containers in memory, for tests.

use std::sync::Arc;

use container::{Compression, ContainerBuilder, Containers, PendingEntry, compress_region};
use crypto::{DomainKey, EncryptionKey, MasterKeys};
use env::{Env, MemoryStorage};
use format::node::Node;
use recipe::{Child, KnownNode, NodeCache, NodeSink, RecipeError, TreeBuilder, TreeRoot};
use types::{
    ChunkLocation, ContainerId, ContainerKind, Fingerprint, Generation, Level, SequenceNumber, SessionId,
    Slot, StoreId,
};

pub(crate) const CHUNK_BYTES: usize = 1000;
/// Chunks of a data container.
pub(crate) const CHUNKS: usize = 100;

/// Containers of a new store.
pub(crate) fn containers() -> Containers {
    let keys = MasterKeys {
        domain: DomainKey::from_bytes([1; 32]),
        encryption: EncryptionKey::from_bytes([2; 32]),
    };
    let (env, _) = Env::simulated(Arc::new(MemoryStorage::new()), 3);
    Containers::new(env, StoreId::from_bytes([4; 16]), &keys, 1 << 20)
}

pub(crate) fn id(kind: ContainerKind, sequence: u32) -> ContainerId {
    ContainerId {
        session: SessionId::new(1).unwrap(),
        kind,
        sequence: SequenceNumber::new(sequence).unwrap(),
    }
}

/// Stores entries as the slots of one container, several to a region.
/// A reader of the store with its own cache of nodes.
pub(crate) fn reader(containers: &Containers) -> NodeCache {
    NodeCache::new(containers.clone(), 1 << 20)
}

fn put(containers: &Containers, id: ContainerId, entries: &[(PendingEntry, Vec<u8>)]) {
    let mut builder = ContainerBuilder::new(id, Generation::FIRST);
    for region in entries.chunks(16) {
        let plain: Vec<u8> = region.iter().flat_map(|(_, bytes)| bytes.clone()).collect();
        let entries: Vec<PendingEntry> = region.iter().map(|(entry, _)| *entry).collect();
        builder.append(compress_region(plain, Compression::Auto { level: 1 }), &entries);
    }
    containers.put(&builder.seal(containers).unwrap()).unwrap();
}

/// Nodes of a recipe container that is being filled.
struct Nodes {
    id: ContainerId,
    entries: Vec<(PendingEntry, Vec<u8>)>,
}

impl NodeSink for Nodes {
    fn find(&mut self, _: &Fingerprint, _: Level) -> Result<Option<KnownNode>, RecipeError> {
        Ok(None)
    }

    fn store(&mut self, fingerprint: &Fingerprint, node: &Node) -> Result<ChunkLocation, RecipeError> {
        let slot = Slot::new(u32::try_from(self.entries.len()).unwrap()).unwrap();
        let mut bytes = Vec::new();
        let entry = PendingEntry::node(*fingerprint, node, &mut bytes).unwrap();
        self.entries.push((entry, bytes));
        Ok(ChunkLocation {
            container: self.id,
            slot,
        })
    }
}

/// Stores a stream. Its nodes are in the recipe container with this number, and its chunks in the
/// data containers from this number on.
pub(crate) fn store(containers: &Containers, number: u32, stream: &[u8]) -> TreeRoot {
    let printer = containers.fingerprinter();
    let mut nodes = Nodes {
        id: id(ContainerKind::Recipe, number),
        entries: Vec::new(),
    };
    let mut builder = TreeBuilder::new(printer.clone(), 64);
    for (number, of_container) in (number..).zip(stream.chunks(CHUNKS * CHUNK_BYTES)) {
        let container = id(ContainerKind::Data, number);
        let mut chunks = Vec::new();
        for (slot, bytes) in (0..).zip(of_container.chunks(CHUNK_BYTES)) {
            let slot = Slot::new(slot).unwrap();
            let (print, len) = (printer.chunk(bytes), u32::try_from(bytes.len()).unwrap());
            let chunk = Child::chunk(print, len.into(), ChunkLocation { container, slot });
            builder.push(chunk, &mut nodes).unwrap();
            chunks.push((PendingEntry::chunk(print, len), bytes.to_vec()));
        }
        put(containers, container, &chunks);
    }
    let root = builder.finish(&mut nodes).unwrap();
    put(containers, nodes.id, &nodes.entries);
    root
}
