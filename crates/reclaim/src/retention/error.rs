//! Errors of retention.

use types::UnixNanos;

use super::{GroupKey, times};

/// Why a policy decides nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RetentionError {
    /// There is no rule, so everything would be forgotten.
    #[error(
        "no rule says which backups to keep, so none is forgotten; give at least one, such as --keep-last 5 or \
         --keep-within 30d"
    )]
    NoRule,
    /// Commit times contradict the backups' own times, and backups would be forgotten because of
    /// it.
    #[error(
        "{group}: the storage says that {} committed {}, and they say themselves that they were made {}; so the store was \
         copied without its times, as `cp -r` does, or a clock was wrong. By the storage's times {} forgotten that \
         by their own would stay, so nothing is forgotten anywhere: copy the store with its times (`cp -a`, `rsync -a`), or \
         say which times count, with --times backup or --times commit",
        backups_were(*contradicting), between(*committed), between(*own), would_be(*lost)
    )]
    Contradiction {
        /// The group.
        group: GroupKey,
        /// How many backups have times that contradict each other.
        contradicting: usize,
        /// The first and last time of their commits, by the storage.
        committed: (UnixNanos, UnixNanos),
        /// The first and last time at which they were made, by themselves.
        own: (UnixNanos, UnixNanos),
        /// How many of them would be forgotten, but would stay by their own times.
        lost: usize,
    },
    /// A group would lose all its backups.
    #[error(
        "the rules {} of {group}, so nothing is forgotten anywhere; change them, \
         choose other backups, or say --unsafe-allow-remove-all",
        none_of(*backups)
    )]
    KeepsNothing {
        /// The group.
        group: GroupKey,
        /// How many backups it has.
        backups: usize,
    },
}

fn none_of(backups: usize) -> String {
    match backups {
        1 => "do not keep the one backup".to_owned(),
        n => format!("keep none of the {n} backups"),
    }
}

fn backups_were(count: usize) -> String {
    format!("{count} backups were")
}

fn would_be(count: usize) -> String {
    match count {
        1 => "a backup would be".to_owned(),
        n => format!("{n} backups would be"),
    }
}

fn between((first, last): (UnixNanos, UnixNanos)) -> String {
    let text = |time| match times::utc(time) {
        Some(time) => time.strftime("%Y-%m-%d %H:%M").to_string(),
        None => "an unknown time".to_owned(),
    };
    let (first, last) = (text(first), text(last));
    if first == last {
        format!("at {first} UTC")
    } else {
        format!("from {first} to {last} UTC")
    }
}
