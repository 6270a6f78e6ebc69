//! The policy: rules, and which backups they consider.

use std::num::NonZeroU32;

use super::{Period, TimeSpan};

/// The rules that keep backups. Each rule is applied by itself, and a backup stays if any rule
/// keeps it.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The rules, in the order in which reasons are given.
    pub rules: Vec<Rule>,
    /// Whether a group may lose all its backups. Without any rule, every group loses all.
    pub may_remove_all: bool,
}

impl Policy {
    /// Its rules that count back from the newest backup.
    pub(super) fn spans(&self) -> Self {
        let is_span = |rule: &&Rule| matches!(rule, Rule::Within { .. });
        Self {
            rules: self.rules.iter().filter(is_span).cloned().collect(),
            ..*self
        }
    }
}

/// One reason to keep backups.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Rule {
    /// Keeps the newest backup of each of the last `limit` periods that have one. While there are
    /// fewer, it also keeps the group's oldest backup.
    Newest {
        /// The period.
        period: Period,
        /// The number of periods.
        limit: Limit,
    },
    /// Considers the backups that are at most `span` older than the group's newest. Keeps the
    /// newest of each period, and the group's oldest backup if it is one of them.
    Within {
        /// The period.
        period: Period,
        /// The span.
        span: TimeSpan,
    },
    /// Keeps backups that have all of these tags. An empty list keeps the backups without tags.
    Tagged(Vec<String>),
}

/// How many backups a rule keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Limit {
    /// All backups.
    None,
    /// This many.
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
