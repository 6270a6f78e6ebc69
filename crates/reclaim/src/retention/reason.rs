//! Why a backup is kept, in a few words.

use std::fmt;

use types::UnixNanos;

use super::{Period, TimeSpan, times};

/// Why a backup is kept.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum Reason {
    /// It is the newest of its period.
    Newest {
        /// The period.
        period: Period,
        /// Its number among the backups that the rule keeps, from 1.
        nth: u32,
        /// It is not the newest, but it is the oldest of the group, and the rule had fewer than its
        /// limit.
        is_oldest: bool,
    },
    /// It is the newest of its period, and recent enough.
    Within {
        /// The period.
        period: Period,
        /// The span of the rule.
        span: TimeSpan,
        /// It is recent enough and not the newest of its period, but it is the oldest of the group.
        is_oldest: bool,
    },
    /// It has these tags. An empty list: it has no tags.
    Tagged(Vec<String>),
    /// It is held until this time, by the storage's clock.
    HeldUntil(UnixNanos),
    /// A revision above the one that counts cannot be read; it may be a hold, or a tombstone.
    NewerUnreadable,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newest {
                period,
                nth,
                is_oldest,
            } => {
                let word = word(*period).unwrap_or("last");
                write!(f, "{word} {nth}{}", oldest(*is_oldest))
            }
            Self::Within {
                period,
                span,
                is_oldest,
            } => {
                let word = word(*period).map_or_else(String::new, |word| format!("{word} "));
                write!(f, "{word}within {span}{}", oldest(*is_oldest))
            }
            Self::Tagged(tags) if tags.is_empty() => f.write_str("no tags"),
            Self::Tagged(tags) => write!(f, "tag {}", tags.join(",")),
            Self::HeldUntil(until) => match times::utc(*until) {
                Some(time) => write!(f, "held until {}", time.strftime("%Y-%m-%d %H:%M UTC")),
                None => f.write_str("held"),
            },
            Self::NewerUnreadable => f.write_str("its newest revision cannot be read"),
        }
    }
}

const fn oldest(is_oldest: bool) -> &'static str {
    if is_oldest { " (the oldest)" } else { "" }
}

fn word(period: Period) -> Option<&'static str> {
    match period {
        Period::Each => None,
        Period::Hour => Some("hourly"),
        Period::Day => Some("daily"),
        Period::Week => Some("weekly"),
        Period::Month => Some("monthly"),
        Period::Year => Some("yearly"),
    }
}
