//! The system's clocks.

use std::time::Duration;

use types::UnixNanos;

use super::Clock;
use now::{monotonic, monotonic_with_suspend, wall};

/// The system's clocks. On other systems than Linux, suspended time counts only if the system's
/// monotonic clock includes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> UnixNanos {
        wall()
    }

    fn monotonic(&self) -> Duration {
        monotonic()
    }

    fn monotonic_with_suspend(&self) -> Duration {
        monotonic_with_suspend()
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door that the others are sent to"
    )]
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

#[cfg(unix)]
mod now {
    use std::time::Duration;

    use rustix::time::{ClockId, Timespec, clock_gettime};
    use types::UnixNanos;

    #[cfg(target_os = "linux")]
    const WITH_SUSPEND: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const WITH_SUSPEND: ClockId = ClockId::Monotonic;

    pub(super) fn wall() -> UnixNanos {
        let now = clock_gettime(ClockId::Realtime);
        UnixNanos::new(
            now.tv_sec
                .saturating_mul(1_000_000_000)
                .saturating_add(now.tv_nsec),
        )
    }

    pub(super) fn monotonic() -> Duration {
        duration(clock_gettime(ClockId::Monotonic))
    }

    pub(super) fn monotonic_with_suspend() -> Duration {
        duration(clock_gettime(WITH_SUSPEND))
    }

    /// These clocks start at zero. A negative part would be a fault of the system, and reads as
    /// zero.
    fn duration(time: Timespec) -> Duration {
        Duration::new(
            u64::try_from(time.tv_sec).unwrap_or(0),
            u32::try_from(time.tv_nsec).unwrap_or(0),
        )
    }
}

#[cfg(not(unix))]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the door that the others are sent to"
)]
mod now {
    use std::sync::LazyLock;
    use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

    use types::UnixNanos;

    /// When this process first asked for the time.
    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// A clock that is set before 1970 reads as 1970.
    pub(super) fn wall() -> UnixNanos {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixNanos::new(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }

    pub(super) fn monotonic() -> Duration {
        BEGAN.elapsed()
    }

    pub(super) fn monotonic_with_suspend() -> Duration {
        BEGAN.elapsed()
    }
}
