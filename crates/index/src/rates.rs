//! Progressive sampling of the index on disk [Guo 3.2.2]: chooses rates that fit a budget. A pure
//! plan.
//!
//! Invariant: the rates follow only from the existing runs and the budget, so every process with
//! the same budget writes its run at the same rates. Only a rebuild raises them. At every rate, one
//! hook of each container and kind stays.

use crate::kind::HookKind;
use crate::sampling::{SamplingRate, SamplingRates};

/// The size of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Load {
    /// Bytes of its hooks. The free ends of blocks, up to 28 KiB for each run, do not count: R does
    /// not change them.
    pub(crate) bytes: u64,
    /// The rates at which it was written.
    pub(crate) rates: SamplingRates,
    /// Hooks by kind.
    pub(crate) hooks: [u64; 2],
    /// Containers by kind. One hook of each stays.
    pub(crate) containers: [u64; 2],
}

impl Load {
    /// Hooks of a kind that stay at these rates, except those that stay at every rate.
    fn spare_at(&self, kind: HookKind, rates: SamplingRates) -> u64 {
        let at = kind.number();
        let halvings = |rate: SamplingRate| rate.halvings();
        let further = halvings(rates.of(kind)).saturating_sub(halvings(self.rates.of(kind)));
        self.hooks[at].saturating_sub(self.containers[at]) >> further
    }

    /// Approximate bytes that remain at these rates.
    fn bytes_at(&self, rates: SamplingRates) -> u64 {
        let hooks: u64 = self.hooks.iter().sum();
        let left = HookKind::ALL.map(|kind| {
            let at = kind.number();
            self.spare_at(kind, rates) + self.containers[at].min(self.hooks[at])
        });
        let left: u64 = left.iter().sum();
        let bytes = u128::from(self.bytes) * u128::from(left) / u128::from(hooks.max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }
}

/// The lowest rates of any run, halved until the runs together fit the budget, or until only one
/// hook for each container is left.
pub(crate) fn in_force(runs: &[Load], budget_bytes: u64) -> SamplingRates {
    let lowest = runs.iter().map(|run| run.rates).reduce(SamplingRates::min);
    let mut rates = lowest.unwrap_or_default();
    while runs.iter().map(|run| run.bytes_at(rates)).sum::<u64>() > budget_bytes {
        let [data, node] = HookKind::ALL.map(|kind| runs.iter().map(|run| run.spare_at(kind, rates)).sum());
        let Some((lower, _)) = rates.halved(data, node) else {
            break;
        };
        rates = lower;
    }
    rates
}

/// The runs to rewrite at the rates in force, because all together exceed the budget: those that
/// were written at higher rates.
pub(crate) fn too_large(runs: &[Load], rates: SamplingRates, budget_bytes: u64) -> Vec<usize> {
    if runs.iter().map(|run| run.bytes).sum::<u64>() <= budget_bytes {
        return Vec::new();
    }
    let shrinks = |run: &Load| run.rates.min(rates) != run.rates;
    (0..runs.len()).filter(|at| shrinks(&runs[*at])).collect()
}

#[cfg(test)]
mod tests;
