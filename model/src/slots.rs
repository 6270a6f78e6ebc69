//! Sets of slots, of sessions and of epochs, as bytes: a state must be small to be explored.

use std::fmt;
use std::ops::{BitAnd, BitOr, BitOrAssign, Not, Sub, SubAssign};

/// A set of slots. Bits 0..4 are data slots, bits 4..8 are node slots.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Slots(u8);

/// Node slots in the model.
pub const NODES: usize = 4;
const DATA_BITS: u8 = 0x0f;

impl Slots {
    /// No slot.
    pub const NONE: Self = Self(0);

    /// Data slot `n`.
    #[must_use]
    pub const fn data(n: u8) -> Self {
        Self(1 << n)
    }

    /// Node slot `n`.
    #[must_use]
    pub const fn node(n: u8) -> Self {
        Self(1 << (n + 4))
    }

    /// The union, usable in constants.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether it has no member.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether the two share a member.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether all members are in `other`.
    #[must_use]
    pub const fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The data slots of the set.
    #[must_use]
    pub const fn only_data(self) -> Self {
        Self(self.0 & DATA_BITS)
    }

    /// The node slots of the set.
    #[must_use]
    pub const fn only_nodes(self) -> Self {
        Self(self.0 & !DATA_BITS)
    }

    /// The members, one by one.
    pub fn each(self) -> impl Iterator<Item = Self> {
        (0..8)
            .map(|bit| Self(1 << bit))
            .filter(move |one| one.meets(self))
    }

    /// Every subset, the empty one first.
    pub fn subsets(self) -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map(Self).filter(move |subset| subset.within(self))
    }

    /// Positions of the node slots in a table of nodes.
    pub fn node_numbers(self) -> impl Iterator<Item = usize> {
        (0..NODES).filter(move |n| self.0 & (0x10 << n) != 0)
    }

    /// Positions of all slots in a table of slots.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..8).filter(move |n| self.0 & (1 << n) != 0)
    }
}

impl BitOr for Slots {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Slots {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl BitAnd for Slots {
    type Output = Self;
    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl Not for Slots {
    type Output = Self;
    fn not(self) -> Self {
        Self(!self.0)
    }
}

impl Sub for Slots {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl SubAssign for Slots {
    fn sub_assign(&mut self, other: Self) {
        self.0 &= !other.0;
    }
}

impl fmt::Debug for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (place, n) in self.numbers().enumerate() {
            let (kind, n) = if n < 4 { ('d', n) } else { ('n', n - 4) };
            write!(f, "{}{kind}{n}", if place == 0 { "" } else { " " })?;
        }
        f.write_str("}")
    }
}

/// A small set of numbers: sessions, manifests or epochs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Numbers(u8);

impl Numbers {
    /// No number.
    pub const NONE: Self = Self(0);

    /// The set of one number.
    #[must_use]
    pub const fn one(n: usize) -> Self {
        Self(1 << n)
    }

    /// The union.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The members not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The members in both.
    #[must_use]
    pub const fn both(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether `n` is a member.
    #[must_use]
    pub const fn has(self, n: usize) -> bool {
        self.0 & (1 << n) != 0
    }

    /// Whether it has no member.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Adds `n`.
    pub fn add(&mut self, n: usize) {
        self.0 |= 1 << n;
    }

    /// Removes `n`.
    pub fn remove(&mut self, n: usize) {
        self.0 &= !(1 << n);
    }

    /// The members in ascending order.
    pub fn each(self) -> impl Iterator<Item = usize> {
        (0..8).filter(move |n| self.has(*n))
    }

    /// Every subset, the empty one first.
    pub fn subsets(self) -> impl Iterator<Item = Self> {
        (0..=u8::MAX)
            .map(Self)
            .filter(move |subset| subset.without(self).is_empty())
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.each()).finish()
    }
}

/// A number from 0 to 3 for each session.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Counts(u16);

impl Counts {
    /// Nothing but zeros.
    pub const NONE: Self = Self(0);

    /// The number of session `n`.
    #[must_use]
    pub const fn get(self, n: usize) -> u8 {
        (self.0 >> (2 * n) & 3).to_le_bytes()[0]
    }

    /// Whether all are 0.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Gives session `n` the number `count`, which is at most 3.
    pub fn set(&mut self, n: usize, count: u8) {
        debug_assert!(count <= 3, "two bits");
        self.0 = self.0 & !(3 << (2 * n)) | u16::from(count) << (2 * n);
    }

    /// Sessions whose number is not 0, with it.
    pub fn each(self) -> impl Iterator<Item = (usize, u8)> {
        (0..8)
            .map(move |n| (n, self.get(n)))
            .filter(|(_, count)| *count > 0)
    }
}

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.each()).finish()
    }
}
