//! Parts of a read that have no space. They are told to the client instead of being sent.

use std::ops::Range;

/// Holes of one read. Each costs a part of what is given to the system at once.
pub(crate) const HOLES_MAX: usize = 16;
/// A shorter hole is sent as data, unless it is the whole read. The heads of the chunks around a
/// hole are written over its memory.
const HOLE_BYTES_MIN: usize = 4096;

/// Parts of a read that have no space, in their order. Those that the server cannot use are left
/// out.
#[derive(Debug, Default)]
pub struct Holes {
    /// The first and the end of each; behind `count`, nothing.
    ranges: [(usize, usize); HOLES_MAX],
    count: usize,
}

impl Holes {
    /// Adds a part of the memory that was read into.
    ///
    /// # Panics
    /// If it begins before the last one ends.
    pub fn add(&mut self, hole: Range<usize>) {
        if let Some((_, end)) = self.last() {
            assert!(*end <= hole.start, "holes are told in their order");
            if *end == hole.start {
                *end = hole.end;
                return;
            }
        }
        self.drop_short_last();
        if self.count < HOLES_MAX && !hole.is_empty() {
            self.ranges[self.count] = (hole.start, hole.end);
            self.count += 1;
        }
    }

    fn last(&mut self) -> Option<&mut (usize, usize)> {
        self.ranges[..self.count].last_mut()
    }

    fn drop_short_last(&mut self) {
        if self
            .last()
            .is_some_and(|(start, end)| *end - *start < HOLE_BYTES_MIN)
        {
            self.count -= 1;
        }
    }

    /// Whether a read of so many bytes is one hole.
    pub(crate) fn are_all(&self, len: usize) -> bool {
        self.ranges[..self.count] == [(0, len)]
    }

    /// The holes that have chunks of their own.
    pub(crate) fn usable(&mut self) -> impl Iterator<Item = Range<usize>> {
        self.drop_short_last();
        self.ranges[..self.count].iter().map(|(start, end)| *start..*end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIN: usize = HOLE_BYTES_MIN;

    fn holes(told: &[Range<usize>]) -> Holes {
        let mut holes = Holes::default();
        told.iter().for_each(|hole| holes.add(hole.clone()));
        holes
    }

    #[test]
    fn parts_that_touch_are_one_hole_and_short_ones_are_none() {
        let mut found = holes(&[
            10..20,
            20..MIN + 10,
            MIN + 11..2 * MIN,
            3 * MIN..4 * MIN,
            5 * MIN..6 * MIN - 1,
        ]);
        assert_eq!(
            found.usable().collect::<Vec<_>>(),
            [10..MIN + 10, 3 * MIN..4 * MIN]
        );
        assert!(holes(&[0..5, 5..9]).are_all(9) && !holes(&[0..5, 5..9]).are_all(10));
        assert!(!holes(&[1..5, 5..9]).are_all(9) && !holes(&[]).are_all(9));
        assert_eq!(holes(&[0..5, 5..9]).usable().count(), 0);
    }

    #[test]
    fn there_are_at_most_so_many_and_short_ones_take_no_place() {
        let mut told = Vec::new();
        for n in 0..HOLES_MAX + 3 {
            told.push(3 * n * MIN..(3 * n + 1) * MIN);
            told.push((3 * n + 2) * MIN..(3 * n + 2) * MIN + 1);
        }
        let wanted: Vec<_> = told.iter().step_by(2).take(HOLES_MAX).cloned().collect();
        assert_eq!(holes(&told).usable().collect::<Vec<_>>(), wanted);
    }

    #[test]
    #[should_panic(expected = "in their order")]
    fn a_hole_before_the_last_one_is_a_defect() {
        holes(&[10..20, 19..30]);
    }
}
