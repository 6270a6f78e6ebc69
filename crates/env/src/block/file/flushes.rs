//! Flushes of threads, merged.
//!
//! A thread whose flush waits for another one shares the next call of the system with all threads
//! that wait. This is quicker than a call each. It is also needed: the system tells a failed flush
//! to one caller alone, and the other callers must not believe that their writes are durable.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The flushes of one open file. Nobody holds its mutex during a call of the system.
#[derive(Debug, Default)]
pub(super) struct Flushes {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Calls of the system that have begun.
    begun: u64,
    is_running: bool,
    has_failed: bool,
}

impl Flushes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// Returns after a call of `sync` that began after this call. `None` if a call has failed that
    /// is not this thread's.
    pub(super) fn flush(&self, sync: impl FnOnce() -> io::Result<()>) -> Option<io::Result<()>> {
        let mut state = self.state();
        let needed = state.begun + 1;
        loop {
            if state.has_failed {
                return None;
            }
            if state.begun - u64::from(state.is_running) >= needed {
                return Some(Ok(()));
            }
            if !state.is_running {
                break;
            }
            let waited = self.ended.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.begun += 1;
        state.is_running = true;
        drop(state);
        let outcome = sync();
        let mut state = self.state();
        state.is_running = false;
        state.has_failed |= outcome.is_err();
        drop(state);
        self.ended.notify_all();
        Some(outcome)
    }
}
