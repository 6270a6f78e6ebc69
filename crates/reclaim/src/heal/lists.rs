//! The lists of damage, and the removed lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use format::frame::ObjectKind;
use format::names;
use format::reclaim::{ContainerRun, ContainerSlots, Damaged};
use object::{ObjectError, Sealer};
use types::{ContainerId, Slot, SlotRange};

use crate::epochs::{self, Epochs, Found};
use crate::error::Result;
use crate::slots::Short;
use crate::slots::SlotSet;

/// All lists of damage, by container.
pub(super) struct Lists {
    of: BTreeMap<ContainerId, Listed>,
    /// The slots named by the lists of other containers: none.
    nothing: Listed,
}

/// What lists say of a container.
#[derive(Default)]
pub(super) struct Listed {
    /// The lists by number. `None`: of the container as a whole, or not readable.
    lists: BTreeMap<u32, Option<Vec<SlotRange>>>,
    /// The lists on a bad sector, which may be readable later: they stay.
    unread: BTreeSet<u32>,
    /// A list names the container as a whole, or cannot be read.
    pub(super) is_whole: bool,
    /// The slots that the other lists name.
    pub(super) slots: SlotSet,
}

impl Listed {
    fn add(&mut self, number: u32, slots: Option<Vec<SlotRange>>) {
        match &slots {
            None => self.is_whole = true,
            Some(ranges) => ranges.iter().for_each(|range| _ = self.slots.insert(*range)),
        }
        self.lists.insert(number, slots);
    }
}

impl Lists {
    pub(super) fn read(sealer: &Sealer) -> Result<Self> {
        let mut of: BTreeMap<ContainerId, Listed> = BTreeMap::new();
        for ((id, number), _) in sealer.list(names::DAMAGED_FOLDER, names::parse_damaged)? {
            let read = sealer.read(&names::damaged(id, number), ObjectKind::Damaged, Damaged::decode);
            let is_unread = matches!(read, Err(ObjectError::Storage(_)));
            let slots = match read {
                Ok(list) => list.slots.slots,
                Err(error) if ObjectError::is_not_found(&error) => continue,
                Err(error) if epochs::is_lost(&error) => None,
                Err(error) => return Err(error.into()),
            };
            let listed = of.entry(id).or_default();
            listed.add(number, slots);
            if is_unread {
                listed.unread.insert(number);
            }
        }
        let nothing = Listed::default();
        Ok(Self { of, nothing })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// The containers that are listed.
    pub(super) fn ids(&self) -> impl Iterator<Item = ContainerId> {
        self.of.keys().copied()
    }

    /// What is said of a container.
    pub(super) fn get(&self, id: ContainerId) -> &Listed {
        self.of.get(&id).unwrap_or(&self.nothing)
    }

    /// Makes a list of these slots durable, before a generation without them exists: that one says
    /// nothing of them.
    pub(super) fn foretell(&mut self, sealer: &Sealer, id: ContainerId, left: &[SlotRange]) -> Result<()> {
        let listed = self.of.entry(id).or_default();
        let left_set: SlotSet = left.iter().copied().collect();
        if !left_set.without(&listed.slots).is_empty() {
            put(sealer, id, listed, left)?;
        }
        // The process that put a list may have died before its barrier.
        sealer.barrier()?;
        Ok(())
    }

    /// Deletes the lists that were read or are rotten, except the list that names exactly the slots
    /// still left. It puts that list if there is none. Lists that other processes have put since
    /// stay.
    pub(super) fn close(&mut self, sealer: &Sealer, id: ContainerId, left: &[SlotRange]) -> Result<()> {
        let Some(listed) = self.of.get_mut(&id) else {
            return Ok(());
        };
        let mut kept = None;
        if !left.is_empty() {
            let says = |(_, slots): &(&u32, &Option<Vec<SlotRange>>)| slots.as_deref() == Some(left);
            kept = listed.lists.iter().find(says).map(|(number, _)| *number);
            if kept.is_none() {
                kept = Some(put(sealer, id, listed, left)?);
            }
            if listed.lists.len() > 1 {
                sealer.barrier()?;
            }
        }
        let stays = |number: &u32| Some(*number) == kept || listed.unread.contains(number);
        for number in listed.lists.keys().filter(|number| !stays(number)) {
            epochs::delete(sealer, &names::damaged(id, *number))?;
        }
        Ok(())
    }
}

/// The lists of damage, read on first use: only containers with several generations need them.
pub(crate) struct ListedDamage<'a> {
    sealer: &'a Sealer,
    lists: Mutex<Option<Lists>>,
}

impl<'a> ListedDamage<'a> {
    pub(crate) fn new(sealer: &'a Sealer) -> Self {
        let lists = Mutex::default();
        Self { sealer, lists }
    }

    /// The slots of a container that lists name. A list that names the whole container, or cannot
    /// be read, names all.
    pub(crate) fn of(&self, id: ContainerId) -> Result<SlotSet> {
        let mut lists = self.lists.lock().unwrap_or_else(PoisonError::into_inner);
        let lists = match &mut *lists {
            Some(lists) => lists,
            unread => unread.insert(Lists::read(self.sealer)?),
        };
        let listed = lists.get(id);
        Ok(if listed.is_whole {
            SlotSet::all()
        } else {
            listed.slots.clone()
        })
    }
}

/// Lists the slots that one generation of a container has and another lacks, durably. Healing then
/// unites them.
pub(crate) fn want(sealer: &Sealer, all: &[Short]) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let mut lists = Lists::read(sealer)?;
    for short in all {
        lists.foretell(sealer, short.container, &short.slots.to_ranges())?;
    }
    Ok(())
}

/// Puts a list, and returns its number.
fn put(sealer: &Sealer, id: ContainerId, listed: &mut Listed, slots: &[SlotRange]) -> Result<u32> {
    let damaged = Damaged {
        slots: ContainerSlots {
            container: id,
            slots: Some(slots.to_vec()),
        },
    };
    let mut number = listed.lists.last_key_value().map_or(0, |(number, _)| number + 1);
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
    listed.add(number, Some(slots.to_vec()));
    Ok(number)
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
        matches!(self.slots.get(&id), Some(None)) || self.gone.iter().any(|run| run.contains(id))
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use env::Storage;
    use env::fault::{Counted, FailWith, Fault, FaultStorage, OpKind};
    use types::{ContainerKind, SequenceNumber, SessionId, Slot};

    use super::*;
    use crate::test_store;

    /// Only the list says what is missing from a container that was made again.
    #[test]
    fn a_list_that_cannot_be_read_now_stays() {
        let storage = FaultStorage::new();
        let containers = test_store::containers(Arc::new(storage.clone()), 1 << 20);
        let sealer = test_store::sealer(&containers);
        let id = ContainerId {
            session: SessionId::new(1).unwrap(),
            kind: ContainerKind::Data,
            sequence: SequenceNumber::new(0).unwrap(),
        };
        let slots = [SlotRange::one(Slot::new(3).unwrap())];
        Lists::read(&sealer)
            .unwrap()
            .foretell(&sealer, id, &slots)
            .unwrap();
        let one_get = |with| Fault::fail(1, with).counting(Counted::Only(OpKind::Get));
        let exists = || storage.head(&names::damaged(id, 0)).is_ok();

        storage.inject(one_get(FailWith::Outage));
        assert!(Lists::read(&sealer).is_err());
        storage.inject(one_get(FailWith::Io));
        let mut unread = Lists::read(&sealer).unwrap();
        assert!(unread.get(id).is_whole);
        unread.close(&sealer, id, &[]).unwrap();
        assert!(exists());
        // What rots says nothing any more.
        assert!(storage.damage(&names::damaged(id, 0), |bytes| bytes[40] ^= 1));
        let mut rotten = Lists::read(&sealer).unwrap();
        assert!(rotten.get(id).is_whole);
        rotten.close(&sealer, id, &[]).unwrap();
        assert!(!exists());
    }
}
