//! Structure: from every manifest down to the catalogs of the containers that its recipes reach.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use format::manifest::StreamRoot;
use format::names;
use format::node::NodeEntry;
use recipe::{ChunkRefs, NodeCache, NodeSource, TreeRoot};
use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, SlotRange};

use super::{BadSlots, CheckReport};
use crate::error::Result;
use crate::monitor::Monitor;
use crate::snapshots::Snapshot;
use crate::store::Store;

/// What the structure consists of.
pub(super) struct Structure {
    /// Backups whose manifests can be read.
    pub(super) backups: Vec<Snapshot>,
    /// Every container that some manifest names or reaches.
    pub(super) containers: Vec<ContainerId>,
    /// Slots that cannot be had.
    pub(super) bad: BadSlots,
}

/// Follows everything; findings go to the report.
pub(super) fn check(store: &Store, monitor: &Monitor, report: &mut CheckReport) -> Result<Structure> {
    for damage in &store.config.damage {
        report.find(&damage.name, damage, true);
    }
    let list = store.manifests.list()?;
    for damaged in &list.damaged {
        report.find(&damaged.name, &damaged.why, false);
        if let Some((_, session, _)) = names::parse_manifest(&damaged.name) {
            report.damaged_backups.insert(session);
        }
    }
    let backups: Vec<Snapshot> = list.backups().filter_map(Snapshot::of).collect();
    let nodes = store.nodes();
    let mut walk = Walk {
        nodes: &nodes,
        monitor,
        sound: HashMap::new(),
        reached: BTreeSet::new(),
        bad: BTreeMap::new(),
    };
    monitor.set_total(backups.len() as u64);
    for snapshot in &backups {
        report.backups += 1;
        for stream in &snapshot.backup.streams {
            if !walk.stream(stream, report)? {
                report.damaged_backups.insert(snapshot.id);
            }
        }
        let own = snapshot
            .backup
            .containers
            .iter()
            .flat_map(|span| span.ids(snapshot.id));
        walk.reached.extend(own);
        monitor.add_done(1);
    }
    let Walk { reached, bad, .. } = walk;
    let containers: Vec<ContainerId> = reached.into_iter().collect();
    catalogs(store, &containers, report)?;
    Ok(Structure {
        backups,
        containers,
        bad,
    })
}

/// Every container is there, in as many copies as it should be, and its catalog opens.
fn catalogs(store: &Store, containers: &[ContainerId], report: &mut CheckReport) -> Result<()> {
    let storage = &store.env.storage;
    let mut mirrors = BTreeSet::new();
    for object in storage.list(names::MIRROR_FOLDER)? {
        if let Some(mirror) = names::parse_mirror(&object.name) {
            mirrors.insert((mirror.session, mirror.sequence));
        }
    }
    let mut mains = BTreeSet::new();
    for kind in ContainerKind::ALL {
        for object in storage.list(kind.folder())? {
            mains.extend(names::parse_container(&object.name).map(|(id, _)| id));
        }
    }
    for id in containers {
        report.containers += 1;
        let has_mirror = id.kind.is_mirrored() && mirrors.contains(&(id.session, id.sequence));
        if !mains.contains(id) {
            report.find(id, "the container is missing", has_mirror);
        }
        if id.kind.is_mirrored() && !has_mirror {
            report.find(id, "the container's mirror copy is missing", mains.contains(id));
        }
        match store.containers.catalog(*id) {
            Ok(_) => {}
            Err(error) if error.is_damage() => report.find(id, error, id.kind == ContainerKind::Catalog),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

struct Walk<'a> {
    nodes: &'a NodeCache,
    monitor: &'a Monitor,
    /// Nodes looked at, with the fingerprint by which they were, and whether all below is sound.
    sound: HashMap<(ChunkLocation, Fingerprint), bool>,
    reached: BTreeSet<ContainerId>,
    bad: BadSlots,
}

impl Walk<'_> {
    fn stream(&mut self, stream: &StreamRoot, report: &mut CheckReport) -> Result<bool> {
        let root = TreeRoot::from(stream);
        self.node(&root, report)
    }

    /// Looks at a node and all below it, each once.
    fn node(&mut self, node: &TreeRoot, report: &mut CheckReport) -> Result<bool> {
        if self.monitor.is_cancelled() {
            return Err(restore::RestoreError::Interrupted.into());
        }
        let key = (node.location, node.fingerprint);
        if let Some(sound) = self.sound.get(&key) {
            return Ok(*sound);
        }
        report.nodes += 1;
        self.reached.insert(node.location.container);
        let sound = match self.children(node) {
            Err(error) if stops(&error) => return Err(error.into()),
            Err(error) => {
                report.find(node.location.container, error, false);
                self.bad
                    .entry(node.location.container)
                    .or_default()
                    .push(SlotRange::one(node.location.slot));
                false
            }
            Ok(children) => {
                let mut sound = true;
                for child in children {
                    sound &= self.node(&child, report)?;
                }
                sound
            }
        };
        self.sound.insert(key, sound);
        Ok(sound)
    }

    /// The node's child nodes; of a segment, none, after a look at its references.
    fn children(&mut self, node: &TreeRoot) -> std::result::Result<Vec<TreeRoot>, recipe::RecipeError> {
        if node.level.get() == 1 {
            // Verifies the node's fingerprint against the catalogs of the chunks that it refers to.
            for reference in ChunkRefs::whole(self.nodes, node) {
                reference?;
            }
            for entry in &self.nodes.node(node.location)?.entries {
                if let NodeEntry::Run { container, .. } = entry {
                    self.reached.insert(*container);
                }
            }
            return Ok(Vec::new());
        }
        recipe::child_nodes(self.nodes, node)
    }
}

/// Whether the storage does not answer, so that going on is of no use.
fn stops(error: &recipe::RecipeError) -> bool {
    matches!(error, recipe::RecipeError::Container(error) if !error.is_damage())
}
