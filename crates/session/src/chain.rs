//! The chain of an archival backup: the backup that it refers forward to, the one that this refers
//! to, and so on [RevDedup 2.4.1, figure 2] (R2).
//!
//! Invariant: each link is a later backup than the one before, so a chain ends. A forgotten
//! backup is a link while a backup before it is not forgotten. Its highest revision that is no
//! tombstone counts, which reclamation keeps for this.

use std::collections::BTreeMap;

use format::manifest::Backup;
use types::{Revision, SeriesId, SessionId};

use crate::error::{Result, SessionError};
use crate::list::{ManifestEntry, ManifestList};
use crate::manifests::Manifests;

/// A backup that another refers forward to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainLink {
    /// The series.
    pub series: SeriesId,
    /// The backup.
    pub session: SessionId,
    /// The revision that counts. For a forgotten backup: the last before its tombstone.
    pub revision: Revision,
    /// The backup in that revision.
    pub backup: Backup,
}

impl Manifests {
    /// The chains of these backups, each link once. A backup that is not archival has none. A chain
    /// ends before a backup that cannot be read: a reader of the references to it gets the error.
    ///
    /// # Errors
    /// Of the storage.
    pub fn chains<'a>(
        &self,
        list: &ManifestList,
        of: impl IntoIterator<Item = &'a ManifestEntry>,
    ) -> Result<Vec<ChainLink>> {
        let mut links: BTreeMap<SessionId, ChainLink> = BTreeMap::new();
        for first in of {
            let mut at = first.session();
            let mut next = first.backup().and_then(|backup| backup.next);
            while let Some(link) = next.filter(|next| *next > at && !links.contains_key(next)) {
                let Some(entry) = list.get(link) else { break };
                let (revision, backup) = match self.last_backup_for_sure(entry) {
                    Ok(Some(last)) => last,
                    Ok(None) | Err(SessionError::Damaged(_)) => break,
                    Err(error) => return Err(error),
                };
                (at, next) = (link, backup.next);
                let series = entry.series();
                links.insert(
                    link,
                    ChainLink {
                        series,
                        session: link,
                        revision,
                        backup,
                    },
                );
            }
        }
        Ok(links.into_values().collect())
    }
}
