//! A volume's log: the root at its last durable mark, and the records since.

use super::root::{Record, Root};
use super::rules::Rules;

/// Records that a log has room for since the last durable mark.
pub const TAIL: usize = 6;

/// A volume's log since the last durable mark.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Log {
    /// State where it begins.
    pub base: Root,
    /// Records.
    pub tail: [Option<Record>; TAIL],
    /// How many.
    pub len: u8,
    /// How many of them a power cut leaves.
    pub flushed: u8,
    /// How many of them a power cut has left: only with `VerdictDurable` off.
    pub doubted: u8,
    /// A record left behind a gap, and its place: only with `GapFenced` off.
    pub ghost: Option<(u8, Record)>,
}

impl Log {
    /// The records.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.tail.into_iter().take(usize::from(self.len)).flatten()
    }

    /// Whether there is room for another `more`.
    #[must_use]
    pub const fn has_room(&self, more: u8) -> bool {
        (self.len + more) as usize <= TAIL
    }

    /// Appends.
    pub fn push(&mut self, record: Record) {
        self.tail[usize::from(self.len)] = Some(record);
        self.len += 1;
        if self.ghost.is_some_and(|(place, _)| place < self.len) {
            self.ghost = None;
        }
    }

    /// Makes the first `count` records part of the base.
    pub fn fold(&mut self, rules: Rules, count: u8) {
        for record in self.tail.into_iter().take(usize::from(count)).flatten() {
            self.base.apply(rules, record);
        }
        let mut left = Self {
            base: self.base,
            ghost: self.ghost.map(|(place, record)| (place - count, record)),
            ..Self::default()
        };
        for mut record in self.records().skip(usize::from(count)) {
            if let Record::Mark { covers } = &mut record {
                *covers = covers.saturating_sub(count);
            }
            left.tail[usize::from(left.len)] = Some(record);
            left.len += 1;
        }
        left.flushed = self.flushed.saturating_sub(count);
        left.doubted = self.doubted.saturating_sub(count);
        *self = left;
    }
}
