//! The policy: rules, and which backups they consider.

use std::num::NonZeroU32;

use super::{Period, TimeSpan};

/// The rules by which backups are kept. Each is asked by itself; what any of them keeps is kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// In the order in which reasons are given.
    pub rules: Vec<Rule>,
    /// Whether a group may lose all its backups; without any rule every group does.
    pub may_remove_all: bool,
}

/// One reason to keep backups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// The newest backup of each of the last so many periods that have one; and the group's oldest
    /// backup, while there are fewer.
    Newest {
        /// The period.
        period: Period,
        /// How many.
        limit: Limit,
    },
    /// The newest backup of each period, of backups that are no older than the group's newest by
    /// the span; and the group's oldest backup, where it is one of those.
    Within {
        /// The period.
        period: Period,
        /// The span.
        span: TimeSpan,
    },
    /// Backups that bear all of these tags; with no tag named, those without tags.
    Tagged(Vec<String>),
}

/// How many backups a rule keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// All that there are.
    None,
    /// So many.
    Count(NonZeroU32),
}

impl Limit {
    pub(super) fn is_reached(self, kept: u32) -> bool {
        match self {
            Self::None => false,
            Self::Count(count) => kept >= count.get(),
        }
    }
}
