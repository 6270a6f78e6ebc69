//! Rewrites of backups: other references to the same bytes, for reverse deduplication and for
//! layout repair (R2).
//!
//! A rewrite runs beside backups, restores and prunes. A session of a reserved series pins the
//! backups, writes containers and the nodes of the new trees, reads them back, and commits them.
//! Then the next manifest revision of each backup gets its new roots, and the rewrite's own commit
//! is forgotten. A rewrite removes nothing; [`crate::prune`] finds the unused data.
//!
//! What must hold (docs/protocol.md, "Archival revisions"): until the revisions exist, the
//! rewrite's commit keeps what they will reach. Each revision is made only from the roots that were
//! read. A process that dies leaves a session to end, or a commit that a later process completes.

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

/// How backups are rewritten.
#[derive(Debug, Clone)]
pub struct OptimizeOptions {
    /// Threads that read and write containers; at least 1.
    pub workers: usize,
    /// Memory for nodes, in bytes.
    pub node_cache_bytes: u64,
}

/// How a target stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It has the new roots.
    Done,
    /// It is forgotten, or has other roots than those that were read: it gets none of these.
    Other,
    /// Its newest revision cannot be read now.
    Waits,
}

/// Rewrites backups in a session of its own, if `write` finds anything to do; returns which of the
/// targets have their new roots now, in order. They are as readable as before at any moment, and
/// after any error. `beside` is a session that runs all the time: publishing a rewrite needs one.
///
/// # Errors
/// Of `write`; of the storage. Nothing has changed for any backup, or what was committed is
/// completed by the next.
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
    let pulse = session.start_pulse()?;
    // The first heartbeat is durable before any container is put: who left containers and no trace
    // besides had a manifest.
    context.sealer.barrier()?;
    let written = write(&session).and_then(|written| without_held(context, &session, written));
    drop(pulse);
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
            // Its ending lets a sweep remove what it has put.
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

/// The commit of a rewrite, and the backups that it is for: none that somebody has held meanwhile.
/// A later hold comes too late: a committed rewrite is always published, because another process
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

/// The containers of a rewrite that look-ups are to find: those of layout repair. Nodes of archival
/// backups refer forward, and are nobody's to take over.
fn looked_up(rewrite: &Backup, session: SessionId) -> Vec<ContainerId> {
    let kinds = [ContainerKind::Data, ContainerKind::Recipe];
    let is_repair = rewrite.rewritten.is_some();
    let spans = rewrite.containers.iter();
    let found = spans.filter(|span| is_repair && kinds.contains(&span.kind));
    found.flat_map(|span| span.ids(session)).collect()
}

/// Whether something was committed that is to become a revision of a backup.
pub(crate) fn has_rewrites(list: &ManifestList) -> bool {
    let is_rewrite = |backup: &CoveredBackup| backup.series == ARCHIVAL_SERIES;
    list.rewrites().next().is_some() || list.as_covered.iter().any(is_rewrite) || torn(list).next().is_some()
}

/// Commits of rewrites that cannot be read, for good.
fn torn(list: &ManifestList) -> impl Iterator<Item = (SessionId, &DamagedObject)> {
    let for_good = list.damaged.iter().filter(|object| !object.is_unread);
    for_good.filter_map(|object| match names::parse_manifest(&object.name)? {
        (ARCHIVAL_SERIES, session, Revision::FIRST) => Some((session, object)),
        _ => None,
    })
}

/// Completes what processes that died had committed and not put in its place; how many backups it
/// was. Any number of processes may, each beside a session of its own.
///
/// # Errors
/// Of the storage.
pub fn complete(context: &Context<'_>, beside: &Session) -> Result<u64> {
    let list = context.manifests.list()?;
    for (session, object) in torn(&list) {
        // A process died while it committed this: nobody has read it, and its data is removed.
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

/// Makes the roots of a committed rewrite those of its targets, where they have those that were
/// read, and lets go of the rewrite. Which have them now. A hold has no say any more
/// ([`without_held`]): it may be lifted, and then somebody who saw that might still put them.
///
/// Invariant: the rewrite is forgotten only when a listing shows every target forgotten, or
/// with other roots than were read. Otherwise a process that saw a target as it was might still
/// publish its new roots.
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

/// A session runs meanwhile, or a reclaimer might take one listing for all. All wait together.
fn publish(context: &Context<'_>, beside: &Session, targets: &[Target]) -> Result<Vec<Standing>> {
    let backups: Vec<_> = targets.iter().map(|target| (target.series, target.of)).collect();
    let mut seen = vec![Standing::Waits; targets.len()];
    let revised = context
        .manifests
        .revise_all(&backups, &|| beside.ensure_running(), |at, present| {
            let target = &targets[at];
            let is_done = present.backup.streams == target.streams && present.backup.next == target.next;
            let is_other = !is_done && present.backup.streams != target.from;
            // What cannot be read for now may say of other roots; what was torn says nothing.
            let is_unsure = present.may_be_forgotten || present.unread.is_some();
            // Or it has the roots that were read, and what is seen instead are roots from before
            // them.
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
                // One whose layout was repaired may be rewritten for another's.
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
