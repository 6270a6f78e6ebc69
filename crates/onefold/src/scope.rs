//! A part of a store: the backups whose hosts begin with a prefix.
//!
//! A server gives each of its namespaces such a part. An operation within a scope neither names nor
//! changes any other backup. An unreadable manifest belongs to a scope only if another revision of
//! its backup can be read and does.

use format::manifest::Backup;
use format::names;
use reclaim::retention::{Candidate, TimeSpan};
use session::ManifestList;

/// The backups that an operation may see and change. The default: all of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scope {
    /// Their hosts begin with these bytes.
    pub host_prefix: Vec<u8>,
    /// No backup is forgotten that is younger, by the storage's clock.
    pub minimum_age: Option<TimeSpan>,
}

types::setters!(Scope {
    host_prefix: Vec<u8>,
    minimum_age: Option<TimeSpan>,
});

impl Scope {
    /// Whether it is the whole store.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.host_prefix.is_empty()
    }

    /// Whether the backup is in it.
    #[must_use]
    pub fn has(&self, backup: &Backup) -> bool {
        backup.series.host.starts_with(&self.host_prefix)
    }

    /// The part of the list that is in it.
    pub(crate) fn narrow(&self, mut list: ManifestList) -> ManifestList {
        if self.is_whole() {
            return list;
        }
        list.entries
            .retain(|entry| entry.backup().is_some_and(|backup| self.has(backup)));
        let mut damaged = std::mem::take(&mut list.damaged);
        damaged.retain(|object| {
            let named = names::parse_manifest(&object.name);
            named.is_some_and(|(_, session, _)| list.get(session).is_some())
        });
        list.damaged = damaged;
        list
    }

    /// Holds the backups that are younger than the minimum age until they have it.
    pub(crate) fn protect(&self, candidates: &mut [Candidate]) {
        let Some(age) = self.minimum_age else { return };
        for one in candidates {
            let old_enough = age.after(one.committed_at);
            one.hold_until = one.hold_until.max(Some(old_enough));
        }
    }
}
