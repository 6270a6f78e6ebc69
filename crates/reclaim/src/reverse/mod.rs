//! Reverse deduplication: an older backup is rewritten to refer forward to a later one of its
//! series, and the rest of its data is kept apart [RevDedup 2.4, 2.5] (R2, R3, R4).
//! [`crate::rewrite`] has the steps.

mod matches;
mod shared;
mod slot_owners;
mod sound;
mod trees;

use std::sync::Arc;

use format::manifest::{Backup, BackupTotals, ContainerSpan, StreamRoot};
use recipe::{ChunkRefs, NodeCache, StreamName, StreamRoots, TreeRoot};
use session::{ChainLink, ManifestEntry, ManifestList, Session};
use types::{ContainerKind, SeriesId, SessionId, UnixNanos};

use crate::context::Context;
use crate::error::{ReclaimError, Result};
use crate::links::Links;
use crate::mark::WalkError;
use crate::progress::{OnlyCancel, Part, Progress};
use crate::rewrite::{self, Copies, NodeWriter, Numbers, OptimizeOptions, Parent, Rewrite};

use matches::Matches;
pub use shared::Sharing;
use sound::Sound;
use trees::{Counts, Trees};

/// What each step counts as, of a backup's bytes.
const MATCHING_PERCENT: u64 = 20;
const SHARING_PERCENT: u64 = 10;
const REWRITING_PERCENT: u64 = 60;
const READING_BACK_PERCENT: u64 = 10;

/// A backup that is to become archival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// Its series.
    pub series: SeriesId,
    /// The backup.
    pub backup: SessionId,
    /// The next one of the series, which it will refer forward to; `None`: it is to refer to no
    /// other any more.
    pub onto: Option<SessionId>,
    /// The storage's time: a hold until before it is over.
    pub now: UnixNanos,
}

/// What became of one backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Optimized {
    /// Whether it is archival now. Otherwise it was not due any more.
    pub is_done: bool,
    /// The later backup that it refers forward to now.
    pub onto: Option<SessionId>,
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

/// Rewrites the first of these backups, which are due one after another. The chunks that they share
/// with other backups are looked up for many of them at once, and kept in `sharing`. The backup is
/// as readable as before at any moment, and after any error. Progress counts bytes of its streams.
/// `beside` is a session that runs all the time: publishing a rewrite needs one.
///
/// # Errors
/// `NotRewritten` where one of the two cannot be read; `Interrupted`; of the storage. Nothing has
/// changed for any backup.
pub fn optimize(
    context: &Context<'_>,
    options: &OptimizeOptions,
    due: &[Due],
    sharing: &mut Sharing,
    beside: &Session,
) -> Result<Optimized> {
    let done = rewrite::run(context, options, beside, |session| {
        write(context, options, due, sharing, session)
    })?;
    Ok(
        done.map_or_else(Optimized::default, |(is_done, found)| Optimized {
            is_done: is_done.contains(&true),
            ..found
        }),
    )
}

fn write(
    context: &Context<'_>,
    options: &OptimizeOptions,
    all_due: &[Due],
    sharing: &mut Sharing,
    session: &Session,
) -> Result<Option<(Rewrite, Optimized)>> {
    let Some(due) = all_due.first().copied() else {
        return Ok(None);
    };
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
    let bytes = len(old);
    let bytes_later = later.and_then(ManifestEntry::backup).map_or(0, len);
    let mut streams = Vec::with_capacity(old.streams.len());
    let matching = Part::of(
        context.progress,
        MATCHING_PERCENT,
        bytes,
        2 * (bytes.saturating_add(bytes_later)),
    );
    let mut has_unmatched = false;
    let sound = Sound::new(context.containers);
    for (number, stream) in old.streams.iter().enumerate() {
        let is_same_role = |(_, other): &(usize, &StreamRoot)| other.role == stream.role;
        let later = new.get(number).map(|other| (number, other)).filter(is_same_role);
        let later = later.or_else(|| new.iter().enumerate().find(is_same_role));
        let root = later.map(|(_, stream)| TreeRoot::from(stream));
        let known = (&*view, &sound);
        let matches = Matches::find(&nodes, &TreeRoot::from(stream), root.as_ref(), known, &matching);
        let matches = matches.map_err(|error| error.or(broken))?;
        has_unmatched |= matches.has_unmatched();
        streams.push((stream, matches, later.map_or(0, |(number, _)| number)));
    }
    matching.finish();
    if sharing.of(due).is_some() {
        // It was counted for all of them.
    } else if has_unmatched {
        let quiet = Context {
            progress: &OnlyCancel(context.progress),
            ..*context
        };
        let counts = (context.progress, SHARING_PERCENT);
        *sharing = Sharing::find(&quiet, options, &list, all_due, counts)?;
    } else {
        Part::of(context.progress, SHARING_PERCENT, bytes, 0).finish();
    }
    let rewriting = Part::of(context.progress, REWRITING_PERCENT, bytes, bytes);
    let mut numbers = Numbers::new(session.id());
    let mut archive = Copies::new(ContainerKind::Archive, context.packing);
    let mut writer = NodeWriter::new(context.containers, context.packing, due.backup);
    let mut trees = Trees {
        nodes: &nodes,
        shared: sharing.of(due),
        numbers: &mut numbers,
        archive: &mut archive,
        writer: &mut writer,
        counts: Counts::default(),
        of: due.backup,
        progress: &rewriting,
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
        options.workers.max(1),
        &rewriting,
    )?;
    rewriting.finish();
    put.append(&mut writer.put);
    stored += writer.stored;
    let to = Backup {
        streams: roots,
        next: due.onto,
        rewritten: None,
        ..old.clone()
    };
    // What was held of it says nothing of what was written.
    let reading = Part::of(context.progress, READING_BACK_PERCENT, bytes, bytes);
    read_back(&new_cache(), &to, &reading).map_err(|error| error.or(broken))?;
    reading.finish();
    let optimized = Optimized {
        is_done: false,
        onto: due.onto,
        bytes,
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
    let parents = vec![Parent {
        series: due.series,
        of: due.backup,
        from: old.streams.clone(),
        made: to.streams,
    }];
    let now = due.now;
    Ok(Some((Rewrite { backup, parents, now }, optimized)))
}

/// Whether a backup is still to be rewritten: those that there are to be are there, for sure, and
/// it does not refer forward as it shall.
fn is_due(list: &ManifestList, due: Due) -> bool {
    // What cannot be read of the older one was torn, or said of tags and holds; it is not
    // forgotten.
    let older = list.get(due.backup).filter(|entry| !entry.may_be_forgotten);
    let later = |id| list.get(id).filter(|entry| !entry.is_in_doubt());
    let is_there = |id| later(id).and_then(ManifestEntry::backup).is_some();
    let Some(old) = older.and_then(ManifestEntry::backup) else {
        return false;
    };
    let is_held = old.hold_until.is_some_and(|until| until > due.now);
    due.onto.is_none_or(|onto| onto > due.backup && is_there(onto)) && !is_held && old.next != due.onto
}

/// Bytes of its streams.
fn len(backup: &Backup) -> u64 {
    backup.streams.iter().map(|stream| stream.len).sum()
}

/// Reads the new trees as a restore would, without the chunks themselves: each node must have its
/// old fingerprint, computed from the targets of its new references.
fn read_back(nodes: &NodeCache, to: &Backup, progress: &dyn Progress) -> std::result::Result<(), WalkError> {
    for stream in &to.streams {
        for reference in ChunkRefs::whole(nodes, &TreeRoot::from(stream)) {
            if progress.is_cancelled() {
                return Err(WalkError::Interrupted);
            }
            progress.add_done(reference?.len);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
