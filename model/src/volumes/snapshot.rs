//! Snapshots: kept maps, and for each the blocks that the one before has and it has not.

use super::root::{Dropped, Entry, LBAS, Root};
use super::rules::{Rule, Rules};

/// Snapshots of a volume at one time.
pub const SNAPSHOTS: usize = 2;
/// Blocks in one dead list.
const DEAD: usize = 3;

/// A block that a snapshot has and a later map has not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Dead {
    /// The block.
    pub block: u8,
    /// The generation in which the map got it.
    pub birth: u8,
    /// Whether the index counts it: this item is one of its references.
    pub counted: bool,
}

/// Such blocks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct DeadList([Option<Dead>; DEAD]);

impl DeadList {
    /// Adds one. The order means nothing.
    pub fn push(&mut self, dead: Dead) {
        let place = self.0.iter_mut().find(|item| item.is_none());
        *place.expect("room in a dead list") = Some(dead);
        self.0.sort_unstable();
    }

    /// Each.
    pub fn each(&self) -> impl Iterator<Item = Dead> {
        self.0.into_iter().flatten()
    }
}

/// A kept map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Snapshot {
    /// The map.
    pub map: [Entry; LBAS],
    /// The generation that it ends.
    pub generation: u8,
    /// Blocks that the snapshot before has and this one has not.
    pub dead: DeadList,
    /// What was in the volume: the model's own knowledge.
    pub contents: [u8; LBAS],
}

impl Root {
    /// The newest snapshot.
    #[must_use]
    pub fn newest(&self) -> Option<&Snapshot> {
        self.snapshots.iter().flatten().last()
    }

    /// Keeps the map as it is.
    pub fn take_snapshot(&mut self, contents: [u8; LBAS]) {
        let place = self.snapshots.iter().position(Option::is_none);
        let taken = Snapshot {
            map: self.map,
            generation: self.generation,
            dead: self.dead,
            contents,
        };
        self.snapshots[place.expect("room for a snapshot")] = Some(taken);
        self.dead = DeadList::default();
        self.generation += 1;
    }

    /// Removes the snapshot at `place`, and drops what it alone has.
    pub fn remove_snapshot(&mut self, rules: Rules, place: u8, dropped: &mut Dropped) {
        let place = usize::from(place);
        let Some(removed) = self.snapshots[place] else {
            return;
        };
        let before = match place.checked_sub(1) {
            Some(earlier) => self.snapshots[earlier].map_or(0, |snapshot| snapshot.generation),
            None => 0,
        };
        let next = match self.snapshots.get_mut(place + 1) {
            Some(Some(later)) => &mut later.dead,
            _ => &mut self.dead,
        };
        let (mut left, items) = (DeadList::default(), *next);
        if rules.has(Rule::DeadListsMerged) {
            left = removed.dead;
        }
        let mut freed = DeadList::default();
        for item in items.each() {
            if item.birth > before || !rules.has(Rule::EarlierSnapshotsKeep) {
                freed.push(item);
            } else {
                left.push(item);
            }
        }
        *next = left;
        for item in freed.each() {
            if item.counted && rules.has(Rule::DeadCounted) {
                self.give_back(item.block, dropped);
            } else {
                dropped.limbo.add(item.block);
            }
        }
        self.snapshots[place] = None;
        if place == 0 {
            self.snapshots.swap(0, 1);
        }
    }

    /// Items of all dead lists.
    pub fn dead_items(&self) -> impl Iterator<Item = Dead> {
        let of_snapshots = self
            .snapshots
            .iter()
            .flatten()
            .flat_map(|snapshot| snapshot.dead.each());
        of_snapshots.chain(self.dead.each())
    }

    /// Drops a block: the newest snapshot may have it.
    pub fn release(&mut self, rules: Rules, dead: Dead, dropped: &mut Dropped) {
        let newest = self.newest().map_or(0, |snapshot| snapshot.generation);
        if dead.birth <= newest && rules.has(Rule::SnapshotKeeps) {
            self.dead.push(dead);
        } else if dead.counted {
            self.give_back(dead.block, dropped);
        } else {
            dropped.limbo.add(dead.block);
        }
    }
}
