//! Counters of an export, and how long its requests took.
//!
//! Any number of threads count at once. A request costs a handful of additions without a lock. A
//! reader may see a request in one counter and not yet in another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nbd::Command;

/// A power of two is divided into so many buckets: a percentile is at most 1/8 too high.
const STEPS: usize = 8;
/// Buckets of the histogram. The last one begins at about 17 minutes.
const BUCKETS: usize = 38 * STEPS;

/// Counters of one export.
#[derive(Debug)]
pub(crate) struct Counters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    others: AtomicU64,
    errors: AtomicU64,
    pub(crate) connections: AtomicU64,
    /// By the time that the export needed.
    times: [AtomicU64; BUCKETS],
}

/// The counters of an export at a moment. They begin with the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExportStats {
    /// Reads.
    pub reads: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Writes, trims and writes of zeros.
    pub writes: u64,
    /// Bytes that were written, trimmed or made zeros.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Other requests.
    pub others: u64,
    /// Requests that were answered with an error. They count above, too.
    pub errors: u64,
    /// Connections that are open now.
    pub connections: u64,
    /// Half of the requests took the export at most so long, ...
    pub p50: Duration,
    /// ... 99 of 100 so long, ...
    pub p99: Duration,
    /// ... and 999 of 1000 so long.
    pub p999: Duration,
}

impl Default for Counters {
    fn default() -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            reads: zero(),
            read_bytes: zero(),
            writes: zero(),
            written_bytes: zero(),
            flushes: zero(),
            others: zero(),
            errors: zero(),
            connections: zero(),
            times: std::array::from_fn(|_| zero()),
        }
    }
}

impl Counters {
    /// Counts a request that the export did or failed to do.
    pub(crate) fn count(&self, command: Command, bytes: u32, time: Duration, is_ok: bool) {
        let (requests, moved) = match command {
            Command::Read => (&self.reads, Some(&self.read_bytes)),
            Command::Write | Command::Trim | Command::WriteZeroes => {
                (&self.writes, Some(&self.written_bytes))
            }
            Command::Flush => (&self.flushes, None),
            _ => (&self.others, None),
        };
        requests.fetch_add(1, Ordering::Relaxed);
        if is_ok {
            if let Some(moved) = moved {
                moved.fetch_add(bytes.into(), Ordering::Relaxed);
            }
        } else {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        self.times[bucket(time)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that the server refused.
    pub(crate) fn refused(&self) {
        self.others.fetch_add(1, Ordering::Relaxed);
        self.errors.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters now.
    pub(crate) fn snapshot(&self) -> ExportStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let times = self.times.each_ref().map(get);
        ExportStats {
            reads: get(&self.reads),
            read_bytes: get(&self.read_bytes),
            writes: get(&self.writes),
            written_bytes: get(&self.written_bytes),
            flushes: get(&self.flushes),
            others: get(&self.others),
            errors: get(&self.errors),
            connections: get(&self.connections),
            p50: percentile(&times, 500),
            p99: percentile(&times, 990),
            p999: percentile(&times, 999),
        }
    }
}

/// The bucket of a time: by the highest bit of its nanoseconds, and the three bits after it.
fn bucket(time: Duration) -> usize {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let steps = STEPS as u64;
    if nanos < steps {
        return usize::try_from(nanos).unwrap_or(0);
    }
    let shift = nanos.ilog2() - steps.ilog2();
    let step = usize::try_from((nanos >> shift) - steps).unwrap_or(0);
    ((usize::try_from(shift).unwrap_or(0) + 1) * STEPS + step).min(BUCKETS - 1)
}

/// The first time beyond a bucket.
fn end_of(bucket: usize) -> Duration {
    if bucket < STEPS {
        return Duration::from_nanos(bucket as u64 + 1);
    }
    let (shift, step) = (bucket / STEPS - 1, bucket % STEPS);
    Duration::from_nanos((STEPS as u64 + step as u64 + 1) << shift)
}

fn percentile(times: &[u64; BUCKETS], thousandths: u64) -> Duration {
    let all: u64 = times.iter().sum();
    let wanted = (u128::from(all) * u128::from(thousandths)).div_ceil(1000);
    let mut seen = 0;
    for (bucket, count) in times.iter().enumerate() {
        seen += u128::from(*count);
        if *count > 0 && seen >= wanted {
            return end_of(bucket);
        }
    }
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_bucket_that_ends_at_most_an_eighth_later() {
        let mut last = 0;
        let large = (13..38).flat_map(|bit| [(1 << bit) - 1, 1 << bit, 3 << (bit - 1)]);
        for nanos in (0..5000).chain(large) {
            let time = Duration::from_nanos(nanos);
            let end = end_of(bucket(time));
            assert!(
                end > time && end <= time + time / 8 + Duration::from_nanos(1),
                "{time:?} {end:?}"
            );
            assert!(bucket(time) == last || bucket(time) == last + 1 || nanos > 5000 && bucket(time) > last);
            last = bucket(time);
        }
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
    }

    #[test]
    fn percentiles_are_those_of_the_counted_times() {
        let counters = Counters::default();
        assert_eq!(counters.snapshot(), ExportStats::default());
        for nanos in 0..10_000 {
            counters.count(Command::Read, 10, Duration::from_nanos(nanos), nanos % 100 != 0);
        }
        let stats = counters.snapshot();
        for (found, exact) in [(stats.p50, 5000), (stats.p99, 9900), (stats.p999, 9990)] {
            let exact = Duration::from_nanos(exact);
            assert!(
                found >= exact && found <= exact + exact / 7,
                "{found:?} {exact:?}"
            );
        }
        assert_eq!(
            (stats.reads, stats.read_bytes, stats.errors),
            (10_000, 99_000, 100)
        );
    }
}
