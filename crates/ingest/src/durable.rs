//! How far a running backup would be found by the next one, if it broke now (B6).

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The position of a single stream that the last checkpoint states. The store moves it, and a
/// client may ask for a later one. Any number of threads.
#[derive(Debug, Default)]
pub struct DurablePosition {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    position: u64,
    is_wanted: bool,
}

impl DurablePosition {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The position now. If it is `known`, waits up to `wait` for a later one.
    pub fn beyond(&self, known: u64, wait: Duration) -> u64 {
        let mut state = self.state();
        if state.position <= known && !wait.is_zero() {
            let waited = self.changed.wait_timeout(state, wait);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.position
    }

    /// A checkpoint states this position.
    pub fn advance(&self, position: u64) {
        let mut state = self.state();
        state.position = state.position.max(position);
        drop(state);
        self.changed.notify_all();
    }

    /// Asks for a checkpoint that states a later position.
    pub fn request(&self) {
        self.state().is_wanted = true;
    }

    /// Whether one was asked for since the last [`Self::take_request`].
    pub(crate) fn is_requested(&self) -> bool {
        self.state().is_wanted
    }

    pub(crate) fn take_request(&self) {
        self.state().is_wanted = false;
    }
}
