//! A clock that a test moves.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use types::UnixNanos;

use super::Clock;

/// A clock that stands still until it is moved. Sleeping moves it forward and returns at once.
///
/// Clones show and move the same time, so that a test keeps one and gives the other to
/// [`Env`](crate::Env).
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Mutex<Hands>>);

#[derive(Debug)]
struct Hands {
    wall: UnixNanos,
    monotonic: Duration,
    with_suspend: Duration,
}

impl ManualClock {
    /// A clock with this wall time. Its monotonic times begin at zero.
    #[must_use]
    pub fn new(wall: UnixNanos) -> Self {
        let zero = Duration::ZERO;
        Self(Arc::new(Mutex::new(Hands {
            wall,
            monotonic: zero,
            with_suspend: zero,
        })))
    }

    /// Moves all clocks forward.
    pub fn advance(&self, time: Duration) {
        let mut hands = self.hands();
        hands.pass(time);
        hands.monotonic = hands.monotonic.saturating_add(time);
    }

    /// Simulates a suspended system: moves all clocks but [`Clock::monotonic`].
    pub fn suspend(&self, time: Duration) {
        self.hands().pass(time);
    }

    /// Sets the wall clock forward or back. The monotonic clocks do not change.
    pub fn set_wall(&self, wall: UnixNanos) {
        self.hands().wall = wall;
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Hands {
    fn pass(&mut self, time: Duration) {
        let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        self.wall = UnixNanos::new(self.wall.get().saturating_add(nanos));
        self.with_suspend = self.with_suspend.saturating_add(time);
    }
}

impl Default for ManualClock {
    /// A clock with the wall time 2024-01-01 00:00 UTC.
    fn default() -> Self {
        Self::new(UnixNanos::new(1_704_067_200_000_000_000))
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> UnixNanos {
        self.hands().wall
    }

    fn monotonic(&self) -> Duration {
        self.hands().monotonic
    }

    fn monotonic_with_suspend(&self) -> Duration {
        self.hands().with_suspend
    }

    fn sleep(&self, time: Duration) {
        self.advance(time);
    }
}
