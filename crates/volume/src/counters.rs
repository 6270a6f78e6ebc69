//! Counters of a volume, for statistics. They are relaxed atomic numbers: a reader may see one
//! counter newer than another.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use env::Clock;

/// Buckets of a histogram: four for each power of two of nanoseconds.
const BUCKETS: usize = 4 * 40;

/// Times of operations.
#[derive(Debug)]
pub(crate) struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ns: AtomicU64::new(0),
        }
    }
}

impl Histogram {
    fn add(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).max(4);
        let power = ns.ilog2();
        let quarter = usize::try_from((ns >> (power - 2)) & 3).unwrap_or(0);
        let bucket = (4 * power as usize + quarter).min(BUCKETS - 1);
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn reset(&self) {
        for count in &self.counts {
            count.store(0, Ordering::Relaxed);
        }
        self.sum_ns.store(0, Ordering::Relaxed);
    }

    fn summary(&self) -> Latency {
        let counts: Vec<u64> = self
            .counts
            .iter()
            .map(|one| one.load(Ordering::Relaxed))
            .collect();
        let count: u64 = counts.iter().sum();
        let at = |share: f64| {
            let mut left = (count as f64 * share).ceil().max(1.0);
            for (bucket, number) in counts.iter().enumerate() {
                left -= *number as f64;
                if left <= 0.0 {
                    let power = i32::try_from(bucket / 4).unwrap_or(0);
                    return 2f64.powi(power) * (1.0 + (bucket % 4 + 1) as f64 / 4.0) / 1000.0;
                }
            }
            0.0
        };
        if count == 0 {
            return Latency::default();
        }
        Latency {
            count,
            mean_us: self.sum_ns.load(Ordering::Relaxed) as f64 / count as f64 / 1000.0,
            p50_us: at(0.5),
            p99_us: at(0.99),
            p999_us: at(0.999),
        }
    }
}

/// Times of one kind of operation. Percentiles are upper bounds of ranges that are a quarter of a
/// power of two wide.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Latency {
    /// Operations.
    pub count: u64,
    /// The mean, in microseconds.
    pub mean_us: f64,
    /// The median, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile, in microseconds.
    pub p99_us: f64,
    /// The 99.9th percentile, in microseconds.
    pub p999_us: f64,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Numbers of a volume since it was opened.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            reads: Histogram,
            writes: Histogram,
            flushes: Histogram,
            $($name: AtomicU64,)*
        }

        /// Numbers of a volume since it was opened.
        #[derive(Debug, Clone, Copy, PartialEq, Default)]
        #[non_exhaustive]
        pub struct VolumeCounts {
            /// Reads.
            pub reads: Latency,
            /// Writes, trims and write-zeroes.
            pub writes: Latency,
            /// Flushes.
            pub flushes: Latency,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Begins anew, for another volume.
            pub(crate) fn reset(&self) {
                for times in [&self.reads, &self.writes, &self.flushes] {
                    times.reset();
                }
                $(self.$name.store(0, Ordering::Relaxed);)*
            }

            /// The numbers now.
            pub(crate) fn counts(&self) -> VolumeCounts {
                VolumeCounts {
                    reads: self.reads.summary(),
                    writes: self.writes.summary(),
                    flushes: self.flushes.summary(),
                    $($name: self.$name.load(Ordering::Relaxed),)*
                }
            }

            $(
                pub(crate) fn $name(&self, by: u64) {
                    self.$name.fetch_add(by, Ordering::Relaxed);
                }
            )*
        }
    };
}

counters! {
    /// Bytes that were read.
    read_bytes,
    /// Bytes that were written.
    written_bytes,
    /// Blocks that were written in place.
    blocks_in_place,
    /// Blocks that had been zeros, and were written to new blocks.
    blocks_first,
    /// Shared blocks, and blocks that the finder had in hand, that were written to new blocks: the
    /// copies-on-write.
    blocks_copied,
    /// Blocks that were written to new blocks because the log's mark behind their last mapping was
    /// not durable.
    blocks_unsettled,
    /// Blocks of log that were written.
    log_written,
    /// Blocks that the finder examined.
    examined,
    /// Blocks that the finder found to be known, and shared.
    shared,
    /// Blocks that the finder found to be zeros.
    zeroed,
    /// Blocks that were written while the finder examined them.
    orphaned,
    /// Blocks with a known fingerprint and another content (D7).
    different,
    /// References that the collector gave back.
    given_back,
    /// Registered blocks that the collector freed.
    freed,
    /// Checkpoints.
    checkpoints,
    /// Nanoseconds that the finder worked.
    finder_ns,
}

/// An operation that began.
pub(crate) struct Timed<'a> {
    clock: &'a dyn Clock,
    begun: Duration,
}

impl Timed<'_> {
    fn elapsed(&self) -> Duration {
        self.clock.monotonic().saturating_sub(self.begun)
    }
}

impl Counters {
    /// Begins to time an operation.
    pub(crate) fn time<'a>(&self, clock: &'a dyn Clock) -> Timed<'a> {
        Timed {
            clock,
            begun: clock.monotonic(),
        }
    }

    /// A read of so many bytes ended.
    pub(crate) fn read(&self, timed: &Timed<'_>, bytes: usize) {
        self.reads.add(timed.elapsed());
        self.read_bytes(bytes as u64);
    }

    /// A write of so many bytes ended.
    pub(crate) fn wrote(&self, timed: &Timed<'_>, bytes: u64) {
        self.writes.add(timed.elapsed());
        self.written_bytes(bytes);
    }

    /// A flush ended.
    pub(crate) fn flushed(&self, timed: &Timed<'_>) {
        self.flushes.add(timed.elapsed());
    }
}

#[cfg(test)]
mod tests;
