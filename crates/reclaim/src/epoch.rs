//! Takes an epoch from `condemned/<epoch>` to its end: waits, decides, removes, and puts the new
//! marks in force.
//!
//! Every step starts from what the storage says, so a successor does what its predecessor would
//! have done.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use format::frame::ObjectKind;
use format::manifest::Manifest;
use format::names;
use format::reclaim::{Condemned, CoveredManifest, GroupId, LeftSlots, Removed};
use session::{
    DeathWatch, HeldLease, Life, ManifestList, Manifests, Session, SessionError, SessionInfo, SessionListing,
    SessionTable,
};
use tracing::{debug, info};
use types::{Epoch, ObjectName, Revision, SessionId, UnixNanos};

use crate::context::Context;
use crate::epochs::{self, Epochs, Found};
use crate::error::{ReclaimError, Result};
use crate::final_list::{self, Ground};
use crate::forward_pins::{self, ForwardPins};
use crate::heal;
use crate::hooks::hook_again;
use crate::in_use::Finder;
use crate::list;
use crate::log::PRUNE;
use crate::lost_backups;
use crate::mark_sweep::{self, Plan};
use crate::marks::InForce;
use crate::options::{MarkRevisions, PruneOptions, PruneReport};
use crate::progress::Waiting;
use crate::remove::{self, Executed, Execution};
use crate::scarce;
use crate::warning::Warning;

/// How often a run looks at sessions that have not answered.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Creates `condemned/<epoch>`, and returns whether this process created it. The list, and all
/// objects that it follows from, are durable on return.
pub(crate) fn announce(context: &Context<'_>, epoch: Epoch, plan: &Plan) -> Result<bool> {
    let condemned = Condemned {
        epoch,
        marks: plan.after.revisions(),
        slots: plan.condemned.clone(),
    };
    let name = names::condemned(epoch);
    let is_ours = epochs::create(
        context.sealer,
        &name,
        ObjectKind::Condemned,
        &condemned.to_bytes(),
    )?;
    let containers = condemned.slots.len();
    info!(target: PRUNE, %epoch, containers, is_ours, "announced what is condemned");
    Ok(is_ours)
}

/// The inputs of the process that announces an epoch.
pub(crate) struct Announced<'a> {
    /// The marks that its list names.
    pub(crate) marks: &'a InForce,
    /// The listing from which the marks were made.
    pub(crate) listing: SessionListing,
    /// Marks that no longer count once the epoch's removed list exists.
    pub(crate) superseded: Vec<ObjectName>,
}

/// Takes an epoch to its end. The process that has just announced it passes its inputs; a process
/// that found it open reads the marks that its list names. Returns the sessions that ran and those
/// that had ended when all had answered, if this process asked them.
pub(crate) fn epoch(
    context: &Context<'_>,
    options: &PruneOptions,
    session: &Session,
    lease: &HeldLease,
    (epoch, mut announced): (Epoch, Option<Announced<'_>>),
    report: &mut PruneReport,
) -> Result<Option<SessionListing>> {
    // Listed anew, here and below: an epoch below the highest is void.
    epochs::ensure_highest(context.sealer, epoch)?;
    let old = announced
        .as_mut()
        .map(|announced| std::mem::take(&mut announced.superseded));
    let (mut refused, mut listing, mut is_again) = (None, None, false);
    let removed = match epochs::read_removed(context.sealer, epoch)? {
        Found::Whole(removed) => {
            // The process that created the list may have died before its barrier, and this run acts
            // on the list.
            context.sealer.barrier()?;
            is_again = true;
            removed
        }
        Found::Missing => {
            let Found::Whole(condemned) = epochs::read_condemned(context.sealer, epoch)? else {
                return Err(ReclaimError::Overtaken);
            };
            let decided = wait_and_decide(context, options, session, lease, (&condemned, announced), report);
            let decided = match decided {
                Ok((removed, asked)) => {
                    listing = Some(asked);
                    removed
                }
                // It is not known what is in use, so nothing is removed. Once the epoch is closed,
                // the damage can be mended.
                Err(error) if error.is_damage() => {
                    refused = Some(error);
                    nothing(context, &condemned)?
                }
                Err(error) => return Err(error),
            };
            publish(context, decided)?
        }
        Found::Damaged(what) => return Err(ReclaimError::Damaged { what }),
    };
    let containers = removed.slots.len();
    info!(target: PRUNE, %epoch, containers, is_again, "the final list stands");
    // The epoch may be void, or finished by another process: then this run must not execute its
    // list.
    epochs::ensure_highest(context.sealer, epoch)?;
    if !lease.is_held()? {
        return Err(ReclaimError::Overtaken);
    }
    let listed = heal::ListedDamage::new(context.sealer);
    let done = remove::execute(
        context.containers,
        &removed,
        &Execution {
            packing: context.packing,
            copies_bytes_max: remove::copies_bytes_max(&*context.containers.env().storage),
            gives_up: options.is_full,
            is_again,
            damaged: &|id| listed.of(id),
            progress: context.progress,
        },
    )?;
    count(report, &removed, &done);
    // Healing examines the containers that lists of damage name. So it unites the generations of
    // these, or reports them. On a full disk they stay as they are.
    match heal::want(context.sealer, &done.short) {
        Err(error) if options.is_full && error.is_no_space() => context.progress.warn(Warning::NoRoomToList),
        other => other?,
    }
    // Executing took a while: a process that slept meanwhile must not put its marks in force.
    epochs::ensure_highest(context.sealer, epoch)?;
    if !lease.is_held()? {
        return Err(ReclaimError::Overtaken);
    }
    if !done.given_up.is_empty() {
        scarce::carry_on(context, &removed, &done.given_up)?;
    }
    close(context, &removed, old)?;
    match hook_again(context, session.id(), &done.kept) {
        Err(error) if options.is_full && error.is_no_space() => context.progress.warn(Warning::NotIndexed {
            why: error.to_string(),
        }),
        hooked => hooked?,
    }
    refused.map_or(Ok(listing), Err)
}

/// Adds what executing a final list did to the report, and logs it.
fn count(report: &mut PruneReport, removed: &Removed, done: &Executed) {
    info!(
        target: PRUNE,
        epoch = %removed.epoch, removed = done.removed, compacted = done.compacted, trimmed = done.trimmed,
        damaged = done.damaged.len(), given_up = done.given_up.len(),
        "the final list is executed"
    );
    report.epochs += 1;
    report.containers_removed += done.removed;
    report.containers_compacted += done.compacted;
    report.containers_trimmed += done.trimmed;
    report.bytes_deleted += done.freed_bytes;
    report.bytes_copied += done.copied_bytes;
    report.bytes_left_dead = removed.left.iter().map(|left| left.dead_bytes).sum();
    report.bytes_stored = removed.stored_bytes;
    report.mirrors_made += done.mirrors_made;
    scarce::report(report, removed, &done.given_up);
    for (container, error) in &done.damaged {
        report.damaged.push((container.to_string(), error.to_string()));
    }
}

/// Ends an epoch without removing anything that it condemned.
fn nothing(context: &Context<'_>, condemned: &Condemned) -> Result<Removed> {
    let epochs = Epochs::list(context.sealer)?;
    let (before, _) = epochs.last_removed(context.sealer, context.progress)?;
    let left = condemned.slots.iter().map(|slots| LeftSlots {
        slots: slots.clone(),
        dead_bytes: 0,
        live_bytes: 0,
    });
    Ok(Removed {
        epoch: condemned.epoch,
        slots: Vec::new(),
        marks: condemned.marks.clone(),
        left: left.collect(),
        gone: list::gone(context, &epochs, condemned.epoch)?,
        stored_bytes: before.map_or(0, |(before, _)| before.stored_bytes),
    })
}

fn wait_and_decide(
    context: &Context<'_>,
    options: &PruneOptions,
    session: &Session,
    lease: &HeldLease,
    (condemned, announced): (&Condemned, Option<Announced<'_>>),
    report: &mut PruneReport,
) -> Result<(Removed, SessionListing)> {
    let read;
    let (named, mut listing) = match announced {
        Some(announced) => (announced.marks, Some(announced.listing)),
        None => {
            read = InForce::named(context.sealer, &condemned.marks, options.marks_bytes_max)?;
            (&read, None)
        }
    };
    if let Some(known) = &listing
        && !session.is_alone_since(&known.table)?
    {
        listing = None;
    }
    let covers = named.covers();
    let (asked, mut listing) = match listing {
        // Nobody has begun since who could have to answer, or who could have put a manifest.
        Some(listing) => (Vec::new(), listing),
        None => answers(context, options, session, (condemned.epoch, &covers), report)?,
    };
    if !lease.is_held()? {
        return Err(ReclaimError::Overtaken);
    }
    let containers: BTreeSet<_> = condemned.slots.iter().map(|slots| slots.container).collect();
    let mut finder = Finder::new(
        context.manifests,
        context.nodes,
        context.progress,
        named,
        containers,
    );
    // Backups declared by running archival rewrites, or forgotten after the epoch was announced.
    let mut declared = BTreeSet::new();
    // If nobody ran, the manifests listed with the sessions show all of them ended, so that listing
    // suffices. But if a claim cannot be read, nobody knows whether its session ran and has
    // committed since.
    if !asked.is_empty() || !listing.table.damaged.is_empty() {
        declared = finder.sessions(&asked, &covers)?;
        // The run acts on what it read, so that must be durable. Only then it lists manifests,
        // once: the list has every session that committed in the meantime.
        context.sealer.barrier()?;
        listing = context.manifests.list_sessions(&covers)?;
    }
    let list = &listing.manifests;
    let lost = listing.table.lost.first().copied();
    lost_backups::ensure_none(lost, options.allow_missing_manifests)?;
    mark_sweep::ensure_readable(list, &covers, context.manifests, options.allow_missing_manifests)?;
    declared.extend(forward_pins::forgotten_since(list, &covers));
    let kept = ForwardPins::of(
        list,
        context.manifests,
        &covers,
        &declared,
        options.allow_missing_manifests,
    )?;
    finder.manifests(list, &covers, &kept)?;
    let epochs = Epochs::list(context.sealer)?;
    let (before, _) = epochs.last_removed(context.sealer, context.progress)?;
    let live = finder.into_live();
    let ground = Ground {
        known: before.as_ref().map_or(&[][..], |(before, _)| &before.left),
        stored_bytes: stored_bytes(before.as_ref(), list, context.manifests)?,
        limits: options.limits,
    };
    let decided = final_list::decide(context, &condemned.slots, &live, ground)?;
    let marks = condemned.marks.clone();
    let removed = list::make(context, condemned.epoch, &epochs, marks, decided)?;
    Ok((removed, listing))
}

/// About how many bytes all containers take: the bytes that the list before states, and the bytes
/// of later commits, by the storage's clock.
pub(crate) fn stored_bytes(
    before: Option<&(Removed, UnixNanos)>,
    list: &ManifestList,
    manifests: &Manifests,
) -> Result<u64> {
    let mut bytes = before.map_or(0, |(before, _)| before.stored_bytes);
    let is_new = |committed_at| before.is_none_or(|(_, put_at)| committed_at > *put_at);
    let new = list.entries.iter().filter(|entry| is_new(entry.committed_at));
    let new: Vec<_> = new.collect();
    let is_far = manifests.sealer().env().storage.is_far();
    let written = object::several(is_far, new.len(), |at| {
        let found = manifests.last_backup(new[at])?;
        Ok::<_, ReclaimError>(found.map_or(0, |(_, backup)| backup.totals.bytes_stored))
    })?;
    bytes += written.iter().sum::<u64>();
    for known in &list.as_covered {
        if !is_new(known.committed_at) {
            continue;
        }
        let read = match manifests.read(known.series, known.covered.session, known.covered.revision) {
            // The marks state what the backup reaches. The bytes that it wrote are only an
            // estimate.
            Err(SessionError::Damaged(_)) => continue,
            read => read?,
        };
        if let Manifest::Commit(backup) | Manifest::Revised(backup) = &read.manifest {
            bytes += backup.totals.bytes_stored;
        }
    }
    Ok(bytes)
}

/// Waits until every running session has answered or ended. Returns the sessions that run and have
/// answered, and the listings that show it.
fn answers(
    context: &Context<'_>,
    options: &PruneOptions,
    session: &Session,
    (epoch, covers): (Epoch, &BTreeMap<SessionId, CoveredManifest>),
    report: &mut PruneReport,
) -> Result<(Vec<SessionInfo>, SessionListing)> {
    let env = context.sealer.env();
    let watch = DeathWatch::new(env.clone(), context.policy);
    let began = env.clock.monotonic();
    let mut spoke = began;
    let mut listed: Option<BTreeMap<SessionId, SessionInfo>> = None;
    loop {
        // List sessions each time, after the condemned list exists. Otherwise the run would miss a
        // session that does not know of the list.
        let listing = context.manifests.list_sessions(covers)?;
        let table = &listing.table;
        context.ensure_all_can_answer(table)?;
        let running = || table.running.iter().filter(|info| info.id != session.id());
        let listed = listed.get_or_insert_with(|| running().map(|info| (info.id, info.clone())).collect());
        listed.retain(|id, _| table.get(*id).is_some());
        let (mut is_over, mut waiting) = (true, Vec::new());
        for info in running() {
            let Some(known) = listed.get_mut(&info.id) else {
                continue;
            };
            known.clone_from(info);
            let life = watch.observe(info);
            let is_dead = matches!(life, Life::Dead(_));
            if info.has_answered(epoch)
                && !(is_dead && SessionTable::checkpoints(context.sealer, info).is_err())
            {
                continue;
            }
            is_over = false;
            let waited = env.clock.monotonic().saturating_sub(began);
            let mut left = options.answer_within.saturating_sub(waited);
            if is_dead || left.is_zero() {
                session.expire(info)?;
                report.sessions_expired.push(info.id);
                continue;
            }
            if let Life::Unsure { unmoved } = life {
                left = left.min(context.policy.unmoved_for.saturating_sub(unmoved));
            }
            waiting.push(Waiting::of(info, life, &*env.clock, (waited, left)));
        }
        context.progress.waits_for(&waiting);
        log_wait(epoch, &waiting);
        if is_over {
            return Ok((listed.values().cloned().collect(), listing));
        }
        if context.progress.is_cancelled() {
            return Err(ReclaimError::Interrupted);
        }
        session.ensure_running()?;
        // No need to wait for a session that was ended just now.
        if waiting.is_empty() {
            continue;
        }
        env.clock.sleep(LOOK_EVERY.min(context.policy.heartbeat_every));
        if env.clock.monotonic().saturating_sub(spoke) >= context.policy.heartbeat_every {
            spoke = env.clock.monotonic();
            scarce::ensure_room_to_answer(session)?;
        }
    }
}

/// Logs which sessions still have to answer, or that all have answered.
fn log_wait(epoch: Epoch, waiting: &[Waiting]) {
    if waiting.is_empty() {
        info!(target: PRUNE, %epoch, "every session has answered");
    }
    for one in waiting {
        debug!(target: PRUNE, %epoch, session = %one.session, role = ?one.role, "waits for an answer");
    }
}

/// Creates the removed list, or takes the one that another created for this epoch.
fn publish(context: &Context<'_>, removed: Removed) -> Result<Removed> {
    let name = names::removed(removed.epoch);
    if epochs::create(context.sealer, &name, ObjectKind::Removed, &removed.to_bytes())? {
        return match epochs::ensure_highest(context.sealer, removed.epoch) {
            Ok(()) => Ok(removed),
            Err(ReclaimError::Overtaken) => {
                // The list of this process is void.
                epochs::delete(context.sealer, &name)?;
                Err(ReclaimError::Overtaken)
            }
            // Sessions may refer to what it leaves by now, and others execute it.
            Err(error) => Err(error),
        };
    }
    context.sealer.barrier()?;
    match epochs::read_removed(context.sealer, removed.epoch)? {
        Found::Whole(theirs) => Ok(theirs),
        Found::Missing => Err(ReclaimError::Overtaken),
        Found::Damaged(what) => Err(ReclaimError::Damaged { what }),
    }
}

/// Closes the epoch: deletes superseded marks, and then the condemned list, which finishes the
/// epoch. It waits for no barrier. If a power cut brings marks back, they are below those that
/// count. If it brings the condemned list back, the epoch is finished once more.
///
/// `old`: the marks to delete, as computed by the process that announced the epoch. The next run
/// finds marks that a process which slept has put since.
fn close(context: &Context<'_>, removed: &Removed, old: Option<Vec<ObjectName>>) -> Result<()> {
    let sealer = context.sealer;
    let old = if let Some(old) = old {
        old
    } else {
        // Groups that the list names need no read.
        let named: BTreeSet<GroupId> = removed.marks.iter().map(|(group, _)| *group).collect();
        let listed = InForce::load_of(sealer, Some(removed), 0, &|group| !named.contains(group))?;
        superseded(&removed.marks, &removed.marks, &listed)
    };
    epochs::delete_all(sealer, &old)?;
    drop_damage_of_gone(context, removed)?;
    epochs::delete(sealer, &names::condemned(removed.epoch))?;
    info!(target: PRUNE, epoch = %removed.epoch, "the epoch is closed");
    // Condemned lists of a process that slept are void. Others belong to epochs that replaced an
    // unreadable removed list.
    let epochs = Epochs::list(sealer)?;
    for epoch in epochs.condemned.iter().filter(|epoch| **epoch < removed.epoch) {
        if let Found::Damaged(_) = epochs::read_removed(sealer, *epoch)? {
            epochs::delete(sealer, &names::removed(*epoch))?;
            sealer.barrier()?;
        }
        epochs::delete(sealer, &names::condemned(*epoch))?;
    }
    Ok(())
}

/// Deletes lists of damage of containers that this list or an earlier one removed whole. These
/// containers are absent for ever, removed lists have their names, and their numbers are never
/// given out again.
fn drop_damage_of_gone(context: &Context<'_>, removed: &Removed) -> Result<()> {
    let listed = context.sealer.list(names::DAMAGED_FOLDER, names::parse_damaged)?;
    for ((container, number), _) in listed {
        let at = removed
            .slots
            .binary_search_by_key(&container, |slots| slots.container);
        let is_gone = at.is_ok_and(|at| removed.slots[at].slots.is_none())
            || removed.gone.iter().any(|run| run.contains(container));
        if is_gone {
            epochs::delete(context.sealer, &names::damaged(container, number))?;
        }
    }
    Ok(())
}

/// Marks to delete: revisions below the kept ones, and those of groups without a backup. A group
/// that the newest removed list names keeps its marks, because their absence would count as damage.
pub(crate) fn superseded(kept: &MarkRevisions, named: &MarkRevisions, listed: &InForce) -> Vec<ObjectName> {
    let kept: BTreeMap<_, _> = kept.iter().copied().collect();
    let named: BTreeSet<_> = named.iter().map(|(group, _)| *group).collect();
    let mut out = Vec::new();
    for (group, revisions) in &listed.listed {
        let is_old = |revision: &Revision| match kept.get(group) {
            Some(in_force) => revision < in_force,
            // Only a group that lost all its backups, not one that was added since.
            None => {
                let in_force = listed.groups.get(group);
                !named.contains(group) && in_force.is_none_or(|stored| stored.is_of_no_backup())
            }
        };
        let old = revisions.iter().copied().filter(is_old);
        out.extend(old.map(|revision| names::marks(*group, revision)));
    }
    out
}
