//! Forgotten backups that are marked all the same: an archival backup that is not forgotten refers forward to them (R2).
//!
//! What must hold: of a backup that refers forward, the one that it refers to is marked too, forgotten or not, and so on along
//! the chain; so forgetting a backup in the middle of its series takes nothing from those before it, whatever happens at the same
//! time. What it keeps beyond that comes back when those before it are rewritten, or forgotten.

use std::collections::{BTreeMap, BTreeSet};

use session::{ManifestEntry, ManifestList, Manifests};
use types::SessionId;

use crate::error::{ReclaimError, Result};

/// The forgotten backups that are marked, each with the one that it refers forward to in turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    next: BTreeMap<SessionId, Option<SessionId>>,
}

impl Kept {
    /// Of all backups of a list, and of those that a rewrite which runs has declared: what it commits will refer forward to them as
    /// they are then, whatever revision it has declared. With `accept_lost` a chain may lead to a backup of which nothing is left.
    ///
    /// # Errors
    /// [`ReclaimError::DamagedManifest`] where it does; of the storage.
    pub(crate) fn of(
        list: &ManifestList,
        manifests: &Manifests,
        declared: &BTreeSet<SessionId>,
        accept_lost: bool,
    ) -> Result<Self> {
        let mut kept = Self::default();
        let read = list.entries.iter().filter_map(|entry| {
            let next = entry.backup()?.next?;
            Some((entry.session(), next))
        });
        let known = list.as_covered.iter().filter_map(|backup| {
            let covered = backup.covered;
            Some((covered.session, covered.next?))
        });
        let declared = declared.iter().map(|id| (*id, *id));
        let mut todo: Vec<(SessionId, SessionId)> = read.chain(known).chain(declared).collect();
        while let Some((from, to)) = todo.pop() {
            if kept.has(to) {
                continue;
            }
            let Some(entry) = list.get(to) else {
                // One that was not read is not forgotten.
                if list.has(to) || accept_lost {
                    continue;
                }
                return Err(lost(from, to));
            };
            if entry.backup().is_some() {
                continue;
            }
            let last = if entry.is_forgotten() {
                manifests.last_backup(entry)?
            } else {
                None
            };
            match last {
                Some((_, backup)) => {
                    kept.next.insert(to, backup.next);
                    todo.extend(backup.next.map(|next| (to, next)));
                }
                None if accept_lost => {}
                None => return Err(lost(from, to)),
            }
        }
        Ok(kept)
    }

    /// Whether a forgotten backup is marked.
    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.next.contains_key(&session)
    }

    /// The backup that an entry refers forward to, where it is marked.
    pub(crate) fn next_of(&self, entry: &ManifestEntry) -> Option<SessionId> {
        match entry.backup() {
            Some(backup) => backup.next,
            None => self.next.get(&entry.session()).copied().flatten(),
        }
    }
}

fn lost(from: SessionId, to: SessionId) -> ReclaimError {
    let what = format!(
        "backup {from} refers forward to backup {to}, of which no manifest is left (bring it back from a copy of the storage, \
         or say --accept-lost to let go of what only that one had)"
    );
    ReclaimError::DamagedManifest { what }
}
