//! Manifests that are not there: what else tells of them names them.
//!
//! A backup whose manifest is lost is told by its record of the commit, by marks, or by later
//! backups (`session::LostBackup`); a revision that is lost, by marks.

use std::collections::{BTreeMap, BTreeSet};

use format::names;
use format::reclaim::{CoveredManifest, Marks};
use session::ManifestList;
use types::{Revision, SessionId};

use super::{CheckReport, refuses};
use crate::error::Result;
use crate::store::Store;

/// What marks say of manifests, by session: the highest revision that they cover.
#[derive(Debug, Default)]
pub(super) struct Covered(BTreeMap<SessionId, CoveredManifest>);

impl Covered {
    /// Takes up what a group's marks cover.
    pub(super) fn add(&mut self, marks: &Marks) {
        for covered in &marks.covers {
            let known = self.0.entry(covered.session).or_insert(*covered);
            if known.revision < covered.revision {
                *known = *covered;
            }
        }
    }

    /// Names revisions that marks cover and that are lost. Those come back whose tombstone is among
    /// them, or cannot be read: they are forgotten for good.
    pub(super) fn find_lost_revisions(
        &self,
        store: &Store,
        list: &ManifestList,
        report: &mut CheckReport,
    ) -> Result<BTreeSet<SessionId>> {
        let mut forgotten = BTreeSet::new();
        for known in self.0.values() {
            let session = known.session;
            let Some(entry) = list.get(session) else { continue };
            if entry.is_forgotten() {
                continue;
            }
            if known.forgotten {
                forgotten.insert(session);
            }
            let is_listed = entry.revisions.last() >= Some(&known.revision);
            if is_listed && (!known.forgotten || entry.revisions.contains(&known.revision)) {
                continue;
            }
            let name = names::manifest(entry.series(), session, known.revision);
            match store.env.storage.head(&name) {
                Err(env::StorageError::NotFound { .. }) => {}
                // Put since manifests were listed; or named already.
                Err(error) if refuses(&error) => return Err(error.into()),
                _ => continue,
            }
            let what = if known.forgotten {
                format!("missing: backup {session} was forgotten by it, and `onefold prune` puts it again")
            } else {
                format!(
                    "missing: backup {session} is what it was before this revision, which may have said otherwise of tags, \
                     a hold, and where its data are"
                )
            };
            report.find(name, what, false);
        }
        Ok(forgotten)
    }
}

/// Names the backups among these sessions that were committed and have no manifest. Those that are
/// none come back.
pub(super) fn find_lost_backups(
    store: &Store,
    candidates: impl IntoIterator<Item = SessionId>,
    report: &mut CheckReport,
) -> Result<BTreeSet<SessionId>> {
    let mut others = BTreeSet::new();
    for session in candidates {
        let Some(lost) = store.manifests.find_lost(session)? else {
            others.insert(session);
            continue;
        };
        let name = names::manifest(lost.series, session, Revision::FIRST);
        report.find(name, without_manifest(session), false);
        report.damaged_backups.insert(session);
    }
    Ok(others)
}

/// What is found of a backup whose manifest is lost.
pub(super) fn without_manifest(session: SessionId) -> String {
    format!(
        "the backup's manifest is missing; bring it back from a copy of the store, or let the backup go: `onefold forget \
         {session}`"
    )
}
