//! The part of the found damage that no copy can replace.

use std::collections::BTreeMap;

use types::{ContainerKind, Slot, SlotRange};

use super::{Damage, Verified};
use crate::error::Part;
use crate::identity::CopyOf;

impl Verified {
    /// The slots that no copy has, ascending; `None`: the container as a whole.
    #[must_use]
    pub fn lost(&self, kind: ContainerKind) -> Option<Vec<SlotRange>> {
        let copies: &[CopyOf] = if kind.is_mirrored() {
            &[CopyOf::Main, CopyOf::Mirror]
        } else {
            &[CopyOf::Main]
        };
        let is_of = |damage: &Damage, copy: CopyOf| {
            damage.copy == copy || damage.copy == CopyOf::Body && copy == CopyOf::Main
        };
        let mut broken: BTreeMap<Slot, usize> = BTreeMap::new();
        let mut dead = 0;
        for copy in copies {
            let of_copy = || self.damages.iter().filter(|damage| is_of(damage, *copy));
            if of_copy().any(|damage| matches!(damage.part, Part::Trailer | Part::Catalog)) {
                dead += 1;
                continue;
            }
            let slots: std::collections::BTreeSet<Slot> = of_copy()
                .flat_map(|damage| &damage.slots)
                .flat_map(|slots| slots.iter())
                .collect();
            slots
                .into_iter()
                .for_each(|slot| *broken.entry(slot).or_default() += 1);
        }
        if dead == copies.len() {
            return None;
        }
        let lost = broken
            .into_iter()
            .filter(|(_, count)| count + dead >= copies.len());
        let mut out: Vec<SlotRange> = Vec::new();
        for (slot, _) in lost {
            let longer = out
                .last()
                .filter(|last| last.end() == slot.get())
                .and_then(|last| SlotRange::new(last.first(), last.count() + 1));
            match longer {
                Some(longer) => *out.last_mut()? = longer,
                None => out.push(SlotRange::one(slot)),
            }
        }
        Some(out)
    }
}
