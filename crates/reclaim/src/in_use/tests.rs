//! What declared parents reach, and the reads that it takes to find that.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use container::CatalogView;
use crypto::{DomainKey, EncryptionKey, Fingerprinter};
use env::fault::FaultStorage;
use env::{Env, LockState, ObjectMeta, ProcessLock, Storage, StorageError};
use format::frame::ObjectKind;
use format::manifest::{BackupTotals, SeriesName, StreamRole, StreamRoot};
use format::node::Node;
use format::reclaim::{GroupId, Marks, SlotList};
use object::Sealer;
use recipe::RecipeError;
use types::{ByteRange, ContainerKind, Fingerprint, ObjectName, SequenceNumber, Slot, StoreId, UnixNanos};

use super::*;
use crate::marks::StoredMarks;

/// A storage that holds the first reader of a manifest back until another one reads meanwhile.
#[derive(Debug, Default)]
struct Meeting {
    storage: FaultStorage,
    readers: Mutex<u32>,
    came: Condvar,
}

impl Storage for Meeting {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.storage.put(name, parts)
    }
    fn barrier(&self) -> Result<(), StorageError> {
        self.storage.barrier()
    }
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        let mut readers = self.readers.lock().unwrap();
        *readers += 1;
        self.came.notify_all();
        let is_alone = |readers: &mut u32| *readers < 2;
        let ten_seconds = Duration::from_secs(10);
        let (readers, waited) = self
            .came
            .wait_timeout_while(readers, ten_seconds, is_alone)
            .unwrap();
        drop(readers);
        assert!(!waited.timed_out(), "nobody reads beside it");
        self.storage.get(name)
    }
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.storage.get_range(name, range)
    }
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.storage.get_tail(name, len)
    }
    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.storage.head(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.storage.list(folder)
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.storage.list_folders(folder)
    }
    fn is_far(&self) -> bool {
        true
    }
    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.storage.delete(name)
    }
    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.storage.lock(name)
    }
    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.storage.lock_state(name)
    }
    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.storage.drop_lock(name)
    }
}

/// Nodes without references.
struct EmptyNodes(Fingerprinter);

impl NodeSource for EmptyNodes {
    fn node(&self, _: ChunkLocation) -> Result<Arc<Node>, RecipeError> {
        Ok(Arc::new(Node {
            level: Level::new(1).unwrap(),
            logical_len: 0,
            containers_max: 0,
            entries: Vec::new(),
        }))
    }
    fn catalog(&self, _: ContainerId) -> Result<Arc<CatalogView>, RecipeError> {
        unreachable!("no checkpoint names a container")
    }
    fn fingerprinter(&self) -> &Fingerprinter {
        &self.0
    }
}

const SERIES: SeriesId = SeriesId::from_bytes([7; 16]);

fn id(n: u64) -> SessionId {
    SessionId::new(n).unwrap()
}

fn root_of(n: u64) -> ChunkLocation {
    let container = ContainerId {
        session: id(n),
        kind: ContainerKind::Recipe,
        sequence: SequenceNumber::new(1).unwrap(),
    };
    let slot = Slot::new(0).unwrap();
    ChunkLocation { container, slot }
}

fn backup(n: u64) -> Backup {
    Backup {
        series: SeriesName {
            host: b"host".to_vec(),
            paths: vec![b"/".to_vec()],
        },
        source_time: UnixNanos::new(0),
        elapsed_nanos: 1,
        user: b"root".to_vec(),
        program: "onefold 0.1.0".to_owned(),
        tags: Vec::new(),
        hold_until: None,
        streams: vec![StreamRoot {
            role: StreamRole::Whole,
            location: root_of(n),
            level: Level::new(1).unwrap(),
            fingerprint: Fingerprint::from_bytes([7; 32]),
            len: 5,
        }],
        containers: Vec::new(),
        adopted: Vec::new(),
        parents: Vec::new(),
        origin: None,
        next: None,
        rewritten: None,
        totals: BackupTotals::default(),
    }
}

fn covered(n: u64, revision: Revision, forgotten: bool) -> CoveredManifest {
    CoveredManifest {
        session: id(n),
        revision,
        digest: 0,
        forgotten,
        kept: false,
        next: None,
        rewritten: false,
    }
}

/// A reader that pins ten thousand backups declares them in each of its checkpoints.
#[test]
fn a_parent_that_marks_do_not_cover_is_read_once_and_side_by_side() {
    let storage = Arc::new(Meeting::default());
    let (env, _) = Env::simulated(storage.clone(), 1);
    let key = EncryptionKey::from_bytes([2; 32]);
    let sealer = Sealer::new(env, StoreId::from_bytes([1; 16]), key);
    for n in 1..=40 {
        let name = names::manifest(SERIES, id(n), Revision::FIRST);
        let manifest = Manifest::Commit(backup(n)).to_bytes();
        sealer.put(&name, ObjectKind::Manifest, &manifest).unwrap();
    }
    let first = id(1);
    let group = GroupId {
        series: SERIES,
        first,
    };
    let as_declared = (1..=20).map(|n| covered(n, Revision::FIRST, false));
    // Of these the marks cover another revision, or a tombstone.
    let other = [
        covered(21, Revision::FIRST.next(), false),
        covered(22, Revision::FIRST, true),
    ];
    let marks = Marks {
        group,
        epoch: None,
        covers: as_declared.chain(other).collect(),
        live: SlotList::default(),
    };
    let mut named = InForce::default();
    let stored = StoredMarks::new(Revision::FIRST, marks);
    named.groups.insert(group, Arc::new(stored));
    let covers = named.covers();

    let manifests = Manifests::new(&sealer);
    let nodes = EmptyNodes(Fingerprinter::new(&DomainKey::from_bytes([1; 32])));
    let mut finder = Finder::new(&manifests, &nodes, &(), &named, BTreeSet::new());
    let checkpoint = Checkpoint {
        number: 0,
        answered: None,
        containers: Vec::new(),
        references: Vec::new(),
        parents: (1..=40).map(|n| (SERIES, id(n), Revision::FIRST)).collect(),
        adopted: Vec::new(),
        streams: Vec::new(),
    };
    for session in [50, 50, 51] {
        finder.checkpoint(id(session), &checkpoint).unwrap();
    }
    finder.parents(&covers).unwrap();
    finder.parents(&covers).unwrap();
    assert_eq!(storage.storage.counters().gets, 20);
    let live = finder.into_live();
    for n in 1..=40 {
        let ChunkLocation { container, slot } = root_of(n);
        assert_eq!(live.contains(container, slot), n > 20, "{n}");
    }
}
