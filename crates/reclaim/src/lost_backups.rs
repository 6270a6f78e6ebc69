//! Backups that differ from what marks cover, because one of their objects is lost.
//!
//! Invariant: the loss of an object never permits prune to remove what a backup needs. A
//! backup without its manifest stops the run until the user forgets it. Prune puts a lost tombstone
//! again: a tombstone is final, and the containers of its backup may be gone.

use std::collections::{BTreeMap, BTreeSet};

use format::reclaim::CoveredManifest;
use format::session::READ_SERIES;
use session::{ManifestEntry, ManifestList, SessionListing};
use types::SessionId;

use crate::context::Context;
use crate::error::{ReclaimError, Result};
use crate::marks::InForce;
use crate::options::PruneOptions;
use crate::warning::Warning;

/// Puts lost tombstones, and tombstones of lost backups that the user gives up. Returns whether
/// there were any.
pub(crate) fn settle(
    context: &Context<'_>,
    options: &PruneOptions,
    listing: &SessionListing,
    in_force: &InForce,
) -> Result<bool> {
    let covers = in_force.covers();
    let list = &listing.manifests;
    let mut has_put = false;
    let come_back = |entry: &&ManifestEntry| {
        let is_forgotten = covers.get(&entry.session()).is_some_and(|known| known.forgotten);
        is_forgotten && entry.backup().is_some()
    };
    for entry in list.entries.iter().filter(come_back) {
        context.manifests.forget(entry.series(), entry.session())?;
        context.progress.warn(Warning::TombstoneRestored {
            backup: entry.session(),
        });
        has_put = true;
    }
    let mut lost: BTreeSet<SessionId> = listing.table.lost.iter().copied().collect();
    lost.extend(not_listed(list, in_force));
    ensure_none(lost.first().copied(), options.allow_missing_manifests)?;
    for session in lost {
        if let Some(lost) = context.manifests.find_lost(session)? {
            context.manifests.forget_lost(&lost)?;
            has_put = true;
        }
    }
    Ok(has_put)
}

/// Backups without a manifest that marks cover as not forgotten. Lost rewrites do not count: they
/// have no effect any more.
fn not_listed<'a>(list: &'a ManifestList, in_force: &'a InForce) -> impl Iterator<Item = SessionId> + 'a {
    let groups = in_force.groups.iter();
    let of_backups = groups.filter(|(group, _)| group.series != READ_SERIES);
    let covered = of_backups.flat_map(|(_, stored)| &stored.covers);
    covered
        .filter(|known| !known.forgotten)
        .map(|known| known.session)
        .filter(|id| !list.has(*id) && list.damaged_of(*id).next().is_none())
}

/// Fails if a backup is lost and the user has not given it up.
pub(crate) fn ensure_none(lost: Option<SessionId>, allow_missing_manifests: bool) -> Result<()> {
    match lost {
        Some(session) if !allow_missing_manifests => Err(error(session)),
        _ => Ok(()),
    }
}

/// The error about a backup without any manifest.
fn error(session: SessionId) -> ReclaimError {
    let what = format!(
        "the manifest of backup {session} is missing, and the backup was not forgotten (bring it back from a copy of the \
         store; or let the backup go, by `onefold forget {session}` or by --allow-missing-manifests)"
    );
    ReclaimError::DamagedManifest { what }
}

/// Fails if marks cover a revision that a rewrite made, and that revision is lost. It had roots
/// that no lower revision has, and the slots that lower ones reach may be removed. So no lower
/// revision can replace it.
pub(crate) fn ensure_no_lower(
    list: &ManifestList,
    covers: &BTreeMap<SessionId, CoveredManifest>,
    allow_missing_manifests: bool,
) -> Result<()> {
    let is_lower = |entry: &&ManifestEntry| {
        let known = covers.get(&entry.session());
        let known = known.filter(|known| known.is_rewritten() && !known.forgotten);
        known.is_some_and(|known| entry.backup().is_some() && entry.stored.revision < known.revision)
    };
    let Some(entry) = list
        .entries
        .iter()
        .find(is_lower)
        .filter(|_| !allow_missing_manifests)
    else {
        return Ok(());
    };
    let session = entry.session();
    let what = format!(
        "the newest manifest revision of backup {session} is missing, which says where its data were rewritten to (bring it \
         back from a copy of the store; or `onefold forget {session}`; or say --allow-missing-manifests to go by the one before)"
    );
    Err(ReclaimError::DamagedManifest { what })
}
