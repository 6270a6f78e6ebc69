//! Catalogs of simulated containers, for look-ups.

use std::sync::Arc;

use index::{Catalog, HookKind};
use types::{ContainerId, ContainerKind, Fingerprint, Slot};

use super::slots::slot;
use super::stored::Stored;

/// A container's catalog.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    stored: Arc<Stored>,
    id: ContainerId,
    /// The number of a data container.
    number: Option<u32>,
}

impl Listed {
    /// `None` if nothing of the container is left.
    pub(super) fn of(stored: &Arc<Stored>, id: ContainerId) -> Option<Self> {
        let number = match id.kind {
            ContainerKind::Data if stored.containers.is_any_of(id) => stored.containers.number(id),
            ContainerKind::Recipe if stored.nodes.is_any_of(id) => None,
            _ => return None,
        };
        Some(Self {
            stored: Arc::clone(stored),
            id,
            number,
        })
    }

    /// The kind of its entries.
    pub(super) fn kind(&self) -> HookKind {
        if self.number.is_some() {
            HookKind::Data
        } else {
            HookKind::Node
        }
    }

    fn data(&self) -> Option<&super::containers::Container> {
        self.stored.containers.get(self.number?)
    }
}

impl Catalog for Listed {
    fn id(&self) -> ContainerId {
        self.id
    }

    fn has(&self, fingerprint: &Fingerprint) -> bool {
        self.slots_of(fingerprint, self.kind()).next().is_some()
    }

    fn slots_of(&self, fingerprint: &Fingerprint, kind: HookKind) -> impl Iterator<Item = Slot> {
        let data = self.data().filter(|_| kind == HookKind::Data);
        let chunks = data.into_iter().flat_map(move |container| {
            let found = container
                .table
                .iter()
                .flat_map(|table| table.positions(fingerprint));
            found.filter(move |position| {
                let held = container.chunks.get(*position as usize);
                // A catalog does not list removed chunks.
                held.is_some_and(|held| held.fingerprint == *fingerprint && held.uses > 0)
            })
        });
        let nodes = (kind == HookKind::Node && self.number.is_none())
            .then(|| self.stored.nodes.slots_of(self.id, fingerprint));
        chunks.map(slot).chain(nodes.into_iter().flatten())
    }

    fn fingerprints(&self, kind: HookKind) -> impl Iterator<Item = (Fingerprint, Slot)> {
        let data = self.data().filter(|_| kind == HookKind::Data);
        let chunks = data
            .into_iter()
            .flat_map(|container| container.chunks.iter().zip(0..));
        let chunks = chunks.filter(|(held, _)| held.uses > 0);
        let nodes =
            (kind == HookKind::Node && self.number.is_none()).then(|| self.stored.nodes.listed(self.id));
        chunks
            .map(|(held, n)| (held.fingerprint, slot(n)))
            .chain(nodes.into_iter().flatten())
    }

    fn fingerprint(&self, slot: Slot) -> Option<Fingerprint> {
        let held = self.data()?.chunks.get(slot.get() as usize)?;
        (held.uses > 0).then_some(held.fingerprint)
    }
}
