//! Spans of calendar time, as `2y5m7d3h`: years, months, days, hours.

use std::fmt;
use std::str::FromStr;

use jiff::Span;
use types::UnixNanos;

use super::times;

/// A span of calendar time, at least one hour. One month before the 31st of March is the last day
/// of February.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct TimeSpan {
    years: u32,
    months: u32,
    days: u32,
    hours: u32,
}

/// A text that is no span.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no span of time; write numbers of years, months, days and hours as in 2y5m7d3h")]
pub struct SpanError(String);

impl TimeSpan {
    /// The time that is this span before `time`, or the earliest possible time.
    #[must_use]
    pub fn before(self, time: UnixNanos) -> UnixNanos {
        self.moved(time, Span::negate).unwrap_or(UnixNanos::new(i64::MIN))
    }

    /// The time that is this span after `time`, or the latest possible time.
    #[must_use]
    pub fn after(self, time: UnixNanos) -> UnixNanos {
        self.moved(time, |span| span).unwrap_or(UnixNanos::new(i64::MAX))
    }

    fn moved(self, time: UnixNanos, sign: impl Fn(Span) -> Span) -> Option<UnixNanos> {
        let span = Span::new()
            .try_years(self.years)
            .and_then(|span| span.try_months(self.months))
            .and_then(|span| span.try_days(self.days))
            .and_then(|span| span.try_hours(self.hours))
            .ok()?;
        let moved = times::utc(time)?.checked_add(sign(span)).ok()?;
        let nanos = i64::try_from(moved.timestamp().as_nanosecond()).ok()?;
        Some(UnixNanos::new(nanos))
    }

    fn parts(self) -> [(u32, char); 4] {
        [
            (self.years, 'y'),
            (self.months, 'm'),
            (self.days, 'd'),
            (self.hours, 'h'),
        ]
    }
}

impl FromStr for TimeSpan {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let wrong = || SpanError(text.to_owned());
        let mut span = Self {
            years: 0,
            months: 0,
            days: 0,
            hours: 0,
        };
        let mut rest = text;
        while let Some(end) = rest.find(|c: char| !c.is_ascii_digit()) {
            let number: u32 = rest[..end].parse().map_err(|_| wrong())?;
            let field = match rest.as_bytes()[end] {
                b'y' => &mut span.years,
                b'm' => &mut span.months,
                b'd' => &mut span.days,
                b'h' => &mut span.hours,
                _ => return Err(wrong()),
            };
            if *field != 0 {
                return Err(wrong());
            }
            *field = number;
            rest = &rest[end + 1..];
        }
        let is_nothing = span.parts().iter().all(|(number, _)| *number == 0);
        if !rest.is_empty() || is_nothing {
            return Err(wrong());
        }
        Ok(span)
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, unit) in self.parts() {
            if number != 0 {
                write!(f, "{number}{unit}")?;
            }
        }
        Ok(())
    }
}
