//! Lists of damage, for look-ups.

use std::collections::BTreeMap;

use format::frame::ObjectKind;
use format::names;
use format::reclaim::{ContainerSlots, Damaged};
use types::{ContainerId, Slot, SlotRange};

use crate::error::Result;
use crate::store::Store;

/// Slots found bad, by container.
pub(crate) type BadSlots = BTreeMap<ContainerId, Vec<SlotRange>>;

impl Store {
    /// Lists bad slots for look-ups.
    pub(crate) fn list_damaged(&self, bad: &BadSlots) -> Result<()> {
        let mut numbers: BTreeMap<ContainerId, Vec<u32>> = BTreeMap::new();
        for ((id, number), _) in self.sealer.list(names::DAMAGED_FOLDER, names::parse_damaged)? {
            numbers.entry(id).or_default().push(number);
        }
        for (id, slots) in bad {
            let slots = merged(slots);
            let is_whole = slots == [all_slots()];
            let damaged = Damaged {
                slots: ContainerSlots {
                    container: *id,
                    slots: (!is_whole).then_some(slots),
                },
            };
            let listed = numbers.get(id).map_or(&[][..], Vec::as_slice);
            let says = |number: &u32| {
                let name = names::damaged(*id, *number);
                let read = self.sealer.read(&name, ObjectKind::Damaged, Damaged::decode);
                read.is_ok_and(|other| other == damaged)
            };
            if listed.iter().any(says) {
                continue;
            }
            let mut number = listed.iter().max().map_or(0, |number| number + 1);
            let put = |number| {
                let name = names::damaged(*id, number);
                self.sealer.put(&name, ObjectKind::Damaged, &damaged.to_bytes())
            };
            while let Err(error) = put(number) {
                // Another process has listed it meanwhile.
                if !error.is_already_exists() {
                    return Err(error.into());
                }
                number += 1;
            }
        }
        self.sealer.barrier()?;
        Ok(())
    }
}

/// The list of a container that is completely unreadable.
pub(crate) fn all_slots() -> SlotRange {
    let first = Slot::new(0).expect("slots begin at 0");
    SlotRange::new(first, Slot::MAX.get() + 1).expect("all slots are a range")
}

/// Makes ranges sorted, disjoint and not adjacent, as the format requires.
pub(crate) fn merged(slots: &[SlotRange]) -> Vec<SlotRange> {
    let mut sorted = slots.to_vec();
    sorted.sort_unstable();
    let mut out: Vec<SlotRange> = Vec::new();
    for range in sorted {
        match out.last_mut() {
            Some(last) if range.first().get() <= last.end() => {
                let end = last.end().max(range.end());
                let count = end - last.first().get();
                *last = SlotRange::new(last.first(), count).expect("the union of two ranges that touch");
            }
            _ => out.push(range),
        }
    }
    out
}
