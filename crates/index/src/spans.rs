//! The containers of a section as spans: ordinals of at most 32 bits replace ids of 64.
//!
//! A session's containers are numbered in sequence, and at least one hook of each stays in a run.
//! So a run's containers form a span for each session and kind. Ordinals count them in the order of
//! their ids. All parts of a run have the same table, in blocks of rows. Look-ups search the mapped
//! blocks:
//!
//! ```text
//! 0    u16 rows, 1 to 339
//! 2    u64 id of the first container, u32 its ordinal; each row up to the next one's ordinal
//! ```
//!
//! Pure; no bytes cause a panic.

use std::ops::Range;

use format::wire::Writer;
use types::ContainerId;

use crate::block::{BODY_BYTES, Block, close_block};

const ROW_BYTES: usize = 12;
const ROWS_AT: usize = 2;
/// Rows of a block.
pub(crate) const TABLE_ROWS: usize = (BODY_BYTES - ROWS_AT) / ROW_BYTES;

/// Consecutive containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    /// [`ContainerId::to_u64`] of the first.
    pub(crate) id: u64,
    /// Its ordinal.
    pub(crate) ordinal: u32,
}

/// A section's table in memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Spans {
    rows: Vec<Row>,
    count: u32,
}

impl Spans {
    /// The table of containers in any order, each any number of times.
    pub(crate) fn of(containers: impl IntoIterator<Item = ContainerId>) -> Self {
        let mut ids: Vec<u64> = containers.into_iter().map(ContainerId::to_u64).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut spans = Self::default();
        for id in ids {
            spans.push(id);
        }
        spans
    }

    /// The containers of several tables for which `keep` is true.
    pub(crate) fn union<'a>(
        tables: impl IntoIterator<Item = &'a Self>,
        keep: &dyn Fn(ContainerId) -> bool,
    ) -> Self {
        let mut ranges: Vec<Range<u64>> = tables.into_iter().flat_map(Self::ranges).collect();
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        let (mut spans, mut next) = (Self::default(), 0);
        for range in ranges {
            for id in range.start.max(next)..range.end {
                if ContainerId::from_u64(id).is_some_and(keep) {
                    spans.push(id);
                }
            }
            next = next.max(range.end);
        }
        spans
    }

    /// Adds a container that sorts after all others.
    pub(crate) fn push(&mut self, id: u64) {
        let follows = self
            .rows
            .last()
            .is_some_and(|row| row.id + u64::from(self.count - row.ordinal) == id);
        if !follows {
            self.rows.push(Row {
                id,
                ordinal: self.count,
            });
        }
        self.count = self.count.saturating_add(1);
    }

    /// A table from the rows of blocks; `None` if they are not in order or do not end at `count`.
    pub(crate) fn from_rows(rows: Vec<Row>, count: u32) -> Option<Self> {
        let is_sorted = rows.is_sorted_by(|a, b| {
            let len = u64::from(b.ordinal.saturating_sub(a.ordinal));
            len > 0 && a.id.checked_add(len).is_some_and(|end| end <= b.id)
        });
        let begins = rows.first().map_or(0, |row| row.ordinal) == 0;
        let ends = rows.last().map_or(count == 0, |row| row.ordinal < count);
        (is_sorted && begins && ends).then_some(Self { rows, count })
    }

    /// The number of containers.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows.len()
    }

    /// Bits of an ordinal.
    pub(crate) fn ordinal_bits(&self) -> u32 {
        u32::BITS - self.count.saturating_sub(1).leading_zeros()
    }

    /// Ranges of consecutive ids.
    fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let ends = self
            .rows
            .iter()
            .skip(1)
            .map(|row| row.ordinal)
            .chain([self.count]);
        let spans = self.rows.iter().zip(ends);
        spans.map(|(row, end)| row.id..row.id.saturating_add(u64::from(end - row.ordinal)))
    }

    pub(crate) fn ordinal(&self, container: ContainerId) -> Option<u32> {
        let id = container.to_u64();
        let after = self.rows.partition_point(|row| row.id <= id);
        let row = self.rows.get(after.checked_sub(1)?)?;
        let end = self.rows.get(after).map_or(self.count, |row| row.ordinal);
        let ordinal = u32::try_from(id - row.id).ok()?.checked_add(row.ordinal)?;
        (ordinal < end).then_some(ordinal)
    }

    pub(crate) fn container(&self, ordinal: u32) -> Option<ContainerId> {
        let after = self.rows.partition_point(|row| row.ordinal <= ordinal);
        let row = self.rows.get(after.checked_sub(1)?)?;
        (ordinal < self.count).then(|| in_row(*row, ordinal))?
    }

    /// Appends the table's blocks.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        for rows in self.rows.chunks(TABLE_ROWS) {
            let mut w = Writer::new(out);
            w.u16(u16::try_from(rows.len()).expect("at most 339"));
            for row in rows {
                w.u64(row.id);
                w.u32(row.ordinal);
            }
            close_block(out);
        }
    }
}

/// The container of an ordinal in its row.
pub(crate) fn in_row(row: Row, ordinal: u32) -> Option<ContainerId> {
    let id = row.id.checked_add(u64::from(ordinal.checked_sub(row.ordinal)?))?;
    ContainerId::from_u64(id)
}

/// One block of a table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TableBlock<'a>(&'a [[u8; ROW_BYTES]]);

impl<'a> TableBlock<'a> {
    /// `None` when it has no rows, or more than fit.
    pub(crate) fn parse(block: Block<'a>) -> Option<Self> {
        let count = usize::from(block.u16_at(0)?);
        let (rows, _) = block.body().get(ROWS_AT..)?.as_chunks::<ROW_BYTES>();
        rows.get(..count).filter(|rows| !rows.is_empty()).map(Self)
    }

    pub(crate) fn rows(self) -> impl Iterator<Item = Row> + use<'a> {
        self.0.iter().map(split)
    }

    /// The last row that begins at or before this ordinal.
    pub(crate) fn row_of(self, ordinal: u32) -> Option<Row> {
        let after = self.0.partition_point(|row| split(row).ordinal <= ordinal);
        self.0.get(after.checked_sub(1)?).map(split)
    }
}

fn split(row: &[u8; ROW_BYTES]) -> Row {
    let (mut id, mut ordinal) = ([0; 8], [0; 4]);
    id.copy_from_slice(&row[..8]);
    ordinal.copy_from_slice(&row[8..]);
    Row {
        id: u64::from_le_bytes(id),
        ordinal: u32::from_le_bytes(ordinal),
    }
}

#[cfg(test)]
mod tests;
