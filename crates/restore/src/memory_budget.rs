//! The budget of reading ahead: a count of bytes that the planning thread takes and the sending
//! thread gives back.
//!
//! Invariant: the planner never waits while no piece is in flight, so the two threads cannot wait
//! for each other. A thread that stops or panics wakes the other. Two threads take and give; any
//! thread may close.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The budget.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    /// The planner requests bytes up to this number.
    asked_bytes_max: u64,
    /// Read bytes may take more memory than was requested, up to this number.
    extra_bytes_max: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    held_bytes: u64,
    most_bytes: u64,
    /// Pieces that were requested and are not yet finished.
    in_flight: u64,
    closed: bool,
}

impl MemoryBudget {
    /// A budget of `budget_bytes`, of which `asked_bytes_max` are for requested bytes.
    pub(crate) fn new(budget_bytes: u64, asked_bytes_max: u64) -> Self {
        Self {
            asked_bytes_max,
            extra_bytes_max: budget_bytes,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // The state has only counts, which are consistent between statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so many more bytes may be requested. Returns `false` if the budget was closed.
    pub(crate) fn wait_for(&self, bytes: u64) -> bool {
        let mut state = self.state();
        let is_full = |state: &State| state.held_bytes.saturating_add(bytes) >= self.asked_bytes_max;
        while !state.closed && state.in_flight > 0 && is_full(&state) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.closed
    }

    /// Takes room for `pieces` that bring `bytes`.
    pub(crate) fn take(&self, bytes: u64, pieces: u64) {
        let mut state = self.state();
        state.held_bytes += bytes;
        state.most_bytes = state.most_bytes.max(state.held_bytes);
        state.in_flight += pieces;
    }

    /// Reserves memory beyond what was taken, if the budget has room: a buffer holds unwanted bytes
    /// beside wanted ones.
    pub(crate) fn take_extra(self: &Arc<Self>, bytes: u64) -> Option<Extra> {
        let mut state = self.state();
        let held_bytes = state.held_bytes.saturating_add(bytes);
        if held_bytes > self.extra_bytes_max {
            return None;
        }
        state.held_bytes = held_bytes;
        state.most_bytes = state.most_bytes.max(held_bytes);
        Some(Extra {
            room: Arc::clone(self),
            bytes,
        })
    }

    /// Gives back the room of bytes that were sent or dropped.
    pub(crate) fn free(&self, bytes: u64) {
        let mut state = self.state();
        state.held_bytes = state.held_bytes.saturating_sub(bytes);
        drop(state);
        self.changed.notify_all();
    }

    /// Records that a piece is finished: everything of it that could be sent was sent.
    pub(crate) fn dealt_with_piece(&self) {
        let mut state = self.state();
        state.in_flight = state.in_flight.saturating_sub(1);
        drop(state);
        self.changed.notify_all();
    }

    /// Ends the reading ahead.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// The most bytes ever held.
    pub(crate) fn most_bytes(&self) -> u64 {
        self.state().most_bytes
    }
}

/// Memory that returns to the budget when this is dropped.
#[derive(Debug)]
pub(crate) struct Extra {
    room: Arc<MemoryBudget>,
    bytes: u64,
}

impl Drop for Extra {
    fn drop(&mut self) {
        self.room.free(self.bytes);
    }
}
