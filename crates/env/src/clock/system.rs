//! The system's clocks.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};
use types::UnixNanos;

use super::Clock;

#[cfg(target_os = "linux")]
const WITH_SUSPEND: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const WITH_SUSPEND: ClockId = ClockId::Monotonic;

/// The system's clocks. On other systems than Linux, suspended time counts only if the system's
/// monotonic clock includes it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> UnixNanos {
        let now = clock_gettime(ClockId::Realtime);
        UnixNanos::new(
            now.tv_sec
                .saturating_mul(1_000_000_000)
                .saturating_add(now.tv_nsec),
        )
    }

    fn monotonic(&self) -> Duration {
        duration(clock_gettime(ClockId::Monotonic))
    }

    fn monotonic_with_suspend(&self) -> Duration {
        duration(clock_gettime(WITH_SUSPEND))
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door that the others are sent to"
    )]
    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// These clocks start at zero. A negative part would be a fault of the system, and reads as zero.
fn duration(time: Timespec) -> Duration {
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}
