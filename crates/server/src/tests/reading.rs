//! What the server reads for its clients, and what it refuses to refer to.

use std::path::Path;

use container::{CatalogView, PlainRegion, RegionBuffer};
use crypto::Fingerprinter;
use format::node::Node;
use onefold::repository::Repository;
use onefold::{BackupOptions, Filter, ReaderSource, Snapshot, StreamOptions, operations};
use recipe::{NodeSource, RecipeError, StoreReader, StreamName};
use types::{ContainerId, RegionIndex};

use super::*;
use crate::reading::{self, For};

/// Counts nodes that are read.
#[derive(Debug)]
struct Counting<'a> {
    reader: &'a dyn StoreReader,
    nodes: AtomicU64,
}

impl NodeSource for Counting<'_> {
    fn node(&self, location: ChunkLocation) -> Result<Arc<Node>, RecipeError> {
        self.nodes.fetch_add(1, Ordering::Relaxed);
        self.reader.node(location)
    }

    fn catalog(&self, container: ContainerId) -> Result<Arc<CatalogView>, RecipeError> {
        self.reader.catalog(container)
    }

    fn stream(&self, node: ChunkLocation, name: StreamName) -> Result<TreeRoot, RecipeError> {
        self.reader.stream(node, name)
    }

    fn fingerprinter(&self) -> &Fingerprinter {
        self.reader.fingerprinter()
    }
}

impl StoreReader for Counting<'_> {
    fn region(&self, at: ChunkLocation) -> Result<(Arc<CatalogView>, PlainRegion), RecipeError> {
        self.reader.region(at)
    }

    fn read_regions_into(
        &self,
        view: &CatalogView,
        regions: &[RegionIndex],
        buffer: &mut RegionBuffer,
    ) -> Result<(), RecipeError> {
        self.reader.read_regions_into(view, regions, buffer)
    }

    fn newer_catalog(&self, view: &CatalogView) -> Result<Option<Arc<CatalogView>>, RecipeError> {
        self.reader.newer_catalog(view)
    }

    fn chunk(&self, at: ChunkLocation) -> Result<Vec<u8>, RecipeError> {
        self.reader.chunk(at)
    }
}

fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..bytes / 8).flat_map(|_| next()).collect()
}

/// A backup of so many random bytes in the namespace "web", and its root.
pub(super) fn stored(bed: &Bed, bytes: usize) -> (Store, Snapshot, TreeRoot) {
    let store = bed.store();
    let made = operations::back_up_stream(
        &store,
        &BackupOptions::default().host("web/host"),
        Path::new("/stream"),
        &StreamOptions::default(),
        &mut ReaderSource(&noise(bytes)[..]),
        &Monitor::default(),
    );
    made.unwrap();
    let snapshot = store.find("latest", &Filter::default()).unwrap();
    let root = TreeRoot::from(&snapshot.backup.streams[0]);
    (store, snapshot, root)
}

/// A bound of containers is in the child's own node. Only a backup needs it.
#[test]
fn children_for_a_restore_cost_no_reads_of_their_nodes() {
    let bed = Bed::new();
    let (store, snapshot, root) = stored(&bed, 40 << 20);
    let pinned = Repository::pin(&store, &snapshot, &Monitor::default()).unwrap();
    let ask = |whom| {
        let reader = Counting {
            reader: pinned.reader().unwrap(),
            nodes: AtomicU64::new(0),
        };
        let answer = reading::read(&reader, whom, request::CHILDREN, &root.to_bytes());
        let sent = Vec::<SentChildren>::from_bytes(&answer.unwrap()).unwrap();
        (sent, reader.nodes.load(Ordering::Relaxed))
    };
    let (bounded, reads) = ask(For::Backup);
    let children = bounded[0].children.len() as u64;
    assert!(children > 3, "some segments");
    assert!(bounded[0].children.iter().all(|child| child.containers_max > 0));
    assert_eq!((bounded.len(), reads), (1, 1 + children));
    let (unbounded, reads) = ask(For::Restore);
    assert_eq!(reads, 1, "the node itself");
    assert_eq!(unbounded[0].children.len() as u64, children);
    assert!(
        unbounded[0]
            .children
            .iter()
            .all(|child| child.containers_max == 0)
    );
}

/// A client that does not look at what the server tells of its parent.
#[test]
fn a_segment_whose_data_is_missing_is_not_copied() {
    let bed = Bed::new();
    let (_, Snapshot { id, .. }, root) = stored(&bed, 20 << 20);
    std::fs::remove_dir_all(bed.folder.path().join("stores/main/data")).unwrap();
    let mut client = bed.client("web", "write,read");
    let begun = client.begin(Parents::Named(vec![id])).unwrap();
    let (offset, len) = (0, root.len);
    assert_eq!(begun.streams[0].unsound, [types::ByteRange { offset, len }]);
    let segment = begun.streams[0].children[0].as_root().unwrap();
    let offer = Offer::Copy {
        stream: STREAM,
        fingerprint: segment.fingerprint,
        len: segment.len,
        node: KnownNode {
            location: segment.location,
            containers_max: 1,
        },
    };
    let run = OpenRun::begin(offer).unwrap().close(&begun.terms.fingerprinter);
    client.submit(vec![Sent::Copies(run)]);
    let (kind, _, body) = client.next().unwrap();
    assert_eq!(kind, reply::FAILED);
    let refusal = Refusal::from_bytes(&body).unwrap();
    assert_eq!(refusal.kind, RefusalKind::Previous, "{refusal}");
    assert!(refusal.to_string().contains("damaged or lost"), "{refusal}");
}
