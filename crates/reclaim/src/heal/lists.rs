//! The lists of damage, and the removed lists.

use std::collections::BTreeMap;

use format::frame::ObjectKind;
use format::names;
use format::reclaim::{ContainerRun, ContainerSlots, Damaged};
use object::{ObjectError, Sealer};
use types::{ContainerId, Slot, SlotRange};

use crate::epochs::{self, Epochs, Found};
use crate::error::Result;
use crate::slots::SlotSet;

/// All lists of damage, by container.
pub(super) struct Lists {
    of: BTreeMap<ContainerId, Listed>,
}

#[derive(Default)]
struct Listed {
    numbers: Vec<u32>,
    /// A list names the container as a whole, or cannot be read.
    is_whole: bool,
    slots: SlotSet,
    ranges: Vec<SlotRange>,
}

impl Lists {
    pub(super) fn read(sealer: &Sealer) -> Result<Self> {
        let mut of: BTreeMap<ContainerId, Listed> = BTreeMap::new();
        for ((id, number), _) in sealer.list(names::DAMAGED_FOLDER, names::parse_damaged)? {
            let read = sealer.read(&names::damaged(id, number), ObjectKind::Damaged, Damaged::decode);
            let listed = match read {
                Ok(list) => list.slots.slots,
                Err(error) if ObjectError::is_not_found(&error) => continue,
                Err(error) if epochs::is_lost(&error) => None,
                Err(error) => return Err(error.into()),
            };
            let entry = of.entry(id).or_default();
            entry.numbers.push(number);
            match listed {
                None => entry.is_whole = true,
                Some(ranges) => ranges.into_iter().for_each(|range| _ = entry.slots.insert(range)),
            }
        }
        for listed in of.values_mut() {
            listed.ranges = listed.slots.to_ranges();
        }
        Ok(Self { of })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The containers with their listed slots; `None`: the container as a whole.
    pub(super) fn iter(&self) -> impl Iterator<Item = (ContainerId, Option<&[SlotRange]>)> {
        self.of
            .iter()
            .map(|(id, listed)| (*id, (!listed.is_whole).then_some(&listed.ranges[..])))
    }

    /// Deletes the lists that were read, after it has put one of the remaining slots. Lists that
    /// others have put since stay.
    pub(super) fn close(&self, sealer: &Sealer, id: ContainerId, left: &[SlotRange]) -> Result<()> {
        let Some(listed) = self.of.get(&id) else {
            return Ok(());
        };
        if !left.is_empty() {
            if !listed.is_whole && listed.ranges == left {
                return Ok(());
            }
            let damaged = Damaged {
                slots: ContainerSlots {
                    container: id,
                    slots: Some(left.to_vec()),
                },
            };
            let mut number = listed.numbers.iter().max().map_or(0, |number| number + 1);
            while let Err(error) = sealer.put(
                &names::damaged(id, number),
                ObjectKind::Damaged,
                &damaged.to_bytes(),
            ) {
                if !error.is_already_exists() {
                    return Err(error.into());
                }
                number += 1;
            }
            sealer.barrier()?;
        }
        for number in &listed.numbers {
            epochs::delete(sealer, &names::damaged(id, *number))?;
        }
        Ok(())
    }
}

/// The contents of removed lists: slots on one never come back.
#[derive(Default)]
pub(super) struct OnRecord {
    gone: Vec<ContainerRun>,
    slots: BTreeMap<ContainerId, Option<SlotSet>>,
    /// A list cannot be read, so any slot may be on it.
    is_unsure: bool,
}

impl OnRecord {
    pub(super) fn read(sealer: &Sealer) -> Result<Self> {
        let mut out = Self::default();
        for epoch in Epochs::list(sealer)?.removed {
            match epochs::read_removed(sealer, epoch)? {
                Found::Missing => {}
                Found::Damaged(_) => out.is_unsure = true,
                Found::Whole(list) => {
                    out.gone.extend(list.gone);
                    for entry in list.slots {
                        let known = out.slots.entry(entry.container);
                        let known = known.or_insert_with(|| Some(SlotSet::default()));
                        match entry.slots {
                            None => *known = None,
                            Some(ranges) => {
                                if let Some(set) = known {
                                    ranges.into_iter().for_each(|range| _ = set.insert(range));
                                }
                            }
                        }
                    }
                }
            }
        }
        Ok(out)
    }

    /// Whether the container was removed as a whole.
    pub(super) fn is_gone(&self, id: ContainerId) -> bool {
        let number = id.to_u64();
        let is_in = |run: &ContainerRun| (run.first.to_u64()..=run.last_u64()).contains(&number);
        matches!(self.slots.get(&id), Some(None)) || self.gone.iter().any(is_in)
    }

    /// Whether healing may give a slot back that no generation has.
    pub(super) fn may_return(&self, id: ContainerId, slot: Slot) -> bool {
        let is_listed = match self.slots.get(&id) {
            None => false,
            Some(None) => true,
            Some(Some(set)) => set.contains(slot),
        };
        !self.is_unsure && !is_listed
    }

    /// Whether a list cannot be read, so that any container may have been removed.
    pub(super) fn is_unsure(&self) -> bool {
        self.is_unsure
    }
}
