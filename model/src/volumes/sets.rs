//! Sets of blocks and of contents, and counts by block, as bytes.

/// Blocks of the device.
pub const BLOCKS: usize = 6;

/// A set of small numbers: blocks, or contents.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Set(u8);

impl Set {
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// The numbers of `bits`, lowest first.
    #[must_use]
    pub const fn new(bits: u8) -> Self {
        Self(bits)
    }

    /// One number.
    #[must_use]
    pub const fn one(number: u8) -> Self {
        Self(1 << number)
    }

    /// Whether `number` is in it.
    #[must_use]
    pub const fn has(self, number: u8) -> bool {
        self.0 & (1 << number) != 0
    }

    /// Adds `number`.
    pub const fn add(&mut self, number: u8) {
        self.0 |= 1 << number;
    }

    /// Removes `number`.
    pub const fn remove(&mut self, number: u8) {
        self.0 &= !(1 << number);
    }

    /// Both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Less `other`.
    #[must_use]
    pub const fn less(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of it is in `other`.
    #[must_use]
    pub const fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lowest number.
    #[must_use]
    pub fn first(self) -> Option<u8> {
        self.each().next()
    }

    /// Each number.
    pub fn each(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |&number| self.has(number))
    }
}

/// How often each block is in a list.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Tally([u8; BLOCKS]);

impl Tally {
    /// How often `block` is in it.
    #[must_use]
    pub fn of(&self, block: u8) -> u8 {
        self.0[usize::from(block)]
    }

    /// Adds `block` once.
    pub fn add(&mut self, block: u8) {
        self.0[usize::from(block)] += 1;
    }

    /// Takes `block` out once, if it is in it.
    pub fn remove(&mut self, block: u8) {
        self.0[usize::from(block)] = self.of(block).saturating_sub(1);
    }

    /// Adds all of `other`.
    pub fn add_all(&mut self, other: Self) {
        for (mine, others) in self.0.iter_mut().zip(other.0) {
            *mine += others;
        }
    }

    /// Whether nothing is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; BLOCKS]
    }
}
