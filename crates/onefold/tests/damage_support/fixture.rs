//! The store to damage: it has every kind of object, several backups, and two that share nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use container::Containers;
use crypto::Argon2Cost;
use env::{MemoryStorage, Storage};
use format::config::Settings;
use format::frame::ObjectKind;
use format::manifest::{Manifest, SeriesName};
use format::names::{self, LeaseRole};
use format::reclaim::{Condemned, ContainerSlots, Damaged, GroupId, Marks, Removed, SlotList};
use format::series::SeriesSettings;
use object::config::{self, NewSlot};
use onefold::{
    Credential, Layout, Monitor, OpenOptions, ReaderSource, SessionPolicy, SettingsChange, Snapshot, Store,
};
use recipe::{ChunkRefs, NodeCache, TreeRoot};
use session::{Begin, Draft, Session};
use types::{ContainerId, ContainerKind, Epoch, ObjectName, Revision, SessionId, Slot, SlotRange};

use super::tree::{self, Entry, Tree};
use super::{Objects, StillClock, backup_options, env_on, noise, objects_of, tree_options};

/// The store, and the contents of its backups.
pub(crate) struct Fixture {
    /// All its objects.
    pub(crate) objects: Objects,
    /// Objects that existed once and do not now.
    pub(crate) former: Objects,
    /// The content of each backup, below the restore's target.
    pub(crate) trees: BTreeMap<SessionId, Tree>,
    /// The containers that each backup needs.
    pub(crate) needs: BTreeMap<SessionId, BTreeSet<ContainerId>>,
    /// The source of the last tree's backup, which still exists.
    pub(crate) source: PathBuf,
    _folder: tempfile::TempDir,
}

/// Small regions, nodes and containers: a few hundred KiB have every structure.
pub(crate) fn settings() -> Settings {
    Settings {
        chunk_avg_bytes: 1 << 10,
        chunk_min_bytes: 1 << 9,
        chunk_max_bytes: 1 << 13,
        node_avg_children: 16,
        region_bytes: 8 << 10,
        container_bytes: 40 << 10,
    }
}

fn slot(label: &str) -> NewSlot<'_> {
    NewSlot {
        credential: crypto::Credential::NoPassword,
        label,
        cost: Argon2Cost::default(),
    }
}

/// Made once in a process.
pub(crate) fn fixture() -> &'static Fixture {
    static FIXTURE: OnceLock<Fixture> = OnceLock::new();
    FIXTURE.get_or_init(make)
}

fn make() -> Fixture {
    let storage = Arc::new(MemoryStorage::with_clock(Arc::new(StillClock)));
    let env = env_on(Arc::clone(&storage) as Arc<dyn Storage>, 1);
    let open = config::create(&env, &settings(), &[slot("first")], None).unwrap();
    let former = objects_of(&*storage);
    config::add_slot(&env, &open, &slot("second")).unwrap();
    let store = Store::open(&env, &Credential::None, &OpenOptions::default()).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("source");
    let inside: PathBuf = source.strip_prefix("/").unwrap().to_path_buf();
    let mut trees = BTreeMap::new();
    let mut backup_tree = || {
        let report = store
            .backup_tree(
                &backup_options("host", 0),
                &tree_options(&source, false),
                &Monitor::default(),
                &mut |fault| panic!("{fault}"),
            )
            .unwrap();
        assert_eq!(report.warnings, Vec::<onefold::Warning>::new());
        trees.insert(report.id, below(&inside, tree::read(&source)));
    };
    tree::make_first(&source);
    backup_tree();
    tree::make_second(&source);
    backup_tree();
    for (name, bytes, small) in [
        ("alone", noise(20, 70_000), 0),
        ("small", noise(21, 9_000), 1 << 20),
    ] {
        let report = store
            .backup_stream(
                &backup_options("host", small),
                PathBuf::from(format!("/{name}")).as_path(),
                &onefold::StreamOptions::default(),
                &mut ReaderSource(bytes.as_slice()),
                &Monitor::default(),
            )
            .unwrap();
        trees.insert(report.id, Tree::from([(name.into(), Entry::File(bytes))]));
    }
    revise(&store, &open.sealer(&env));
    leave_traces(&store, &open.sealer(&env));
    let objects = objects_of(&*storage);
    let needs = store
        .snapshots()
        .unwrap()
        .snapshots
        .iter()
        .map(|snapshot| (snapshot.id, needed(&containers_of(&env, &open), snapshot)))
        .collect();
    Fixture {
        objects,
        former: former
            .into_iter()
            .filter(|(name, _)| storage.head(name).is_err())
            .collect(),
        trees,
        needs,
        source,
        _folder: folder,
    }
}

fn containers_of(env: &env::Env, open: &config::OpenConfig) -> Containers {
    Containers::new(env.clone(), open.store(), &open.keys, 1 << 20)
}

/// A tree as it is below a restore's target.
pub(crate) fn below(inside: &std::path::Path, tree: Tree) -> Tree {
    let mut out: Tree = tree
        .into_iter()
        .map(|(path, entry)| (inside.join(path), entry))
        .collect();
    let mut folder = PathBuf::new();
    for part in inside {
        folder.push(part);
        out.insert(folder.clone(), Entry::Folder);
    }
    out
}

/// A second revision of the third backup's manifest.
fn revise(store: &Store, sealer: &object::Sealer) {
    let alone = store.snapshots().unwrap().snapshots[2].clone();
    let mut backup = alone.backup;
    backup.tags = vec!["kept".to_owned()];
    let name = names::manifest(alone.series, alone.id, Revision::new(1).unwrap());
    sealer
        .put(&name, ObjectKind::Manifest, &Manifest::Revised(backup).to_bytes())
        .unwrap();
}

/// Adds a dead session, a lease, the lists of reclamation, and settings without effect.
fn leave_traces(store: &Store, sealer: &object::Sealer) {
    let change = SettingsChange::default().layout(Some(Layout::Inline));
    store.set_default_series_settings(&change).unwrap();
    // For layout inline this has no effect.
    let again = SeriesSettings {
        optimize_after_backup: true,
        repair_percent: 90,
        ..SeriesSettings::unset(None)
    };
    let name = names::settings(None, Revision::FIRST.next());
    sealer.put(&name, ObjectKind::Series, &again.to_bytes()).unwrap();
    let name = SeriesName {
        host: b"host".to_vec(),
        paths: vec![b"/dead".to_vec()],
    };
    let begin = Begin {
        series: sealer.key().series_id(&name.to_bytes()),
        name,
        process: 1,
        policy: SessionPolicy::default(),
    };
    let session = Session::begin(sealer, begin).unwrap();
    for _ in 0..2 {
        let draft = Draft {
            containers: Vec::new(),
            references: Vec::new(),
            streams: Vec::new(),
        };
        session.begin_checkpoint().unwrap().write(draft).unwrap();
        session.tick().unwrap();
    }
    let lease = session.acquire_lease(LeaseRole::Reclaim).unwrap();
    drop((lease, session));
    let epoch = Epoch::new(1).unwrap();
    let nobodys = ContainerSlots {
        container: ContainerId {
            session: SessionId::new(900).unwrap(),
            kind: ContainerKind::Data,
            sequence: types::SequenceNumber::new(0).unwrap(),
        },
        slots: None,
    };
    let condemned = Condemned {
        epoch,
        marks: Vec::new(),
        slots: vec![nobodys.clone()],
    };
    let put = |name: &ObjectName, kind, bytes: &[u8]| sealer.put(name, kind, bytes).unwrap();
    put(
        &names::condemned(epoch),
        ObjectKind::Condemned,
        &condemned.to_bytes(),
    );
    let removed = Removed {
        epoch,
        slots: vec![nobodys],
        marks: Vec::new(),
        left: Vec::new(),
        gone: Vec::new(),
        stored_bytes: 0,
    };
    put(&names::removed(epoch), ObjectKind::Removed, &removed.to_bytes());
    let alone = store.snapshots().unwrap().snapshots[2].clone();
    let data = ContainerId {
        session: alone.id,
        kind: ContainerKind::Data,
        sequence: types::SequenceNumber::new(0).unwrap(),
    };
    for number in 0..2 {
        let damaged = Damaged {
            slots: ContainerSlots {
                container: data,
                slots: Some(vec![SlotRange::one(Slot::new(number).unwrap())]),
            },
        };
        put(
            &names::damaged(data, number),
            ObjectKind::Damaged,
            &damaged.to_bytes(),
        );
    }
    let group = GroupId {
        series: alone.series,
        first: alone.id,
    };
    let marks = Marks {
        group,
        epoch: None,
        covers: Vec::new(),
        live: SlotList::default(),
    };
    for revision in 0..2 {
        let name = names::marks(group, Revision::new(revision).unwrap());
        put(&name, ObjectKind::Marks, &marks.to_bytes());
    }
}

/// The containers that a backup's restore reads, recipes included.
fn needed(containers: &Containers, snapshot: &Snapshot) -> BTreeSet<ContainerId> {
    let nodes = NodeCache::new(containers.clone(), 1 << 20);
    let mut needed = BTreeSet::new();
    for stream in &snapshot.backup.streams {
        let root = TreeRoot::from(stream);
        let mut open = vec![root];
        while let Some(node) = open.pop() {
            needed.insert(node.location.container);
            if node.level.get() > 1 {
                open.extend(recipe::child_nodes(&nodes, &node).unwrap());
            }
        }
        for reference in ChunkRefs::whole(&nodes, &root) {
            if let recipe::Place::At(location) = reference.unwrap().place {
                needed.insert(location.container);
            }
        }
    }
    needed
}

/// The container that an object is a copy of.
pub(crate) fn container_of(name: &ObjectName) -> Option<ContainerId> {
    if let Some((id, _)) = names::parse_container(name) {
        return Some(id);
    }
    let mirror = names::parse_mirror(name)?;
    let kind = [ContainerKind::Recipe, ContainerKind::Small]
        .into_iter()
        .find(|kind| {
            let id = ContainerId {
                session: mirror.session,
                kind: *kind,
                sequence: mirror.sequence,
            };
            fixture()
                .objects
                .contains_key(&names::container(id, mirror.generation))
        })?;
    Some(ContainerId {
        session: mirror.session,
        kind,
        sequence: mirror.sequence,
    })
}
