//! Sets of slots, of one container and of many.
//!
//! Plain values. A set is sorted, disjoint ranges. Marked slots are next to each other, so a
//! container has one range or a few.

use std::collections::HashMap;

use format::reclaim::{ContainerSlots, SlotList};
use types::{ContainerId, Slot, SlotRange};

/// Slots of one container, as ranges `[first, end)` that are sorted and do not touch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct SlotSet {
    ranges: Vec<(u32, u32)>,
}

impl SlotSet {
    /// All possible slots.
    pub(crate) fn all() -> Self {
        Self {
            ranges: vec![(0, Slot::MAX.get() + 1)],
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds a range. Returns whether any slot of it is new.
    pub(crate) fn insert(&mut self, range: SlotRange) -> bool {
        self.insert_raw(range.first().get(), range.end())
    }

    fn insert_raw(&mut self, first: u32, end: u32) -> bool {
        // Slots nearly always come in ascending order.
        match self.ranges.last_mut() {
            None => {
                self.ranges.push((first, end));
                return true;
            }
            Some(last) if first > last.1 => {
                self.ranges.push((first, end));
                return true;
            }
            Some(last) if first >= last.0 => {
                let is_new = end > last.1;
                last.1 = last.1.max(end);
                return is_new;
            }
            Some(_) => {}
        }
        let from = self.ranges.partition_point(|range| range.1 < first);
        let to = self.ranges.partition_point(|range| range.0 <= end);
        let Some(touched) = self.ranges.get(from..to).filter(|touched| !touched.is_empty()) else {
            self.ranges.insert(from, (first, end));
            return true;
        };
        if touched.len() == 1 && touched[0].0 <= first && end <= touched[0].1 {
            return false;
        }
        let joined = (touched[0].0.min(first), touched[touched.len() - 1].1.max(end));
        self.ranges.splice(from..to, [joined]);
        true
    }

    pub(crate) fn contains(&self, slot: Slot) -> bool {
        let at = self.ranges.partition_point(|range| range.1 <= slot.get());
        self.ranges.get(at).is_some_and(|range| range.0 <= slot.get())
    }

    /// Adds all of another set.
    pub(crate) fn add(&mut self, other: &Self) {
        for (first, end) in &other.ranges {
            self.insert_raw(*first, *end);
        }
    }

    /// The slots of this set that the other lacks.
    pub(crate) fn without(&self, other: &Self) -> Self {
        let mut out = Vec::new();
        let mut cuts = other.ranges.iter().peekable();
        for &(mut first, end) in &self.ranges {
            while let Some(&&(cut, cut_end)) = cuts.peek() {
                if cut_end <= first {
                    cuts.next();
                    continue;
                }
                if cut >= end {
                    break;
                }
                if first < cut {
                    out.push((first, cut));
                }
                first = cut_end;
                if first >= end {
                    break;
                }
            }
            if first < end {
                out.push((first, end));
            }
        }
        Self { ranges: out }
    }

    /// The slots of both sets.
    pub(crate) fn common(&self, other: &Self) -> Self {
        self.without(&self.without(other))
    }

    /// The slots of this set in the range.
    pub(crate) fn within(&self, range: SlotRange) -> Self {
        let (first, end) = (range.first().get(), range.end());
        let cut = self.ranges.iter().map(|(a, b)| (first.max(*a), end.min(*b)));
        Self {
            ranges: cut.filter(|(a, b)| a < b).collect(),
        }
    }

    pub(crate) fn ranges(&self) -> impl Iterator<Item = SlotRange> + '_ {
        self.ranges.iter().filter_map(|(first, end)| {
            let first_slot = Slot::new(*first).ok()?;
            SlotRange::new(first_slot, end - first)
        })
    }

    pub(crate) fn to_ranges(&self) -> Vec<SlotRange> {
        self.ranges().collect()
    }
}

impl FromIterator<SlotRange> for SlotSet {
    fn from_iter<I: IntoIterator<Item = SlotRange>>(ranges: I) -> Self {
        let mut set = Self::default();
        for range in ranges {
            set.insert(range);
        }
        set
    }
}

/// Slots of many containers.
#[derive(Debug, Clone, Default)]
pub(crate) struct SlotMap {
    containers: HashMap<ContainerId, SlotSet>,
}

impl SlotMap {
    /// Adds a range. Returns whether any slot of it is new.
    pub(crate) fn insert(&mut self, container: ContainerId, range: SlotRange) -> bool {
        self.containers.entry(container).or_default().insert(range)
    }

    pub(crate) fn add(&mut self, container: ContainerId, slots: &SlotSet) {
        self.containers.entry(container).or_default().add(slots);
    }

    pub(crate) fn get(&self, container: ContainerId) -> Option<&SlotSet> {
        self.containers.get(&container)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ContainerId, &SlotSet)> {
        self.containers
            .iter()
            .map(|(container, slots)| (*container, slots))
    }

    pub(crate) fn contains(&self, container: ContainerId, slot: Slot) -> bool {
        self.get(container).is_some_and(|slots| slots.contains(slot))
    }

    pub(crate) fn into_sets(self) -> impl Iterator<Item = (ContainerId, SlotSet)> {
        self.containers.into_iter()
    }

    /// About how much memory it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let ranges: usize = self.containers.values().map(|set| set.ranges.len()).sum();
        self.containers.len() * size_of::<(ContainerId, SlotSet)>() + ranges * size_of::<(u32, u32)>()
    }

    /// Adds all slots of a list.
    pub(crate) fn add_list(&mut self, list: &SlotList) {
        let mut cursor = list.cursor();
        while let Some((container, ranges)) = cursor.next() {
            let set = self.containers.entry(container).or_default();
            if ranges.is_empty() {
                *set = SlotSet::all();
            }
            for range in ranges {
                set.insert(*range);
            }
        }
    }

    /// Encodes it as a list.
    pub(crate) fn into_list(self) -> SlotList {
        let mut entries: Vec<_> = self
            .containers
            .into_iter()
            .filter(|(_, set)| !set.is_empty())
            .collect();
        entries.sort_unstable_by_key(|(container, _)| *container);
        let mut list = SlotList::default();
        for (container, set) in entries {
            list.push(container, &set.to_ranges());
        }
        list
    }
}

/// A container's entry of a list: the whole container, or these slots.
pub(crate) fn entry(container: ContainerId, slots: Option<&SlotSet>) -> ContainerSlots {
    ContainerSlots {
        container,
        slots: slots.map(SlotSet::to_ranges),
    }
}

/// A container whose generations healing has to unite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Short {
    pub(crate) container: ContainerId,
    /// The slots that one generation has and another lacks.
    pub(crate) slots: SlotSet,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn range(first: u32, count: u32) -> SlotRange {
        SlotRange::new(Slot::new(first).unwrap(), count).unwrap()
    }

    fn parts() -> impl Strategy<Value = Vec<(u32, u32)>> {
        proptest::collection::vec((0..60u32, 1..9u32), 0..20)
    }

    fn plain(parts: &[(u32, u32)]) -> BTreeSet<u32> {
        parts
            .iter()
            .flat_map(|(first, count)| *first..first + count)
            .collect()
    }

    proptest! {
        #[test]
        fn a_set_has_exactly_its_inserted_slots(a in parts(), b in parts()) {
            let mut set = SlotSet::default();
            let mut model = BTreeSet::new();
            for (first, count) in &a {
                let before = model.len();
                model.extend(*first..first + count);
                prop_assert_eq!(set.insert(range(*first, *count)), model.len() > before);
            }
            let slots = |set: &SlotSet| set.ranges().flat_map(SlotRange::iter).map(Slot::get).collect::<Vec<_>>();
            prop_assert_eq!(slots(&set), model.iter().copied().collect::<Vec<_>>());
            prop_assert!(set.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0));
            let other: SlotSet = b.iter().map(|(first, count)| range(*first, *count)).collect();
            let rest = set.without(&other);
            let expected: Vec<u32> = model.difference(&plain(&b)).copied().collect();
            prop_assert_eq!(slots(&rest), expected);
            let expected: Vec<u32> = model.intersection(&plain(&b)).copied().collect();
            prop_assert_eq!(slots(&set.common(&other)), expected);
            for slot in 0..70 {
                prop_assert_eq!(set.contains(Slot::new(slot).unwrap()), model.contains(&slot));
            }
            let mut both = set.clone();
            both.add(&other);
            prop_assert_eq!(slots(&both), model.union(&plain(&b)).copied().collect::<Vec<_>>());
            for (first, count) in &b {
                let of = range(*first, *count);
                let within: Vec<u32> = model.iter().copied().filter(|slot| of.contains(Slot::new(*slot).unwrap())).collect();
                prop_assert_eq!(slots(&set.within(of)), within);
            }
        }
    }
}
