//! Averages over backups [Lillibridge 4.3]: over the last ones, as in the paper, and over
//! successive groups of all.
//!
//! Every backup has the same weight, whatever its length, full or incremental.

use super::assembly::Assembly;
use super::{Memory, Outcome};

/// The number of last backups that are averaged.
pub const AVERAGED: usize = 20;

/// Averages over the last backups.
#[derive(Debug, Clone, PartialEq)]
pub struct Averages {
    /// The number of averaged backups.
    pub backups: usize,
    /// The cumulative deduplication factor after each of them.
    pub factor: f64,
    /// Averages of restores, for each memory with which anything is read.
    pub restored: Vec<Average>,
}

/// Averages of restores with one memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Average {
    /// The memory.
    pub memory: Memory,
    /// The mean of the speed factors, in MiB for each container read: the paper's average speed.
    pub speed_factor: f64,
    /// The mean of containers read for each MiB. Its inverse is below the mean of the speed
    /// factors, unless all are equally fast.
    pub containers_a_mib: f64,
}

/// Averages over successive backups.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The first of them, by number from 1.
    pub first: usize,
    /// The last.
    pub last: usize,
    /// The cumulative deduplication factor after each.
    pub factor: f64,
    /// The mean of containers read for each MiB, for each requested memory; `None` where nothing is
    /// restored.
    pub containers_a_mib: Vec<Option<f64>>,
}

impl Averages {
    /// Averages over those of the last [`AVERAGED`] backups of which anything was restored; `None`
    /// if there are none.
    #[must_use]
    pub fn of(outcomes: &[Outcome]) -> Option<Self> {
        let last = &outcomes[outcomes.len().saturating_sub(AVERAGED)..];
        let last: Vec<&Outcome> = last.iter().filter(|one| is_restored(one)).collect();
        let memories = last.first()?.restored.iter().enumerate();
        let restored = memories.filter_map(|(n, restored)| {
            let each = || last.iter().filter_map(|one| one.restored.get(n));
            Some(Average {
                memory: restored.memory,
                speed_factor: mean(each().filter_map(|one| one.speed_factor()))?,
                containers_a_mib: mean(each().filter_map(|one| one.containers_a_mib()))?,
            })
        });
        Some(Self {
            backups: last.len(),
            factor: mean(last.iter().map(|one| one.factor()))?,
            restored: restored.collect(),
        })
    }
}

/// Divides all backups of which anything was restored into at most `steps` steps of equally many.
/// Returns the memories that `assembly` used, and the steps.
#[must_use]
pub fn over_time(outcomes: &[Outcome], assembly: Assembly, steps: usize) -> (Vec<Memory>, Vec<Step>) {
    let numbered = outcomes.iter().enumerate().filter(|(_, one)| is_restored(one));
    let restored: Vec<(usize, &Outcome)> = numbered.collect();
    let Some((_, first)) = restored.first() else {
        return (Vec::new(), Vec::new());
    };
    let used = first.restored.iter().map(|one| one.memory).enumerate();
    let (places, memories): (Vec<usize>, Vec<Memory>) =
        used.filter(|(_, memory)| memory.assembly == assembly).unzip();
    let parts = restored.chunks(restored.len().div_ceil(steps.max(1)));
    let steps = parts.filter_map(|part| {
        let read = |place: &usize| {
            mean(
                part.iter()
                    .filter_map(|(_, one)| one.restored.get(*place)?.containers_a_mib()),
            )
        };
        Some(Step {
            first: part.first()?.0 + 1,
            last: part.last()?.0 + 1,
            factor: mean(part.iter().map(|(_, one)| one.factor()))?,
            containers_a_mib: places.iter().map(read).collect(),
        })
    });
    (memories, steps.collect())
}

fn is_restored(outcome: &Outcome) -> bool {
    outcome.restored.iter().any(|one| one.bytes > 0)
}

/// The mean; `None` without values.
pub fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0.0);
    for value in values {
        sum += value;
        count += 1.0;
    }
    (count > 0.0).then(|| sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulator::Restored;
    use crate::trace::Extent;

    const MIB: u64 = 1 << 20;

    /// A backup of `mib` MiB. The restores with one container slot, with two, and with a rolling
    /// area read `reads` containers.
    fn outcome(mib: u64, kept_mib: u64, reads: [u64; 3]) -> Outcome {
        let memory = |bytes, assembly| Memory { bytes, assembly };
        let memories = [
            memory(1, Assembly::Lru),
            memory(1, Assembly::Rolling),
            memory(2, Assembly::Lru),
        ];
        let restored = memories.into_iter().zip(reads);
        Outcome {
            name: String::new(),
            extent: Extent::Full,
            chunks: 1,
            bytes: mib * MIB,
            bytes_new: 0,
            bytes_kept: kept_mib * MIB,
            bytes_stored: MIB,
            containers: 1,
            looked: None,
            restored: restored
                .map(|(memory, containers_read)| Restored {
                    memory,
                    containers_read,
                    bytes: mib * MIB,
                })
                .collect(),
            ahead: Vec::new(),
            at_least: Vec::new(),
        }
    }

    fn skipped() -> Outcome {
        Outcome {
            restored: Vec::new(),
            ..outcome(1, 9, [0; 3])
        }
    }

    #[test]
    fn each_backup_counts_alike() {
        let outcomes = [
            skipped(),
            outcome(2, 2, [1, 1, 1]),
            outcome(2, 4, [2, 1, 4]),
            outcome(0, 9, [0; 3]),
        ];
        let averages = Averages::of(&outcomes).unwrap();
        assert_eq!((averages.backups, averages.factor), (2, 3.0));
        let [one, rolling, two] = averages.restored[..] else {
            panic!("three memories: {averages:?}")
        };
        assert_eq!((one.speed_factor, one.containers_a_mib), (1.5, 0.75));
        assert_eq!((rolling.speed_factor, rolling.containers_a_mib), (2.0, 0.5));
        assert_eq!((two.speed_factor, two.containers_a_mib), (1.25, 1.25));
        assert_eq!(two.memory.bytes, 2);
        // At most twenty are averaged.
        let many: Vec<Outcome> = (1..=30).map(|n| outcome(n, n, [1; 3])).collect();
        let averages = Averages::of(&many).unwrap();
        assert_eq!((averages.backups, averages.restored[0].speed_factor), (20, 20.5));
        assert_eq!(Averages::of(&[]), None);
        assert_eq!(Averages::of(&[skipped(), outcome(0, 0, [0; 3])]), None);
    }

    #[test]
    fn steps_are_of_equally_many_that_were_restored() {
        let mut outcomes = vec![skipped()];
        outcomes.extend((1..=7).map(|n| outcome(1, n, [n, 0, 2 * n])));
        let (memories, steps) = over_time(&outcomes, Assembly::Lru, 3);
        assert_eq!(
            memories.iter().map(|memory| memory.bytes).collect::<Vec<_>>(),
            [1, 2]
        );
        let step = |first, last, mean: f64| Step {
            first,
            last,
            factor: mean,
            containers_a_mib: vec![Some(mean), Some(2.0 * mean)],
        };
        assert_eq!(steps, [step(2, 4, 2.0), step(5, 7, 5.0), step(8, 8, 7.0)]);
        let each = over_time(&outcomes, Assembly::Rolling, 20);
        assert_eq!((each.0.len(), each.1.len()), (1, 7));
        assert_eq!(over_time(&[skipped()], Assembly::Lru, 20), (vec![], vec![]));
        assert_eq!(over_time(&outcomes, Assembly::Fixed, 20).0, []);
    }
}
