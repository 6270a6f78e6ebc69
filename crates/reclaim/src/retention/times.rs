//! Commit times that agree with the order of sessions, and the periods that they are in.
//!
//! A storage's clock may jump: a machine starts with an empty battery, or somebody sets a wrong
//! time. Session numbers never jump, so within a series times must not fall from one number to the
//! next. The largest set of times that agree with each other counts. Every other backup gets the
//! time of the one before it in this set (or of the first, if there is none before). So one wrong
//! time moves one backup only, whether too early or too late.

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use types::UnixNanos;

use super::Period;

/// The times of a series in the order of its sessions, none before the one in front of it.
pub(super) fn straightened(told: &[UnixNanos]) -> Vec<UnixNanos> {
    let believed = longest_rise(told);
    let mut straight = Vec::with_capacity(told.len());
    let mut last = believed.first().map(|first| told[*first]);
    let mut next = believed.iter().copied().peekable();
    for (at, time) in told.iter().enumerate() {
        if next.next_if_eq(&at).is_some() {
            last = Some(*time);
        }
        straight.push(last.unwrap_or(*time));
    }
    straight
}

/// Indices of a longest part of `times` that never falls; of several, the one that ends earliest in
/// time.
fn longest_rise(times: &[UnixNanos]) -> Vec<usize> {
    // ends[n]: the index at which the best part of n + 1 times ends.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(times.len());
    for (at, time) in times.iter().enumerate() {
        let len = ends.partition_point(|end| times[*end] <= *time);
        before.push(len.checked_sub(1).map(|shorter| ends[shorter]));
        if len == ends.len() {
            ends.push(at);
        } else {
            ends[len] = at;
        }
    }
    let mut rise = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(at) = next {
        rise.push(at);
        next = before[at];
    }
    rise.reverse();
    rise
}

/// The time in UTC.
pub(super) fn utc(time: UnixNanos) -> Option<Zoned> {
    let time = Timestamp::from_nanosecond(i128::from(time.get())).ok()?;
    Some(time.to_zoned(TimeZone::UTC))
}

/// Tells when, in falling order of time, another period begins.
pub(super) struct Buckets {
    period: Period,
    last: Option<i64>,
}

impl Buckets {
    pub(super) fn new(period: Period) -> Self {
        Self { period, last: None }
    }

    /// Whether the time is in another period than the time of the call before.
    pub(super) fn opens(&mut self, time: UnixNanos) -> bool {
        let Some(bucket) = bucket(self.period, time) else {
            return true;
        };
        self.last.replace(bucket) != Some(bucket)
    }
}

/// A number for the period of a time. `None`: the time is a period of its own.
fn bucket(period: Period, time: UnixNanos) -> Option<i64> {
    const HOUR_NANOS: i64 = 3_600_000_000_000;
    const DAY_NANOS: i64 = 24 * HOUR_NANOS;
    /// The first of January 1970 was a Thursday.
    const DAYS_SINCE_MONDAY: i64 = 3;
    let days = time.get().div_euclid(DAY_NANOS);
    match period {
        Period::Each => None,
        Period::Hour => Some(time.get().div_euclid(HOUR_NANOS)),
        Period::Day => Some(days),
        Period::Week => Some((days + DAYS_SINCE_MONDAY).div_euclid(7)),
        Period::Month => utc(time).map(|time| i64::from(time.year()) * 12 + i64::from(time.month())),
        Period::Year => utc(time).map(|time| i64::from(time.year())),
    }
}
