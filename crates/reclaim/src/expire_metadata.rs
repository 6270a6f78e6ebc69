//! Metadata that is deleted after a while: tombstones, endings of dead sessions, lists of old
//! epochs.
//!
//! What must hold for a forgotten manifest:
//! - It is deleted only if marks in force cover its tombstone, and no epoch is open.
//! - Lower revisions are deleted first, then a barrier, then the tombstone.
//! - Its claim is deleted before it, or the number would look like a running session; the highest
//!   claim is never deleted (docs/protocol-model.md, 3).
//! - No session runs that began before the tombstone, because it may have declared the backup as
//!   its parent.
//!
//! The time is the storage's own (INV-6). If somebody has set that clock back, declared backups
//! stay all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use container::{ContainerError, Containers};
use env::StorageError;
use format::frame::ObjectKind;
use format::names;
use format::reclaim::{ContainerSlots, Removed};
use format::session::ARCHIVAL_SERIES;
use format::session::Checkpoint;
use session::{
    CoveredBackup, EndedBy, HeldLease, ManifestEntry, ManifestList, Session, SessionError, SessionListing,
    SessionTable,
};
use types::{Epoch, SessionId, UnixNanos};

use crate::context::Context;
use crate::epochs::{self, Epochs};
use crate::error::Result;
use crate::in_use::has_ended;
use crate::log::PRUNE;
use crate::marks::InForce;
use crate::options::PruneOptions;
use crate::slots::SlotSet;
use crate::sweep;

/// Deletes metadata that is old enough, and metadata that nobody needs any more.
///
/// `now`: the listings of this run, and the marks in force. They need not be new. Endings and
/// tombstones are final. A session that began later has chosen no parent that was forgotten before,
/// and has read no catalog from before the executed lists. A session that ended later only delays
/// deletions until the next run.
///
/// `replaced`: an epoch of this run that swept everything and left no dead slot. Its list replaces
/// all lists below it.
pub(crate) fn expire(
    context: &Context<'_>,
    options: &PruneOptions,
    (session, lease): (&Session, &HeldLease),
    now: Option<(SessionListing, InForce)>,
    replaced: Option<Epoch>,
) -> Result<()> {
    tracing::debug!(target: PRUNE, session = %session.id(), "expires old metadata");
    // List again: another process may have taken the lease and begun an epoch.
    let epochs = Epochs::list(context.sealer)?;
    if epochs.open().is_some() || !lease.is_held()? {
        return Ok(());
    }
    let (listing, in_force) = match now {
        Some((listing, in_force)) => (listing, Some(in_force)),
        None => (context.manifests.list_sessions(&BTreeMap::new())?, None),
    };
    if session.gc_sessions_after(&listing)?.objects > 0 {
        // The collection above has waited for a barrier.
        lease.drop_lower()?;
    }
    let mut others = context.running(&listing.table)?;
    others.remove(&session.id());
    if others.is_empty() {
        drop_old_lists(context, &epochs, replaced)?;
    }
    let list = &listing.manifests;
    let now = context
        .sealer
        .env()
        .storage
        .head(&names::claim(session.id()))?
        .put_at;
    let mut old = BTreeSet::new();
    for entry in list.entries.iter().filter(|entry| entry.backup().is_none()) {
        if is_older(entry.put_at, now, options.keep_endings_for) {
            old.insert((entry.session(), entry.put_at));
        }
    }
    if old.is_empty() {
        return Ok(());
    }
    let covers = match in_force {
        Some(in_force) => in_force.covers(),
        None => {
            let (removed, unreadable) = epochs.last_removed(context.sealer, context.progress)?;
            if unreadable {
                return Ok(());
            }
            InForce::load(context.sealer, removed.as_ref().map(|(removed, _)| removed), 0)?.covers()
        }
    };
    let eldest = eldest(context, &others)?;
    let Some(declared) = declared(context, list, &others)? else {
        return Ok(());
    };
    let mut named = named_as_next(context, list, &old)?;
    let may_be_referred = |id: SessionId| list.get(id).is_some_and(|entry| !entry.is_forgotten());
    let referred = if old.iter().any(|(id, _)| may_be_referred(*id)) {
        referred(&context.manifests.list()?)
    } else {
        None
    };
    let adopters: BTreeSet<SessionId> = list
        .entries
        .iter()
        .filter_map(|entry| match entry.ended_by() {
            Some(EndedBy::Adopted { by, .. }) => Some(by),
            _ => None,
        })
        .collect();
    for (id, put_at) in old {
        let Some(entry) = list.get(id) else { continue };
        let is_covered = covers.get(&id).is_some_and(|covered| !covered.is_marked());
        let may_go = if entry.is_forgotten() {
            is_covered && !declared.contains(&id) && !named.values().any(|next| *next == id)
        } else {
            // The session has no containers left, and no backup relies on its checkpoint.
            let is_over = match entry.ended_by() {
                Some(EndedBy::Expired { .. }) => true,
                Some(EndedBy::Adopted { by, .. }) => has_ended(list, by),
                _ => false,
            };
            is_over
                && referred.as_ref().is_some_and(|referred| !referred.contains(&id))
                && sweep::listed(context.containers, id)?.is_empty()
        };
        // An adopter is deleted after the session that it adopted. Otherwise that session would
        // look like a running one.
        if may_go && !adopters.contains(&id) && eldest.is_none_or(|eldest| put_at < eldest) {
            drop_manifest(context, session, entry)?;
            named.remove(&id);
        }
    }
    Ok(())
}

/// Backups that another backup, forgotten or not, refers forward to. While that backup has a
/// manifest, a reader that follows it must find this one (R2). The map gives the referring backup,
/// among those before the backups that may be deleted.
fn named_as_next(
    context: &Context<'_>,
    list: &ManifestList,
    old: &BTreeSet<(SessionId, UnixNanos)>,
) -> Result<BTreeMap<SessionId, SessionId>> {
    let is_tombstone = |id: &SessionId| list.get(*id).is_some_and(ManifestEntry::is_forgotten);
    let next = |backup: &CoveredBackup| Some((backup.covered.session, backup.covered.next?));
    let mut named: BTreeMap<_, _> = list.as_covered.iter().filter_map(next).collect();
    let Some(last) = old.iter().map(|(id, _)| *id).filter(is_tombstone).max() else {
        return Ok(named);
    };
    for entry in &list.entries {
        let backup = match entry.backup() {
            Some(backup) => backup.next,
            None if entry.is_forgotten() && (entry.session() < last || entry.series() == ARCHIVAL_SERIES) => {
                context
                    .manifests
                    .last_backup(entry)?
                    .and_then(|(_, backup)| backup.next)
            }
            None => None,
        };
        named.extend(backup.map(|next| (entry.session(), next)));
    }
    Ok(named)
}

/// Sessions with checkpoints that backups rely on. `None`: a manifest that cannot be read may name
/// more.
fn referred(list: &ManifestList) -> Option<BTreeSet<SessionId>> {
    let backups = list.entries.iter().filter_map(ManifestEntry::backup);
    let adopted = backups.flat_map(|backup| backup.adopted.iter().map(|(old, _)| *old));
    list.damaged.is_empty().then(|| adopted.collect())
}

/// When the oldest of the other running sessions began. No running session has a parent that was
/// forgotten before.
fn eldest(context: &Context<'_>, others: &BTreeSet<SessionId>) -> Result<Option<UnixNanos>> {
    let mut eldest = None;
    for id in others {
        match context.sealer.env().storage.head(&names::claim(*id)) {
            Ok(meta) => eldest = Some(eldest.map_or(meta.put_at, |time: UnixNanos| time.min(meta.put_at))),
            // It has ended meanwhile, and its claim was deleted.
            Err(StorageError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(eldest)
}

/// Parents that the other running sessions declare, and parents of the sessions that these have
/// adopted: the next epoch reads their manifests. `None`: a session cannot be asked.
fn declared(
    context: &Context<'_>,
    list: &ManifestList,
    others: &BTreeSet<SessionId>,
) -> Result<Option<BTreeSet<SessionId>>> {
    // `None`: its claim cannot be read, or it has ended meanwhile. The next run can tell.
    let of_running = |id: &SessionId| -> std::result::Result<Option<Vec<Checkpoint>>, SessionError> {
        if let Some(info) = SessionTable::one(context.sealer, *id)? {
            return SessionTable::checkpoints(context.sealer, &info).map(Some);
        }
        match context.sealer.env().storage.head(&names::claim(*id)) {
            Err(StorageError::NotFound { .. }) => Ok(Some(Vec::new())),
            Err(error) => Err(error.into()),
            Ok(_) => Ok(None),
        }
    };
    let of_adopted = |entry: &ManifestEntry| -> std::result::Result<Option<Vec<Checkpoint>>, SessionError> {
        let Some(EndedBy::Adopted {
            by,
            checkpoint: Some(number),
        }) = entry.ended_by()
        else {
            return Ok(Some(Vec::new()));
        };
        if has_ended(list, by) {
            return Ok(Some(Vec::new()));
        }
        let named = SessionTable::adopted_checkpoint(context.sealer, entry.session(), number)?;
        Ok(Some(named.into_iter().collect()))
    };
    let mut declared = BTreeSet::new();
    let each = others.iter().map(of_running);
    for checkpoints in each.chain(list.entries.iter().map(of_adopted)) {
        match checkpoints {
            Ok(Some(checkpoints)) => {
                let parents = checkpoints.iter().flat_map(|checkpoint| &checkpoint.parents);
                declared.extend(parents.map(|(_, parent, _)| *parent));
            }
            Ok(None) | Err(SessionError::Damaged(_) | SessionError::Storage(StorageError::Io { .. })) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Some(declared))
}

fn is_older(put_at: UnixNanos, now: UnixNanos, than: Duration) -> bool {
    let age = now.get().saturating_sub(put_at.get());
    u64::try_from(age).is_ok_and(|age| Duration::from_nanos(age) >= than)
}

fn drop_manifest(context: &Context<'_>, session: &Session, entry: &ManifestEntry) -> Result<()> {
    let (series, id) = (entry.series(), entry.session());
    let last = entry.stored.revision;
    let sealer = context.sealer;
    // The claim of this session stays, and has the highest number.
    if session.id() <= id {
        return Ok(());
    }
    for revision in entry.revisions.iter().filter(|revision| **revision != last) {
        epochs::delete(sealer, &names::manifest(series, id, *revision))?;
    }
    // With its heartbeats and checkpoints, of which an adoption may have kept one.
    for (object, _) in sealer.list(&names::session_folder(id), names::parse_session_object)? {
        epochs::delete(sealer, &names::session_object(object.0, object.1))?;
    }
    sealer.barrier()?;
    epochs::delete(sealer, &names::manifest(series, id, last))?;
    // The folder is empty. If this fails, the folder costs a listing one look more.
    drop(sealer.env().storage.drop_folder(&names::session_folder(id)));
    Ok(())
}

/// Deletes lists of epochs before the newest, if no running session may remember catalogs from
/// before them. The newest list keeps the names on record. A list stays while one of its slots
/// still exists. A list that has rotted may name any slot. It stays until a newer list replaces it.
///
/// The oldest goes first, durably, and the first that stays ends it: while a list is kept, all
/// later ones are. By that, a process knows from the oldest list alone whether what it has read of
/// containers still counts.
fn drop_old_lists(context: &Context<'_>, epochs: &Epochs, replaced: Option<Epoch>) -> Result<()> {
    let old: Vec<Epoch> = epochs.finished().skip(1).collect();
    let mut is_first = true;
    for epoch in old.into_iter().rev() {
        let name = names::removed(epoch);
        match context.sealer.read(&name, ObjectKind::Removed, Removed::decode) {
            Ok(list) if Some(epoch) < replaced || may_go(context, &list) => {}
            Err(error) if error.is_not_found() => continue,
            Err(error) if error.is_damage() && Some(epoch) < replaced => {}
            // The storage may give the list later, and one of its slots may still exist.
            Ok(_) | Err(_) => return Ok(()),
        }
        if !is_first {
            // A power cut must not bring back the one before without this one.
            context.sealer.barrier()?;
        }
        is_first = false;
        epochs::delete(context.sealer, &name)?;
    }
    Ok(())
}

/// Whether none of the slots of a list exists any more.
fn may_go(context: &Context<'_>, list: &Removed) -> bool {
    let in_part: Vec<_> = list.slots.iter().filter(|one| one.slots.is_some()).collect();
    // None of these catalogs is cached, and they may be many.
    let containers = context.containers;
    let stand = object::several(containers.env().storage.is_far(), in_part.len(), |at| {
        Ok::<_, std::convert::Infallible>(still_stands(containers, in_part[at]))
    });
    let Ok(stand) = stand;
    !stand.contains(&true)
}

/// Whether a slot of the list still exists, or may exist.
fn still_stands(containers: &Containers, of: &ContainerSlots) -> bool {
    match containers.catalog(of.container) {
        Ok(view) => {
            let listed: SlotSet = of.slots.iter().flatten().copied().collect();
            view.entries().iter().any(|entry| listed.contains(entry.slot))
        }
        Err(ContainerError::Missing { .. }) => false,
        Err(_) => true,
    }
}
