//! Checks that chunks of a later backup can be read before an older one drops its own copies.
//!
//! Two backups may have a chunk in two places. One copy becomes dead when the older backup refers
//! forward. If the other copy has unnoticed damage, both are lost. So the copy that stays is read
//! first, each region once. A chunk that both have in one place is not read, because nobody drops
//! it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use container::{CatalogView, Containers};
use recipe::{NodeSource, RecipeError};
use recipe::{Place, TreeRoot, open_node};
use types::{ChunkLocation, ContainerId, RegionIndex, Slot};

/// The regions read so far.
pub(super) struct Sound<'a> {
    containers: &'a Containers,
    /// The slots of each region whose chunks match their fingerprints.
    regions: RefCell<BTreeMap<(ContainerId, RegionIndex), BTreeSet<Slot>>>,
}

impl<'a> Sound<'a> {
    pub(super) const fn new(containers: &'a Containers) -> Self {
        Self {
            containers,
            regions: RefCell::new(BTreeMap::new()),
        }
    }

    /// Whether a chunk can replace its copies. `old` is their place if they have one place. An
    /// unreadable chunk cannot replace a copy at another place, whatever the reason.
    pub(super) fn stands_in(&self, new: Place, old: Option<Place>) -> bool {
        match new {
            Place::At(location) => Some(new) == old || self.is_readable(location),
            Place::Zeros => true,
        }
    }

    /// Whether all chunks of a segment can replace those of equal segments at these places.
    pub(super) fn segment(
        &self,
        nodes: &dyn NodeSource,
        new: &TreeRoot,
        places: impl Iterator<Item = ChunkLocation>,
    ) -> Result<bool, RecipeError> {
        for location in places.filter(|place| *place != new.location) {
            let old = open_node(nodes, &TreeRoot { location, ..*new })?;
            let new = open_node(nodes, new)?;
            let mut pairs = new.iter().zip(&old);
            if !pairs.all(|(new, old)| self.stands_in(new.place, Some(old.place))) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn is_readable(&self, at: ChunkLocation) -> bool {
        let Ok(view) = self.containers.catalog(at.container) else {
            return false;
        };
        let Some(region) = view.region_of(at.slot) else {
            return false;
        };
        let mut known = self.regions.borrow_mut();
        let whole = known.entry((at.container, region));
        let whole = whole.or_insert_with(|| self.whole_slots(&view, region));
        whole.contains(&at.slot)
    }

    /// The slots of a region whose chunks match their fingerprints. It is not enough that a region
    /// opens: healing writes zeros for a chunk that it has not found.
    fn whole_slots(&self, view: &CatalogView, region: RegionIndex) -> BTreeSet<Slot> {
        let Ok(plain) = self.containers.read_region(view, region) else {
            return BTreeSet::new();
        };
        let slots = view.entries()[view.positions_in(region)].iter();
        let slots = slots.map(|entry| entry.slot);
        let is_whole = |slot: &Slot| {
            let bytes = plain.slot_bytes(view, *slot);
            bytes.is_some_and(|bytes| self.containers.verify_chunk(view, *slot, bytes).is_ok())
        };
        slots.filter(is_whole).collect()
    }
}
