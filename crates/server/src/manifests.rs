//! Backups as a namespace sees them.
//!
//! A namespace's series have hosts that begin with its name and a slash. Clients neither see nor
//! send that prefix.

use format::manifest::{Backup, SeriesName};
use onefold::{Snapshot, SnapshotList};
use wire::{Manifests, SentManifest};

/// A namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Namespace(Vec<u8>);

impl Namespace {
    pub(crate) fn new(name: &str) -> Self {
        Self(format!("{name}/").into_bytes())
    }

    /// Whether the backup belongs to it.
    pub(crate) fn has(&self, backup: &Backup) -> bool {
        backup.series.host.starts_with(&self.0)
    }

    /// The name under which the store keeps a series of a client.
    pub(crate) fn stored(&self, name: SeriesName) -> SeriesName {
        SeriesName {
            host: self.stored_host(&name.host),
            paths: name.paths,
        }
    }

    pub(crate) fn name(&self) -> &str {
        let name = self.0.strip_suffix(b"/").unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }

    /// What the hosts of its series begin with.
    pub(crate) fn prefix(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn stored_host(&self, host: &[u8]) -> Vec<u8> {
        [&self.0[..], host].concat()
    }

    /// Makes the host of a stored series the one that clients know.
    pub(crate) fn strip_host(&self, host: &mut Vec<u8>) {
        if host.starts_with(&self.0) {
            host.drain(..self.0.len());
        }
    }

    /// The backup as its clients see it.
    pub(crate) fn sent(&self, snapshot: &Snapshot) -> Option<SentManifest> {
        let mut backup = snapshot.backup.clone();
        backup.series.host = backup.series.host.strip_prefix(&self.0[..])?.to_vec();
        Some(SentManifest {
            session: snapshot.id,
            series: snapshot.series,
            revision: snapshot.revision,
            backup,
        })
    }

    /// All backups of the namespace. Damaged manifests cannot be told apart, so all are told.
    pub(crate) fn all(&self, list: &SnapshotList) -> Manifests {
        let damaged = list.damaged.iter();
        Manifests {
            store: list.store,
            backups: list.snapshots.iter().filter_map(|one| self.sent(one)).collect(),
            damaged: damaged
                .map(|object| (object.name.to_string(), object.why.clone()))
                .collect(),
        }
    }
}
