//! Turns of backups whose sources are as fast as the processor.
//!
//! Such a backup keeps two cores busy by itself. If sixteen work at once, each of them evicts the
//! others' bytes from the caches of the processor before the next stage reads them: chunking and
//! fingerprinting then take half as long again (G10). So a few of them go on at a time, for some
//! MiB each, and the others wait before they read more.
//!
//! Nothing depends on a turn but speed, so nobody loses time for one:
//! - A source slower than [`SLOW_NANOS_A_BYTE`] takes no turns: its backup waits for the disk or the
//!   network, and leaves the processor to others.
//! - A backup that has not sent anything for [`STALL`] loses its turn to the next one that waits,
//!   whatever it waits for itself.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::Clock;

use crate::stage::{WaitFor, waiting};

/// Bytes of a turn.
const TURN_BYTES: usize = 16 << 20;
/// A source that needs more for each byte is slow: 500 MB/s.
const SLOW_NANOS_A_BYTE: u128 = 2;
/// A backup loses its turn after so long.
const STALL: Duration = Duration::from_millis(20);
/// Cores that a backup keeps busy by itself.
const CORES_OF_A_BACKUP: usize = 2;

/// The turns that all backups of a process share.
#[derive(Debug)]
pub(crate) struct Turns {
    at_once: usize,
    stall: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    holders: Vec<Holder>,
    /// The numbers of those that wait, in order.
    waiting: VecDeque<u64>,
    next: u64,
}

/// A turn that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Holder {
    number: u64,
    /// How often its backup has sent something.
    sent: u64,
}

/// The turns of one backup, one after the other.
#[derive(Debug)]
pub(crate) struct BackupTurns<'a> {
    turns: &'a Turns,
    clock: &'a dyn Clock,
    /// The number of the turn that it has.
    held: Option<u64>,
    /// Bytes that are left of it.
    left: usize,
    /// Bytes that a slow source must deliver fast before it takes turns again.
    slow: usize,
    /// When the source began to work on what is sent next.
    since: Duration,
}

impl Turns {
    /// For the machine's cores.
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::of((cores / CORES_OF_A_BACKUP).max(1), STALL)
    }

    fn of(at_once: usize, stall: Duration) -> Self {
        Self {
            at_once,
            stall,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Those of one backup.
    pub(crate) fn of_backup<'a>(&'a self, clock: &'a dyn Clock) -> BackupTurns<'a> {
        BackupTurns {
            turns: self,
            clock,
            held: None,
            left: 0,
            slow: 0,
            since: clock.monotonic(),
        }
    }

    /// The state stays consistent between statements.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn behind all that wait already. Returns its number.
    fn take(&self, clock: &dyn Clock) -> u64 {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(number);
        let is_first = |state: &State| state.waiting.front() == Some(&number);
        let must_wait = |state: &State| !is_first(state) || state.holders.len() >= self.at_once;
        if must_wait(&state) {
            let wait = || self.wait(state, must_wait, is_first);
            (state, _) = waiting(clock, WaitFor::Output, wait);
        }
        state.waiting.pop_front();
        state.holders.push(Holder { number, sent: 0 });
        drop(state);
        // The next one may find a free turn, too.
        self.changed.notify_all();
        number
    }

    /// Waits as long as it must. The first of those that wait ends a turn that has stalled.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        must_wait: impl Fn(&State) -> bool,
        is_first: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        while must_wait(&state) {
            let before = state.holders.clone();
            let waited = self.changed.wait_timeout(state, self.stall);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = now;
            let stalled = state.holders.iter().position(|holder| before.contains(holder));
            if timeout.timed_out()
                && is_first(&state)
                && let Some(stalled) = stalled
            {
                state.holders.remove(stalled);
            }
        }
        state
    }

    /// Notes that the backup with this turn has sent something. Returns whether it still has the
    /// turn.
    fn note(&self, number: u64) -> bool {
        let mut state = self.state();
        let holder = state.holders.iter_mut().find(|holder| holder.number == number);
        holder.map(|holder| holder.sent += 1).is_some()
    }

    fn give_back(&self, number: u64) {
        self.state().holders.retain(|holder| holder.number != number);
        self.changed.notify_all();
    }
}

impl BackupTurns<'_> {
    /// The source is about to read, or has read and is about to send: waits for a turn, if the
    /// backup has none and needs one.
    pub(crate) fn take(&mut self) {
        if self.held.is_none() && self.slow == 0 {
            self.held = Some(self.turns.take(self.clock));
            self.left = TURN_BYTES;
            self.since = self.clock.monotonic();
        }
    }

    /// Sends so many bytes by `send`, which may wait for the next stage.
    pub(crate) fn send<R>(&mut self, bytes: usize, send: impl FnOnce() -> R) -> R {
        let took = self.clock.monotonic().saturating_sub(self.since);
        let sent = send();
        self.since = self.clock.monotonic();
        if took.as_nanos() > SLOW_NANOS_A_BYTE * bytes as u128 {
            self.slow = TURN_BYTES;
        } else {
            self.slow = self.slow.saturating_sub(bytes);
        }
        self.left = self.left.saturating_sub(bytes);
        if let Some(number) = self.held
            && (!self.turns.note(number) || self.left == 0 || self.slow > 0)
        {
            self.give_back();
        }
        sent
    }

    fn give_back(&mut self) {
        if let Some(number) = self.held.take() {
            self.turns.give_back(number);
        }
    }
}

impl Drop for BackupTurns<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests;
