//! One run of reclamation: finish an open epoch, condemn, wait, remove (docs/protocol.md, "The
//! reclaimer's half").

use format::names::LeaseRole;
use session::{DeathWatch, HeldLease, Life, Listing, Session, SessionError, SessionTable};
use tracing::{debug, info, warn};
use types::{ContainerId, Epoch};

use crate::context::Context;
use crate::dead_sessions;
use crate::epoch::{self, Announced};
use crate::epochs;
use crate::error::{ReclaimError, Result};
use crate::expire_metadata;
use crate::heal::{self};
use crate::inputs::Known;
use crate::log::PRUNE;
use crate::lost_backups;
use crate::mark_overflow::MarkOverflow;
use crate::marks::{self, InForce};
use crate::open;
use crate::options::{PruneOptions, PruneReport};
use crate::progress::{Waiting, WaitingRole};
use crate::rewrite;
use crate::warning::Warning;

/// The most epochs that one run begins.
const EPOCHS_MAX: usize = 2;

/// Reclaims the data that no backup reaches.
///
/// # Errors
/// `Overtaken`; `Unmarkable`, `DamagedManifest`, `Damaged`: nothing was removed, because the live
/// slots are not known; `Interrupted`; of the storage. The store is as readable as before, and the
/// next run continues.
pub fn prune(context: &Context<'_>, options: &PruneOptions) -> Result<PruneReport> {
    let context = &context.with_policy(options.policy);
    let (session, listing) = Session::begin_read_listed(context.manifests, context.process, context.policy)?;
    let heartbeats = session.start_heartbeats()?;
    info!(target: PRUNE, session = %session.id(), "begins");
    let done = with_lease(context, options, &session, listing);
    drop(heartbeats);
    // The session ends after success and after failure, and releases what it held.
    let ended = session.end();
    match &done {
        Ok(report) => log_report(report),
        Err(error) => warn!(target: PRUNE, session = %session.id(), %error, "failed"),
    }
    let report = done?;
    ended?;
    Ok(report)
}

fn log_report(report: &PruneReport) {
    info!(
        target: PRUNE,
        epochs = report.epochs,
        removed = report.containers_removed,
        compacted = report.containers_compacted,
        trimmed = report.containers_trimmed,
        bytes_deleted = report.bytes_deleted,
        bytes_copied = report.bytes_copied,
        bytes_left_dead = report.bytes_left_dead,
        sessions_expired = report.sessions_expired.len(),
        "is done"
    );
}

fn with_lease(
    context: &Context<'_>,
    options: &PruneOptions,
    session: &Session,
    listing: Listing,
) -> Result<PruneReport> {
    let lease = lease(context, session)?;
    debug!(target: PRUNE, session = %session.id(), "has the lease");
    let done = run(context, options, session, &lease, listing);
    let released = lease.release();
    let report = done?;
    released?;
    Ok(report)
}

/// Takes the lease. Of a holder that another host's process is, or was, it shows only after a while
/// whether it is dead.
fn lease(context: &Context<'_>, session: &Session) -> Result<HeldLease> {
    let env = context.sealer.env();
    let watch = DeathWatch::new(env.clone(), context.policy);
    let began = env.clock.monotonic();
    let mut told = false;
    loop {
        let holder = match session.acquire_lease(LeaseRole::Reclaim) {
            Err(SessionError::LeaseTaken { holder, .. }) => holder,
            other => {
                context.progress.waits_for(&[]);
                return Ok(other?);
            }
        };
        let holds = SessionTable::one(context.sealer, holder)?;
        let life = holds.as_ref().map(|info| watch.observe(info));
        if life == Some(Life::Alive) {
            return Err(ReclaimError::Overtaken);
        }
        if context.progress.is_cancelled() {
            return Err(ReclaimError::Interrupted);
        }
        if let (Some(info), Some(life @ Life::Unsure { unmoved })) = (&holds, life) {
            let waited = env.clock.monotonic().saturating_sub(began);
            let left = context.policy.unmoved_for.saturating_sub(unmoved);
            context.progress.waits_for(&[Waiting {
                role: WaitingRole::Prune,
                ..Waiting::of(info, life, &*env.clock, (waited, left))
            }]);
        }
        if !told {
            told = true;
            context.progress.warn(Warning::WaitedForPrune {
                session: holder,
                minutes: context.policy.unmoved_for.as_secs() / 60,
            });
        }
        env.clock
            .sleep(epoch::LOOK_EVERY.min(context.policy.heartbeat_every));
    }
}

fn run(
    context: &Context<'_>,
    options: &PruneOptions,
    session: &Session,
    lease: &HeldLease,
    listing: Listing,
) -> Result<PruneReport> {
    let mut report = PruneReport::default();
    // An earlier holder of the lease may have rewritten containers whose catalogs are cached here.
    context.containers.clear_catalogs();
    open::finish_open(context, options, (session, lease), &mut report)?;
    let (mut now, mut replaced) = (None, None);
    let mut listing = Some(listing);
    // The second round removes data of sessions that the first one ended.
    for round in 0..EPOCHS_MAX {
        let listed = listing.take().map(|listing| (session, listing));
        let mut known = Known::load(context, options, listed)?;
        debug!(
            target: PRUNE,
            round, manifests = known.listing.manifests.entries.len(), sessions = known.listing.table.running.len(),
            "listed backups and sessions"
        );
        if round == 0
            && dead_sessions::expire_abandoned(context, options, session, &known.listing, &mut report)?
        {
            // Their endings let sweeps remove their data.
            known.look(context, None)?;
        }
        if lost_backups::settle(context, options, &known.listing, &known.in_force)? {
            known.look(context, None)?;
        }
        if round == 0 && rewrite::has_rewrites(&known.listing.manifests) {
            // Most commits here are of dead processes. Until such a commit is completed, it keeps
            // data that nobody needs.
            match rewrite::complete(context, session) {
                Err(ReclaimError::Interrupted) => return Err(ReclaimError::Interrupted),
                // An incomplete commit keeps all data that it needs.
                Err(error) => context.progress.warn(Warning::RewriteNotCompleted {
                    why: error.to_string(),
                }),
                Ok(_) => {}
            }
            known.look(context, None)?;
        }
        let mut limits = known.limits(options);
        // The limit holds for the whole run, so it shrinks by the bytes copied so far.
        limits.repack_bytes_max = limits.repack_bytes_max.saturating_sub(report.bytes_copied);
        let options = &PruneOptions {
            limits,
            ..options.clone()
        };
        let expired = report.sessions_expired.len();
        let begun = begin(context, options, session, lease, &known, &mut report)?;
        let Some(epoch) = begun.epoch else {
            now = Some((known.listing, begun.marks));
            break;
        };
        let replaces = known.replaces_lists && !begun.is_partial;
        let marks = begun.marks.revisions();
        let superseded = epoch::superseded(&marks, &marks, &known.in_force);
        let announced = Announced {
            marks: &begun.marks,
            listing: known.into_listing(),
            superseded,
        };
        let listing = epoch::epoch(
            context,
            options,
            session,
            lease,
            (epoch, Some(announced)),
            &mut report,
        )?;
        now = listing.map(|listing| (listing, begun.marks));
        replaced = replaces.then_some(epoch);
        let is_given_up = !report.given_up.is_empty();
        if is_given_up {
            open::finish_open(context, options, (session, lease), &mut report)?;
        }
        if is_given_up || report.sessions_expired.len() == expired {
            break;
        }
    }
    // Before old removed lists are deleted, because they name slots that must never come back.
    let find_needed = |ids: &[ContainerId]| match &now {
        Some((listing, in_force)) => heal::needed(context, session, listing, in_force, ids),
        None => Ok(None),
    };
    let healed = heal::heal_needed(context, lease, &[], options.marks_bytes_max, &find_needed)?;
    report.healed = healed.healed;
    report.unhealed = healed.left;
    debug!(
        target: PRUNE,
        healed = report.healed.len(), unhealed = report.unhealed.len(),
        "healed what lists of damage name"
    );
    expire_metadata::expire(context, options, (session, lease), now, replaced)?;
    Ok(report)
}

/// The result of a plan.
struct Begun {
    /// The epoch that was announced, if one was needed.
    epoch: Option<Epoch>,
    /// The marks of all groups: in force, or in force once the epoch is finished.
    marks: InForce,
    /// As of [`Plan`].
    is_partial: bool,
}

/// Begins an epoch if there are slots to remove. Otherwise it puts the marks of new backups.
fn begin(
    context: &Context<'_>,
    options: &PruneOptions,
    session: &Session,
    lease: &HeldLease,
    known: &Known,
    report: &mut PruneReport,
) -> Result<Begun> {
    let mut overflow = MarkOverflow::new(context.sealer, lease, known.epochs.next());
    let begun = begin_with(context, options, (session, lease), known, &mut overflow, report);
    if !matches!(begun, Ok(Begun { epoch: Some(_), .. })) {
        // Marks that stay behind never count.
        drop(overflow.take_back());
    }
    begun
}

fn begin_with(
    context: &Context<'_>,
    options: &PruneOptions,
    (session, lease): (&Session, &HeldLease),
    known: &Known,
    overflow: &mut MarkOverflow<'_>,
    report: &mut PruneReport,
) -> Result<Begun> {
    let mut plan = known.plan(context, options, &known.listing.manifests, Some(overflow))?;
    debug!(
        target: PRUNE,
        groups = plan.marked.len(), nodes = plan.nodes, condemned = plan.condemned.len(),
        "marked and swept"
    );
    report.groups_marked += plan.marked.len() as u64;
    report.nodes_read += plan.nodes;
    report.kept = std::mem::take(&mut plan.kept);
    if let Some((removed, _)) = &known.removed {
        report.bytes_stored = removed.stored_bytes;
        report.bytes_left_dead = removed.left.iter().map(|left| left.dead_bytes).sum();
    }
    let is_needed = known.is_needed(context, options, Some(session.id()), &plan)?;
    let epoch = is_needed.then_some(known.epochs.next());
    let named = known.removed.as_ref().map(|(removed, _)| &removed.marks);
    let named = named.unwrap_or(const { &Vec::new() });
    if epoch.is_none() && plan.marked.is_empty() {
        // Usually there are none: only a power cut brings them back.
        let old = epoch::superseded(&plan.after.revisions(), named, &known.in_force);
        if !old.is_empty() && lease.is_held()? {
            context.sealer.barrier()?;
            epochs::delete_all(context.sealer, &old)?;
        }
        return Ok(Begun {
            epoch,
            marks: plan.after,
            is_partial: plan.is_partial,
        });
    }
    if !lease.is_held()? {
        return Err(ReclaimError::Overtaken);
    }
    if epoch.is_some() {
        // Check before the announcement: an epoch that nobody can end blocks the next one.
        context.ensure_all_can_answer(&known.listing.table)?;
    } else {
        // Marks without an epoch count at once, so the objects that they follow from must be
        // durable first. Marks of an epoch count when its list exists, and the list follows a
        // barrier of its own.
        context.sealer.barrier()?;
    }
    marks::put_all(context.sealer, &plan.marked, &mut plan.after, epoch)?;
    if let Some(epoch) = epoch {
        if !epoch::announce(context, epoch, &plan)? {
            return Err(ReclaimError::Overtaken);
        }
    } else {
        context.sealer.barrier()?;
        let old = epoch::superseded(&plan.after.revisions(), named, &known.in_force);
        epochs::delete_all(context.sealer, &old)?;
    }
    Ok(Begun {
        epoch,
        marks: plan.after,
        is_partial: plan.is_partial,
    })
}
