//! Layout repair: copies scattered data of the newest backup together. In the end no chunk is
//! stored twice (L9).
//!
//! With inline deduplication, a backup refers to data where older backups stored it. So the newest
//! backup, which is restored most often, needs a little of many containers. With layout hybrid it
//! needs whole segments, a few of each container. Repair copies the needed data out of the
//! containers that hold least of it. It fills new containers, in the order of the backup's streams,
//! within a budget of bytes. Capping does the same during a backup, but stores the copied data
//! twice [Lillibridge 5]. After a repair, the newest backup *and all others* refer to the copies,
//! and [`crate::prune`] frees the old ones.
//!
//! Invariant: as for every rewrite ([`crate::rewrite`]). Held backups stay as they are, and so do
//! archival ones, whose recipes refer forward. Old data that they refer to stays stored.

mod choose;
mod needs;
mod trees;
mod weigh;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use format::manifest::{Backup, BackupTotals, ContainerSpan, STREAMS_MAX, StreamRoot};
use recipe::{NodeCache, RecipeError, TreeRoot, open_node};
use session::{ManifestEntry, ManifestList, Session};
use tracing::debug;
use types::{ContainerId, ContainerKind, SeriesId, SessionId, UnixNanos};

use crate::context::Context;
use crate::error::{ReclaimError, Result};
use crate::log::OPTIMIZE;
use crate::mark::WalkError;
use crate::progress::{Part, Progress};
use crate::rewrite::{
    self, Copies, DistinctBackups, NodeWriter, Numbers, OptimizeOptions, Parent, Rewrite, place_of,
};
use crate::warning::Warning;

use choose::{Budget, Need, choose};
use needs::{Needed, Needs};
use trees::{Done, Trees};
use weigh::{Weight, weigh};

/// The most chunks of one repair. Each takes some 200 bytes of memory.
const COPIED_CHUNKS_MAX: u64 = 1 << 21;

/// The share of each step in the progress, which counts the bytes of all backups concerned.
const REWRITING_PERCENT: u64 = 40;
const COPYING_PERCENT: u64 = 50;
const READING_BACK_PERCENT: u64 = 10;

/// A backup whose layout is to be repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repair {
    /// Its series.
    pub series: SeriesId,
    /// The backup: the newest of the series.
    pub backup: SessionId,
    /// The most plain bytes to copy.
    pub budget: u64,
    /// The storage's time. A hold that ends before it is over.
    pub now: UnixNanos,
}

/// The result of a repair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// Whether it was repaired. Otherwise there was nothing to gain, or it was no longer due.
    pub is_done: bool,
    /// Bytes of its streams.
    pub bytes: u64,
    /// The most plain bytes to copy.
    pub bytes_budget: u64,
    /// Plain bytes that were copied.
    pub bytes_copied: u64,
    /// Bytes written: containers of chunks and of nodes, copies of catalogs.
    pub bytes_stored: u64,
    /// Containers with chunks that it needed before.
    pub containers_before: u64,
    /// Containers with chunks that it needs now.
    pub containers_after: u64,
    /// Full containers that its chunks would fill, each chunk stored once.
    pub containers_least: u64,
    /// Other backups that refer to the copies now.
    pub backups: u64,
}

/// Repairs the layout of a backup. All backups are as readable as before at any moment, and after
/// any error. Progress counts bytes of streams. `beside` is a session that runs all the time.
///
/// # Errors
/// `NotRepaired` if a backup cannot be read; `Container` if a chunk cannot be read; `Interrupted`;
/// of the storage. After an error no backup has changed, or the next run completes the committed
/// rewrite.
pub fn repair(
    context: &Context<'_>,
    options: &OptimizeOptions,
    due: Repair,
    beside: &Session,
) -> Result<Repaired> {
    let mut unchanged = Repaired::default();
    let done = rewrite::run(context, beside, |session| {
        write(context, options, due, session, &mut unchanged)
    })?;
    Ok(done.map_or(unchanged, |(is_done, found)| {
        let others = is_done.iter().skip(1);
        Repaired {
            is_done: is_done.first() == Some(&true),
            backups: others.filter(|is_done| **is_done).count() as u64,
            ..found
        }
    }))
}

fn write(
    context: &Context<'_>,
    options: &OptimizeOptions,
    due: Repair,
    session: &Session,
    unchanged: &mut Repaired,
) -> Result<Option<(Rewrite, Repaired)>> {
    let all = session.choose_parents(|list| chosen(list, due))?;
    let Some((newest, others)) = all.split_first() else {
        return Ok(None);
    };
    let Some(backup) = newest.backup() else {
        return Ok(None);
    };
    let nodes = NodeCache::new(context.containers.clone(), options.node_cache_bytes);
    let broken = |source| ReclaimError::NotRepaired {
        backup: due.backup,
        source,
    };
    let needed = needed(context, &nodes, backup, session, &broken)?;
    let ids: Vec<ContainerId> = needed.keys().copied().collect();
    let weights = weigh(context.containers, &ids, options.workers.max(1), context.progress)
        .map_err(|error| broken(error.into()))?;
    if context.progress.is_cancelled() {
        return Err(ReclaimError::Interrupted);
    }
    let container_bytes = context.packing.container_bytes;
    let choice = choice(&needed, &weights, container_bytes, due.budget);
    let physical = needed.len() as u64;
    let mut found = Repaired {
        is_done: false,
        bytes: backup.streams.iter().map(|stream| stream.len).sum(),
        bytes_budget: due.budget,
        containers_before: physical,
        containers_after: physical,
        containers_least: least(&needed, &weights, container_bytes),
        ..Repaired::default()
    };
    *unchanged = found;
    debug!(target: OPTIMIZE, backup = %due.backup, containers = physical, chosen = choice.len(), "weighed");
    if choice.is_empty() {
        return Ok(None);
    }
    let others = others.iter().filter_map(ManifestEntry::backup);
    let others: u64 = others
        .flat_map(|other| &other.streams)
        .map(|stream| stream.len)
        .sum();
    let all_bytes = found.bytes.saturating_add(others);
    context.progress.set_total_bytes(all_bytes);
    let rewriting = Part::of(context.progress, REWRITING_PERCENT, all_bytes, all_bytes);
    let mut numbers = Numbers::new(session.id());
    let mut copies = Copies::new(ContainerKind::Data, context.packing);
    let mut writer = NodeWriter::new(context.containers, context.packing, due.backup);
    let mut trees = Trees {
        nodes: &nodes,
        chosen: &choice,
        weights: &weights,
        numbers: &mut numbers,
        copies: &mut copies,
        writer: &mut writer,
        progress: &rewriting,
        of: due.backup,
        is_repaired: true,
        done: Done::default(),
    };
    let parents = parents(&mut trees, session.id(), &all)?;
    let written = trees.done.written;
    rewriting.finish();
    if parents.first().is_none_or(|first| first.made.is_empty()) {
        return Ok(None);
    }
    writer.finish()?;
    let copying = Part::of(context.progress, COPYING_PERCENT, all_bytes, copies.bytes);
    let (mut put, mut stored) =
        copies.write(context.containers, &mut numbers, options.workers.max(1), &copying)?;
    copying.finish();
    let filled = put.iter().filter(|id| id.kind == ContainerKind::Data).count() as u64;
    found.containers_after = physical - choice.len() as u64 + filled;
    put.append(&mut writer.put);
    stored += writer.stored;
    // The cached nodes are old ones, so they prove nothing about the new ones.
    let reading = Part::of(
        context.progress,
        READING_BACK_PERCENT,
        all_bytes,
        written.len() as u64,
    );
    read_back(context, options, &written, &reading).map_err(|error| error.or(broken))?;
    reading.finish();
    debug!(target: OPTIMIZE, backup = %due.backup, copied = copies.bytes, stored, "copied and read back");
    found.bytes_copied = copies.bytes;
    found.bytes_stored = stored;
    let rewrite = Rewrite {
        backup: rewrite_of(backup, &put, &found),
        parents,
        now: due.now,
    };
    Ok(Some((rewrite, found)))
}

/// The chunks that a backup's streams need, by container.
fn needed(
    context: &Context<'_>,
    nodes: &NodeCache,
    backup: &Backup,
    session: &Session,
    broken: &dyn Fn(RecipeError) -> ReclaimError,
) -> Result<BTreeMap<ContainerId, Needed>> {
    let view = session.view();
    let mut needs = Needs::default();
    for stream in &backup.streams {
        needs
            .add(nodes, &TreeRoot::from(stream), &view, context.progress)
            .map_err(broken)?;
        if context.progress.is_cancelled() {
            return Err(ReclaimError::Interrupted);
        }
    }
    Ok(needs.of)
}

/// The backup that the rewriting session commits. It has no streams of its own yet.
fn rewrite_of(backup: &Backup, put: &[ContainerId], found: &Repaired) -> Backup {
    Backup {
        streams: Vec::new(),
        containers: ContainerSpan::collect(put.iter().map(|id| (id.kind, id.sequence))),
        adopted: Vec::new(),
        hold_until: None,
        next: None,
        rewritten: Some(found.bytes_copied),
        totals: BackupTotals {
            bytes_stored: found.bytes_stored,
            bytes_new: found.bytes_copied,
            ..backup.totals
        },
        ..backup.clone()
    }
}

/// The backups with the new roots of their streams: first the repaired one, then the others. A
/// backup with the same roots as an earlier one gets no trees of its own, because it gets the trees
/// of that one.
fn parents(trees: &mut Trees<'_, '_>, session: SessionId, all: &[ManifestEntry]) -> Result<Vec<Parent>> {
    let mut parents: Vec<Parent> = Vec::with_capacity(all.len());
    let mut streams = Vec::new();
    for entry in all {
        let Some(backup) = entry.backup() else { continue };
        let mut made = Vec::new();
        if place_of(session, &streams, &backup.streams).is_some() {
            let bytes = backup.streams.iter().map(|stream| stream.len).sum();
            trees.progress.add_done(bytes);
        } else {
            trees.of = entry.session();
            match made_of(trees, backup) {
                Ok(changed) => made = changed,
                // The backup keeps its roots, as a held one does.
                Err(ReclaimError::NotRepaired { backup, source })
                    if !parents.is_empty() && source.is_gone() =>
                {
                    trees.progress.warn(Warning::BackupNotRewritten {
                        backup,
                        why: source.to_string(),
                    });
                }
                Err(error) => return Err(error),
            }
        }
        trees.is_repaired = false;
        streams.extend_from_slice(&made);
        parents.push(Parent {
            series: entry.series(),
            of: entry.session(),
            from: backup.streams.clone(),
            made,
        });
    }
    Ok(parents)
}

/// The new roots of a backup's streams; none if no root changes.
fn made_of(trees: &mut Trees<'_, '_>, backup: &Backup) -> Result<Vec<StreamRoot>> {
    let mut streams = Vec::with_capacity(backup.streams.len());
    for stream in &backup.streams {
        let root = trees.root(&TreeRoot::from(stream))?;
        streams.push(StreamRoot {
            location: root.location,
            ..stream.clone()
        });
    }
    if streams == backup.streams {
        streams.clear();
    }
    Ok(streams)
}

/// The backup that is due, and the others that may refer to its chunks, the newest first. It takes
/// as many as one manifest has room for streams of. It leaves out a backup that has the bytes of
/// another one in other places. Empty if the backup is no longer due.
fn chosen(list: &ManifestList, due: Repair) -> Vec<SessionId> {
    let is_free = |entry: &&ManifestEntry| {
        let free =
            |backup: &Backup| backup.next.is_none() && backup.hold_until.is_none_or(|until| until <= due.now);
        !entry.is_in_doubt() && entry.backup().is_some_and(free)
    };
    let newest = list.backups().rfind(|entry| entry.series() == due.series);
    let is_due = newest
        .filter(is_free)
        .is_some_and(|entry| entry.session() == due.backup);
    if !is_due {
        return Vec::new();
    }
    let streams = |entry: &ManifestEntry| {
        let backup = entry.backup();
        backup.map_or(0, |backup| backup.streams.len())
    };
    let mut twinless = DistinctBackups::default();
    let due_entry = newest.into_iter();
    let others = list.backups().rev().filter(is_free);
    let others = others.filter(|entry| entry.session() != due.backup);
    let mut room = STREAMS_MAX;
    let each = due_entry.chain(others).filter(|entry| {
        let backup = entry.backup();
        backup.is_some_and(|backup| twinless.add(&backup.streams))
    });
    let each = each.take_while(|entry| {
        let (is_room, left) = (streams(entry) <= room, room.saturating_sub(streams(entry)));
        room = left;
        is_room
    });
    each.map(ManifestEntry::session).collect()
}

/// The containers to copy from. None of them is known to be damaged.
fn choice(
    needed: &BTreeMap<ContainerId, Needed>,
    weights: &HashMap<ContainerId, Weight>,
    container_bytes: u64,
    budget: u64,
) -> BTreeSet<ContainerId> {
    let whole = needed.iter().filter(|(_, of_one)| of_one.is_whole);
    let list = whole.filter_map(|(container, of_one)| {
        Some(Need {
            container: *container,
            bytes: of_one.bytes,
            stored: weights.get(container)?.of(of_one.bytes),
            chunks: of_one.chunks,
        })
    });
    let budget = Budget {
        bytes: budget,
        chunks: COPIED_CHUNKS_MAX,
    };
    choose(&list.collect::<Vec<_>>(), container_bytes, budget).containers
}

/// How many full containers all needed chunks would fill, as far as their stored bytes are known.
fn least(
    needed: &BTreeMap<ContainerId, Needed>,
    weights: &HashMap<ContainerId, Weight>,
    container_bytes: u64,
) -> u64 {
    let each = needed.iter().map(|(container, of_one)| {
        let weight = weights.get(container);
        weight.map_or(of_one.bytes, |weight| weight.of(of_one.bytes))
    });
    each.sum::<u64>().div_ceil(container_bytes)
}

/// Reads the new nodes. Each must have the fingerprint of the node that it replaces, computed from
/// its new references.
fn read_back(
    context: &Context<'_>,
    options: &OptimizeOptions,
    written: &[TreeRoot],
    progress: &dyn Progress,
) -> std::result::Result<(), WalkError> {
    let nodes = NodeCache::new(context.containers.clone(), options.node_cache_bytes);
    for node in written {
        if progress.is_cancelled() {
            return Err(WalkError::Interrupted);
        }
        open_node(&nodes, node)?;
        progress.add_done(1);
    }
    Ok(())
}
