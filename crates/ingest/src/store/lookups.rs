//! Look-ups of a running backup.
//!
//! A look-up takes a guard of the session, and treats slots as absent by its view. It drops the
//! guard when the found chunks are on their way to the packer, from which checkpoints are collected
//! (rule 4 of reclamation). It finds nothing in a container that no longer exists. It returns a
//! node only from a container that a committed manifest names, and only if every slot that the node
//! refers to exists (INV-9).

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use container::Containers;
use format::node::{Node, NodeEntry};
use index::{Index, Resolver};
use recipe::{KnownNode, NodeSource, SEGMENT_LEVEL};
use session::{EpochGuard, ReclaimView};
use types::{ChunkLocation, ContainerId, Fingerprint, SlotRange};

use crate::dedup::Holdings;
use crate::error::IngestError;
use crate::store::session::StoreSession;

/// A running look-up.
pub(crate) struct Lookup<'a> {
    session: &'a StoreSession,
    permit: EpochGuard,
}

impl StoreSession {
    /// Whether the backup may refer to these slots: none was reclaimed, or is known to be bad.
    pub(super) fn has(&self, view: &ReclaimView, container: ContainerId, slots: SlotRange) -> bool {
        self.keeps(view, container, slots) && !self.is_rotten(container, slots)
    }

    /// Whether reclamation leaves these slots.
    fn keeps(&self, view: &ReclaimView, container: ContainerId, slots: SlotRange) -> bool {
        view.is_whole(container, slots) && self.existence.stands(container)
    }

    /// Begins a look-up.
    pub(crate) fn look_up(&self) -> Lookup<'_> {
        Lookup {
            session: self,
            permit: self.session().look_up(),
        }
    }
}

impl Holdings for Lookup<'_> {
    type Index = Index;
    type Catalogs = Containers;

    /// Reclamation removed it, it is damaged, or its container no longer exists.
    fn is_absent(&self, location: ChunkLocation) -> bool {
        let slots = SlotRange::one(location.slot);
        !self.session.has(self.permit.view(), location.container, slots)
    }

    fn is_removed(&self, at: ChunkLocation) -> bool {
        !self.keeps(at.container, SlotRange::one(at.slot))
    }

    fn keeps_segment(&self, at: ChunkLocation) -> bool {
        let is_kept =
            |entry: &NodeEntry| refers_only_to(entry, |container, slots| self.keeps(container, slots));
        let node = || self.session.nodes.node(at);
        !self.is_removed(at)
            && node().is_ok_and(|node| node.level == SEGMENT_LEVEL && node.entries.iter().all(is_kept))
    }

    fn taken_over(&self) -> &BTreeSet<ContainerId> {
        &self.session.taken_over
    }

    /// A node counts as unknown if it cannot be read, or refers to a slot that does not exist.
    fn find_segment(
        &self,
        segments: &mut Resolver<Index>,
        fingerprint: &Fingerprint,
    ) -> Result<Option<(KnownNode, Arc<Node>)>, IngestError> {
        let found = self.find_node(segments, fingerprint, |node| {
            node.level == SEGMENT_LEVEL && node.entries.iter().all(|entry| self.is_whole(entry))
        })?;
        Ok(found.map(|(location, node)| {
            let known = KnownNode {
                location,
                containers_max: node.containers_max,
            };
            (known, node)
        }))
    }
}

impl Lookup<'_> {
    /// The place of a node with exactly these entries. A node with equal content in other places
    /// does not count, because its places were not checked.
    pub(crate) fn find_same(
        &self,
        fingerprint: &Fingerprint,
        wanted: &Node,
    ) -> Result<Option<ChunkLocation>, IngestError> {
        let mut upper = self
            .session
            .upper_nodes
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let found = self.find_node(&mut upper, fingerprint, |node| node == wanted)?;
        Ok(found.map(|(location, _)| location))
    }

    fn find_node(
        &self,
        resolver: &mut Resolver<Index>,
        fingerprint: &Fingerprint,
        is_wanted: impl Fn(&Node) -> bool,
    ) -> Result<Option<(ChunkLocation, Arc<Node>)>, IngestError> {
        let is_absent = |location: ChunkLocation| !self.is_named(location) || self.is_absent(location);
        let prefers = |id| self.session.is_of_previous(id);
        let mut places = Vec::new();
        resolver.resolve(fingerprint, &is_absent, &prefers, &mut places)?;
        let read = |location| Some((location, self.session.nodes.node(location).ok()?));
        let mut nodes = places.into_iter().filter_map(read);
        Ok(nodes.find(|(_, node)| is_wanted(node)))
    }

    fn keeps(&self, container: ContainerId, slots: SlotRange) -> bool {
        self.session.keeps(self.permit.view(), container, slots)
    }

    /// Whether a committed manifest names the container of a node.
    fn is_named(&self, location: ChunkLocation) -> bool {
        self.session.named.contains(location.container)
    }

    fn is_whole(&self, entry: &NodeEntry) -> bool {
        refers_only_to(entry, |container, slots| {
            self.session.has(self.permit.view(), container, slots)
        })
    }
}

/// Whether all slots are there to which an entry of a segment's node refers. A forward is not:
/// whoever refers to it would depend on another backup.
pub(super) fn refers_only_to(
    entry: &NodeEntry,
    are_there: impl FnOnce(ContainerId, SlotRange) -> bool,
) -> bool {
    match *entry {
        NodeEntry::Zeros { .. } => true,
        NodeEntry::Forward { .. } => false,
        NodeEntry::Run {
            container,
            first,
            count,
            ..
        } => SlotRange::new(first, count).is_some_and(|slots| are_there(container, slots)),
    }
}
