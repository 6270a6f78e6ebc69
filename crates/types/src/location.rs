//! The location of a chunk or node: container and slots.

use std::fmt;

use crate::{ContainerId, Slot};

/// The place of one chunk or node: a container and a slot in it, whatever the generation [Guo 3.1].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ChunkLocation {
    /// The container.
    pub container: ContainerId,
    /// The slot in it.
    pub slot: Slot,
}

impl fmt::Display for ChunkLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} slot {}", self.container, self.slot)
    }
}

/// `count` slots of one container, from `first` on. The range is never empty, and never extends
/// past the last slot number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SlotRange {
    first: Slot,
    count: u32,
}

impl SlotRange {
    /// Checks and wraps a range; `None` if it is empty or extends past [`Slot::MAX`].
    #[must_use]
    pub fn new(first: Slot, count: u32) -> Option<Self> {
        let last = count.checked_sub(1)?;
        first.checked_add(last)?;
        Some(Self { first, count })
    }

    /// A range of one slot.
    #[must_use]
    pub const fn one(slot: Slot) -> Self {
        Self {
            first: slot,
            count: 1,
        }
    }

    /// The first slot.
    #[must_use]
    pub const fn first(self) -> Slot {
        self.first
    }

    /// The number of slots, at least 1.
    #[must_use]
    pub const fn count(self) -> u32 {
        self.count
    }

    /// One past the last slot's number.
    #[must_use]
    pub const fn end(self) -> u32 {
        self.first.get() + self.count
    }

    /// Whether the slot is in the range.
    #[must_use]
    pub const fn contains(self, slot: Slot) -> bool {
        self.first.get() <= slot.get() && slot.get() < self.end()
    }

    /// The slots in order.
    pub fn iter(self) -> impl Iterator<Item = Slot> {
        (self.first.get()..self.end()).filter_map(|n| Slot::new(n).ok())
    }
}
