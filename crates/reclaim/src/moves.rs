//! Containers that were merged into others: their slots have two names, and whoever checks either is told the same.
//!
//! What must hold: marks keep the names that nodes say; what is swept and decided is the container that has the slots
//! now, by all its names together; what is announced and removed is listed by all names, for a running session may
//! know either. The removed list of the newest finished epoch names every container that was moved, with the place of
//! its slots, whether or not its merging came to an end: so no name is ever missing from a list.

use std::collections::{BTreeMap, BTreeSet};

use container::ContainerError;
use format::names;
use format::reclaim::{ContainerSlots, Moved, Removed};
use types::{ContainerId, Generation, Slot, SlotRange};

use crate::error::{ReclaimError, Result};
use crate::prune::Context;
use crate::slots::{SlotMap, SlotSet, entry};
use crate::sweep::KINDS;

/// All that were moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moves {
    by_source: BTreeMap<ContainerId, Moved>,
    /// By the container that has the slots now.
    sources: BTreeMap<ContainerId, Vec<ContainerId>>,
}

impl Moves {
    pub(crate) fn new(moved: &[Moved]) -> Self {
        let mut moves = Self::default();
        for moved in moved {
            moves.by_source.insert(moved.from, *moved);
            moves.sources.entry(moved.to).or_default().push(moved.from);
        }
        moves
    }

    /// Those that the newest finished removed list names; where there may have been another since that cannot be read,
    /// those too that the store shows.
    pub(crate) fn load(context: &Context<'_>, last: Option<&Removed>, is_sure: bool) -> Result<Self> {
        let mut moved = last.map_or_else(Vec::new, |removed| removed.moved.clone());
        if !is_sure {
            moved = agreed(moved, in_the_store(context)?);
        }
        Ok(Self::new(&moved))
    }

    /// The container that has the slots now.
    pub(crate) fn now(&self, container: ContainerId) -> ContainerId {
        self.by_source.get(&container).map_or(container, |moved| moved.to)
    }

    pub(crate) fn is_moved(&self, container: ContainerId) -> bool {
        self.by_source.contains_key(&container)
    }

    /// Whether something was merged into it.
    pub(crate) fn has_sources(&self, container: ContainerId) -> bool {
        self.sources.contains_key(&container)
    }

    pub(crate) fn sources(&self, container: ContainerId) -> impl Iterator<Item = &Moved> {
        let sources = self.sources.get(&container).into_iter().flatten();
        sources.filter_map(|from| self.by_source.get(from))
    }

    /// All, in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Moved> {
        self.by_source.values()
    }

    /// As a new list says them: without those that go whole, and with those that it moves; `again` it moves once more.
    pub(crate) fn carried(
        &self,
        going: &[ContainerSlots],
        new: Vec<Moved>,
        again: &BTreeSet<ContainerId>,
    ) -> Vec<Moved> {
        let whole: BTreeSet<ContainerId> = going
            .iter()
            .filter(|entry| entry.slots.is_none())
            .map(|entry| entry.container)
            .collect();
        let old = self.by_source.values().map(|moved| Moved {
            is_new: again.contains(&moved.from),
            ..*moved
        });
        let mut all: Vec<Moved> = old.filter(|moved| !whole.contains(&moved.from)).collect();
        all.extend(new);
        all.sort_unstable_by_key(|moved| moved.from);
        all
    }

    /// Says of each container what is said of any of its names; old names are no more.
    pub(crate) fn settle(&self, slots: &mut SlotMap) {
        for moved in self.by_source.values() {
            if let (Some(old), Some(here)) = (slots.remove(moved.from), moved.here()) {
                let there = old.shifted(first(), here.first()).within(here);
                if !there.is_empty() {
                    slots.add(moved.to, &there);
                }
            }
        }
    }

    /// Where slots are now that a node names so; none of those that are named past what was merged.
    pub(crate) fn settled(
        &self,
        container: ContainerId,
        slots: SlotRange,
    ) -> Option<(ContainerId, SlotRange)> {
        let Some(moved) = self.by_source.get(&container) else {
            return Some((container, slots));
        };
        let (here, slots) = (moved.here()?, SlotSet::from_iter([slots]));
        let there = slots.shifted(first(), here.first()).within(here);
        Some((moved.to, there.ranges().next()?))
    }

    /// Whether any slot of a container is in a settled map, by whatever name.
    pub(crate) fn is_in(&self, settled: &SlotMap, container: ContainerId) -> bool {
        match self.by_source.get(&container) {
            None => settled.get(container).is_some(),
            Some(moved) => {
                let slots = settled.get(moved.to).zip(moved.here());
                slots.is_some_and(|(slots, here)| slots.meets(here))
            }
        }
    }

    /// A list of containers as they are now, with all their other names. One that was merged is listed whole where
    /// `goes_whole` says so of it, and where the container that has its slots is.
    pub(crate) fn with_names(
        &self,
        list: Vec<ContainerSlots>,
        goes_whole: impl Fn(&Moved) -> bool,
    ) -> Vec<ContainerSlots> {
        let mut all = Vec::with_capacity(list.len());
        for listed in list {
            let slots: Option<SlotSet> = listed
                .slots
                .as_ref()
                .map(|ranges| ranges.iter().copied().collect());
            for moved in self.sources(listed.container) {
                match &slots {
                    Some(slots) if !goes_whole(moved) => {
                        let Some(here) = moved.here() else { continue };
                        let old = slots.within(here).shifted(here.first(), first());
                        if !old.is_empty() {
                            all.push(entry(moved.from, Some(&old)));
                        }
                    }
                    _ => all.push(entry(moved.from, None)),
                }
            }
            all.push(listed);
        }
        all.sort_unstable_by_key(|slots| slots.container);
        all
    }
}

/// What the store shows, and what an older list says that does not contradict it: since then what was merged may have gone,
/// its slots been announced for another, and the container that had them been merged itself.
fn agreed(listed: Vec<Moved>, shown: Vec<Moved>) -> Vec<Moved> {
    let store = Moves::new(&shown);
    let mut all = listed;
    all.retain(|listed| match store.by_source.get(&listed.from) {
        Some(shown) => (shown.to, shown.first_here) == (listed.to, listed.first_here),
        None => {
            let meets = |shown: &Moved| {
                let (shown, listed) = (shown.here(), listed.here());
                let apart =
                    |(a, b): (SlotRange, SlotRange)| a.end() <= b.first().get() || b.end() <= a.first().get();
                !shown.zip(listed).is_some_and(apart)
            };
            !store.is_moved(listed.to)
                && !store.has_sources(listed.from)
                && !store.sources(listed.to).any(meets)
        }
    });
    let kept: BTreeSet<ContainerId> = all.iter().map(|moved| moved.from).collect();
    all.extend(shown.into_iter().filter(|moved| !kept.contains(&moved.from)));
    all
}

fn first() -> Slot {
    Slot::new(0).expect("slots begin at 0")
}

/// What catalogs say, where no list does: those of all containers that were ever rewritten.
fn in_the_store(context: &Context<'_>) -> Result<Vec<Moved>> {
    let mut rewritten: BTreeMap<ContainerId, Generation> = BTreeMap::new();
    for kind in KINDS {
        for meta in context.containers.env().storage.list(kind.folder())? {
            if let Some((id, generation)) = names::parse_container(&meta.name)
                && generation > Generation::FIRST
            {
                let highest = rewritten.entry(id).or_insert(generation);
                *highest = generation.max(*highest);
            }
        }
    }
    let mut all: BTreeMap<ContainerId, Moved> = BTreeMap::new();
    let (mut targets, mut unread) = (BTreeSet::new(), BTreeMap::new());
    for (id, generation) in rewritten {
        let view = match context.containers.generation(id, generation) {
            Ok(view) => view,
            Err(error) if error.is_damage() || matches!(error, ContainerError::Vanished { .. }) => {
                unread.insert(id, error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        targets.extend(view.moved_to());
        for range in view.merged() {
            // Slots keep their distances, so any range tells where slot 0 would be.
            let begins = range.first_here.get().checked_sub(range.slots.first().get());
            let Some(first_here) = begins.and_then(|begins| Slot::new(begins).ok()) else {
                continue;
            };
            let moved = all.entry(range.from).or_insert(Moved {
                from: range.from,
                count: 1,
                to: id,
                first_here,
                is_new: false,
            });
            moved.count = moved.count.max(range.slots.end());
        }
    }
    // Whether anything of it lives cannot be told by its own name alone.
    if let Some((id, error)) = unread.into_iter().find(|(id, _)| targets.contains(id)) {
        let what = format!(
            "{id}: {error}; others were merged into it, and no list tells which of its slots are theirs"
        );
        return Err(ReclaimError::Damaged { what });
    }
    Ok(all.into_values().collect())
}

#[cfg(test)]
mod tests {
    use types::{ContainerKind, SequenceNumber, SessionId};

    use super::*;

    fn id(n: u32) -> ContainerId {
        ContainerId {
            session: SessionId::new(1).unwrap(),
            kind: ContainerKind::Data,
            sequence: SequenceNumber::new(n).unwrap(),
        }
    }

    fn set(ranges: &[(u32, u32)]) -> SlotSet {
        let range = |(first, count): &(u32, u32)| SlotRange::new(Slot::new(*first).unwrap(), *count).unwrap();
        ranges.iter().map(range).collect()
    }

    /// Container 9 has slots 0 to 9 of its own, those of 1 from 10 on and those of 2 from 15 on.
    fn moves() -> Moves {
        let moved = |from, count, here| Moved {
            from: id(from),
            count,
            to: id(9),
            first_here: Slot::new(here).unwrap(),
            is_new: true,
        };
        Moves::new(&[moved(1, 5, 10), moved(2, 4, 15)])
    }

    #[test]
    fn what_is_said_of_any_name_is_said_of_the_container() {
        let moves = moves();
        let mut map = SlotMap::default();
        map.add(id(1), &set(&[(3, 1)]));
        map.add(id(2), &SlotSet::all());
        map.add(id(9), &set(&[(0, 2), (12, 1)]));
        map.add(id(4), &set(&[(7, 1)]));
        moves.settle(&mut map);
        assert_eq!(map.get(id(9)), Some(&set(&[(0, 2), (12, 2), (15, 4)])));
        assert_eq!((map.get(id(1)), map.get(id(2))), (None, None));
        assert_eq!(map.get(id(4)), Some(&set(&[(7, 1)])));
        let is_in = [1, 2, 3, 4, 9].map(|n| moves.is_in(&map, id(n)));
        assert_eq!(is_in, [true, true, false, true, true]);
    }

    /// 1 went since the list, its place was taken by 3, and 9 was merged into 20 with what it had of 4.
    #[test]
    fn an_older_list_does_not_contradict_the_store() {
        let moved = |from, to, here, count| Moved {
            from: id(from),
            count,
            to: id(to),
            first_here: Slot::new(here).unwrap(),
            is_new: false,
        };
        let listed = vec![
            moved(1, 8, 10, 5),
            moved(2, 8, 15, 9),
            moved(4, 9, 30, 2),
            moved(5, 10, 0, 4),
            moved(6, 8, 40, 7),
            moved(20, 21, 4, 4),
        ];
        let shown = vec![moved(2, 8, 15, 3), moved(3, 8, 12, 2), moved(9, 20, 7, 40)];
        let mut all = agreed(listed.clone(), shown.clone());
        all.sort_unstable_by_key(|moved| moved.from);
        let expected = [listed[1], shown[1], listed[3], listed[4], shown[2]];
        assert_eq!(all, expected);
    }

    #[test]
    fn a_list_has_all_names() {
        let moves = moves();
        let list = vec![
            entry(id(4), Some(&set(&[(1, 1)]))),
            entry(id(9), Some(&set(&[(2, 1), (11, 2), (15, 1)]))),
        ];
        let named = moves.with_names(list.clone(), |moved| moved.from == id(2));
        let expected = vec![
            entry(id(1), Some(&set(&[(1, 2)]))),
            entry(id(2), None),
            list[0].clone(),
            list[1].clone(),
        ];
        assert_eq!(named, expected);
        let whole = moves.with_names(vec![entry(id(9), None)], |_| false);
        assert_eq!(whole, [1, 2, 9].map(|n| entry(id(n), None)));
        assert_eq!(
            moves.carried(&whole[..1], Vec::new(), &BTreeSet::new()),
            [Moved {
                is_new: false,
                ..moves.by_source[&id(2)]
            }]
        );
    }
}
