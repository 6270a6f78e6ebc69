//! Rewrites backups: gives them other references to the same bytes, for reverse deduplication and
//! for layout repair (R2).
//!
//! A rewrite runs beside backups, restores and prunes. A session of a reserved series pins the
//! backups, writes containers and the nodes of the new trees, reads them back, and commits them.
//! Then the next manifest revision of each backup gets its new roots, and the rewrite's own commit
//! is forgotten. A rewrite removes nothing; [`crate::prune`] finds the unused data.
//!
//! What must hold (docs/protocol.md, "Archival revisions"): until the revisions exist, the
//! rewrite's commit keeps the data that they will reach. Each revision is made only from the roots
//! that were read. If the process dies, another one ends its session, or completes its commit.

mod copies;
mod distinct_backups;
mod nodes;
mod targets;

use format::manifest::{Backup, SeriesName};
use format::names;
use format::session::ARCHIVAL_SERIES;
use session::{Begin, CoveredBackup, DamagedObject, ManifestList, Session, SessionError};
use tracing::{debug, info};
use types::{ContainerId, ContainerKind, Revision, SessionId};

use crate::context::Context;
use crate::error::Result;
use crate::hooks::hook_again;
use crate::log::OPTIMIZE;
use crate::warning::Warning;

pub(crate) use copies::{Copies, Numbers};
pub(crate) use distinct_backups::DistinctBackups;
pub(crate) use nodes::NodeWriter;
pub(crate) use targets::{Parent, Rewrite, place_of};

use targets::{Target, Targets};

/// Options of a rewrite.
#[derive(Debug, Clone)]
pub struct OptimizeOptions {
    /// Threads that read and write containers; at least 1.
    pub workers: usize,
    /// Memory for nodes, in bytes.
    pub node_cache_bytes: u64,
}

/// The state of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has the new roots.
    Done,
    /// It is forgotten, or has other roots than those that were read. It gets none of the new
    /// roots.
    Other,
    /// Its newest revision cannot be read now.
    Waits,
}

/// Rewrites backups in a session of its own, if `write` finds anything to do. Returns which of the
/// targets have their new roots now, in order. All backups are as readable as before at any moment,
/// and after any error. `beside` is a session that runs all the time: publishing a rewrite needs
/// one.
///
/// # Errors
/// `write` fails, or the storage does. Either no backup has changed, or the rewrite is committed
/// and the next run completes it.
pub(crate) fn run<T>(
    context: &Context<'_>,
    beside: &Session,
    write: impl FnOnce(&Session) -> Result<Option<(Rewrite, T)>>,
) -> Result<Option<(Vec<bool>, T)>> {
    let begin = Begin {
        series: ARCHIVAL_SERIES,
        name: SeriesName {
            host: Vec::new(),
            paths: Vec::new(),
        },
        process: context.process,
        policy: context.policy,
    };
    let session = Session::begin(context.sealer, begin)?;
    debug!(target: OPTIMIZE, session = %session.id(), "a rewrite begins");
    let heartbeats = session.start_heartbeats()?;
    // The first heartbeat is durable before any container is put. So a session that left containers
    // and no other trace had a manifest.
    context.sealer.barrier()?;
    let written = write(&session).and_then(|written| without_held(context, &session, written));
    drop(heartbeats);
    match written {
        Ok(Some((backup, all, found))) => {
            let put = looked_up(&backup, session.id());
            session.commit(backup)?;
            info!(target: OPTIMIZE, session = %session.id(), containers = put.len(), "the rewrite is committed");
            let targets = Targets {
                all,
                is_unsure: false,
            };
            let done = publish_all(context, beside, session.id(), &put, &targets)?;
            Ok(Some((done, found)))
        }
        nothing => {
            // A session that was wrongly ended as dead may miss data that it had pinned: its ending
            // explains the error.
            let over = session.tick().err();
            // Its ending lets a sweep remove the containers that it has put.
            let ended = session.end();
            match (nothing, over) {
                (Err(_), Some(over)) => return Err(over.into()),
                (Err(error), None) => return Err(error),
                (Ok(_), _) => {}
            }
            ended?;
            Ok(None)
        }
    }
}

/// The commit of a rewrite, and its targets, without backups that a user has held meanwhile. A
/// later hold comes too late: a committed rewrite is always published, because another process
/// might publish it after this one gave it up.
fn without_held<T>(
    context: &Context<'_>,
    session: &Session,
    written: Option<(Rewrite, T)>,
) -> Result<Option<(Backup, Vec<Target>, T)>> {
    let Some((rewrite, found)) = written else {
        return Ok(None);
    };
    let held = rewrite.held(context)?;
    let left = rewrite.without(session.id(), &held);
    Ok(left.map(|(backup, targets)| (backup, targets, found)))
}

/// The containers of a rewrite that look-ups may find: those of layout repair. No later backup may
/// refer to nodes of archival backups, because these refer forward.
fn looked_up(rewrite: &Backup, session: SessionId) -> Vec<ContainerId> {
    let kinds = [ContainerKind::Data, ContainerKind::Recipe];
    let is_repair = rewrite.rewritten.is_some();
    let spans = rewrite.containers.iter();
    let found = spans.filter(|span| is_repair && kinds.contains(&span.kind));
    found.flat_map(|span| span.ids(session)).collect()
}

/// Whether there are commits of rewrites, which may have to become revisions of backups.
pub(crate) fn has_rewrites(list: &ManifestList) -> bool {
    let is_rewrite = |backup: &CoveredBackup| backup.series == ARCHIVAL_SERIES;
    list.rewrites().next().is_some() || list.as_covered.iter().any(is_rewrite) || torn(list).next().is_some()
}

/// Commits of rewrites that are unreadable for good.
fn torn(list: &ManifestList) -> impl Iterator<Item = (SessionId, &DamagedObject)> {
    let for_good = list.damaged.iter().filter(|object| !object.is_unread);
    for_good.filter_map(|object| match names::parse_manifest(&object.name)? {
        (ARCHIVAL_SERIES, session, Revision::FIRST) => Some((session, object)),
        _ => None,
    })
}

/// Completes rewrites that dead processes had committed and not published. Returns the number of
/// backups that got new roots. Any number of processes may do this at once, each beside a session
/// of its own.
///
/// # Errors
/// Of the storage.
pub fn complete(context: &Context<'_>, beside: &Session) -> Result<u64> {
    let list = context.manifests.list()?;
    for (session, object) in torn(&list) {
        // A process died while it put this commit. Nobody has read it, and its data is removed.
        if list.get(session).is_none() && context.manifests.was_cut_short(object)? {
            context.manifests.forget(ARCHIVAL_SERIES, session)?;
        }
    }
    let mut completed = 0;
    for rewrite in list.rewrites() {
        let Some(to) = rewrite.backup() else { continue };
        let targets = targets::of_committed(context, &list, rewrite.session(), to)?;
        let put = looked_up(to, rewrite.session());
        let done = publish_all(context, beside, rewrite.session(), &put, &targets)?;
        completed += done.into_iter().filter(|is_done| *is_done).count() as u64;
    }
    Ok(completed)
}

/// Gives the roots of a committed rewrite to its targets, if these still have the roots that were
/// read. Then forgets the rewrite. Returns which targets have the new roots now. A hold no longer
/// prevents this ([`without_held`]): it may be lifted, and another process that saw this might
/// still publish the roots.
///
/// Invariant: the rewrite is forgotten only when a listing shows every target forgotten, or with
/// other roots than were read. Otherwise a process that saw a target as it was might still publish
/// its new roots.
fn publish_all(
    context: &Context<'_>,
    beside: &Session,
    rewrite: SessionId,
    put: &[ContainerId],
    targets: &Targets,
) -> Result<Vec<bool>> {
    let stand = publish(context, beside, &targets.all)?;
    let waiting = targets.all.iter().zip(&stand);
    for (target, _) in waiting.filter(|(_, now)| **now == Standing::Waits) {
        context.progress.warn(Warning::RewriteWaits {
            backup: target.of,
            session: rewrite,
        });
    }
    let done = stand.iter().filter(|now| **now == Standing::Done).count();
    info!(target: OPTIMIZE, session = %rewrite, backups = stand.len(), done, "new roots are published");
    hook_again(context, rewrite, put)?;
    if !targets.is_unsure && !stand.contains(&Standing::Waits) {
        context.manifests.forget(ARCHIVAL_SERIES, rewrite)?;
    }
    Ok(stand.into_iter().map(|now| now == Standing::Done).collect())
}

/// A session must run meanwhile: without one, a reclaimer might use a single listing for
/// everything. All targets share one wait.
fn publish(context: &Context<'_>, beside: &Session, targets: &[Target]) -> Result<Vec<Standing>> {
    let backups: Vec<_> = targets.iter().map(|target| (target.series, target.of)).collect();
    let mut seen = vec![Standing::Waits; targets.len()];
    let revised = context
        .manifests
        .revise_all(&backups, &|| beside.ensure_running(), |at, present| {
            let target = &targets[at];
            let is_done = present.backup.streams == target.streams && present.backup.next == target.next;
            let is_other = !is_done && present.backup.streams != target.from;
            // A revision that is unreadable for now may have other roots. A torn one cannot.
            let is_unsure = present.may_be_forgotten || present.unread.is_some();
            // Or it has the roots that were read, and the visible revision is an older one.
            let is_blind = present.unread.is_some() || present.may_be_archival.is_some();
            seen[at] = match (is_done, is_other) {
                (true, _) => Standing::Done,
                (_, true) if is_blind => Standing::Waits,
                (_, true) => Standing::Other,
                _ if is_unsure => Standing::Waits,
                _ => Standing::Done,
            };
            if is_done || is_other || is_unsure {
                return Ok(None);
            }
            Ok(Some(Backup {
                streams: target.streams.clone(),
                next: target.next,
                // A backup whose own layout was repaired may be rewritten for the repair of
                // another.
                rewritten: target
                    .rewritten
                    .map(|bytes| bytes.max(present.backup.rewritten.unwrap_or(0))),
                ..present.backup.clone()
            }))
        })?;
    let each = revised.into_iter().zip(seen);
    let stand = each.map(|(revised, seen)| match revised {
        Ok(_) => Ok(seen),
        Err(SessionError::Damaged(_)) => Ok(Standing::Waits),
        Err(SessionError::Forgotten { .. } | SessionError::NoBackup { .. }) => Ok(Standing::Other),
        Err(error) => Err(error.into()),
    });
    stand.collect()
}
