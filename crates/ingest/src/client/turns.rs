//! Turns of backups whose sources are as fast as the processor.
//!
//! Such a backup keeps two cores busy by itself. If sixteen work at once, each of them evicts the
//! others' bytes from the caches of the processor before the next stage reads them (G10). So a few
//! of them go on at a time, for some MiB each, and the others wait before they read more.
//!
//! Nothing depends on a turn but speed:
//! - A backup that waits for a disk, a network or its store takes no turns for some MiB. Without
//!   them it waits for nobody.
//! - A backup that has sent nothing for [`STALL`] loses its turn to the next one that waits. So a
//!   source that stops costs the others that time, until its backup is known to be slow.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use env::Clock;

use crate::stage::{WaitFor, waiting};

/// Bytes of a turn.
const TURN_BYTES: usize = 16 << 20;
/// Bytes that a slow backup sends before it takes turns again.
const SLOW_BYTES: usize = 32 << 20;
/// A backup is slow if the next stage waits for its source, which delivers less than 1 GB/s ...
const READ_NANOS_A_BYTE: u128 = 1;
/// ... or if it moves less than 125 MB/s, as over a line of 1 Gbit/s.
const NANOS_A_BYTE: u128 = 8;
/// Bytes over which that is judged.
const JUDGED_BYTES: usize = 4 << 20;
/// A backup loses its turn after so long.
const STALL: Duration = Duration::from_millis(20);
/// Cores that a backup keeps busy by itself.
const CORES_OF_A_BACKUP: usize = 2;

/// The turns that all backups of a store handle share.
#[derive(Debug)]
pub(crate) struct Turns {
    at_once: usize,
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
#[derive(Debug)]
struct Holder {
    number: u64,
    /// When its backup has last sent something.
    sent_at: Duration,
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
    /// Bytes that it sends without turns, because it was slow.
    slow: usize,
    judged: Judged,
    /// When the source began to work on what is sent next.
    since: Duration,
}

/// What a backup sends at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) bytes: usize,
    /// Reading was slow because of that, whatever the source.
    pub(crate) is_in_new_memory: bool,
}

/// The bytes and times since a backup was last judged.
#[derive(Debug, Default)]
struct Judged {
    bytes: usize,
    reading: Duration,
    sending: Duration,
}

impl Turns {
    /// For the machine's cores.
    pub(crate) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::of((cores / CORES_OF_A_BACKUP).max(1))
    }

    fn of(at_once: usize) -> Self {
        Self {
            at_once,
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
            judged: Judged::default(),
            since: clock.monotonic(),
        }
    }

    /// How many turns are taken.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.state().holders.len()
    }

    /// How many turns have ended.
    #[cfg(test)]
    pub(crate) fn ended(&self) -> u64 {
        let state = self.state();
        state.next - state.holders.len() as u64
    }

    /// The state stays consistent between statements.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn behind all that wait already. Returns its number; `None` if the turn is not
    /// wanted any more.
    fn take(&self, clock: &dyn Clock, is_wanted: impl Fn() -> bool) -> Option<u64> {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(number);
        if !self.is_free(&state, number) {
            let wait = || self.wait(state, number, clock, &is_wanted);
            (state, _) = waiting(clock, WaitFor::Output, wait);
        }
        let is_free = self.is_free(&state, number);
        state.waiting.retain(|waiting| *waiting != number);
        if is_free {
            let sent_at = clock.monotonic();
            state.holders.push(Holder { number, sent_at });
        }
        drop(state);
        // The next one may find a free turn, too.
        self.changed.notify_all();
        is_free.then_some(number)
    }

    fn is_free(&self, state: &State, number: u64) -> bool {
        state.holders.len() < self.at_once && state.waiting.front() == Some(&number)
    }

    /// Waits until there is a turn for this number, or nobody wants it. The first of those that
    /// wait ends a turn that has stalled.
    fn wait<'a>(
        &self,
        mut state: MutexGuard<'a, State>,
        number: u64,
        clock: &dyn Clock,
        is_wanted: &impl Fn() -> bool,
    ) -> MutexGuard<'a, State> {
        while !self.is_free(&state, number) && is_wanted() {
            let now = clock.monotonic();
            let stalled_for = |holder: &Holder| now.saturating_sub(holder.sent_at);
            let longest = (0..state.holders.len()).max_by_key(|at| stalled_for(&state.holders[*at]));
            let mut time = STALL;
            if let Some(longest) = longest {
                let stalled = stalled_for(&state.holders[longest]);
                if stalled >= STALL && state.waiting.front() == Some(&number) {
                    state.holders.remove(longest);
                    continue;
                }
                time = STALL.saturating_sub(stalled).max(Duration::from_millis(1));
            }
            let waited = self.changed.wait_timeout(state, time);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Notes that the backup with this turn has sent something. Returns whether it still has the
    /// turn.
    fn note(&self, number: u64, now: Duration) -> bool {
        let mut state = self.state();
        let holder = state.holders.iter_mut().find(|holder| holder.number == number);
        holder.map(|holder| holder.sent_at = now).is_some()
    }

    fn give_back(&self, number: u64) {
        self.state().holders.retain(|holder| holder.number != number);
        self.changed.notify_all();
    }
}

impl BackupTurns<'_> {
    /// The source is about to read, or about to send what it has read: waits for a turn, if the
    /// backup has none and needs one, and as long as it is wanted.
    pub(crate) fn take(&mut self, is_wanted: impl Fn() -> bool) {
        if self.held.is_none() && self.slow == 0 {
            let began = self.clock.monotonic();
            self.held = self.turns.take(self.clock, is_wanted);
            self.left = TURN_BYTES;
            // The source had no part in the wait, but did what it did before.
            self.since += self.clock.monotonic().saturating_sub(began);
        }
    }

    /// Sends a part by `send`, which may wait for the next stage.
    pub(crate) fn send<R>(&mut self, part: Part, send: impl FnOnce() -> R) -> R {
        let Part {
            bytes,
            is_in_new_memory,
        } = part;
        let read = self.clock.monotonic();
        let result = send();
        let sent = self.clock.monotonic();
        if !is_in_new_memory && self.slow == 0 {
            self.judged.bytes += bytes;
            self.judged.reading += read.saturating_sub(self.since);
            self.judged.sending += sent.saturating_sub(read);
        }
        self.since = sent;
        self.slow = self.slow.saturating_sub(bytes);
        self.left = self.left.saturating_sub(bytes);
        if let Some(number) = self.held {
            if self.judged.bytes >= JUDGED_BYTES && self.judged.take_is_slow() {
                self.slow = SLOW_BYTES;
            }
            if !self.turns.note(number, sent) || self.left == 0 || self.slow > 0 {
                self.give_back();
            }
        }
        result
    }

    fn give_back(&mut self) {
        if let Some(number) = self.held.take() {
            self.turns.give_back(number);
        }
    }
}

impl Judged {
    /// Whether these bytes were slow. The next ones are judged by themselves.
    fn take_is_slow(&mut self) -> bool {
        let Self {
            bytes,
            reading,
            sending,
        } = std::mem::take(self);
        let (bytes, all) = (bytes as u128, reading + sending);
        let waits_for_source = reading > sending && reading.as_nanos() > READ_NANOS_A_BYTE * bytes;
        waits_for_source || all.as_nanos() > NANOS_A_BYTE * bytes
    }
}

impl Drop for BackupTurns<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

#[cfg(test)]
mod tests;
