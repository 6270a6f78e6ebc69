//! Groups of backups; the rules are applied to each group separately.

use std::collections::BTreeMap;
use std::fmt;

use types::{shell_word, shell_words};

use super::Candidate;

/// The properties that backups of one group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupBy {
    /// The host.
    pub host: bool,
    /// The paths.
    pub paths: bool,
    /// The tags.
    pub tags: bool,
}

impl GroupBy {
    /// Groups by series: host and paths.
    pub const SERIES: Self = Self {
        host: true,
        paths: true,
        tags: false,
    };
}

impl Default for GroupBy {
    fn default() -> Self {
        Self::SERIES
    }
}

/// The key of a group: the common properties of its backups. `None`: this property may differ.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct GroupKey {
    /// The host.
    pub host: Option<Vec<u8>>,
    /// The paths, sorted.
    pub paths: Option<Vec<Vec<u8>>>,
    /// The tags, sorted.
    pub tags: Option<Vec<String>>,
}

impl fmt::Display for GroupKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self
            .host
            .as_ref()
            .map(|host| format!("host {}", shell_word(host)));
        let paths = self
            .paths
            .as_ref()
            .map(|paths| format!("paths {}", shell_words(paths)));
        let tags = self.tags.as_ref().map(|tags| match tags.as_slice() {
            [] => "no tags".to_owned(),
            tags => format!("tags {}", tags.join(",")),
        });
        let parts: Vec<_> = host.into_iter().chain(paths).chain(tags).collect();
        if parts.is_empty() {
            return f.write_str("all hosts and paths");
        }
        f.write_str(&parts.join(", "))
    }
}

/// Divides backups into groups, each with at least one backup.
pub(super) fn divide(backups: Vec<Candidate>, by: GroupBy) -> BTreeMap<GroupKey, Vec<Candidate>> {
    let mut groups: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for backup in backups {
        let key = GroupKey {
            host: by.host.then(|| backup.name.host.clone()),
            paths: by.paths.then(|| backup.name.paths.clone()),
            tags: by.tags.then(|| backup.tags.clone()),
        };
        groups.entry(key).or_default().push(backup);
    }
    groups
}
