//! The source of catalogs for hooks: a store's containers, or a replacement for them.

use std::sync::Arc;

use container::{CatalogView, Containers};
use types::{ContainerId, Fingerprint, Slot};

use crate::catch_up::stops;
use crate::error::IndexError;
use crate::kind::HookKind;

/// Catalogs by container.
pub trait CatalogSource {
    /// A catalog that is cheap to pass on.
    type Catalog: Catalog;

    /// A container's catalog; `None` if it is missing, damaged, or on a bad sector.
    ///
    /// # Errors
    /// If the storage does not answer.
    fn catalog(&self, id: ContainerId) -> Result<Option<Self::Catalog>, IndexError>;
}

/// The content of a container.
pub trait Catalog {
    /// The container.
    fn id(&self) -> ContainerId;

    /// Whether the container has the fingerprint, of either kind.
    fn has(&self, fingerprint: &Fingerprint) -> bool;

    /// The slots of this fingerprint, in physical order.
    fn slots_of(&self, fingerprint: &Fingerprint, kind: HookKind) -> impl Iterator<Item = Slot>;

    /// All fingerprints of a kind, with their slots.
    fn fingerprints(&self, kind: HookKind) -> impl Iterator<Item = (Fingerprint, Slot)>;

    /// The fingerprint in a slot.
    fn fingerprint(&self, slot: Slot) -> Option<Fingerprint>;
}

impl CatalogSource for Containers {
    type Catalog = Arc<CatalogView>;

    fn catalog(&self, id: ContainerId) -> Result<Option<Self::Catalog>, IndexError> {
        match Containers::catalog(self, id) {
            Ok(view) => Ok(Some(view)),
            Err(e) if stops(self, id, &e) => Err(e.into()),
            Err(_) => Ok(None),
        }
    }
}

impl Catalog for Arc<CatalogView> {
    fn id(&self) -> ContainerId {
        CatalogView::id(self)
    }

    fn has(&self, fingerprint: &Fingerprint) -> bool {
        self.find(fingerprint).is_some()
    }

    fn slots_of(&self, fingerprint: &Fingerprint, kind: HookKind) -> impl Iterator<Item = Slot> {
        let all = self.find_all(fingerprint);
        all.filter(move |entry| (entry.level.get() == 0) == (kind == HookKind::Data))
            .map(|entry| entry.slot)
    }

    fn fingerprints(&self, kind: HookKind) -> impl Iterator<Item = (Fingerprint, Slot)> {
        let all = self.entries().iter();
        all.filter(move |entry| (entry.level.get() == 0) == (kind == HookKind::Data))
            .map(|entry| (entry.fingerprint, entry.slot))
    }

    fn fingerprint(&self, slot: Slot) -> Option<Fingerprint> {
        Some(self.entry(slot)?.fingerprint)
    }
}
