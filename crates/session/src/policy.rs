//! The time limits of sessions. Each is measured by one process's own monotonic clock.

use std::time::Duration;

/// How often a session speaks, and how long silence must last before anyone acts on it.
///
/// Values only. The defaults are the protocol's; tests and impatient users shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionPolicy {
    /// A new heartbeat is written this often.
    pub heartbeat_every: Duration,
    /// A session that could write no heartbeat for so long, by a clock that counts suspended time,
    /// gives up. Far shorter than the time for which its ending is kept (30 days).
    pub silence_max: Duration,
    /// `T`: a heartbeat counter that has not moved for so long, as watched by the caller's own
    /// clock, is that of a dead session, where no lock tells.
    pub unmoved_for: Duration,
}

impl Default for SessionPolicy {
    fn default() -> Self {
        Self {
            heartbeat_every: Duration::from_secs(10),
            silence_max: Duration::from_secs(24 * 60 * 60),
            unmoved_for: Duration::from_secs(30 * 60),
        }
    }
}
