//! Time. No other crate of the workspace asks the system for the time.
//!
//! [`SystemClock`] asks the system. [`ManualClock`] is for tests: a test moves it, and sleeping
//! moves it. Many threads may use both, and they never fail.

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
    /// The wall clock. It is shown to people, but nothing is decided by it (INV-6).
    fn wall(&self) -> UnixNanos;

    /// Time since some fixed moment. It never decreases, and may stop while the system is
    /// suspended.
    fn monotonic(&self) -> Duration;

    /// Like [`Clock::monotonic`], but counts suspended time too.
    fn monotonic_with_suspend(&self) -> Duration;

    /// Waits. A test's clock may return at once, after moving itself forward.
    fn sleep(&self, time: Duration);
}
