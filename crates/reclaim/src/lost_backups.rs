//! Backups that are not as marks cover them, since an object of theirs is lost.
//!
//! What must hold: that an object is not there is no leave to remove what a backup needs. A backup
//! whose manifest is lost stops the run until somebody lets it go; a tombstone that is lost is put
//! again, for it is final, and what it let go of may be gone.

use std::collections::{BTreeMap, BTreeSet};

use format::reclaim::CoveredManifest;
use format::session::READ_SERIES;
use session::{Census, ManifestEntry, ManifestList};
use types::SessionId;

use crate::error::{ReclaimError, Result};
use crate::marks::InForce;
use crate::prune::{Context, PruneOptions};

/// Puts tombstones: those that are lost, and those of lost backups that are let go. Whether there
/// were any.
pub(crate) fn settle(
    context: &Context<'_>,
    options: &PruneOptions,
    census: &Census,
    in_force: &InForce,
) -> Result<bool> {
    let covers = in_force.covers();
    let list = &census.manifests;
    let mut has_put = false;
    let come_back = |entry: &&ManifestEntry| {
        let is_forgotten = covers.get(&entry.session()).is_some_and(|known| known.forgotten);
        is_forgotten && entry.backup().is_some()
    };
    for entry in list.entries.iter().filter(come_back) {
        context.manifests.forget(entry.series(), entry.session())?;
        context.progress.warn(&format!(
            "backup {} was forgotten, and the manifest revision that said so is lost: it was put again",
            entry.session()
        ));
        has_put = true;
    }
    let mut lost: BTreeSet<SessionId> = census.roster.lost.iter().copied().collect();
    lost.extend(not_listed(list, in_force));
    ensure_none(lost.first().copied(), options.accept_lost)?;
    for session in lost {
        if let Some(lost) = context.manifests.find_lost(session)? {
            context.manifests.forget_lost(&lost)?;
            has_put = true;
        }
    }
    Ok(has_put)
}

/// Backups that marks cover as not forgotten, and that have no manifest. A rewrite becomes nothing
/// any more.
fn not_listed<'a>(list: &'a ManifestList, in_force: &'a InForce) -> impl Iterator<Item = SessionId> + 'a {
    let groups = in_force.groups.iter();
    let of_backups = groups.filter(|(group, _)| group.series != READ_SERIES);
    let covered = of_backups.flat_map(|(_, stored)| &stored.covers);
    covered
        .filter(|known| !known.forgotten)
        .map(|known| known.session)
        .filter(|id| !list.has(*id) && list.damaged_of(*id).next().is_none())
}

/// Fails where a backup is lost and nobody has let it go.
pub(crate) fn ensure_none(lost: Option<SessionId>, accept_lost: bool) -> Result<()> {
    match lost {
        Some(session) if !accept_lost => Err(error(session)),
        _ => Ok(()),
    }
}

/// A backup of which no manifest is left.
fn error(session: SessionId) -> ReclaimError {
    let what = format!(
        "the manifest of backup {session} is missing, and the backup was not forgotten (bring it back from a copy of the \
         store; or let the backup go, by `onefold forget {session}` or by --accept-lost)"
    );
    ReclaimError::DamagedManifest { what }
}

/// A revision that a rewrite made, that marks cover and that is gone: it has roots whose like no
/// lower one has, and what lower ones reach may be gone. None stands in for it.
pub(crate) fn ensure_no_lower(
    list: &ManifestList,
    covers: &BTreeMap<SessionId, CoveredManifest>,
    accept_lost: bool,
) -> Result<()> {
    let is_lower = |entry: &&ManifestEntry| {
        let known = covers.get(&entry.session());
        let known = known.filter(|known| known.is_rewritten() && !known.forgotten);
        known.is_some_and(|known| entry.backup().is_some() && entry.stored.revision < known.revision)
    };
    let Some(entry) = list.entries.iter().find(is_lower).filter(|_| !accept_lost) else {
        return Ok(());
    };
    let session = entry.session();
    let what = format!(
        "the newest manifest revision of backup {session} is missing, which says where its data were rewritten to (bring it \
         back from a copy of the store; or `onefold forget {session}`; or say --accept-lost to go by the one before)"
    );
    Err(ReclaimError::DamagedManifest { what })
}
