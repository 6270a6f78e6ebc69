//! Averages over the last backups, as the paper gives them, so that full and incremental backups count alike [Lillibridge 4.3].

use super::{Memory, Outcome};

/// So many of the last backups are averaged.
pub const AVERAGED: usize = 20;

/// What the last backups have on average.
#[derive(Debug, Clone, PartialEq)]
pub struct Averages {
    /// How many are averaged.
    pub backups: usize,
    /// The cumulative deduplication factor after each of them.
    pub factor: f64,
    /// For each memory the speed factor: the inverse of the mean of containers read for each MiB.
    pub speeds: Vec<(Memory, f64)>,
}

impl Averages {
    /// Of those of the last [`AVERAGED`] backups that were restored; `None` where there are none.
    #[must_use]
    pub fn of(outcomes: &[Outcome]) -> Option<Self> {
        let last = &outcomes[outcomes.len().saturating_sub(AVERAGED)..];
        let last: Vec<&Outcome> = last.iter().filter(|one| !one.restored.is_empty()).collect();
        let first = last.first()?;
        let speeds = first.restored.iter().enumerate().filter_map(|(n, restored)| {
            let read = last
                .iter()
                .filter_map(|one| one.restored.get(n)?.containers_a_mib());
            let read: Vec<f64> = read.collect();
            Some((restored.memory, 1.0 / mean(&read)?))
        });
        let factors: Vec<f64> = last.iter().map(|one| one.factor()).collect();
        Some(Self {
            backups: last.len(),
            factor: mean(&factors)?,
            speeds: speeds.filter(|(_, speed)| speed.is_finite()).collect(),
        })
    }

    /// The speed factor with a memory.
    #[must_use]
    pub fn speed(&self, memory: Memory) -> Option<f64> {
        let found = self.speeds.iter().find(|(with, _)| *with == memory);
        found.map(|(_, speed)| *speed)
    }
}

#[expect(clippy::cast_precision_loss, reason = "at most twenty")]
fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
