//! The backups of a store, as users see them.

use format::manifest::{Backup, StreamRole};
use format::names;
use session::{DamagedObject, Filter, ManifestEntry};
use types::{Revision, SeriesId, SessionId, StoreId};

use crate::covered::{Covered, ManifestLoss};
use crate::error::{Error, Result};
use crate::store::Store;
use crate::streams::role;

/// A backup that can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Its id: the session's number.
    pub id: SessionId,
    /// Its series' folder.
    pub series: SeriesId,
    /// The manifest revision that counts.
    pub revision: Revision,
    /// The content of the manifest.
    pub backup: Backup,
}

impl Snapshot {
    /// A backup with this manifest.
    #[must_use]
    pub fn new(id: SessionId, series: SeriesId, revision: Revision, backup: Backup) -> Self {
        Self {
            id,
            series,
            revision,
            backup,
        }
    }

    /// The name and length in bytes of the stream, if the backup is of a single one: standard input
    /// or an image.
    #[must_use]
    pub fn single_stream(&self) -> Option<(&[u8], u64)> {
        let root = role(&self.backup, StreamRole::Whole)?;
        let name = self.backup.series.paths.first().map(Vec::as_slice);
        Some((name.unwrap_or_default(), root.len))
    }

    pub(crate) fn of(entry: &ManifestEntry) -> Option<Self> {
        let backup = entry.backup()?.clone();
        Some(Self {
            id: entry.session(),
            series: entry.series(),
            revision: entry.stored.revision,
            backup,
        })
    }
}

/// The backups, and the manifests that cannot be read.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SnapshotList {
    /// The store that has them.
    pub store: Option<StoreId>,
    /// By id.
    pub snapshots: Vec<Snapshot>,
    /// Each with its name and what is wrong with it. Those that cost no backup are left out:
    /// `check` names them.
    pub damaged: Vec<DamagedObject>,
}

impl SnapshotList {
    /// The backup that `text` names: an id, or `latest` for the latest one that passes the filter.
    ///
    /// # Errors
    /// If there is none. While manifests cannot be read, nobody knows the latest.
    pub fn find(&self, text: &str, filter: &Filter) -> Result<&Snapshot> {
        let mut backups = self.snapshots.iter().rev();
        if text != "latest" {
            return backups
                .find(|backup| backup.id.to_string() == text)
                .ok_or_else(|| {
                    Error::NotFound(format!(
                        "there is no backup {text}; `onefold snapshots` lists them"
                    ))
                });
        }
        if let Some(damaged) = self.damaged.first() {
            return Err(Error::NotFound(format!(
                "{} cannot be read, and may be of a later backup: name the backup by its number",
                damaged.name
            )));
        }
        let latest = backups.find(|backup| filter.lets_through(&backup.backup));
        latest.ok_or_else(|| {
            Error::NotFound("there is no such backup; `onefold snapshots` lists all".to_owned())
        })
    }
}

/// Whether the object is a manifest of the backup.
fn is_of(object: &DamagedObject, backup: &Snapshot) -> bool {
    names::parse_manifest(&object.name).is_some_and(|(_, session, _)| session == backup.id)
}

impl Store {
    /// All backups that were not forgotten, oldest first.
    ///
    /// # Errors
    /// Of the storage.
    pub fn snapshots(&self) -> Result<SnapshotList> {
        let list = self.manifests.list()?;
        let mut backups: Vec<Snapshot> = list.backups().filter_map(Snapshot::of).collect();
        let mut damaged = Vec::new();
        if !list.damaged.is_empty() {
            let forgotten = Covered::read(self)?.forgotten(&list);
            for object in &list.damaged {
                match self.manifest_loss(&list, &forgotten, object)? {
                    ManifestLoss::Torn => {}
                    ManifestLoss::Forgotten => backups.retain(|backup| !is_of(object, backup)),
                    ManifestLoss::Unread | ManifestLoss::Needed => damaged.push(object.clone()),
                }
            }
        }
        Ok(SnapshotList {
            store: Some(self.id()),
            snapshots: backups,
            damaged,
        })
    }

    /// The backup that `text` names: an id, or `latest` for the latest one that passes the filter.
    ///
    /// # Errors
    /// If there is none, with the reason; of the storage.
    pub fn find(&self, text: &str, filter: &Filter) -> Result<Snapshot> {
        let list = self.manifests.list()?;
        let entry = self.manifests.resolve(&list, text, filter)?;
        Snapshot::of(entry).ok_or_else(|| Error::NotFound(format!("{text} is not a backup")))
    }
}
