//! Nodes of segments, in recipe containers.

use std::sync::Arc;

use container::FingerprintTable;
use format::node::{Node, NodeEntry};
use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, Slot};

use super::containers::Ids;
use super::slots::slot;
use crate::error::SimulateError;

/// The most nodes of a recipe container: some MiB of them.
const CONTAINER_NODES: usize = 1 << 14;

/// A node that was written.
#[derive(Debug)]
pub(super) struct Written {
    pub(super) fingerprint: Fingerprint,
    pub(super) node: Arc<Node>,
    /// Chunks, zeros not counted.
    pub(super) chunks: u64,
    /// Bytes, zeros not counted.
    pub(super) bytes: u64,
}

#[derive(Debug)]
struct HeldNode {
    fingerprint: Fingerprint,
    /// Removed with the last reference to it.
    node: Option<Arc<Node>>,
    chunks: u64,
    bytes: u64,
    /// The number of references to it, from one backup or several.
    uses: u32,
}

#[derive(Debug)]
struct RecipeContainer {
    first: u32,
    count: u32,
    /// The number of nodes with a reference.
    named: u32,
    table: FingerprintTable,
}

/// All nodes, by number.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    all: Vec<HeldNode>,
    containers: Vec<RecipeContainer>,
    ids: Ids,
}

impl Nodes {
    pub(super) fn begin_session(&mut self) -> Result<(), SimulateError> {
        self.ids.begin(number(self.containers.len())?);
        Ok(())
    }

    /// The next node's number.
    pub(super) fn next(&self) -> Result<u32, SimulateError> {
        number(self.all.len())
    }

    /// Adds a backup's nodes. Returns their containers with the nodes in each.
    pub(super) fn add(
        &mut self,
        nodes: Vec<Written>,
    ) -> Result<Vec<(ContainerId, Vec<Fingerprint>)>, SimulateError> {
        let mut added = Vec::new();
        let mut nodes = nodes.into_iter().peekable();
        while nodes.peek().is_some() {
            let first = self.next()?;
            let held = nodes.by_ref().take(CONTAINER_NODES).map(|written| HeldNode {
                fingerprint: written.fingerprint,
                node: Some(written.node),
                chunks: written.chunks,
                bytes: written.bytes,
                uses: 0,
            });
            self.all.extend(held);
            let end = self.next()?;
            let held = &self.all[first as usize..];
            let prints: Vec<Fingerprint> = held.iter().map(|held| held.fingerprint).collect();
            let container = number(self.containers.len())?;
            self.containers.push(RecipeContainer {
                first,
                count: end - first,
                named: 0,
                table: FingerprintTable::new(prints.iter().copied()),
            });
            added.push((self.ids.id(ContainerKind::Recipe, container), prints));
        }
        Ok(added)
    }

    /// # Panics
    /// If the node has no reference any more.
    pub(super) fn node(&self, number: u32) -> &Arc<Node> {
        let node = self.all[number as usize].node.as_ref();
        node.expect("who asks names it")
    }

    /// Chunks and bytes, zeros not counted.
    pub(super) fn size(&self, number: u32) -> (u64, u64) {
        let held = &self.all[number as usize];
        (held.chunks, held.bytes)
    }

    /// Adds a reference. Returns whether it is the first.
    pub(super) fn name(&mut self, number: u32) -> bool {
        let container = self.container_of(number);
        let held = &mut self.all[number as usize];
        held.uses += 1;
        let is_first = held.uses == 1;
        self.containers[container].named += u32::from(is_first);
        is_first
    }

    /// Removes a reference. Returns whether it was the last.
    pub(super) fn unname(&mut self, number: u32) -> bool {
        let container = self.container_of(number);
        let held = &mut self.all[number as usize];
        held.uses -= 1;
        let is_last = held.uses == 0;
        if is_last {
            held.node = None;
            self.containers[container].named -= 1;
        }
        is_last
    }

    fn container_of(&self, number: u32) -> usize {
        self.containers
            .partition_point(|container| container.first <= number)
            - 1
    }

    pub(super) fn location(&self, number: u32) -> ChunkLocation {
        let at = self.container_of(number);
        let container = u32::try_from(at).expect("counted when it was added");
        ChunkLocation {
            container: self.ids.id(ContainerKind::Recipe, container),
            slot: slot(number - self.containers[at].first),
        }
    }

    fn container(&self, id: ContainerId) -> Option<&RecipeContainer> {
        self.containers.get(self.ids.number(id)? as usize)
    }

    /// Whether any node of a container has a reference.
    pub(super) fn is_any_of(&self, id: ContainerId) -> bool {
        self.container(id).is_some_and(|container| container.named > 0)
    }

    pub(super) fn number_at(&self, at: ChunkLocation) -> Option<u32> {
        let container = self.container(at.container)?;
        (at.slot.get() < container.count).then(|| container.first + at.slot.get())
    }

    /// The node at this location, if it has a reference.
    pub(super) fn named_at(&self, at: ChunkLocation) -> Option<&Arc<Node>> {
        let held = &self.all[self.number_at(at)? as usize];
        held.node.as_ref().filter(|_| held.uses > 0)
    }

    /// Fingerprints of a container's referenced nodes, by slot.
    pub(super) fn listed(&self, id: ContainerId) -> impl Iterator<Item = (Fingerprint, Slot)> {
        let container = self.container(id);
        container.into_iter().flat_map(|container| {
            let nodes = &self.all[container.first as usize..(container.first + container.count) as usize];
            let named = nodes.iter().zip(0..).filter(|(held, _)| held.uses > 0);
            named.map(|(held, n)| (held.fingerprint, slot(n)))
        })
    }

    /// Slots of a container whose nodes have this fingerprint and a reference.
    pub(super) fn slots_of(&self, id: ContainerId, fingerprint: &Fingerprint) -> impl Iterator<Item = Slot> {
        let container = self.container(id);
        container.into_iter().flat_map(move |container| {
            let found = container.table.positions(fingerprint);
            found.filter_map(move |position| {
                let held = self.all.get((container.first + position) as usize)?;
                (held.fingerprint == *fingerprint && held.uses > 0).then(|| slot(position))
            })
        })
    }
}

fn number(len: usize) -> Result<u32, SimulateError> {
    u32::try_from(len).map_err(|_| {
        SimulateError::Settings("the workload has more segments than there are numbers".to_owned())
    })
}

/// The runs of chunks of a segment's node.
pub(super) fn runs(node: &Node) -> impl Iterator<Item = (ContainerId, Slot, u32)> {
    node.entries.iter().filter_map(|entry| match *entry {
        NodeEntry::Run {
            container,
            first,
            count,
            ..
        } => Some((container, first, count)),
        _ => None,
    })
}
