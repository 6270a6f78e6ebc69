//! Learns which requests of a connection wait for a device, and how long its client pauses.
//!
//! A thread that does a quick request itself saves a switch between threads, which costs more than
//! the request. A request that waits for a disk must not hold up the requests behind it: another
//! thread takes over receiving. Which is which shows only in the time that the last ones took.

use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use env::Clock;
use nbd::{Command, CommandFlags, Request};

/// A quick request takes at most so long ...
const QUICK: Duration = Duration::from_micros(25);
/// ... and for each KiB so much more, which is 4 GiB/s.
const QUICK_PER_KIB: Duration = Duration::from_nanos(240);
/// One request moves an average by this part of its distance, ...
const WEIGHT: i32 = 16;
/// ... and counts as at most so many times the quick time: one slow request among quick ones is the
/// processor's doing.
const SLOW_MAX: i32 = 4;
/// The average of a request that takes exactly the quick time.
const UNIT: i32 = 1 << 12;

/// Kinds of requests, each with an average.
const KINDS: usize = 4;

/// What a connection learned.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    averages: [AtomicI32; KINDS],
}

fn kind(request: &Request) -> usize {
    match request.command {
        Command::Flush => 0,
        _ if request.flags.has(CommandFlags::FUA) => 0,
        Command::Read => 1,
        Command::Write => 2,
        _ => 3,
    }
}

impl Pace {
    /// Whether requests like this one waited for a device lately.
    pub(crate) fn is_slow(&self, request: &Request) -> bool {
        self.averages[kind(request)].load(Ordering::Relaxed) > UNIT
    }

    /// Learns from a request.
    pub(crate) fn learn(&self, request: &Request, time: Duration) {
        let quick = QUICK + QUICK_PER_KIB * (request.len >> 10);
        let units = time.as_nanos().saturating_mul(UNIT.unsigned_abs().into()) / quick.as_nanos();
        let units = i32::try_from(units).unwrap_or(i32::MAX).min(SLOW_MAX * UNIT);
        let average = &self.averages[kind(request)];
        // Two threads that learn at once may lose one of the two.
        let old = average.load(Ordering::Relaxed);
        average.store(old + (units - old) / WEIGHT, Ordering::Relaxed);
    }
}

/// Lets few threads at once look for bytes without sleeping. Sleeping and waking cost several
/// microseconds, more than a client needs to send its next request. Where other programs want the
/// processor, though, the system makes a thread that never sleeps wait for milliseconds. So nobody
/// looks for a while after that was seen.
#[derive(Debug)]
pub(crate) struct Spinners {
    spinning: AtomicUsize,
    spinning_max: usize,
    /// Nobody looks before this time, in nanoseconds of the clock.
    not_before: AtomicU64,
}

/// A thread that was away for so long between two looks had to give the processor up.
const AWAY: Duration = Duration::from_micros(100);
/// How long nobody looks then.
const CALM: Duration = Duration::from_millis(500);

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Spinners {
    /// At most half of the processors look for bytes.
    pub(crate) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            spinning: AtomicUsize::new(0),
            spinning_max: processors / 2,
            not_before: AtomicU64::new(0),
        }
    }

    /// Calls `look` from `began` until it returns something or `time` has passed, if it may.
    pub(crate) fn spin<T>(
        &self,
        (began, time): (Duration, Duration),
        clock: &dyn Clock,
        mut look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if time.is_zero() || nanos(began) < self.not_before.load(Ordering::Relaxed) {
            return None;
        }
        if self.spinning.fetch_add(1, Ordering::Relaxed) >= self.spinning_max {
            self.spinning.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let mut found = None;
        let mut now = began;
        while found.is_none() && now < began + time {
            for _ in 0..16 {
                std::hint::spin_loop();
            }
            found = look();
            let last = std::mem::replace(&mut now, clock.monotonic());
            if now > last + AWAY {
                self.not_before.store(nanos(now + CALM), Ordering::Relaxed);
                break;
            }
        }
        self.spinning.fetch_sub(1, Ordering::Relaxed);
        found
    }
}

/// How long a connection looks for bytes before it sleeps. It looks only while the client's pauses
/// are short.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    is_short: bool,
}

/// A pause that is worth looking for bytes instead of sleeping.
pub(crate) const SHORT_PAUSE: Duration = Duration::from_micros(50);

impl Patience {
    /// How long to look.
    pub(crate) fn time(&self) -> Duration {
        if self.is_short {
            SHORT_PAUSE
        } else {
            Duration::ZERO
        }
    }

    /// Learns from a pause.
    pub(crate) fn learn(&mut self, pause: Duration) {
        self.is_short = pause < SHORT_PAUSE;
    }
}

#[cfg(test)]
mod tests {
    use env::{ManualClock, SystemClock};

    use super::*;

    #[test]
    fn a_thread_looks_until_it_finds_or_is_late_and_not_where_it_has_to_wait() {
        let spinners = Spinners {
            spinning_max: 1,
            ..Spinners::new()
        };
        let clock = ManualClock::default();
        let spin = |step: Duration| {
            let mut looks = 0;
            let found = spinners.spin((clock.monotonic(), SHORT_PAUSE), &clock, || {
                looks += 1;
                clock.advance(step);
                (looks == 20).then_some(())
            });
            (looks, found.is_some())
        };
        assert_eq!(spin(Duration::from_micros(1)), (20, true));
        assert_eq!(spin(Duration::from_micros(10)), (5, false));
        assert_eq!(spin(Duration::from_micros(101)), (1, false));
        assert_eq!(spin(Duration::from_micros(1)), (0, false), "it had to wait");
        clock.advance(CALM);
        assert_eq!(spin(Duration::from_micros(1)), (20, true));
        let other = spinners.spin((clock.monotonic(), SHORT_PAUSE), &clock, || {
            spinners
                .spin((clock.monotonic(), SHORT_PAUSE), &SystemClock, || Some(()))
                .or(Some(()))
        });
        assert_eq!((other, spinners.spinning.load(Ordering::Relaxed)), (Some(()), 0));
    }
}
