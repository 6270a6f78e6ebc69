//! Whether what a later backup has can be read, asked before an older one lets go of a copy of its
//! own.
//!
//! A chunk that two backups have in two places is there twice, and one copy goes when the older
//! backup refers forward. Where the other is damaged, and nobody has noticed, both would be lost.
//! So the one that stays is read first, each region once. What both have in one place is not read:
//! nobody lets go of it.

use std::cell::RefCell;
use std::collections::BTreeMap;

use container::Containers;
use recipe::{NodeSource, RecipeError};
use recipe::{Place, TreeRoot, open_node};
use types::{ChunkLocation, ContainerId, RegionIndex};

/// Regions that were read.
pub(super) struct Sound<'a> {
    containers: &'a Containers,
    regions: RefCell<BTreeMap<(ContainerId, RegionIndex), bool>>,
}

impl<'a> Sound<'a> {
    pub(super) const fn new(containers: &'a Containers) -> Self {
        Self {
            containers,
            regions: RefCell::new(BTreeMap::new()),
        }
    }

    /// Whether a chunk can stand in for one at another place. What cannot be read is none, whatever
    /// the reason.
    pub(super) fn stands_in(&self, new: Place, old: Place) -> bool {
        match new {
            Place::At(location) => new == old || self.is_readable(location),
            Place::Zeros => true,
        }
    }

    /// Whether all chunks of a segment can stand in for those of another with the same fingerprint.
    pub(super) fn segment(
        &self,
        nodes: &dyn NodeSource,
        new: &TreeRoot,
        old: &TreeRoot,
    ) -> Result<bool, RecipeError> {
        if new.location == old.location {
            return Ok(true);
        }
        let (new, old) = (open_node(nodes, new)?, open_node(nodes, old)?);
        let mut pairs = new.iter().zip(&old);
        Ok(new.len() == old.len() && pairs.all(|(new, old)| self.stands_in(new.place, old.place)))
    }

    fn is_readable(&self, at: ChunkLocation) -> bool {
        let Ok(view) = self.containers.catalog(at.container) else {
            return false;
        };
        let Some(region) = view.region_of(at.slot) else {
            return false;
        };
        let mut known = self.regions.borrow_mut();
        *known
            .entry((at.container, region))
            .or_insert_with(|| self.containers.read_region(&view, region).is_ok())
    }
}
