//! The rate at which clients of a namespace may send and receive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use env::Clock;

/// Bytes of so much time may come at once.
const BURST: Duration = Duration::from_millis(500);
/// A thread that waits looks so often whether it still should.
const LOOK: Duration = Duration::from_millis(250);

/// The rates of all namespaces.
#[derive(Debug, Default)]
pub(crate) struct Rates(Mutex<BTreeMap<String, Arc<Rate>>>);

/// The rate of a namespace.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// When the bytes so far have passed at the limit, by the monotonic clock.
    passed_at: Mutex<Duration>,
}

impl Rates {
    /// Of one namespace.
    pub(crate) fn of(&self, namespace: &str) -> Arc<Rate> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(namespace.to_owned()).or_default())
    }
}

impl Rate {
    /// Waits until these bytes may pass, at so many bytes a second. Returns whether it had to wait.
    pub(crate) fn pass(
        &self,
        bytes: usize,
        limit: Option<u64>,
        clock: &dyn Clock,
        is_over: &dyn Fn() -> bool,
    ) -> bool {
        let Some(until) = self.charge(bytes, limit, clock) else {
            return false;
        };
        wait(until, clock, is_over)
    }

    /// Waits until the bytes so far have passed. Returns whether it had to wait, or the next one
    /// will if so many bytes come now. Who then takes them calls [`Self::charge`] with what really
    /// came: what a client only announces must not hold up others.
    pub(crate) fn turn(
        &self,
        bytes: usize,
        limit: Option<u64>,
        clock: &dyn Clock,
        is_over: &dyn Fn() -> bool,
    ) -> bool {
        let Some(limit) = limit.filter(|limit| *limit > 0) else {
            return false;
        };
        let until = *self.passed_at.lock().unwrap_or_else(PoisonError::into_inner);
        let has_waited = wait(until, clock, is_over);
        let now = clock.monotonic();
        has_waited || passed_at(until, bytes, limit, now) > now
    }

    /// Counts these bytes. Returns when they will have passed; `None`: there is no limit.
    pub(crate) fn charge(&self, bytes: usize, limit: Option<u64>, clock: &dyn Clock) -> Option<Duration> {
        let limit = limit.filter(|limit| *limit > 0)?;
        let mut until = self.passed_at.lock().unwrap_or_else(PoisonError::into_inner);
        *until = passed_at(*until, bytes, limit, clock.monotonic());
        Some(*until)
    }
}

/// When so many more bytes will have passed, if those before have passed at `before`.
fn passed_at(before: Duration, bytes: usize, limit: u64, now: Duration) -> Duration {
    let nanos = u128::from(bytes as u64) * 1_000_000_000 / u128::from(limit);
    let takes = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    before.max(now.saturating_sub(BURST)).saturating_add(takes)
}

fn wait(until: Duration, clock: &dyn Clock, is_over: &dyn Fn() -> bool) -> bool {
    let mut has_waited = false;
    while !is_over() {
        let left = until.saturating_sub(clock.monotonic());
        if left.is_zero() {
            break;
        }
        clock.sleep(left.min(LOOK));
        has_waited = true;
    }
    has_waited
}

#[cfg(test)]
mod tests {
    use env::ManualClock;
    use types::UnixNanos;

    use super::*;

    #[test]
    fn bytes_pass_at_the_limit() {
        let clock = ManualClock::new(UnixNanos::new(0));
        clock.advance(Duration::from_secs(100));
        let rate = Rates::default().of("web");
        let began = clock.monotonic();
        for _ in 0..40 {
            rate.pass(50_000, Some(1_000_000), &clock, &|| false);
        }
        let took = clock.monotonic() - began;
        assert_eq!(
            took,
            Duration::from_millis(1500),
            "2 MB, half a second of them at once"
        );
        rate.pass(1 << 30, None, &clock, &|| false);
        rate.pass(1 << 30, Some(1), &clock, &|| true);
        assert_eq!(clock.monotonic() - began, took);
    }
}
