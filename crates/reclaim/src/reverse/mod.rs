//! Reverse deduplication: rewrites an older backup to refer forward to a later one of its series.
//! Data that only the older backup has is stored apart [RevDedup 2.4, 2.5] (R2, R3, R4).
//! [`crate::rewrite`] has the steps.

mod matches;
mod shared;
mod slot_owners;
mod sound;
mod trees;

use std::sync::Arc;

use format::manifest::{Backup, BackupTotals, ContainerSpan, StreamRoot};
use recipe::{ChunkRefs, NodeCache, StreamName, StreamRoots, TreeRoot};
use session::{ChainLink, ManifestEntry, ManifestList, ReclaimView, Session};
use tracing::debug;
use types::{ContainerId, ContainerKind, SeriesId, SessionId, UnixNanos};

use crate::context::Context;
use crate::error::{ReclaimError, Result};
use crate::links::Links;
use crate::log::OPTIMIZE;
use crate::mark::WalkError;
use crate::progress::{OnlyCancel, Part, Progress};
use crate::rewrite::{self, Copies, NodeWriter, Numbers, OptimizeOptions, Parent, Rewrite};

use matches::Matches;
pub use shared::Sharing;
use sound::Sound;
use trees::{Counts, Trees};

/// The share of each step in the progress, which counts the bytes of the backup.
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
    /// The later backup that it will refer forward to, the next one of the series. `None`: it will
    /// refer to no other one any more.
    pub onto: Option<SessionId>,
    /// The storage's time. A hold that ends before it is over.
    pub now: UnixNanos,
}

/// The result for one backup.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Optimized {
    /// Whether it was rewritten. Otherwise it was no longer due.
    pub is_done: bool,
    /// The later backup that it refers forward to now.
    pub onto: Option<SessionId>,
    /// Bytes of its streams.
    pub bytes: u64,
    /// Bytes that it refers forward to in the later backup.
    pub bytes_forward: u64,
    /// Bytes that stay where they are, because other live backups have them.
    pub bytes_shared: u64,
    /// Plain bytes that only it has, copied to archive containers, each content once.
    pub bytes_archived: u64,
    /// Bytes written: archive containers, nodes, copies of catalogs.
    pub bytes_stored: u64,
    /// Segments of its streams.
    pub segments: u64,
}

/// Rewrites the first of these backups, which are due one after another. It looks up the chunks
/// that they share with other backups for many of them at once, and keeps the result in `sharing`.
/// The backup is as readable as before at any moment, and after any error. Progress counts bytes of
/// its streams. `beside` is a session that runs all the time: publishing a rewrite needs one.
///
/// # Errors
/// `NotRewritten` if one of the two cannot be read; `Interrupted`; of the storage. After an error
/// no backup has changed, or the next run completes the committed rewrite.
pub fn optimize(
    context: &Context<'_>,
    options: &OptimizeOptions,
    due: &[Due],
    sharing: &mut Sharing,
    beside: &Session,
) -> Result<Optimized> {
    let done = rewrite::run(context, beside, |session| {
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
    let links = links(context, &list, &both)?;
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
    let new = both.get(1).and_then(ManifestEntry::backup);
    let streams =
        match_streams(context, &nodes, &session.view(), old, new).map_err(|error| error.or(broken))?;
    debug!(target: OPTIMIZE, backup = %due.backup, "compared with the next backup");
    if sharing.of(due).is_some() {
        // The progress counted it for all of them before.
    } else if streams.iter().any(|stream| stream.matches.has_unmatched()) {
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
    let roots = write_streams(&mut trees, due, streams)?;
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
    // The cached nodes are old ones, so they prove nothing about the new ones.
    let reading = Part::of(context.progress, READING_BACK_PERCENT, bytes, bytes);
    read_back(&new_cache(), &to, &reading).map_err(|error| error.or(broken))?;
    reading.finish();
    debug!(target: OPTIMIZE, backup = %due.backup, archived = archive.bytes, stored, "rewritten and read back");
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
    let rewrite = rewrite_of(due, old, to, &put, &optimized);
    Ok(Some((rewrite, optimized)))
}

/// Writes the new trees of the streams, and returns their roots.
fn write_streams(
    trees: &mut Trees<'_, '_>,
    due: Due,
    streams: Vec<MatchedStream<'_>>,
) -> Result<Vec<StreamRoot>> {
    let mut roots = Vec::with_capacity(streams.len());
    for MatchedStream { root, matches, later } in streams {
        let name = StreamName {
            series: due.series,
            backup: due.onto.unwrap_or(due.backup),
            stream: u16::try_from(later).unwrap_or(u16::MAX),
        };
        let location = trees.stream(&TreeRoot::from(root), &matches, name)?.location;
        roots.push(StreamRoot {
            location,
            ..root.clone()
        });
    }
    Ok(roots)
}

/// The backup that the rewriting session commits, with the streams that it wrote for the old
/// backup.
fn rewrite_of(due: Due, old: &Backup, to: Backup, put: &[ContainerId], found: &Optimized) -> Rewrite {
    let parents = vec![Parent {
        series: due.series,
        of: due.backup,
        from: old.streams.clone(),
        made: to.streams.clone(),
    }];
    let backup = Backup {
        containers: ContainerSpan::collect(put.iter().map(|id| (id.kind, id.sequence))),
        adopted: Vec::new(),
        hold_until: None,
        totals: BackupTotals {
            bytes_stored: found.bytes_stored,
            bytes_new: found.bytes_archived,
            ..old.totals
        },
        ..to
    };
    Rewrite {
        backup,
        parents,
        now: due.now,
    }
}

/// The roots of the streams that the two backups refer to by name, the later one's own among them.
fn links(context: &Context<'_>, list: &ManifestList, both: &[ManifestEntry]) -> Result<Arc<Links>> {
    let mut links = context.manifests.chains(list, both)?;
    links.extend(both.get(1).and_then(|later| {
        Some(ChainLink {
            series: later.series(),
            session: later.session(),
            revision: later.stored.revision,
            backup: later.backup()?.clone(),
        })
    }));
    Ok(Arc::new(Links::of(links)))
}

/// A stream of the older backup, and what of it the later one has.
struct MatchedStream<'a> {
    root: &'a StreamRoot,
    matches: Matches,
    /// The number of the later backup's stream to compare with.
    later: usize,
}

/// Compares each stream of the older backup with the later backup's stream of the same number, or
/// else of the same role.
fn match_streams<'a>(
    context: &Context<'_>,
    nodes: &NodeCache,
    view: &ReclaimView,
    old: &'a Backup,
    new: Option<&Backup>,
) -> std::result::Result<Vec<MatchedStream<'a>>, WalkError> {
    let bytes = len(old);
    let both = bytes.saturating_add(new.map_or(0, len));
    let matching = Part::of(context.progress, MATCHING_PERCENT, bytes, 2 * both);
    let sound = Sound::new(context.containers);
    let new = new.map_or(&[][..], |new| &new.streams);
    let mut streams = Vec::with_capacity(old.streams.len());
    for (number, root) in old.streams.iter().enumerate() {
        let is_same_role = |(_, other): &(usize, &StreamRoot)| other.role == root.role;
        let later = new.get(number).map(|other| (number, other)).filter(is_same_role);
        let later = later.or_else(|| new.iter().enumerate().find(is_same_role));
        let other = later.map(|(_, stream)| TreeRoot::from(stream));
        let known = (view, &sound);
        streams.push(MatchedStream {
            root,
            matches: Matches::find(nodes, &TreeRoot::from(root), other.as_ref(), known, &matching)?,
            later: later.map_or(0, |(number, _)| number),
        });
    }
    matching.finish();
    Ok(streams)
}

/// Whether a backup is still due: both backups exist for sure, it is not held, and it does not
/// refer forward to `onto` yet.
fn is_due(list: &ManifestList, due: Due) -> bool {
    // An unreadable revision of the older one was torn, or changed only tags or holds. It is no
    // tombstone.
    let older = list.get(due.backup).filter(|entry| !entry.may_be_forgotten);
    let later = |id| list.get(id).filter(|entry| !entry.is_in_doubt());
    let is_there = |id| later(id).and_then(ManifestEntry::backup).is_some();
    let Some(old) = older.and_then(ManifestEntry::backup) else {
        return false;
    };
    let is_held = old.hold_until.is_some_and(|until| until > due.now);
    due.onto.is_none_or(|onto| onto > due.backup && is_there(onto)) && !is_held && old.next != due.onto
}

/// Bytes of the backup's streams.
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
