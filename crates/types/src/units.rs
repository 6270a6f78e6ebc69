//! Lengths, ranges and times.

use std::fmt;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ByteLen(u64);

impl ByteLen {
    /// No bytes.
    pub const ZERO: Self = Self(0);

    /// Wraps a number of bytes.
    #[must_use]
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for ByteLen {
    /// Prints with a binary unit and three figures: `731 B`, `4.00 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        #[allow(clippy::cast_precision_loss, reason = "three figures are shown")]
        let mut value = self.0 as f64 / 1024.0;
        let mut unit = 0;
        while value >= 1023.5 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let places = if value < 9.995 {
            2
        } else if value < 99.95 {
            1
        } else {
            0
        };
        write!(f, "{value:.places$} {}", UNITS[unit])
    }
}

/// `len` bytes, from `offset` on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ByteRange {
    /// The first byte.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

impl ByteRange {
    /// One past the last byte, saturating.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }
}

/// Nanoseconds since 1970-01-01 00:00 UTC; negative before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, serde::Serialize, serde::Deserialize)]
pub struct UnixNanos(i64);

impl UnixNanos {
    /// Wraps a number of nanoseconds.
    #[must_use]
    pub const fn new(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The number of nanoseconds.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }
}

/// A time of a file: seconds since 1970-01-01 00:00 UTC, negative before, and nanoseconds after
/// that second. File systems have times that no number of nanoseconds in 64 bits reaches: those of
/// the years before 1677 and after 2262.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FileTime {
    seconds: i64,
    nanos: u32,
}

impl FileTime {
    /// So many nanoseconds after a second. A second or more of nanoseconds is carried over.
    #[must_use]
    pub const fn new(seconds: i64, nanos: u32) -> Self {
        Self {
            seconds: seconds.saturating_add((nanos / NANOS_PER_SECOND) as i64),
            nanos: nanos % NANOS_PER_SECOND,
        }
    }

    /// The second of the time, counted from 1970-01-01 00:00 UTC.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.seconds
    }

    /// Nanoseconds after that second: less than 10^9.
    #[must_use]
    pub const fn nanos(self) -> u32 {
        self.nanos
    }
}

impl From<UnixNanos> for FileTime {
    fn from(time: UnixNanos) -> Self {
        let nanos = time.get().rem_euclid(i64::from(NANOS_PER_SECOND));
        Self {
            seconds: time.get().div_euclid(i64::from(NANOS_PER_SECOND)),
            // Less than 10^9.
            nanos: u32::try_from(nanos).unwrap_or(0),
        }
    }
}

/// 10^9: nanoseconds are below it.
const NANOS_PER_SECOND: u32 = 1_000_000_000;
