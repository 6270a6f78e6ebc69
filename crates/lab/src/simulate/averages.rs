//! Averages over the last backups, as the paper gives them, so that full and incremental backups count alike [Lillibridge 4.3].

use super::{Memory, Outcome, Restored};

/// So many of the last backups are averaged.
pub const AVERAGED: usize = 20;

/// What the last backups have on average.
#[derive(Debug, Clone, PartialEq)]
pub struct Averages {
    /// How many are averaged.
    pub backups: usize,
    /// The cumulative deduplication factor after each of them.
    pub factor: f64,
    /// For each memory the mean of containers read for each MiB: by its inverse goes the time of restoring all.
    pub reads: Vec<(Memory, f64)>,
    /// For each memory the mean of the speed factors, which is the paper's average speed. At least the inverse of the mean of what is read: backups
    /// that are fast count more.
    pub speeds: Vec<(Memory, f64)>,
}

impl Averages {
    /// Of those of the last [`AVERAGED`] backups that were restored; `None` where there are none.
    #[must_use]
    pub fn of(outcomes: &[Outcome]) -> Option<Self> {
        let last = &outcomes[outcomes.len().saturating_sub(AVERAGED)..];
        let last: Vec<&Outcome> = last.iter().filter(|one| !one.restored.is_empty()).collect();
        let first = last.first()?;
        let each = |of: fn(&Restored) -> Option<f64>| {
            let memories = first.restored.iter().enumerate();
            let means = memories.filter_map(|(n, restored)| {
                let values = last.iter().filter_map(|one| of(one.restored.get(n)?));
                Some((restored.memory, mean(&values.collect::<Vec<f64>>())?))
            });
            means.collect()
        };
        let factors: Vec<f64> = last.iter().map(|one| one.factor()).collect();
        Some(Self {
            backups: last.len(),
            factor: mean(&factors)?,
            reads: each(Restored::containers_a_mib),
            speeds: each(Restored::speed_factor),
        })
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most twenty")]
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
