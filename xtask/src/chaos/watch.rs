//! The runner's clock. The runner drives real processes, which use the system's time. A clock that
//! moves only by hand would be useless here.

use std::time::{Duration, Instant};

/// A starting point for measuring time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch(Instant);

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "real processes have the system's time")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }

    pub(super) fn ms(self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[expect(clippy::disallowed_methods, reason = "real processes have the system's time")]
pub(super) fn pause_ms(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

#[expect(clippy::disallowed_methods, reason = "real processes have the system's time")]
pub(super) fn pause_us(us: u64) {
    std::thread::sleep(Duration::from_micros(us));
}
