//! Distinguishing a dead session from a quiet one.
//!
//! If the session's lock file is of this host, the lock shows it at once. Otherwise the caller
//! watches the heartbeat counter with its own monotonic clock. That clock may stop while the
//! machine sleeps, so the error is to wait too long. Clocks of two hosts are never compared. A
//! wrong verdict does no harm to the store, because one ending wins and the other party finds it;
//! it costs a backup that must start again. May be used from many threads.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use env::{Env, LockState};
use format::names;
use types::SessionId;

use crate::policy::SessionPolicy;
use crate::session_table::SessionInfo;

/// Why a session counts as dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadBecause {
    /// Its process no longer holds the lock that it held when it put its claim, or the lock is
    /// gone.
    LockFree,
    /// Its heartbeat counter has not moved for so long.
    Unmoved(Duration),
}

/// The state of a session's process, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Its lock is held, on this host.
    Alive,
    /// It may be alive: its counter has not been unmoved for long enough yet, by this process's
    /// clock.
    Unsure {
        /// For how long the counter has not moved.
        unmoved: Duration,
    },
    /// It counts as dead.
    Dead(DeadBecause),
}

/// One watcher's memory of the counters it saw, and when they last moved.
#[derive(Debug)]
pub struct DeathWatch {
    env: Env,
    policy: SessionPolicy,
    seen: Mutex<HashMap<SessionId, Sighting>>,
}

#[derive(Debug, Clone, Copy)]
struct Sighting {
    counter: Option<u64>,
    since: Duration,
}

impl DeathWatch {
    /// A watcher that has seen nothing yet.
    #[must_use]
    pub fn new(env: Env, policy: SessionPolicy) -> Self {
        Self {
            env,
            policy,
            seen: Mutex::new(HashMap::new()),
        }
    }

    /// Looks at a session once more. A verdict by the counter needs one look now and another `T`
    /// later.
    #[must_use]
    pub fn observe(&self, info: &SessionInfo) -> Life {
        if info.is_committed {
            // The session has ended, and its manifest is lost.
            return Life::Dead(DeadBecause::LockFree);
        }
        let unmoved = self.unmoved(info);
        // If the storage cannot tell, wait.
        let lock = match self.env.storage.lock_state(&names::session_lock(info.id)) {
            Ok(state) if info.claim.has_lock => state,
            _ => LockState::Unknown,
        };
        match lock {
            LockState::Held => Life::Alive,
            // A session takes the lock before it puts the claim. So the lock was held, and is free
            // now. If the lock's name is missing, the session had ended, and its claim came back
            // from an older copy of the store.
            LockState::Free | LockState::Missing => Life::Dead(DeadBecause::LockFree),
            LockState::Unknown if unmoved >= self.policy.unmoved_for => {
                Life::Dead(DeadBecause::Unmoved(unmoved))
            }
            LockState::Unknown => Life::Unsure { unmoved },
        }
    }

    fn unmoved(&self, info: &SessionInfo) -> Duration {
        let now = self.env.clock.monotonic();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = Sighting {
            counter: info.counter,
            since: now,
        };
        let sighting = seen.entry(info.id).or_insert(fresh);
        if sighting.counter != info.counter {
            *sighting = fresh;
        }
        now.saturating_sub(sighting.since)
    }

    /// Drops sessions that are not among the running ones, so that memory follows the number of
    /// running sessions.
    pub(crate) fn keep_only(&self, running: &[SessionInfo]) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|id, _| running.iter().any(|info| info.id == *id));
    }
}
