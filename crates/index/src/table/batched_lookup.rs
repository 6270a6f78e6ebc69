//! Many look-ups that are made together, so that their waits for memory overlap.
//!
//! In gigabytes of memory, a look-up reads four places, and each one gives the address of the next:
//! the line of the directory, the slot where the tag should be, the slots beside it, and the
//! container of the found entry. Here look-ups advance in teams. One step of a team finds the
//! addresses of its next step, and prefetches all of them at once. While they load, other teams
//! take their steps. Single prefetches between other work would load one by one, because a
//! processor waits at each prefetch until the address is translated. The answers are those of
//! successive look-ups.

use crate::table::hint::expect_line;
use crate::table::hook_table::HookTable;
use crate::table::ordinals::Ordinals;
use crate::table::pages::Pages;
use crate::table::slots::{Near, Rank};

/// The best number of look-ups in a batch. With fewer, not all teams are active for most of the
/// time. With more, more look-ups are wasted, since a catalog that one of them finds may answer for
/// all after it.
pub(crate) const TOGETHER: usize = 8 * TEAM;
/// Look-ups in a team, which take each step together.
const TEAM: usize = 16;

/// A look-up in progress.
#[derive(Debug, Clone, Copy)]
struct LookUp<'a> {
    segment: usize,
    tag: u64,
    rank: Rank,
    /// The page of the segment, and the approximate place on it.
    page: usize,
    near: Option<Near<'a>>,
}

impl LookUp<'_> {
    const NONE: Self = Self {
        segment: 0,
        tag: 0,
        rank: Rank::ANCHOR,
        page: 0,
        near: None,
    };
}

/// The look-ups, and the tables that they search.
struct Steps<'a, W> {
    table: &'a HookTable,
    pages: &'a Pages,
    ordinals: &'a Ordinals,
    wanted: W,
    count: usize,
    /// The active teams, one for each step.
    teams: [[LookUp<'a>; TEAM]; 4],
}

impl HookTable {
    /// Adds results, in the order of look-ups: the number of a look-up, from 0 to `count`, and the
    /// ordinal of a container that it finds. The lines of these containers are already prefetched.
    /// `wanted` returns bits and rank of each look-up.
    pub(crate) fn find_together(
        &self,
        (pages, ordinals): (&Pages, &Ordinals),
        count: usize,
        wanted: impl Fn(usize) -> (u64, Rank),
        found: &mut Vec<(usize, u32)>,
    ) {
        let mut steps = Steps {
            table: self,
            pages,
            ordinals,
            wanted,
            count,
            teams: [[LookUp::NONE; TEAM]; 4],
        };
        for first in 0..count.div_ceil(TEAM) + 3 {
            steps.begin(first);
            let Some(second) = first.checked_sub(1) else {
                continue;
            };
            steps.find_page(second);
            let Some(third) = second.checked_sub(1) else {
                continue;
            };
            steps.look_at_guess(third);
            let Some(last) = third.checked_sub(1) else {
                continue;
            };
            steps.end(last, found);
        }
    }
}

impl<'a, W: Fn(usize) -> (u64, Rank)> Steps<'a, W> {
    /// The look-ups of a team.
    fn team(&mut self, number: usize) -> &mut [LookUp<'a>] {
        let len = self.count.saturating_sub(number * TEAM).min(TEAM);
        &mut self.teams[number % 4][..len]
    }

    /// First step: prefetches the lines of the directory.
    fn begin(&mut self, number: usize) {
        let table = self.table;
        let mut lines = Lines::new();
        for n in 0..self.team(number).len() {
            let (bits, rank) = (self.wanted)(number * TEAM + n);
            let (segment, tag) = table.split(bits);
            self.team(number)[n] = LookUp {
                segment,
                tag,
                rank,
                ..LookUp::NONE
            };
            lines.add(
                table
                    .segments()
                    .expected_line(segment, table.guess_page(segment, tag)),
            );
        }
        lines.expect();
    }

    /// Second step: prefetches the slots where tags should be.
    fn find_page(&mut self, number: usize) {
        let (table, pages) = (self.table, self.pages);
        let mut lines = Lines::new();
        for one in self.team(number) {
            one.page = table.page_before(one.segment, one.tag);
            if let Some(page) = table.segments().get(one.segment, one.page) {
                let near = table.near(pages, one.segment, one.page, page, one.tag);
                lines.add(near.line());
                one.near = Some(near);
            }
        }
        lines.expect();
    }

    /// Third step: prefetches the slots beside them.
    fn look_at_guess(&mut self, number: usize) {
        let mut lines = Lines::new();
        for near in self.team(number).iter().filter_map(|one| one.near.as_ref()) {
            near.lines_beside().into_iter().for_each(|line| lines.add(line));
        }
        lines.expect();
    }

    /// Last step: finds entries, and prefetches the containers.
    fn end(&mut self, number: usize, found: &mut Vec<(usize, u32)>) {
        let (table, pages, ordinals) = (self.table, self.pages, self.ordinals);
        let before = found.len();
        for (n, one) in self.team(number).iter().enumerate() {
            let Some(near) = &one.near else { continue };
            let first = (one.page, near.lower_bound());
            table.equal_from(pages, one.segment, one.tag, first, |_, entry| {
                if entry.rank.fits(one.rank) {
                    found.push((number * TEAM + n, entry.ordinal));
                }
            });
        }
        let mut lines = Lines::new();
        for (_, ordinal) in found[before..].iter().take(2 * TEAM) {
            lines.add(ordinals.line(pages, *ordinal));
        }
        lines.expect();
    }
}

/// The lines that a team will read.
struct Lines<'a> {
    all: [&'a u8; 2 * TEAM],
    count: usize,
}

impl<'a> Lines<'a> {
    fn new() -> Self {
        Self {
            all: [&0; 2 * TEAM],
            count: 0,
        }
    }

    fn add(&mut self, line: &'a u8) {
        self.all[self.count] = line;
        self.count += 1;
    }

    /// Prefetches all lines, without other work in between.
    fn expect(&self) {
        for line in &self.all[..self.count] {
            expect_line(line);
        }
    }
}
