//! The time limits of sessions. Each process measures them with its own monotonic clock.

use std::time::Duration;

/// How often a session speaks, and how long silence must last before anyone acts on it.
///
/// Values only. The defaults are the protocol's; tests and impatient users shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionPolicy {
    /// How often the session puts a heartbeat.
    pub heartbeat_every: Duration,
    /// A session that could put no heartbeat for so long, by a clock that counts suspended time,
    /// gives up. This must be far shorter than the time for which its ending is kept (30 days).
    pub silence_max: Duration,
    /// `T`: if no lock tells, a session counts as dead when its heartbeat counter has not moved for
    /// so long, by the watcher's own clock.
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
