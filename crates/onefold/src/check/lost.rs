//! Finds missing manifests by other objects that name them.
//!
//! The record of the commit, marks, or later backups show that a backup's manifest is lost
//! (`session::LostBackup`). Marks show that a revision is lost.

use std::collections::BTreeSet;

use format::names;
use session::ManifestList;
use types::{Revision, SessionId};

use super::{CheckReport, Damage, refuses};
use crate::covered::Covered;
use crate::error::Result;
use crate::store::Store;

/// Reports lost revisions that marks cover. Returns the sessions whose covered revision is a
/// tombstone.
pub(super) fn find_lost_revisions(
    covered: &Covered,
    store: &Store,
    list: &ManifestList,
    report: &mut CheckReport,
) -> Result<BTreeSet<SessionId>> {
    for (known, entry) in covered.of(list) {
        let session = known.session;
        let is_listed = entry.revisions.last() >= Some(&known.revision);
        if is_listed && (!known.forgotten || entry.revisions.contains(&known.revision)) {
            continue;
        }
        let name = names::manifest(entry.series(), session, known.revision);
        match store.env.storage.head(&name) {
            Err(env::StorageError::NotFound { .. }) => {}
            // The revision was put after the listing, or has a finding already.
            Err(error) if refuses(&error) => return Err(error.into()),
            _ => continue,
        }
        let backup = session;
        let what = if known.forgotten {
            Damage::TombstoneMissing { backup }
        } else {
            Damage::RevisionMissing { backup }
        };
        report.find(name, what, false);
    }
    Ok(covered.forgotten(list))
}

/// Reports the committed backups without a manifest among these sessions. Returns the others.
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
        report.find(name, Damage::ManifestMissing { backup: session }, false);
        report.damaged_backups.insert(session);
    }
    Ok(others)
}
