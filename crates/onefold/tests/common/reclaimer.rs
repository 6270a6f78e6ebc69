//! The other half of the protocol of reclamation, played by the test: condemn, wait, decide,
//! remove.

use std::collections::{BTreeMap, BTreeSet};

use container::Containers;
use crypto::Credential;
use env::Storage;
use format::frame::ObjectKind;
use format::manifest::{Backup, ContainerSpan, Manifest};
use format::names;
use format::node::NodeEntry;
use format::reclaim::{Condemned, ContainerSlots, Removed};
use format::session::Checkpoint;
use object::{Sealer, config};
use recipe::{NodeCache, NodeSource};
use session::{Manifests, SessionTable};
use types::{ChunkLocation, ContainerId, ContainerKind, Epoch, Generation, Revision, SessionId, SlotRange};

use super::Process;

/// Slots, each by itself.
pub type Slots = BTreeSet<ChunkLocation>;

/// A process that reclaims.
pub struct Reclaimer {
    process: Process,
    sealer: Sealer,
    pub manifests: Manifests,
    containers: Containers,
    nodes: NodeCache,
}

impl Reclaimer {
    pub fn new(process: Process) -> Self {
        let opened = config::open(&process.env, Credential::NoPassword).unwrap();
        let sealer = opened.sealer(&process.env);
        let containers = Containers::new(process.env.clone(), opened.store(), &opened.keys, 8 << 20);
        Self {
            manifests: Manifests::new(&sealer),
            nodes: NodeCache::new(containers.clone(), 8 << 20),
            process,
            sealer,
            containers,
        }
    }

    pub fn sealer(&self) -> &Sealer {
        &self.sealer
    }

    pub fn table(&self) -> SessionTable {
        SessionTable::list(&self.sealer).unwrap()
    }

    /// The backup in a manifest, forgotten or not.
    pub fn backup(&self, id: SessionId) -> Backup {
        let list = self.manifests.list().unwrap();
        let series = list.get(id).unwrap().series();
        match &self.manifests.read(series, id, Revision::FIRST).unwrap().manifest {
            Manifest::Commit(backup) => backup.clone(),
            other => panic!("{id} is no backup but {other:?}"),
        }
    }

    pub fn forget(&self, id: SessionId) {
        let list = self.manifests.list().unwrap();
        self.manifests.forget(list.get(id).unwrap().series(), id).unwrap();
    }

    /// All slots of chunks and nodes in these containers.
    pub fn slots(&self, session: SessionId, spans: &[ContainerSpan]) -> Slots {
        let ids = spans.iter().flat_map(|span| span.ids(session));
        let hold = ids.filter(|id| id.kind != ContainerKind::Catalog);
        hold.flat_map(|container| {
            let view = self.containers.catalog(container).unwrap();
            let slots: Vec<_> = view.entries().iter().map(|entry| entry.slot).collect();
            slots
                .into_iter()
                .map(move |slot| ChunkLocation { container, slot })
        })
        .collect()
    }

    /// All slots of a backup's own containers.
    pub fn slots_of(&self, id: SessionId) -> Slots {
        self.slots(id, &self.backup(id).containers)
    }

    /// `condemned/<epoch>`.
    pub fn condemn(&self, epoch: u64, slots: &Slots) {
        let list = Condemned {
            epoch: Epoch::new(epoch).unwrap(),
            marks: Vec::new(),
            slots: self.by_container(slots),
        };
        self.sealer
            .put(
                &names::condemned(list.epoch),
                ObjectKind::Condemned,
                &list.to_bytes(),
            )
            .unwrap();
        self.sealer.barrier().unwrap();
    }

    /// The checkpoints of all running sessions, once all have answered.
    pub fn answers(&self, epoch: u64) -> Option<Vec<(SessionId, Checkpoint)>> {
        let epoch = Epoch::new(epoch).unwrap();
        let table = self.table();
        let mut all = Vec::new();
        for info in &table.running {
            if !info.has_answered(epoch) {
                return None;
            }
            let checkpoints = SessionTable::checkpoints(&self.sealer, info).unwrap();
            all.extend(checkpoints.into_iter().map(|checkpoint| (info.id, checkpoint)));
        }
        self.sealer.barrier().unwrap();
        Some(all)
    }

    /// The slots that these checkpoints and all backups keep that are not forgotten.
    pub fn live(&self, checkpoints: &[(SessionId, Checkpoint)]) -> Slots {
        let mut live = Slots::new();
        for (session, checkpoint) in checkpoints {
            for location in self.slots(*session, &checkpoint.containers) {
                self.mark(location, &mut live);
            }
            for (container, slots) in &checkpoint.references {
                for slot in slots.iter() {
                    let container = *container;
                    self.mark(ChunkLocation { container, slot }, &mut live);
                }
            }
            for (series, parent, revision) in &checkpoint.parents {
                let stored = self.manifests.read(*series, *parent, *revision).unwrap();
                if let Manifest::Commit(backup) | Manifest::Revised(backup) = &stored.manifest {
                    self.mark_streams(backup, &mut live);
                }
            }
        }
        for entry in self.manifests.list().unwrap().whole().unwrap().backups() {
            let backup = entry.backup().unwrap();
            self.mark_streams(backup, &mut live);
            for location in self.slots(entry.session(), &backup.containers) {
                self.mark(location, &mut live);
            }
        }
        live
    }

    /// Everything that a backup's streams reach, including nodes.
    pub fn reached_by(&self, backup: &Backup) -> Slots {
        let mut reached = Slots::new();
        self.mark_streams(backup, &mut reached);
        reached
    }

    /// A session that has committed has put every root of a backup: a rewrite commits before a
    /// revision has its roots.
    pub fn assert_roots_committed(&self, when: &str) {
        let list = self.manifests.list().unwrap();
        let is_committed = |id| {
            let entry = list.get(id);
            entry.is_some_and(|entry| entry.is_forgotten() || entry.backup().is_some())
        };
        for entry in list.backups() {
            for root in &entry.backup().unwrap().streams {
                let (of, put_by) = (entry.session(), root.location.container.session);
                assert!(
                    is_committed(put_by),
                    "{when}: backup {of} has a root of {put_by}, which has committed nothing"
                );
            }
        }
    }

    /// Whatever a crash left, every data slot that a node in the store reaches exists (INV-9). This
    /// does not hold for nodes of a session that has not ended, in containers that none of its
    /// checkpoints names: no look-up returns them, and the session puts them, and the slots that
    /// they reach, in any order. Nodes are deleted together, in any order.
    pub fn assert_no_node_dangles(&self, when: &str) {
        let ended = self.process.storage.list(names::BACKUPS_FOLDER).unwrap();
        let ended = ended.iter().filter_map(|meta| names::parse_manifest(&meta.name));
        let ended: BTreeSet<SessionId> = ended.map(|(_, session, _)| session).collect();
        // Its manifest may have been deleted, and its claim before that.
        let has_claim = |id| self.process.storage.head(&names::claim(id)).is_ok();
        let has_ended = |id| ended.contains(&id) || !has_claim(id);
        let mut named = BTreeSet::new();
        for info in &self.table().running {
            for checkpoint in SessionTable::checkpoints(&self.sealer, info).unwrap_or_default() {
                let all = self.slots(info.id, &checkpoint.containers).into_iter();
                named.extend(all.map(|location| location.container));
            }
        }
        for kind in [ContainerKind::Recipe, ContainerKind::Small] {
            let listed = self.process.storage.list(kind.folder()).unwrap();
            for (id, _) in listed
                .iter()
                .filter_map(|meta| names::parse_container(&meta.name))
                .filter(|(id, _)| has_ended(id.session) || named.contains(id))
            {
                let Ok(view) = self.containers.catalog(id) else {
                    continue;
                };
                if view.id() != id {
                    continue;
                }
                for entry in view.entries().iter().filter(|entry| entry.level.get() > 0) {
                    let at = ChunkLocation {
                        container: id,
                        slot: entry.slot,
                    };
                    for below in &self.nodes.node(at).unwrap().entries {
                        let NodeEntry::Run {
                            container,
                            first,
                            count,
                            ..
                        } = *below
                        else {
                            continue;
                        };
                        if container.kind != ContainerKind::Data {
                            continue;
                        }
                        let holds = self.containers.catalog(container);
                        let holds = holds.unwrap_or_else(|error| panic!("{when}: node {at}: {error}"));
                        for slot in SlotRange::new(first, count).unwrap().iter() {
                            assert!(
                                holds.entry(slot).is_some(),
                                "{when}: node {at} reaches {container} {slot:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    fn mark_streams(&self, backup: &Backup, marks: &mut Slots) {
        for stream in &backup.streams {
            self.mark(stream.location, marks);
        }
    }

    fn mark(&self, location: ChunkLocation, marks: &mut Slots) {
        if !marks.insert(location) {
            return;
        }
        let view = self.containers.catalog(location.container).unwrap();
        let entry = view
            .entry(location.slot)
            .unwrap_or_else(|| panic!("no {location}"));
        if entry.level.get() == 0 {
            return;
        }
        for entry in &self.nodes.node(location).unwrap().entries {
            let NodeEntry::Run {
                container,
                first,
                count,
                ..
            } = *entry
            else {
                continue;
            };
            for slot in SlotRange::new(first, count).unwrap().iter() {
                self.mark(ChunkLocation { container, slot }, marks);
            }
        }
    }

    /// Puts `removed/<epoch>`, and then removes the listed whole containers.
    pub fn remove(&self, epoch: u64, slots: &Slots) {
        let list = Removed {
            epoch: Epoch::new(epoch).unwrap(),
            slots: self.by_container(slots),
            marks: Vec::new(),
            left: Vec::new(),
            gone: Vec::new(),
            stored_bytes: 0,
        };
        self.sealer
            .put(&names::removed(list.epoch), ObjectKind::Removed, &list.to_bytes())
            .unwrap();
        self.sealer.barrier().unwrap();
        let storage = &self.process.storage;
        for gone in list.slots.iter().filter(|slots| slots.slots.is_none()) {
            let id = gone.container;
            storage.delete(&names::container(id, Generation::FIRST)).unwrap();
            if let Some(mirror) = names::mirror(id, Generation::FIRST) {
                storage.delete(&mirror).unwrap();
            }
        }
        storage.barrier().unwrap();
    }

    /// Puts `removed/<epoch>` with one whole container, and removes nothing.
    pub fn put_removed(&self, epoch: u64, container: ContainerId) {
        let list = Removed {
            epoch: Epoch::new(epoch).unwrap(),
            slots: vec![ContainerSlots {
                container,
                slots: None,
            }],
            marks: Vec::new(),
            left: Vec::new(),
            gone: Vec::new(),
            stored_bytes: 0,
        };
        let name = names::removed(list.epoch);
        self.sealer
            .put(&name, ObjectKind::Removed, &list.to_bytes())
            .unwrap();
    }

    fn by_container(&self, slots: &Slots) -> Vec<ContainerSlots> {
        let mut by: BTreeMap<ContainerId, Vec<SlotRange>> = BTreeMap::new();
        for location in slots {
            let ranges = by.entry(location.container).or_default();
            match ranges.last_mut() {
                Some(last) if last.end() == location.slot.get() => {
                    *last = SlotRange::new(last.first(), last.count() + 1).unwrap();
                }
                _ => ranges.push(SlotRange::one(location.slot)),
            }
        }
        let of = |(container, ranges): (ContainerId, Vec<SlotRange>)| {
            let held = self.containers.catalog(container).unwrap().entries().len();
            let listed: u32 = ranges.iter().map(|range| range.count()).sum();
            ContainerSlots {
                container,
                slots: (listed as usize != held).then_some(ranges),
            }
        };
        by.into_iter().map(of).collect()
    }
}
