//! Generations that lack slots which nobody removed.
//!
//! Healing remakes a container without the slots whose chunks it does not find. The lost generation
//! may come back beside the remade one. Then neither can replace the other. Such a container stays
//! as it is until healing has united its generations.
//!
//! A container of chunks must keep every slot that is not on the list, whichever generation has it:
//! a chunk that comes back without need does no harm. A node may do harm, because the slots that it
//! reaches may be removed (INV-9). So a container of nodes must keep the slots that lists of damage
//! name, which healing puts before it puts a generation without them.

use std::collections::BTreeSet;

use container::CatalogView;
use types::{ContainerId, SlotRange};

use super::Removal;
use crate::compact::is_listed;
use crate::error::Result;
use crate::objects::Objects;
use crate::slots::SlotSet;

impl Removal<'_> {
    /// The slots that the next generation of a container must have, if several generations exist.
    /// Unreadable catalogs do not count.
    pub(super) fn due(&self, id: ContainerId, dead: &[SlotRange], found: &Objects) -> Result<SlotSet> {
        let mut due = SlotSet::default();
        if found.generations.len() < 2 {
            return Ok(due);
        }
        let (mut of, mut bodies) = (Vec::new(), BTreeSet::new());
        for generation in found.generations.keys() {
            if let Some(view) = self.readable(id, *generation)? {
                bodies.extend(view.body());
                let slots: SlotSet = slots_of(&view)
                    .filter(|slot| !is_listed(dead, slot.first()))
                    .collect();
                of.push((*generation, slots));
            }
        }
        // A body has slots that its trimmed generation no longer lists.
        let each = of.iter().filter(|(generation, _)| !bodies.contains(generation));
        each.for_each(|(_, slots)| due.add(slots));
        if id.kind.is_mirrored() {
            due = due.common(&(self.how.damaged)(id)?);
        }
        Ok(due)
    }
}

/// The due slots that a generation lacks.
pub(super) fn lacking(view: &CatalogView, due: &SlotSet) -> SlotSet {
    due.without(&slots_of(view).collect())
}

fn slots_of(view: &CatalogView) -> impl Iterator<Item = SlotRange> {
    view.entries().iter().map(|entry| SlotRange::one(entry.slot))
}
