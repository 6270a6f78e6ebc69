//! Time. Nothing else in the workspace asks the system what time it is.
//!
//! [`SystemClock`] asks the system; [`ManualClock`] is for tests: a test moves it, and sleeping
//! moves it. Both may be used from many threads at once and never fail.

mod manual;
mod system;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use types::UnixNanos;

pub use manual::ManualClock;
pub use system::SystemClock;

/// A source of time, and the only way to wait.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The wall clock. Shown to people; nothing is decided by it (INV-6).
    fn wall(&self) -> UnixNanos;

    /// Time since some fixed moment. It never decreases, and may stop while the system is
    /// suspended.
    fn monotonic(&self) -> Duration;

    /// As [`Clock::monotonic`], but counts suspended time too.
    fn monotonic_with_suspend(&self) -> Duration;

    /// Waits. A test's clock may return at once and move itself on.
    fn sleep(&self, time: Duration);
}
