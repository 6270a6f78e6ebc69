//! Flushes of threads: a few run at once, and those that must wait are merged.
//!
//! A flush writes what the system has in memory, and then empties the cache of the disk. So one
//! flush can write while the disk works for another. Each call of the system has a way of its own,
//! which is a number here and an open file for the caller. A thread for which there is no way
//! shares the next call with all threads that wait.
//!
//! The system tells a failed write once to each open file. So two calls never share a way, and a
//! thread never believes that its writes are durable because of a call that was not told. A disk
//! that could not empty its cache tells one call alone, and the next one may succeed without what
//! was lost. So a call counts only when all that began before it have ended, and none has failed.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The flushes of one device. Nobody holds its mutex during a call of the system.
#[derive(Debug)]
pub(super) struct Flushes {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    /// Calls of the system that have begun.
    begun: u64,
    /// For each way, the number of the call that runs there; 0 for none.
    running: Vec<u64>,
    has_failed: bool,
}

impl State {
    /// Whether this call and all that began before it have ended.
    fn have_ended(&self, call: u64) -> bool {
        self.begun >= call
            && self
                .running
                .iter()
                .all(|running| *running == 0 || *running > call)
    }
}

impl Flushes {
    /// With so many ways; at least one.
    pub(super) fn new(ways: usize) -> Self {
        Self {
            state: Mutex::new(State {
                begun: 0,
                running: vec![0; ways.max(1)],
                has_failed: false,
            }),
            ended: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// Returns after a call of `sync` that began after this call. `sync` is told its way. `None` if
    /// a call has failed that is not this thread's.
    pub(super) fn flush(&self, sync: impl FnOnce(usize) -> io::Result<()>) -> Option<io::Result<()>> {
        let mut state = self.state();
        let needed = state.begun + 1;
        let way = loop {
            if state.has_failed {
                return None;
            }
            if state.have_ended(needed) {
                return Some(Ok(()));
            }
            // A call that began meanwhile serves this thread: it waits for its end.
            let free = state.running.iter().position(|call| *call == 0);
            if let Some(way) = free.filter(|_| state.begun < needed) {
                break way;
            }
            let waited = self.ended.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        };
        state.begun = needed;
        state.running[way] = needed;
        drop(state);
        let outcome = sync(way);
        let mut state = self.state();
        state.running[way] = 0;
        state.has_failed |= outcome.is_err();
        self.ended.notify_all();
        if outcome.is_err() {
            return Some(outcome);
        }
        while !state.has_failed && !state.have_ended(needed) {
            let waited = self.ended.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        (!state.has_failed).then_some(outcome)
    }
}
