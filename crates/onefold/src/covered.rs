//! What marks say of manifests, where a manifest itself cannot be read.

use std::collections::{BTreeMap, BTreeSet};

use format::frame::ObjectKind;
use format::names;
use format::reclaim::{CoveredManifest, Marks};
use session::{DamagedObject, ManifestEntry, ManifestList};
use types::SessionId;

use crate::error::Result;
use crate::store::Store;

/// The highest revision of each session that marks cover.
#[derive(Debug, Default)]
pub(crate) struct Covered(BTreeMap<SessionId, CoveredManifest>);

/// What a damaged manifest costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ManifestLoss {
    /// The storage fails to read it. It may be whole.
    Unread,
    /// Nothing: a crash cut it off before its backup was committed.
    Torn,
    /// Nothing: its backup is forgotten for good.
    Forgotten,
    /// What the backup is, or which of its revisions counts.
    Needed,
}

impl Covered {
    /// What the marks of all groups say, as far as they can be read.
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn read(store: &Store) -> Result<Self> {
        let mut covered = Self::default();
        for object in store.env.storage.list(names::GROUPS_FOLDER)? {
            if names::parse_marks(&object.name).is_none() {
                continue;
            }
            if let Ok(marks) = store.sealer.read(&object.name, ObjectKind::Marks, Marks::decode) {
                covered.add(&marks);
            }
        }
        Ok(covered)
    }

    /// Adds the manifests that the marks of a group cover.
    pub(crate) fn add(&mut self, marks: &Marks) {
        for covered in &marks.covers {
            let known = self.0.entry(covered.session).or_insert(*covered);
            if known.revision < covered.revision {
                *known = *covered;
            }
        }
    }

    /// The covered revisions of backups that the list shows, and does not show as forgotten.
    pub(crate) fn of<'a>(
        &self,
        list: &'a ManifestList,
    ) -> impl Iterator<Item = (CoveredManifest, &'a ManifestEntry)> {
        let with_entry = |known: &CoveredManifest| Some((*known, list.get(known.session)?));
        self.0
            .values()
            .filter_map(with_entry)
            .filter(|(_, entry)| !entry.is_forgotten())
    }

    /// Backups of the list whose covered revision is a tombstone, even if it is lost or unreadable:
    /// they are forgotten for good.
    pub(crate) fn forgotten(&self, list: &ManifestList) -> BTreeSet<SessionId> {
        let forgotten = self.of(list).filter(|(known, _)| known.forgotten);
        forgotten.map(|(known, _)| known.session).collect()
    }
}

impl Store {
    /// What the damage of a manifest costs. `forgotten` is [`Covered::forgotten`].
    ///
    /// # Errors
    /// Of the storage.
    pub(crate) fn manifest_loss(
        &self,
        list: &ManifestList,
        forgotten: &BTreeSet<SessionId>,
        damaged: &DamagedObject,
    ) -> Result<ManifestLoss> {
        let session = names::parse_manifest(&damaged.name).map(|(_, session, _)| session);
        let is_forgotten =
            |id: &SessionId| forgotten.contains(id) || list.get(*id).is_some_and(ManifestEntry::is_forgotten);
        Ok(if damaged.is_unread {
            ManifestLoss::Unread
        } else if self.manifests.was_cut_short(damaged)? {
            ManifestLoss::Torn
        } else if session.as_ref().is_some_and(is_forgotten) {
            ManifestLoss::Forgotten
        } else {
            ManifestLoss::Needed
        })
    }
}
