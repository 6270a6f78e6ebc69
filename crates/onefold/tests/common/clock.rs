//! Time in the tests of the whole engine: the true time, and the clocks of each process.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::{Clock, ManualClock, SystemClock};
use types::UnixNanos;

/// A process that sleeps at least so long waits for other processes. Heartbeat threads wake more
/// often.
const STRIDE: Duration = Duration::from_secs(1);
const MILLISECOND_NANOS: i64 = 1_000_000;

/// A clock that only the test moves. A thread that sleeps on it waits a moment of real time, so
/// that threads which watch something do not spin, and time does not pass too fast for them.
#[derive(Debug, Clone)]
pub struct HandClock {
    clock: ManualClock,
    /// The clocks of its process. `None`: they show the true time.
    own: Option<Arc<Mutex<Own>>>,
    strides: bool,
}

/// A process's own clocks. They may be wrong, but the monotonic ones never go back.
#[derive(Debug)]
struct Own {
    /// The true time up to which the other fields count.
    told: Duration,
    wall: i64,
    monotonic: Duration,
    with_suspend: Duration,
    /// How many thousandths of the passing time it counts.
    permille: u32,
    stands: bool,
}

impl Own {
    /// Brings the clocks up to the present time.
    fn tell(&mut self, now: Duration) {
        let passed = now.saturating_sub(std::mem::replace(&mut self.told, now));
        if !self.stands {
            let noticed = passed * self.permille / 1000;
            self.monotonic += noticed;
            self.with_suspend += noticed;
            self.wall += nanos(noticed);
        }
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl HandClock {
    /// Later than any time that the file system stamps while the test runs.
    pub fn new() -> Self {
        let hour = 3_600_000_000_000;
        Self {
            clock: ManualClock::new(UnixNanos::new(SystemClock.wall().get() + hour)),
            own: None,
            strides: false,
        }
    }

    /// The same time for a process whose wall clock is wrong by so many seconds, and whose clocks
    /// all run at so many thousandths of the right rate.
    pub fn seen_by(&self, wrong_by_seconds: i64, permille: u32) -> Self {
        let own = Own {
            told: self.clock.monotonic(),
            wall: self.clock.wall().get() + wrong_by_seconds * 1000 * MILLISECOND_NANOS,
            monotonic: Duration::ZERO,
            with_suspend: Duration::ZERO,
            permille,
            stands: false,
        };
        Self {
            own: Some(Arc::new(Mutex::new(own))),
            ..self.clone()
        }
    }

    /// The same clock for a process that waits for others: its waiting moves the time on, its
    /// heartbeats do not.
    pub fn striding(&self) -> Self {
        Self {
            strides: true,
            ..self.clone()
        }
    }

    /// Moves the time on, for all processes.
    pub fn advance(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Sets the wall clock of this process.
    pub fn move_wall(&self, by_seconds: i64) {
        if let Some(mut own) = self.own() {
            own.wall += by_seconds * 1000 * MILLISECOND_NANOS;
        }
    }

    /// Moves the time on for all, while this process sleeps: all of its clocks notice, except the
    /// monotonic one.
    pub fn suspend(&self, time: Duration) {
        let mut own = self.own();
        self.clock.advance(time);
        if let Some(own) = &mut own {
            let before = own.monotonic;
            own.tell(self.clock.monotonic());
            own.monotonic = before;
        }
    }

    /// From now on time passes and this process's clocks do not notice, as on a machine that does
    /// not run, or has a broken clock.
    pub fn stand_still(&self, stands: bool) {
        if let Some(mut own) = self.own() {
            own.stands = stands;
        }
    }

    /// The process's own clock, at this time.
    fn own(&self) -> Option<MutexGuard<'_, Own>> {
        let mut own = self.own.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        own.tell(self.clock.monotonic());
        Some(own)
    }
}

impl Clock for HandClock {
    fn wall(&self) -> UnixNanos {
        self.own()
            .map_or_else(|| self.clock.wall(), |own| UnixNanos::new(own.wall))
    }
    fn monotonic(&self) -> Duration {
        self.own()
            .map_or_else(|| self.clock.monotonic(), |own| own.monotonic)
    }
    fn monotonic_with_suspend(&self) -> Duration {
        self.own()
            .map_or_else(|| self.clock.monotonic_with_suspend(), |own| own.with_suspend)
    }
    fn sleep(&self, time: Duration) {
        if self.strides && time >= STRIDE {
            SystemClock.sleep(Duration::from_millis(1));
            self.clock.advance(time);
        } else {
            SystemClock.sleep(time.min(Duration::from_millis(5)));
        }
    }
}

/// The storage's own clock. No two objects are put at the same time. A test may set the clock back
/// or ahead.
#[derive(Debug, Clone)]
pub struct StorageClock {
    time: HandClock,
    moved: Arc<AtomicI64>,
}

impl StorageClock {
    pub fn new(time: &HandClock) -> Self {
        Self {
            time: time.clone(),
            moved: Arc::default(),
        }
    }

    pub fn set(&self, by_seconds: i64) {
        let nanos = by_seconds * 1000 * MILLISECOND_NANOS;
        self.moved.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Clock for StorageClock {
    fn wall(&self) -> UnixNanos {
        let moved = self.moved.fetch_add(MILLISECOND_NANOS, Ordering::Relaxed);
        UnixNanos::new(self.time.wall().get() + moved)
    }
    fn monotonic(&self) -> Duration {
        self.time.monotonic()
    }
    fn monotonic_with_suspend(&self) -> Duration {
        self.time.monotonic_with_suspend()
    }
    fn sleep(&self, time: Duration) {
        self.time.sleep(time);
    }
}
