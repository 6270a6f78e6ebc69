//! Running a load: each worker is a thread that performs one operation after another.
//!
//! The first error of a worker ends all. The latency of an operation is the time from its begin to
//! its end, the flush of a write included. A worker with a pace begins an operation when it is due,
//! or at once if the last one ended later.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use env::{AlignedBuffer, Clock, SystemClock};

use super::BLOCK_BYTES;
use super::process::Process;
use crate::error::LabError;

/// A block device under load.
pub(crate) trait Disk: Sync {
    /// Reads a block.
    fn read(&self, offset: u64, block: &mut [u8]) -> Result<(), LabError>;
    /// Writes a block.
    fn write(&self, offset: u64, block: &[u8]) -> Result<(), LabError>;
    /// Makes durable what was written.
    fn flush(&self) -> Result<(), LabError>;
}

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads blocks.
    Reads,
    /// Writes blocks, and flushes the device after each one (DEDISbench: `sync=2`).
    FlushedWrites,
    /// Writes blocks.
    Writes,
}

/// A thread of a load.
#[derive(Debug)]
pub(crate) struct Worker {
    /// Where it reads or writes.
    pub(crate) process: Process,
    /// What it does.
    pub(crate) kind: Kind,
    /// Its operations a second; `None` for as many as possible.
    pub(crate) per_s: Option<f64>,
}

/// When a load ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// After this time.
    Time(Duration),
    /// After so many operations of each worker.
    Operations(u64),
}

/// The operations of one or more workers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    /// How long the load ran.
    pub(crate) time: Duration,
    /// The latency of each operation, in nanoseconds.
    latencies_ns: Vec<u64>,
}

impl Measured {
    /// Operations.
    pub(crate) fn operations(&self) -> u64 {
        self.latencies_ns.len() as u64
    }

    /// Adds the operations of a worker that ran at the same time.
    pub(crate) fn beside(mut self, other: &Self) -> Self {
        self.time = self.time.max(other.time);
        self.latencies_ns.extend_from_slice(&other.latencies_ns);
        self
    }

    /// Operations a second.
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    pub(crate) fn per_s(&self) -> f64 {
        self.operations() as f64 / self.time.as_secs_f64().max(1e-9)
    }

    /// The mean latency, in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    pub(crate) fn mean_ms(&self) -> f64 {
        let sum: u64 = self.latencies_ns.iter().sum();
        sum as f64 / 1e6 / self.operations().max(1) as f64
    }

    /// The latency that 99 % of the operations do not exceed, in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "a latency")]
    pub(crate) fn p99_ms(&self) -> f64 {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * 99).div_ceil(100);
        sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default() as f64 / 1e6
    }
}

/// Runs all workers at once. Returns what each did, in their order.
///
/// `step` is called after each operation, with its bytes. An error of it ends the load.
///
/// # Errors
/// The first error of a worker, of the disk or of `step`.
pub(crate) fn run(
    disk: &dyn Disk,
    workers: &mut [Worker],
    until: Until,
    step: &(dyn Fn(u64) -> Result<(), LabError> + Sync),
) -> Result<Vec<Measured>, LabError> {
    let is_over = AtomicBool::new(false);
    let results: Vec<Result<Measured, LabError>> = std::thread::scope(|scope| {
        let threads: Vec<_> = workers
            .iter_mut()
            .map(|worker| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let done = worker.work(disk, until, is_over, step);
                    if done.is_err() {
                        is_over.store(true, Ordering::Relaxed);
                    }
                    done
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    results.into_iter().collect()
}

impl Worker {
    fn work(
        &mut self,
        disk: &dyn Disk,
        until: Until,
        is_over: &AtomicBool,
        step: &(dyn Fn(u64) -> Result<(), LabError> + Sync),
    ) -> Result<Measured, LabError> {
        let clock = SystemClock;
        let mut block = AlignedBuffer::with_capacity(4096);
        block.grow_to(4096);
        let begun = clock.monotonic();
        let mut measured = Measured::default();
        while !is_over.load(Ordering::Relaxed) {
            let now = self.due(&clock, begun, measured.operations());
            let is_enough = match until {
                Until::Time(time) => now - begun >= time,
                Until::Operations(count) => measured.operations() >= count,
            };
            if is_enough {
                break;
            }
            let took = self.operate(disk, &clock, &mut block)?;
            measured
                .latencies_ns
                .push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
            step(BLOCK_BYTES)?;
        }
        measured.time = clock.monotonic() - begun;
        Ok(measured)
    }

    /// Waits until the next operation is due. Returns the time then.
    fn due(&self, clock: &SystemClock, begun: Duration, done: u64) -> Duration {
        if let Some(per_s) = self.per_s {
            #[expect(clippy::cast_precision_loss, reason = "a number of operations")]
            let due = begun + Duration::from_secs_f64(done as f64 / per_s);
            clock.sleep(due.saturating_sub(clock.monotonic()));
        }
        clock.monotonic()
    }

    fn operate(
        &mut self,
        disk: &dyn Disk,
        clock: &SystemClock,
        block: &mut [u8],
    ) -> Result<Duration, LabError> {
        if self.kind == Kind::Reads {
            let offset = self.process.next_offset();
            let begun = clock.monotonic();
            disk.read(offset, block)?;
            return Ok(clock.monotonic() - begun);
        }
        let offset = self.process.next_write(block);
        let begun = clock.monotonic();
        disk.write(offset, block)?;
        if self.kind == Kind::FlushedWrites {
            disk.flush()?;
        }
        Ok(clock.monotonic() - begun)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(milliseconds: impl Iterator<Item = u64>) -> Measured {
        Measured {
            time: Duration::from_secs(2),
            latencies_ns: milliseconds.map(|ms| ms * 1_000_000).collect(),
        }
    }

    #[test]
    fn rates_means_and_ranks_are_those_of_all_operations() {
        let all = measured((1..=100).rev()).beside(&measured(101..=200));
        let shown = [all.per_s(), all.mean_ms(), all.p99_ms()].map(|n| format!("{n:.1}"));
        assert_eq!(shown, ["100.0", "100.5", "198.0"]);
        let one = measured(7..8);
        assert_eq!(format!("{:.1} {:.1}", one.mean_ms(), one.p99_ms()), "7.0 7.0");
        assert_eq!(format!("{:.1}", measured(0..0).p99_ms()), "0.0");
    }
}
