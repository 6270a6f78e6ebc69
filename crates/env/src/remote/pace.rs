//! How fast bytes may pass: so many a second, on average over little more than an instant.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Clock;

/// After a rest, so much may pass at once.
const BURST: Duration = Duration::from_millis(100);

/// A rate, for any number of threads together.
#[derive(Debug)]
pub(super) struct Pace {
    bytes_per_second: NonZeroU64,
    clock: Arc<dyn Clock>,
    /// When all bytes that were taken have passed.
    passed_at: Mutex<Duration>,
}

impl Pace {
    pub(super) fn new(bytes_per_second: NonZeroU64, clock: Arc<dyn Clock>) -> Self {
        Self {
            bytes_per_second,
            clock,
            passed_at: Mutex::default(),
        }
    }

    /// Takes so many bytes, and returns how long to wait before they may pass.
    pub(super) fn take(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second.get());
        let long = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        let now = self.clock.monotonic();
        let mut passed_at = self.passed_at.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = (*passed_at).max(now.saturating_sub(BURST));
        *passed_at = begin.saturating_add(long);
        passed_at.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    #[test]
    fn bytes_pass_at_the_rate() {
        let clock = ManualClock::default();
        clock.advance(Duration::from_secs(10));
        let pace = Pace::new(NonZeroU64::new(1000).unwrap(), Arc::new(clock.clone()));
        let mut waited = Duration::ZERO;
        for bytes in [1, 99, 400, 5000, 4500] {
            let wait = pace.take(bytes);
            waited += wait;
            clock.advance(wait);
        }
        assert_eq!(
            waited,
            Duration::from_millis(9900),
            "10,000 bytes, and 100 at once"
        );
        assert_eq!(pace.take(0), Duration::ZERO);
        // A rest saves up no more than the burst.
        clock.advance(Duration::from_hours(1));
        assert_eq!(pace.take(100), Duration::ZERO);
        assert_eq!(pace.take(50), Duration::from_millis(50));
        assert_eq!(pace.take(50), Duration::from_millis(100), "those that wait count");
    }

    #[test]
    fn any_number_of_bytes_may_be_taken() {
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let pace = Pace::new(NonZeroU64::MIN, clock);
        for _ in 0..3 {
            assert!(pace.take(u64::MAX) > Duration::from_hours(1));
        }
    }
}
