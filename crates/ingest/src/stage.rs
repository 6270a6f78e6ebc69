//! What the stages do with their time: work, wait for input, wait until somebody takes their
//! output.
//!
//! Every thread of a stage runs inside [`StageStats::run`], and every job on a shared thread inside
//! [`StageStats::run_job`]. Queues and workers tell the thread they run on how long it waited. The
//! rest of the time was work, or waiting for a disk or a processor: a stage that hardly ever waits
//! is the slow one. Each thread counts for itself and adds up once, at its end.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, TrySendError};
use env::Clock;

/// The time of the threads of a stage that have ended.
#[derive(Debug, Default)]
pub struct StageStats {
    /// The stage's name.
    pub name: &'static str,
    /// Threads that have ended, or that run jobs of all sessions.
    pub threads: AtomicU64,
    /// Nanoseconds of work, waits for the disk and for a processor included; of all threads
    /// together.
    pub busy_nanos: AtomicU64,
    /// Nanoseconds of waiting for something to do.
    pub input_nanos: AtomicU64,
    /// Nanoseconds of waiting until the next stage took an item.
    pub output_nanos: AtomicU64,
}

thread_local! {
    static WAITED: Cell<Waited> = const { Cell::new(Waited { input: 0, output: 0 }) };
}

#[derive(Debug, Clone, Copy)]
struct Waited {
    input: u64,
    output: u64,
}

/// The reason of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitFor {
    Input,
    Output,
}

/// Waits, and counts the wait for the thread's stage. Also returns the time that it took.
pub(crate) fn waiting<R>(clock: &dyn Clock, what: WaitFor, wait: impl FnOnce() -> R) -> (R, u64) {
    let before = clock.monotonic();
    let result = wait();
    let nanos = nanos(clock.monotonic().saturating_sub(before));
    WAITED.with(|cell| {
        let mut waited = cell.get();
        match what {
            WaitFor::Input => waited.input += nanos,
            WaitFor::Output => waited.output += nanos,
        }
        cell.set(waited);
    });
    (result, nanos)
}

/// Receives, and counts the wait, if any, as one for input. `None`: no more items can come.
pub(crate) fn received<T>(clock: &dyn Clock, from: &Receiver<T>) -> Option<T> {
    match from.try_recv() {
        Err(TryRecvError::Empty) => waiting(clock, WaitFor::Input, || from.recv()).0.ok(),
        received => received.ok(),
    }
}

/// Sends, and counts the wait, if any, as one for output. `false`: there is no receiver.
pub(crate) fn sent<T>(clock: &dyn Clock, to: &Sender<T>, item: T) -> bool {
    match to.try_send(item) {
        Err(TrySendError::Full(item)) => waiting(clock, WaitFor::Output, || to.send(item)).0.is_ok(),
        sent => sent.is_ok(),
    }
}

impl StageStats {
    /// Notes that so many threads run the stage's jobs.
    pub(crate) fn has_threads(&self, threads: usize) {
        self.threads.fetch_max(threads as u64, Ordering::Relaxed);
    }

    /// A stage that has not begun.
    pub(crate) fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            name,
            ..Self::default()
        })
    }

    /// Runs one of the stage's threads.
    pub(crate) fn run<R>(&self, clock: &dyn Clock, body: impl FnOnce() -> R) -> R {
        let result = self.run_job(clock, body);
        self.threads.fetch_add(1, Ordering::Relaxed);
        result
    }

    /// Runs one of the stage's jobs, on a thread that serves others too.
    pub(crate) fn run_job<R>(&self, clock: &dyn Clock, body: impl FnOnce() -> R) -> R {
        let before = WAITED.get();
        let began = clock.monotonic();
        let result = body();
        let whole = nanos(clock.monotonic().saturating_sub(began));
        let after = WAITED.get();
        let (input, output) = (after.input - before.input, after.output - before.output);
        self.input_nanos.fetch_add(input, Ordering::Relaxed);
        self.output_nanos.fetch_add(output, Ordering::Relaxed);
        let busy = whole.saturating_sub(input + output);
        self.busy_nanos.fetch_add(busy, Ordering::Relaxed);
        result
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use env::ManualClock;

    use super::*;

    #[test]
    fn time_without_waiting_counts_as_work() {
        let clock = ManualClock::default();
        let stage = StageStats::new("a stage");
        // Waits of the thread from before the stage began do not count for the stage.
        waiting(&clock, WaitFor::Input, || {
            clock.advance(Duration::from_nanos(1000))
        });
        for _ in 0..2 {
            stage.run(&clock, || {
                clock.advance(Duration::from_nanos(1));
                waiting(&clock, WaitFor::Input, || clock.advance(Duration::from_nanos(10)));
                let (_, waited) = waiting(&clock, WaitFor::Output, || {
                    clock.advance(Duration::from_nanos(100))
                });
                assert_eq!(waited, 100);
                clock.advance(Duration::from_nanos(2));
            });
        }
        let read = |value: &AtomicU64| value.load(Ordering::Relaxed);
        assert_eq!(read(&stage.threads), 2);
        assert_eq!(read(&stage.busy_nanos), 6);
        assert_eq!(read(&stage.input_nanos), 20);
        assert_eq!(read(&stage.output_nanos), 200);
    }
}
