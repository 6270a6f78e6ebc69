//! A volume's log: the root at its last durable mark, and the records since.
//!
//! In a scenario with checkpoints, it is the root of the last checkpoint, and all records since.
//! Then the log is in an extent of a few places, and turns round in it.

use super::root::{Record, Root};
use super::rules::{Rule, Rules};

/// Records that a log has room for since the last durable mark.
pub const TAIL: usize = 6;
/// Records of the lap before that are kept.
const LAP: usize = 3;

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
    /// Places of the extent in which the log turns round; 0 in a scenario without checkpoints.
    pub extent: u8,
    /// How many of the records a durable mark covers: only with checkpoints.
    pub marked: u8,
    /// Places before a checkpoint that is not durable: only with `TurnSettled` off.
    pub lent: u8,
    /// How many of them were written again.
    pub overwritten: u8,
    /// Records of the lap before that are still in their places, oldest first: only with `LapsTold`
    /// off.
    pub stale: [Option<Record>; LAP],
}

impl Log {
    /// The records.
    pub fn records(&self) -> impl Iterator<Item = Record> {
        self.tail.into_iter().take(usize::from(self.len)).flatten()
    }

    /// Whether there is room for another `more`.
    #[must_use]
    pub const fn has_room(&self, more: u8) -> bool {
        let places = if self.has_checkpoints() {
            (self.extent + self.lent) as usize
        } else {
            TAIL
        };
        (self.len + more) as usize <= places
    }

    /// Whether the log is cut by checkpoints, and not by marks.
    #[must_use]
    pub const fn has_checkpoints(&self) -> bool {
        self.extent > 0
    }

    /// Whether all records are covered by a durable mark.
    #[must_use]
    pub const fn is_marked(&self) -> bool {
        self.len == self.marked
    }

    /// An empty log of the same extent that begins at this root.
    #[must_use]
    pub fn anew(&self, base: Root) -> Self {
        Self {
            base,
            extent: self.extent,
            ..Self::default()
        }
    }

    /// Appends.
    pub fn push(&mut self, record: Record) {
        self.tail[usize::from(self.len)] = Some(record);
        self.len += 1;
        if self.has_checkpoints() && self.len > self.extent {
            self.overwritten = self.len - self.extent;
        }
        while usize::from(self.len) + self.stale.iter().flatten().count() > usize::from(self.extent)
            && self.stale[0].is_some()
        {
            self.stale.rotate_left(1);
            self.stale[LAP - 1] = None;
        }
        if self.ghost.is_some_and(|(place, _)| place < self.len) {
            self.ghost = None;
        }
    }

    /// A durable mark covers the first `count` records: they become part of the base, unless
    /// checkpoints cut the log.
    pub fn mark(&mut self, rules: Rules, count: u8) {
        if self.has_checkpoints() {
            self.marked = self.marked.max(count);
        } else {
            self.fold(rules, count);
        }
    }

    /// A checkpoint of the first `count` records is durable: the log begins behind them.
    pub fn cut(&mut self, rules: Rules, count: u8) {
        let mut stale: Vec<Record> = self.stale.iter().copied().flatten().collect();
        if !rules.has(Rule::LapsTold) {
            stale.extend(self.records().take(usize::from(count)));
        }
        let mut left = self.anew(self.base);
        left.tail = self.tail;
        left.tail.rotate_left(usize::from(count));
        left.tail[TAIL - usize::from(count)..].fill(None);
        left.len = self.len - count;
        left.flushed = self.flushed.saturating_sub(count);
        left.marked = self.marked.saturating_sub(count);
        for (place, record) in left.stale.iter_mut().rev().zip(stale.into_iter().rev()) {
            *place = Some(record);
        }
        let kept = left.stale.iter().flatten().count();
        left.stale.rotate_left(LAP - kept);
        *self = left;
    }

    /// The log as a recovery finds it. It ends at once if its first record was overwritten. With
    /// `LapsTold` off, records of the lap before follow the last one.
    #[must_use]
    pub fn as_found(&self) -> Self {
        if self.overwritten > 0 {
            return self.anew(self.base);
        }
        let mut found = *self;
        found.lent = 0;
        let kept = self.stale.iter().flatten().count();
        if self.has_checkpoints() && usize::from(self.len) + kept == usize::from(self.extent) {
            for record in self.stale.into_iter().flatten() {
                found.tail[usize::from(found.len)] = Some(record);
                found.len += 1;
            }
            found.stale = [None; LAP];
        }
        found
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
