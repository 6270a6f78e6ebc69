//! A store in memory. It has chunks and nodes by location, passes every node through its encoding,
//! and counts reads.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;

use chunking::{Cdc, CdcSizes, Chunker, is_zero};
use container::CatalogView;
use crypto::{DomainKey, Fingerprinter};
use format::container::CatalogEntry;
use format::node::Node;
use recipe::{Child, KnownNode, NodeSink, NodeSource, RecipeError, StreamName, TreeBuilder, TreeRoot};
use types::{
    ChunkLocation, ContainerId, ContainerKind, Fingerprint, Generation, Level, SequenceNumber, SessionId,
    Slot,
};

pub(crate) fn level(n: u8) -> Level {
    Level::new(n).unwrap()
}

pub(crate) fn printer() -> Fingerprinter {
    Fingerprinter::new(&DomainKey::from_bytes([5; 32]))
}

pub(crate) fn at(kind: ContainerKind, sequence: u32, slot: u32) -> ChunkLocation {
    let session = SessionId::new(1).unwrap();
    let container = ContainerId {
        session,
        kind,
        sequence: SequenceNumber::new(sequence).unwrap(),
    };
    ChunkLocation {
        container,
        slot: Slot::new(slot).unwrap(),
    }
}

#[derive(Default)]
struct Contents {
    entries: HashMap<ContainerId, Vec<CatalogEntry>>,
    views: HashMap<ContainerId, Arc<CatalogView>>,
    /// The open container of each kind, by sequence number.
    open: HashMap<ContainerKind, u32>,
    chunks: HashMap<ChunkLocation, Vec<u8>>,
    chunk_places: HashMap<Fingerprint, ChunkLocation>,
    nodes: HashMap<ChunkLocation, Arc<Node>>,
    known: HashMap<(Level, Fingerprint), KnownNode>,
    streams: HashMap<StreamName, TreeRoot>,
}

pub(crate) struct Store {
    printer: Fingerprinter,
    cdc: Cdc,
    slots_per_container: usize,
    contents: RefCell<Contents>,
    pub(crate) node_reads: Cell<u64>,
    pub(crate) nodes_stored: Cell<u64>,
}

impl Store {
    pub(crate) fn new(slots_per_container: usize) -> Self {
        let printer = printer();
        let sizes = CdcSizes {
            min: 64,
            avg: 128,
            max: 512,
        };
        Self {
            cdc: Cdc::new(sizes, &printer.gear_table()).unwrap(),
            printer,
            slots_per_container,
            contents: RefCell::default(),
            node_reads: Cell::new(0),
            nodes_stored: Cell::new(0),
        }
    }

    pub(crate) fn sink(&self) -> Sink<'_> {
        Sink {
            store: self,
            known: true,
        }
    }

    /// A sink that knows no node.
    pub(crate) fn forgetful_sink(&self) -> Sink<'_> {
        Sink {
            store: self,
            known: false,
        }
    }

    pub(crate) fn builder(&self, children_avg: u32) -> TreeBuilder {
        TreeBuilder::new(self.printer.clone(), children_avg)
    }

    /// Chunks with their places; `None` for zeros.
    pub(crate) fn chunk(&self, bytes: &[u8]) -> Vec<(u64, Option<Child>)> {
        let mut lens = Vec::new();
        self.cdc.cut_all(bytes, true, &mut lens);
        let mut rest = bytes;
        let cut = lens.into_iter().map(|len| {
            let (chunk, after) = rest.split_at(len as usize);
            rest = after;
            let len = u64::from(len);
            (len, (!is_zero(chunk)).then(|| self.put_chunk(chunk)))
        });
        cut.collect()
    }

    fn put_chunk(&self, bytes: &[u8]) -> Child {
        let fingerprint = self.printer.chunk(bytes);
        let known = self.contents.borrow().chunk_places.get(&fingerprint).copied();
        let len = bytes.len() as u64;
        let place = known.unwrap_or_else(|| {
            let place = self.put_entry(ContainerKind::Data, fingerprint, level(0), len);
            let mut contents = self.contents.borrow_mut();
            contents.chunk_places.insert(fingerprint, place);
            contents.chunks.insert(place, bytes.to_vec());
            place
        });
        Child::chunk(fingerprint, len, place)
    }

    /// Adds an entry to the open container of its kind.
    pub(crate) fn put_entry(
        &self,
        kind: ContainerKind,
        fingerprint: Fingerprint,
        level: Level,
        logical_len: u64,
    ) -> ChunkLocation {
        let mut contents = self.contents.borrow_mut();
        let sequence = *contents.open.entry(kind).or_insert(0);
        let place = at(kind, sequence, 0);
        let entries = contents.entries.entry(place.container).or_default();
        let slot = Slot::new(u32::try_from(entries.len()).unwrap()).unwrap();
        let len = if level.get() == 0 {
            u32::try_from(logical_len).unwrap()
        } else {
            100
        };
        entries.push(CatalogEntry {
            slot,
            fingerprint,
            len,
            level,
            logical_len,
        });
        if entries.len() == self.slots_per_container {
            contents.open.insert(kind, sequence + 1);
        }
        contents.views.remove(&place.container);
        ChunkLocation { slot, ..place }
    }

    /// Sets the root that forward references find under this name.
    pub(crate) fn set_stream(&self, name: StreamName, root: TreeRoot) {
        self.contents.borrow_mut().streams.insert(name, root);
    }

    /// Changes a stored node, or its container's catalog, without notice.
    pub(crate) fn tamper_node(&self, location: ChunkLocation, change: impl FnOnce(&mut Node)) {
        let mut contents = self.contents.borrow_mut();
        let node = contents.nodes.get_mut(&location).unwrap();
        change(Arc::make_mut(node));
    }

    pub(crate) fn tamper_entry(&self, location: ChunkLocation, change: impl FnOnce(&mut CatalogEntry)) {
        let mut contents = self.contents.borrow_mut();
        let entries = contents.entries.get_mut(&location.container).unwrap();
        change(&mut entries[location.slot.get() as usize]);
        contents.views.remove(&location.container);
    }

    pub(crate) fn read_chunk(&self, location: ChunkLocation) -> Vec<u8> {
        self.contents.borrow().chunks[&location].clone()
    }

    /// Builds a tree of these children, one by one.
    pub(crate) fn build(&self, children: &[(u64, Option<Child>)], avg: u32, sink: &mut Sink<'_>) -> TreeRoot {
        let mut builder = self.builder(avg);
        push_all(&mut builder, children, sink);
        builder.finish(sink).unwrap()
    }
}

pub(crate) fn push_all(builder: &mut TreeBuilder, children: &[(u64, Option<Child>)], sink: &mut Sink<'_>) {
    for (len, chunk) in children {
        match chunk {
            Some(chunk) => builder.push(*chunk, sink).unwrap(),
            None => builder.push_zeros(*len).unwrap(),
        }
    }
}

impl NodeSource for Store {
    fn node(&self, location: ChunkLocation) -> Result<Arc<Node>, RecipeError> {
        self.node_reads.set(self.node_reads.get() + 1);
        let node = self.contents.borrow().nodes.get(&location).cloned();
        node.ok_or_else(|| RecipeError::Other(format!("no node in {location}").into()))
    }

    fn catalog(&self, container: ContainerId) -> Result<Arc<CatalogView>, RecipeError> {
        let mut contents = self.contents.borrow_mut();
        if let Some(view) = contents.views.get(&container) {
            return Ok(Arc::clone(view));
        }
        let entries = contents.entries.get(&container).cloned();
        let entries = entries.ok_or_else(|| RecipeError::Other(format!("no {container}").into()))?;
        let view = Arc::new(CatalogView::from_entries(container, Generation::FIRST, entries).unwrap());
        contents.views.insert(container, Arc::clone(&view));
        Ok(view)
    }

    fn stream(&self, node: ChunkLocation, name: StreamName) -> Result<TreeRoot, RecipeError> {
        let root = self.contents.borrow().streams.get(&name).copied();
        root.ok_or(RecipeError::NoLaterBackup { node, name })
    }

    fn fingerprinter(&self) -> &Fingerprinter {
        &self.printer
    }
}

pub(crate) struct Sink<'a> {
    store: &'a Store,
    known: bool,
}

impl NodeSink for Sink<'_> {
    fn find(&mut self, fingerprint: &Fingerprint, level: Level) -> Result<Option<KnownNode>, RecipeError> {
        let known = self
            .store
            .contents
            .borrow()
            .known
            .get(&(level, *fingerprint))
            .copied();
        Ok(known.filter(|_| self.known))
    }

    fn store(&mut self, fingerprint: &Fingerprint, node: &Node) -> Result<ChunkLocation, RecipeError> {
        let mut bytes = Vec::new();
        node.encode(&mut bytes);
        let decoded = Node::decode(&bytes).unwrap();
        assert_eq!(&decoded, node);
        let location =
            self.store
                .put_entry(ContainerKind::Recipe, *fingerprint, node.level, node.logical_len);
        let mut contents = self.store.contents.borrow_mut();
        let known = KnownNode {
            location,
            containers_max: node.containers_max,
        };
        contents.known.insert((node.level, *fingerprint), known);
        contents.nodes.insert(location, Arc::new(decoded));
        self.store.nodes_stored.set(self.store.nodes_stored.get() + 1);
        Ok(location)
    }
}
