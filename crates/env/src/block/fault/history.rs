//! The states that one thing on a disk, a block or the length, may have after a power cut.

/// The durable state, and the later ones that no flush covers.
///
/// Invariant: there is at least one state, and changes ascend. A state that no change made has the
/// change 0.
#[derive(Debug, Clone)]
pub(super) struct History<T> {
    states: Vec<(u64, T)>,
    /// States up to this change met a flush that failed: no later flush covers them.
    doubtful: u64,
}

impl<T: PartialEq> History<T> {
    pub(super) fn durable(state: T) -> Self {
        Self {
            states: vec![(0, state)],
            doubtful: 0,
        }
    }

    pub(super) fn live(&self) -> &T {
        let (_, state) = self.states.last().expect("there is at least one state");
        state
    }

    pub(super) fn push(&mut self, change: u64, state: T) {
        self.states.push((change, state));
    }

    /// A flush covers the changes up to this one.
    pub(super) fn settle(&mut self, change: u64) {
        let newest = self.newest(change);
        if self.states[newest].0 > self.doubtful {
            self.states.drain(..newest);
        }
    }

    /// A flush that would cover the changes up to this one has failed.
    pub(super) fn doubt(&mut self, change: u64) {
        let newest = self.newest(change);
        if newest > 0 {
            self.doubtful = self.states[newest].0;
        }
    }

    fn newest(&self, change: u64) -> usize {
        let covered = self.states.partition_point(|(at, _)| *at <= change);
        covered.saturating_sub(1)
    }

    pub(super) fn is_durable(&self) -> bool {
        self.states.len() == 1
    }

    /// The durable state, then the others in their order.
    pub(super) fn states(&self) -> Vec<&T> {
        self.states.iter().map(|(_, state)| state).collect()
    }

    /// The same without repetitions.
    pub(super) fn distinct(&self) -> Vec<&T> {
        let mut distinct = Vec::new();
        for (_, state) in &self.states {
            if !distinct.contains(&state) {
                distinct.push(state);
            }
        }
        distinct
    }
}
