//! The deletion schedules of backups [Lillibridge 4.2].

use std::collections::VecDeque;

use super::recipe::Recipe;
use crate::trace::Extent;

/// Which backups are deleted, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// No backup is deleted.
    All,
    /// Keeps the last n backups, the newest included: 30 is the paper's 'cycle30'.
    Cycle(usize),
    /// Grandfather, father, son. Beside the newest backup, this keeps the last backups, the last
    /// full ones, and the last of every fourth full one.
    Generations {
        /// How many of the last backups stay.
        sons: usize,
        /// How many of the last full backups stay: weeks.
        fathers: usize,
        /// How many of every fourth full backup stay: months.
        grandfathers: usize,
    },
}

#[derive(Debug)]
struct Kept {
    recipe: Recipe,
    number: u64,
    /// For a full backup: the number of full backups before it.
    full: Option<u64>,
}

/// The kept backups.
#[derive(Debug, Default)]
pub(super) struct Backups {
    kept: VecDeque<Kept>,
    count: u64,
    full: u64,
}

/// One full backup in so many is a monthly one.
const MONTH: u64 = 4;

impl Backups {
    /// Removes and returns the backups that the next one displaces.
    pub(super) fn leaving(&mut self, schedule: Schedule) -> Vec<Recipe> {
        let (count, full) = (self.count, self.full);
        let stays = |kept: &Kept| match schedule {
            Schedule::All => true,
            // The incoming backup counts as well.
            Schedule::Cycle(backups) => kept.number.saturating_add(backups as u64) > count,
            Schedule::Generations {
                sons,
                fathers,
                grandfathers,
            } => {
                kept.number.saturating_add(sons as u64) >= count
                    || kept.full.is_some_and(|number| {
                        let months = full.div_ceil(MONTH);
                        number.saturating_add(fathers as u64) >= full
                            || number % MONTH == 0
                                && (number / MONTH).saturating_add(grandfathers as u64) >= months
                    })
            }
        };
        let (stay, leave) = std::mem::take(&mut self.kept).into_iter().partition(stays);
        self.kept = stay;
        let leave: VecDeque<Kept> = leave;
        leave.into_iter().map(|kept| kept.recipe).collect()
    }

    /// Adds a backup.
    pub(super) fn add(&mut self, recipe: Recipe, extent: Extent) {
        let full = (extent == Extent::Full).then_some(self.full);
        self.full += u64::from(full.is_some());
        self.kept.push_back(Kept {
            recipe,
            number: self.count,
            full,
        });
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Replays weeks of one full backup and four incremental ones. Returns the numbers of the kept
    /// backups besides the newest.
    fn kept(schedule: Schedule, backups: u64) -> Vec<u64> {
        let mut all = Backups::default();
        for number in 0..backups {
            drop(all.leaving(schedule));
            let extent = if number % 5 == 0 {
                Extent::Full
            } else {
                Extent::Incremental
            };
            all.add(Recipe::default(), extent);
        }
        all.kept.iter().map(|kept| kept.number).collect()
    }

    #[test]
    fn each_schedule_keeps_its_number_of_backups() {
        assert_eq!(kept(Schedule::All, 4), [0, 1, 2, 3]);
        assert_eq!(kept(Schedule::Cycle(3), 10), [7, 8, 9]);
        assert_eq!(kept(Schedule::Cycle(1), 10), [9]);
        let generations = Schedule::Generations {
            sons: 3,
            fathers: 2,
            grandfathers: 3,
        };
        // Full backups are 0, 5, 10, ...; every fourth of them is 0, 20, 40, 60, ...
        assert_eq!(kept(generations, 74), [20, 40, 60, 65, 70, 71, 72, 73]);
    }
}
