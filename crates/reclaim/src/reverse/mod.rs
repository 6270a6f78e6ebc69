//! Reverse deduplication: an older backup is rewritten to refer forward to a later one of its series, and keeps apart what only it has
//! [RevDedup 2.4, 2.5] (R2, R3, R4).
//!
//! Out of line, beside backups, restores and prunes. A session of a reserved series pins both backups, writes archive containers and
//! the nodes of the new trees, reads them back, and commits them; then the backup's next manifest revision has the new roots, and
//! what was committed is forgotten. Nothing is removed here: what the backup has let go of, [`crate::prune`] finds as ever.
//!
//! What must hold (docs/protocol.md, "Archival revisions"): until the revision is there, what it will reach is kept by the commit of
//! the rewrite; the revision is made only of the roots that were read; a process that dies leaves a session to end, or a commit
//! that whoever comes next completes.

mod archive;
mod matches;
mod nodes;
mod shared;
mod trees;

use std::sync::Arc;

use format::manifest::{Backup, BackupTotals, ContainerSpan, SeriesName, StreamRoot};
use format::names;
use format::session::ARCHIVAL_SERIES;
use recipe::{ChunkRefs, NodeCache, RecipeError, StreamName, StreamRoots, TreeRoot};
use session::{
    Begin, ChainLink, CoveredBackup, DamagedObject, ManifestEntry, ManifestList, Session, SessionError,
    SessionPolicy,
};
use types::{Revision, SeriesId, SessionId, UnixNanos};

use crate::error::{ReclaimError, Result};
use crate::links::Links;
use crate::progress::{Progress, Waiting};
use crate::prune::Context;
use crate::slots::SlotMap;

use archive::{Archive, Numbers};
use matches::Matches;
use nodes::NodeWriter;
use trees::{Counts, Trees};

/// A backup that is to become archival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Its series.
    pub series: SeriesId,
    /// The backup.
    pub backup: SessionId,
    /// The next one of the series, which it will refer forward to; `None`: it is to refer to no other any more.
    pub onto: Option<SessionId>,
    /// The storage's time: a hold until before it is over.
    pub now: UnixNanos,
}

/// How backups are rewritten.
#[derive(Debug, Clone)]
pub struct OptimizeOptions {
    /// The times that sessions go by.
    pub policy: SessionPolicy,
    /// The process id that the session shows, for messages only.
    pub process: u32,
    /// Threads that read and write containers; at least 1.
    pub workers: usize,
    /// Memory for nodes, in bytes.
    pub node_cache_bytes: u64,
}

/// What became of one backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Optimized {
    /// Whether it is archival now. Otherwise it was not due any more.
    pub is_done: bool,
    /// Bytes of its streams.
    pub bytes: u64,
    /// Those that are the later backup's now.
    pub bytes_forward: u64,
    /// Those that stay where they are, since other live backups have them.
    pub bytes_shared: u64,
    /// Plain bytes that only it has, copied to archive containers, each content once.
    pub bytes_archived: u64,
    /// Bytes written: archive containers, nodes, copies of catalogs.
    pub bytes_stored: u64,
    /// Segments of its streams.
    pub segments: u64,
}

/// Rewrites a backup. It is as readable as before at any moment, and after any error. What is done is counted in bytes of its
/// streams. `beside` is a session that runs all the time: whoever puts what was rewritten in its place has one.
///
/// # Errors
/// `NotRewritten` where one of the two cannot be read; `Interrupted`; of the storage. Nothing has changed for any backup.
pub fn optimize(
    context: &Context<'_>,
    options: &OptimizeOptions,
    due: Due,
    beside: &Session,
) -> Result<Optimized> {
    let begin = Begin {
        series: ARCHIVAL_SERIES,
        name: SeriesName {
            host: Vec::new(),
            paths: Vec::new(),
        },
        process: options.process,
        policy: options.policy,
    };
    let session = Session::begin(context.sealer, begin)?;
    context.containers.know_moved(session.view().moved());
    let pulse = session.start_pulse()?;
    // The first heartbeat is durable before any container is put: who left containers and no trace besides had a manifest.
    context.sealer.barrier()?;
    let written = write(context, options, due, &session);
    drop(pulse);
    match written {
        Ok(Some(rewrite)) => {
            let mut done = rewrite.optimized;
            session.commit(rewrite.backup)?;
            let of = (due.series, due.backup);
            done.is_done = publish(context, beside, session.id(), of, &rewrite.from, &rewrite.to)?;
            Ok(done)
        }
        nothing => {
            // Who was taken for dead may miss what it had pinned: that it was ended says why.
            let over = session.tick().err();
            // What it has put goes by its ending.
            let ended = session.end();
            match (nothing, over) {
                (Err(_), Some(over)) => return Err(over.into()),
                (Err(error), None) => return Err(error),
                (Ok(_), _) => {}
            }
            ended?;
            Ok(Optimized::default())
        }
    }
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

/// Completes what processes that died had committed and not put in its place; how many there were. Any number of processes may, each
/// beside a session of its own.
///
/// # Errors
/// Of the storage.
pub fn complete(context: &Context<'_>, beside: &Session) -> Result<u64> {
    let list = context.manifests.list()?;
    for (session, object) in torn(&list) {
        // Of a process that died committing: nobody has read it. What it stored goes.
        if list.get(session).is_none() && context.manifests.was_cut_short(object)? {
            context.manifests.forget(ARCHIVAL_SERIES, session)?;
        }
    }
    let mut completed = 0;
    for rewrite in list.rewrites() {
        let Some(to) = rewrite.backup() else { continue };
        // The eldest: what it refers forward to is later.
        let Some((of, revision)) = to.parents.first().copied() else {
            continue;
        };
        let entry = list.get(of);
        if entry.map_or_else(
            || list.damaged_of(of).next().is_none(),
            ManifestEntry::is_forgotten,
        ) {
            context.manifests.forget(ARCHIVAL_SERIES, rewrite.session())?;
            continue;
        }
        let Some(entry) = entry else { continue };
        let from = match context.manifests.read(entry.series(), of, revision) {
            Ok(read) => read,
            // It stands until that can be read.
            Err(SessionError::Damaged(_) | SessionError::NoBackup { .. }) => continue,
            Err(error) => return Err(error.into()),
        };
        let from = crate::condemn::backup_of(&from.manifest).map_or(&[][..], |backup| &backup.streams);
        let of = (entry.series(), of);
        completed += u64::from(publish(context, beside, rewrite.session(), of, from, to)?);
    }
    Ok(completed)
}

/// Makes the roots of a committed rewrite the backup's, where it has those that were read, and lets go of the rewrite. Whether the
/// backup has them now. A hold has no say: it is about forgetting, and may be lifted.
///
/// What must hold (docs/protocol.md, "Archival revisions"): the rewrite is let go of when the backup is seen forgotten or with other
/// roots, and not before; otherwise somebody who saw it as it was might still put them. And a session runs meanwhile, or a
/// reclaimer might take one listing for all.
fn publish(
    context: &Context<'_>,
    beside: &Session,
    rewrite: SessionId,
    (series, of): (SeriesId, SessionId),
    from: &[StreamRoot],
    to: &Backup,
) -> Result<bool> {
    let (mut is_done, mut is_other) = (false, false);
    let revised = context.manifests.revise(series, of, |present| {
        beside.ensure_running()?;
        is_done = present.backup.streams == to.streams && present.backup.next == to.next;
        is_other = !is_done && present.backup.streams != from;
        // What cannot be read for now may say of other roots; what was torn says nothing.
        let is_unsure = present.may_be_forgotten || present.unread.is_some();
        if is_done || is_other || is_unsure {
            return Ok(None);
        }
        is_done = true;
        Ok(Some(Backup {
            streams: to.streams.clone(),
            next: to.next,
            ..present.backup.clone()
        }))
    });
    match revised {
        Ok(_) => {}
        Err(SessionError::Forgotten { .. } | SessionError::NoBackup { .. }) => {
            (is_done, is_other) = (false, true);
        }
        Err(SessionError::Damaged(_)) => (is_done, is_other) = (false, false),
        Err(error) => return Err(error.into()),
    }
    if is_done || is_other {
        context.manifests.forget(ARCHIVAL_SERIES, rewrite)?;
    } else {
        context.progress.warn(&format!(
            "backup {of} is rewritten, but its newest manifest revision cannot be read now: session {rewrite} waits for it"
        ));
    }
    Ok(is_done)
}

/// A rewrite that is stored, and not committed.
struct Rewrite {
    /// The streams that were read.
    from: Vec<StreamRoot>,
    to: Backup,
    /// As the session commits it.
    backup: Backup,
    optimized: Optimized,
}

fn write(
    context: &Context<'_>,
    options: &OptimizeOptions,
    due: Due,
    session: &Session,
) -> Result<Option<Rewrite>> {
    let mut list = ManifestList::default();
    let both = session.choose_parents(|listed| {
        list.clone_from(listed);
        if is_due(listed, due) {
            std::iter::once(due.backup).chain(due.onto).collect()
        } else {
            Vec::new()
        }
    })?;
    let Some(old) = both.first().and_then(ManifestEntry::backup) else {
        return Ok(None);
    };
    let later = both.get(1);
    let new = later
        .and_then(ManifestEntry::backup)
        .map_or(&[][..], |new| &new.streams);
    let view = session.view();
    let mut links = context.manifests.chains(&list, &both)?;
    links.extend(later.and_then(|later| {
        Some(ChainLink {
            series: later.series(),
            session: later.session(),
            revision: later.stored.revision,
            backup: later.backup()?.clone(),
        })
    }));
    let links = Arc::new(Links::of(links));
    let new_cache = || {
        let nodes = NodeCache::new(context.containers.clone(), options.node_cache_bytes);
        nodes.with_streams(Arc::clone(&links) as Arc<dyn StreamRoots>)
    };
    let nodes = new_cache();
    let broken = |source| ReclaimError::NotRewritten {
        backup: due.backup,
        source,
    };
    let mut streams = Vec::with_capacity(old.streams.len());
    let mut unmatched = SlotMap::default();
    for (number, stream) in old.streams.iter().enumerate() {
        let is_same_role = |(_, other): &(usize, &StreamRoot)| other.role == stream.role;
        let later = new.get(number).map(|other| (number, other)).filter(is_same_role);
        let later = later.or_else(|| new.iter().enumerate().find(is_same_role));
        let root = later.map(|(_, stream)| TreeRoot::from(stream));
        let matches = Matches::find(&nodes, &TreeRoot::from(stream), root.as_ref(), &view).map_err(broken)?;
        matches.add_unmatched(&mut unmatched);
        streams.push((stream, matches, later.map_or(0, |(number, _)| number)));
        if context.progress.is_cancelled() {
            return Err(ReclaimError::Interrupted);
        }
    }
    let others = list.backups().filter_map(|entry| {
        let backup = entry.backup()?;
        let is_other = entry.session() != due.backup && Some(entry.session()) != due.onto;
        (is_other && backup.next.is_none()).then_some((entry.session(), backup))
    });
    let quiet = Context {
        progress: &OnlyCancel(context.progress),
        ..*context
    };
    let shared = shared::of(&quiet, &unmatched, context.progress, others)?;
    drop(unmatched);
    let mut numbers = Numbers::new(session.id());
    let mut archive = Archive::new(context.packing.container_bytes);
    let mut writer = NodeWriter::new(context.containers, context.packing, due.backup);
    let mut trees = Trees {
        nodes: &nodes,
        shared: &shared,
        numbers: &mut numbers,
        archive: &mut archive,
        writer: &mut writer,
        counts: Counts::default(),
        of: due.backup,
        progress: context.progress,
    };
    let mut roots = Vec::with_capacity(streams.len());
    for (stream, matches, number) in streams {
        let name = StreamName {
            series: due.series,
            backup: due.onto.unwrap_or(due.backup),
            stream: u16::try_from(number).unwrap_or(u16::MAX),
        };
        let root = trees.stream(&TreeRoot::from(stream), &matches, name)?;
        roots.push(StreamRoot {
            location: root.location,
            ..stream.clone()
        });
    }
    let counts = trees.counts;
    writer.finish()?;
    let (mut put, mut stored) = archive.write(
        context.containers,
        &mut numbers,
        context.packing,
        options.workers.max(1),
        context.progress,
    )?;
    put.append(&mut writer.put);
    stored += writer.stored;
    let to = Backup {
        streams: roots,
        next: due.onto,
        ..old.clone()
    };
    // What was held of it says nothing of what was written.
    read_back(&new_cache(), &to).map_err(broken)?;
    let optimized = Optimized {
        is_done: false,
        bytes: old.streams.iter().map(|stream| stream.len).sum(),
        bytes_forward: counts.forward,
        bytes_shared: counts.shared,
        bytes_archived: archive.bytes,
        bytes_stored: stored,
        segments: counts.segments,
    };
    let backup = Backup {
        containers: ContainerSpan::collect(put.iter().map(|id| (id.kind, id.sequence))),
        adopted: Vec::new(),
        hold_until: None,
        totals: BackupTotals {
            bytes_stored: stored,
            bytes_new: archive.bytes,
            ..old.totals
        },
        ..to.clone()
    };
    Ok(Some(Rewrite {
        from: old.streams.clone(),
        to,
        backup,
        optimized,
    }))
}

/// Whether a backup is still to be rewritten: those that there are to be are there, for sure, and it does not refer forward as it
/// shall.
fn is_due(list: &ManifestList, due: Due) -> bool {
    // What cannot be read of the older one was torn, or said of tags and holds; it is not forgotten.
    let older = list.get(due.backup).filter(|entry| !entry.may_be_forgotten);
    let later = |id| list.get(id).filter(|entry| !entry.is_in_doubt());
    let is_there = |id| later(id).and_then(ManifestEntry::backup).is_some();
    let Some(old) = older.and_then(ManifestEntry::backup) else {
        return false;
    };
    let is_held = old.hold_until.is_some_and(|until| until > due.now);
    due.onto.is_none_or(|onto| onto > due.backup && is_there(onto)) && !is_held && old.next != due.onto
}

/// What is read to find out is not counted.
struct OnlyCancel<'a>(&'a dyn Progress);

impl Progress for OnlyCancel<'_> {
    fn add_nodes(&self, _: u64) {}
    fn set_total(&self, _: u64) {}
    fn add_done(&self, _: u64) {}
    fn waits_for(&self, _: &[Waiting]) {}
    fn warn(&self, _: &str) {}
    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
    }
}

/// Reads the new trees as a restore would, but for the chunks themselves: each node has the fingerprint that it had, by what its
/// references lead to now.
fn read_back(nodes: &NodeCache, to: &Backup) -> Result<(), RecipeError> {
    for stream in &to.streams {
        for reference in ChunkRefs::whole(nodes, &TreeRoot::from(stream)) {
            reference?;
        }
    }
    Ok(())
}
