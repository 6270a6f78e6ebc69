//! A duplicates index for tests that fails, waits and forgets as a test plans it.
//!
//! It wraps a [`MemoryIndex`]. Many threads may call it. Without a plan it behaves as the wrapped
//! index does.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::Clock;
use format::pool::frame::PoolId;
use types::{BatchSequence, Fingerprint, VolumeId};

use crate::memory::Contents;
use crate::{Bucket, DdiError, DuplicatesIndex, MemoryIndex, Operation, Outcome, Rebuild, Row, Statistics};

/// When a call of `apply` fails with [`DdiError::NoAnswer`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Before the batch took effect: the request was lost.
    Before,
    /// After the batch took effect: the answer was lost.
    After,
}

/// An index that fails, waits and forgets as planned.
#[derive(Debug)]
pub struct FaultyIndex {
    inner: MemoryIndex,
    clock: Arc<dyn Clock>,
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    applies: u64,
    failures: BTreeMap<u64, Failure>,
    delay: Duration,
    mark: Contents,
}

impl FaultyIndex {
    /// An empty index of a pool without a plan. It waits by `clock`.
    #[must_use]
    pub fn new(pool: PoolId, clock: Arc<dyn Clock>) -> Self {
        Self {
            inner: MemoryIndex::new(pool),
            clock,
            plan: Mutex::default(),
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the n-th call of `apply` from now on fail once; 1 is the next call.
    pub fn fail_apply(&self, n: u64, failure: Failure) {
        let mut plan = self.plan();
        let call = plan.applies + n;
        plan.failures.insert(call, failure);
    }

    /// Forgets the failures that are still to come.
    pub fn clear_failures(&self) {
        self.plan().failures.clear();
    }

    /// Lets each call of `apply` wait before it does anything.
    pub fn delay_applies(&self, delay: Duration) {
        self.plan().delay = delay;
    }

    /// The calls of `apply` so far, failed ones included.
    #[must_use]
    pub fn applies(&self) -> u64 {
        self.plan().applies
    }

    /// Remembers everything that the index has now.
    pub fn mark(&self) {
        let mut plan = self.plan();
        plan.mark = self.inner.contents();
    }

    /// Loses all acknowledged changes since the last mark, or since the beginning, as a database
    /// does that drops the end of its journal.
    pub fn lose_since_mark(&self) {
        let plan = self.plan();
        self.inner.set_contents(plan.mark.clone());
    }
}

impl DuplicatesIndex for FaultyIndex {
    fn apply(
        &self,
        bucket: Bucket,
        client: VolumeId,
        sequence: BatchSequence,
        operations: &[Operation],
    ) -> Result<Vec<Outcome>, DdiError> {
        let lost = DdiError::NoAnswer { action: "apply" };
        let (failure, delay) = {
            let mut plan = self.plan();
            plan.applies += 1;
            let call = plan.applies;
            (plan.failures.remove(&call), plan.delay)
        };
        if !delay.is_zero() {
            self.clock.sleep(delay);
        }
        if failure == Some(Failure::Before) {
            return Err(lost);
        }
        let outcomes = self.inner.apply(bucket, client, sequence, operations)?;
        if failure == Some(Failure::After) {
            return Err(lost);
        }
        Ok(outcomes)
    }

    fn check_pool(&self, pool: PoolId) -> Result<(), DdiError> {
        self.inner.check_pool(pool)
    }

    fn client(&self, bucket: Bucket, client: VolumeId) -> Result<Option<BatchSequence>, DdiError> {
        self.inner.client(bucket, client)
    }

    fn clients(&self, bucket: Bucket) -> Result<Vec<VolumeId>, DdiError> {
        self.inner.clients(bucket)
    }

    fn forget_client(&self, client: VolumeId) -> Result<(), DdiError> {
        self.inner.forget_client(client)
    }

    fn look_up(&self, bucket: Bucket, fingerprints: &[Fingerprint]) -> Result<Vec<Option<Row>>, DdiError> {
        self.inner.look_up(bucket, fingerprints)
    }

    fn scan(&self, bucket: Bucket, visit: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), DdiError> {
        self.inner.scan(bucket, visit)
    }

    fn statistics(&self) -> Result<Statistics, DdiError> {
        self.inner.statistics()
    }

    fn rebuild(&self) -> Result<Box<dyn Rebuild + '_>, DdiError> {
        self.inner.rebuild()
    }
}

#[cfg(test)]
mod tests {
    use env::ManualClock;
    use types::BlockNumber;

    use super::*;

    fn apply(index: &FaultyIndex, number: u64) -> Result<Vec<Outcome>, DdiError> {
        let operation = Operation::Increment {
            fingerprint: Fingerprint::from_bytes([1; 32]),
            block: BlockNumber::new(9).unwrap(),
            count: 1,
        };
        let sequence = BatchSequence::new(number).unwrap();
        index.apply(Bucket::FIRST, VolumeId::new(1).unwrap(), sequence, &[operation])
    }

    fn references(index: &FaultyIndex) -> u64 {
        index.statistics().unwrap().references()
    }

    #[test]
    fn applies_fail_before_or_after_they_take_effect() {
        let index = FaultyIndex::new([1; 16], Arc::new(ManualClock::default()));
        index.fail_apply(2, Failure::Before);
        index.fail_apply(4, Failure::After);
        apply(&index, 1).unwrap();
        assert!(matches!(apply(&index, 2), Err(DdiError::NoAnswer { .. })));
        assert_eq!(references(&index), 1);
        apply(&index, 2).unwrap();
        assert!(matches!(apply(&index, 3), Err(DdiError::NoAnswer { .. })));
        assert_eq!(references(&index), 3);
        let block = BlockNumber::new(9).unwrap();
        assert_eq!(apply(&index, 3).unwrap(), [Outcome::Hit { block }]);
        assert_eq!((references(&index), index.applies()), (3, 5));
    }

    #[test]
    fn what_came_after_the_mark_is_lost() {
        let index = FaultyIndex::new([1; 16], Arc::new(ManualClock::default()));
        apply(&index, 1).unwrap();
        index.mark();
        apply(&index, 2).unwrap();
        apply(&index, 3).unwrap();
        index.lose_since_mark();
        let last = index.client(Bucket::FIRST, VolumeId::new(1).unwrap()).unwrap();
        assert_eq!(last.map(BatchSequence::get), Some(1));
        assert_eq!(references(&index), 1);
        assert!(matches!(apply(&index, 4), Err(DdiError::SequenceAhead { .. })));
        apply(&index, 2).unwrap();
    }

    #[test]
    fn applies_wait_by_the_clock() {
        let clock = Arc::new(ManualClock::default());
        let index = FaultyIndex::new([1; 16], clock.clone());
        index.delay_applies(Duration::from_secs(3));
        apply(&index, 1).unwrap();
        assert_eq!(clock.monotonic(), Duration::from_secs(3));
    }
}
