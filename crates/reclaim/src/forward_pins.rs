//! Forgotten backups that are still marked, because an archival backup that is not forgotten refers
//! forward to them (R2).
//!
//! Invariant: if a marked backup refers forward, the backup that it refers to is marked too,
//! forgotten or not, and so on along the chain. So forgetting a backup in the middle of its series
//! takes no data from older ones, whatever happens at the same time. The other data of a kept
//! backup is freed when the older ones are rewritten or forgotten.

use std::collections::{BTreeMap, BTreeSet};

use format::manifest::Backup;
use format::reclaim::CoveredManifest;
use session::{ManifestEntry, ManifestList, Manifests, SessionError};
use types::{Revision, SessionId};

use crate::error::{ReclaimError, Result};
use crate::manifests::unreadable;

/// Forgotten backups that are marked, in the revision before the tombstone.
#[derive(Debug, Clone, Default)]
pub(crate) struct ForwardPins {
    backups: BTreeMap<SessionId, (Revision, Backup)>,
    /// For each of them, the backup that needs it: one that is not forgotten, or one that a session
    /// declared.
    by: BTreeMap<SessionId, SessionId>,
}

impl ForwardPins {
    /// Follows the chains of all backups of a list, and of the backups in `declared`. A running
    /// rewrite has declared these, or may still declare them ([`forgotten_since`]): its commit will
    /// refer forward to them as they are then, whatever revision it has declared. `covers` has the
    /// manifests that marks cover: if they know a revision as archival, no lower revision replaces
    /// it. With `allow_missing_manifests` a chain may lead to a backup without any manifest.
    ///
    /// # Errors
    /// [`ReclaimError::DamagedManifest`] if a chain does so without that option; `UnreadManifest`;
    /// of the storage.
    pub(crate) fn of(
        list: &ManifestList,
        manifests: &Manifests,
        covers: &BTreeMap<SessionId, CoveredManifest>,
        declared: &BTreeSet<SessionId>,
        allow_missing_manifests: bool,
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
            let is_lost = |is_lost: bool| is_lost && !allow_missing_manifests && from != to;
            let Some(entry) = list.get(to) else {
                // A backup whose manifest was not read is not forgotten.
                if is_lost(!list.has(to)) {
                    return Err(lost(from, to));
                }
                continue;
            };
            if entry.backup().is_some() {
                continue;
            }
            let last = match manifests.last_backup_for_sure(entry) {
                Err(SessionError::Damaged(mut object)) => {
                    object.why = format!("{object}, and backup {from} refers forward to that");
                    return Err(unreadable(&object));
                }
                last => last?.filter(|_| entry.is_forgotten()),
            };
            let archival = covers.get(&to).and_then(|covered| covered.next);
            // If marks cover a backup as rewritten to refer to none, only its highest revision will
            // do.
            let below = entry.revisions.iter().copied();
            let highest = below.filter(|revision| *revision < entry.stored.revision).max();
            let is_rewritten = covers.get(&to).is_some_and(|covered| covered.rewritten);
            // A rewrite may have made it refer to none since, because the backups further along the
            // chain were forgotten.
            let is_newer = |revision| {
                let known = covers.get(&to);
                known.is_some_and(|covered| !covered.forgotten && revision > covered.revision)
            };
            match last {
                Some((revision, backup))
                    if !is_newer(revision)
                        && is_lost(archival.is_some_and(|next| backup.next.is_none_or(|now| now < next))) =>
                {
                    return Err(lost(from, to));
                }
                Some((revision, _)) if is_lost(is_rewritten && Some(revision) != highest) => {
                    return Err(lost(from, to));
                }
                Some((revision, backup)) => {
                    todo.extend(backup.next.map(|next| (to, next)));
                    kept.by.insert(to, kept.by.get(&from).copied().unwrap_or(from));
                    kept.backups.insert(to, (revision, backup));
                }
                None if is_lost(true) => return Err(lost(from, to)),
                None => {}
            }
        }
        Ok(kept)
    }

    /// The backup of a forgotten, marked manifest, and its revision.
    pub(crate) fn backup(&self, session: SessionId) -> Option<&(Revision, Backup)> {
        self.backups.get(&session)
    }

    /// The forgotten backups that are marked. For each, a backup that is not forgotten and refers
    /// forward to it along a chain.
    pub(crate) fn into_keepers(self) -> BTreeMap<SessionId, SessionId> {
        self.by
    }

    /// Whether a forgotten backup is marked.
    pub(crate) fn has(&self, session: SessionId) -> bool {
        self.backups.contains_key(&session)
    }

    /// The backup that an entry refers forward to, if the entry is marked.
    pub(crate) fn next_of(&self, entry: &ManifestEntry) -> Option<SessionId> {
        match entry.backup() {
            Some(backup) => backup.next,
            None => self.backup(entry.session()).and_then(|(_, backup)| backup.next),
        }
    }

    /// Whether a marked entry was rewritten to refer forward to none.
    pub(crate) fn is_rewritten(&self, entry: &ManifestEntry) -> bool {
        let kept = || self.backup(entry.session()).map(|(_, backup)| backup);
        entry
            .backup()
            .or_else(kept)
            .is_some_and(|backup| backup.rewritten.is_some())
    }
}

/// Backups that were forgotten since the marks were made. A session that began after the epoch was
/// announced may have chosen one before it was forgotten, and reads it along its chain. So a backup
/// that marks do not cover is live, forgotten or not, and so are the backups that it refers forward
/// to.
pub(crate) fn forgotten_since(
    list: &ManifestList,
    covers: &BTreeMap<SessionId, CoveredManifest>,
) -> impl Iterator<Item = SessionId> {
    let is_covered = |id| covers.get(&id).is_some_and(|covered| covered.forgotten);
    let forgotten = list.entries.iter().filter(|entry| entry.is_forgotten());
    forgotten
        .map(ManifestEntry::session)
        .filter(move |id| !is_covered(*id))
}

fn lost(from: SessionId, to: SessionId) -> ReclaimError {
    let what = format!(
        "backup {from} refers forward to backup {to}, of which no manifest is left that says where that is (bring it back from a \
         copy of the storage; or forget backup {from}; or say --allow-missing-manifests to let go of what they had from there)"
    );
    ReclaimError::DamagedManifest { what }
}
