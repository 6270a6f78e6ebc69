//! Which small containers become one: pure, but for listing the folders of backups that came.
//!
//! Small are containers of a backup whose stored bytes are below a quarter of a full one's. Those of one kind become
//! one when enough have gathered: half a full container of them, or eight. Neighbours are those of one series, in the
//! order of its backups; what is left over of each series is merged across them. Into one that was merged before
//! more is merged when that brings at least a quarter of its bytes, so that a byte is copied a few times over at most; it is never moved
//! itself, so that no way leads over two containers.

use std::collections::{BTreeMap, BTreeSet};

use format::names;
use format::reclaim::{Removed, SmallContainer};
use session::ManifestList;
use types::{ContainerId, ContainerKind, SeriesId, SessionId, UnixNanos};

use crate::decide::copies;
use crate::error::Result;
use crate::moves::Moves;
use crate::plan::Unused;
use crate::prune::{Context, PruneOptions};

/// Kinds that are merged. Archives belong to one backup each, and catalog copies to one session.
const KINDS: [ContainerKind; 3] = [ContainerKind::Data, ContainerKind::Recipe, ContainerKind::Small];
/// What is below this part of a full container is small.
const SMALL_PART: u64 = 4;
/// What is merged at once is at least this part of a full container, unless it is many.
const FULL_PART: u64 = 2;
/// What is added to a merged container is at least this part of it.
const GROWTH_PART: u64 = 4;
/// Containers that become one.
const MEMBERS_MAX: usize = 512;
/// Sessions whose folders are listed one by one; of more, all are listed at once.
const LISTED_ONE_BY_ONE: usize = 64;
/// Between the time that a manifest has and the first listing that shows it.
const COMMIT_NANOS: i64 = 60_000_000_000;

/// A container that may be merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    id: ContainerId,
    bytes: u64,
    series: Option<SeriesId>,
    /// Something was merged into it.
    has_sources: bool,
}

/// Containers that become one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) target: ContainerId,
    pub(crate) sources: Vec<ContainerId>,
    /// Stored bytes of all of them, one copy.
    pub(crate) bytes: u64,
}

impl Set {
    pub(crate) fn members(&self) -> impl Iterator<Item = ContainerId> + '_ {
        std::iter::once(self.target).chain(self.sources.iter().copied())
    }

    /// Bytes that a merge writes.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.bytes * copies(self.target)
    }
}

/// The small containers that are known.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    bytes: BTreeMap<ContainerId, u64>,
    /// Backups, forgotten ones too, with their series.
    series: BTreeMap<SessionId, SeriesId>,
    with_sources: BTreeSet<ContainerId>,
    full_bytes: u64,
    members_min: usize,
}

impl Candidates {
    /// Those that the list before knew, and those of backups that came since.
    pub(crate) fn gather(
        context: &Context<'_>,
        options: &PruneOptions,
        before: Option<&(Removed, UnixNanos)>,
        list: &ManifestList,
        moves: &Moves,
    ) -> Result<Self> {
        if options.merge_members_min == 0 {
            return Ok(Self::default());
        }
        let committed = list
            .entries
            .iter()
            .filter(|e| e.backup().is_some() || e.is_forgotten());
        let as_covered = list.as_covered.iter();
        let as_covered = as_covered.map(|backup| (backup.covered.session, backup.series));
        let mut all = Self {
            series: committed
                .map(|entry| (entry.session(), entry.series()))
                .chain(as_covered)
                .collect(),
            full_bytes: context.packing.container_bytes,
            members_min: options.merge_members_min.max(2),
            ..Self::default()
        };
        let known = before.map_or(&[][..], |(removed, _)| &removed.small);
        for small in known.iter().filter(|small| !moves.is_moved(small.container)) {
            all.bytes.insert(small.container, small.stored_bytes);
        }
        let since = before.map(|(removed, _)| before_commit(removed.looked_at));
        for (id, bytes) in listed(context, list, since)? {
            all.set(id, bytes);
        }
        all.bytes.retain(|id, _| !moves.is_moved(*id));
        // Whether small now or not: what a list lets go may make them so.
        all.with_sources = moves.all().map(|moved| moved.to).collect();
        Ok(all)
    }

    /// It has so many bytes now, one copy.
    pub(crate) fn set(&mut self, id: ContainerId, bytes: u64) {
        let is_known = self.series.contains_key(&id.session) || self.bytes.contains_key(&id);
        if is_known && KINDS.contains(&id.kind) && bytes < self.full_bytes / SMALL_PART {
            self.bytes.insert(id, bytes);
        } else {
            self.bytes.remove(&id);
        }
    }

    /// It is gone, or not to be touched.
    pub(crate) fn drop(&mut self, id: ContainerId) {
        self.bytes.remove(&id);
    }

    /// Which become one; copying no more than that.
    pub(crate) fn choose(&self, mut budget: u64) -> Vec<Set> {
        let mut sets = Vec::new();
        for kind in KINDS {
            let of_kind = self.bytes.iter().filter(|(id, _)| id.kind == kind);
            let candidates = of_kind.map(|(id, bytes)| Candidate {
                id: *id,
                bytes: *bytes,
                series: self.series.get(&id.session).copied(),
                has_sources: self.with_sources.contains(id),
            });
            sets.extend(sets_of(candidates.collect(), self.full_bytes, self.members_min));
        }
        sets.retain(|set| {
            let fits = set.copied_bytes() <= budget;
            if fits {
                budget -= set.copied_bytes();
            }
            fits
        });
        sets
    }

    /// Those that stay, and what the merged ones come to where that is small still.
    pub(crate) fn after(mut self, sets: &[Set]) -> Vec<SmallContainer> {
        for set in sets {
            set.sources.iter().for_each(|id| self.drop(*id));
            self.set(set.target, set.bytes);
        }
        let each = self.bytes.into_iter();
        each.map(|(container, stored_bytes)| SmallContainer {
            container,
            stored_bytes,
        })
        .collect()
    }
}

/// A manifest may be of a little earlier than it is listed.
const fn before_commit(looked_at: UnixNanos) -> UnixNanos {
    UnixNanos::new(looked_at.get().saturating_sub(COMMIT_NANOS))
}

/// Whether small containers have gathered that are worth an epoch: so many backups have come since the list before that
/// looking for what they left is worth it, and there is something to merge.
pub(crate) fn is_due(
    context: &Context<'_>,
    options: &PruneOptions,
    before: Option<&(Removed, UnixNanos)>,
    list: &ManifestList,
    moves: &Moves,
) -> Result<bool> {
    let is_new = |at: &UnixNanos| before.is_none_or(|(_, put_at)| at > put_at);
    let as_covered = list.as_covered.iter().map(|backup| backup.committed_at);
    let all = list.backups().map(|entry| entry.committed_at).chain(as_covered);
    let min = options.merge_members_min;
    if min == 0 || options.limits.unused_max == Unused::Unlimited || all.filter(is_new).count() < 2 * min {
        return Ok(false);
    }
    let candidates = Candidates::gather(context, options, before, list, moves)?;
    Ok(!candidates.choose(options.limits.repack_bytes_max).is_empty())
}

/// Containers of one kind.
fn sets_of(candidates: Vec<Candidate>, full_bytes: u64, members_min: usize) -> Vec<Set> {
    let (mut merged, mut plain): (Vec<_>, Vec<_>) = candidates
        .into_iter()
        .partition(|candidate| candidate.has_sources);
    let order = |candidate: &Candidate| (candidate.series, candidate.id);
    plain.sort_unstable_by_key(order);
    let (mut sets, mut over) = (Vec::new(), Vec::new());
    for series in plain.chunk_by(|a, b| a.series == b.series) {
        over.extend(cut(series, full_bytes, members_min, &mut sets));
    }
    cut(&over, full_bytes, members_min, &mut sets);
    let each = sets.into_iter();
    each.map(|members| {
        let bytes: u64 = members.iter().map(|member| member.bytes).sum();
        let takes = |into: &Candidate| {
            into.bytes <= bytes * GROWTH_PART && into.bytes + bytes <= full_bytes + full_bytes / SMALL_PART
        };
        let near = merged
            .iter()
            .position(|into| takes(into) && into.series == members[0].series);
        let into = near.or_else(|| merged.iter().position(takes));
        let into = into.map(|at| merged.remove(at));
        let newest = members
            .iter()
            .map(|member| member.id)
            .max_by_key(|id| (id.session, id.sequence));
        let target = into.map(|into| into.id).or(newest).expect("a set has members");
        let sources = members.iter().map(|member| member.id).filter(|id| *id != target);
        Set {
            target,
            sources: sources.collect(),
            bytes: bytes + into.map_or(0, |into| into.bytes),
        }
    })
    .collect()
}

/// Cuts neighbours into sets that are worth it; those that are left over come back.
fn cut(
    candidates: &[Candidate],
    full_bytes: u64,
    members_min: usize,
    sets: &mut Vec<Vec<Candidate>>,
) -> Vec<Candidate> {
    let mut over = Vec::new();
    let mut open: Vec<Candidate> = Vec::new();
    let mut close = |open: &mut Vec<Candidate>| {
        let members = std::mem::take(open);
        let bytes: u64 = members.iter().map(|member| member.bytes).sum();
        if members.len() >= 2 && (members.len() >= members_min || bytes >= full_bytes / FULL_PART) {
            sets.push(members);
        } else {
            over.extend(members);
        }
    };
    for candidate in candidates {
        let bytes: u64 = open.iter().map(|member| member.bytes).sum();
        if bytes + candidate.bytes > full_bytes || open.len() >= MEMBERS_MAX {
            close(&mut open);
        }
        open.push(*candidate);
    }
    close(&mut open);
    over
}

/// The small containers of a list, without what cannot be read, and with what is not merged after all.
pub(crate) fn with_back(
    small: Vec<SmallContainer>,
    unread: &BTreeSet<ContainerId>,
    back: Vec<SmallContainer>,
) -> Vec<SmallContainer> {
    let each = small.into_iter().chain(back);
    let all: BTreeMap<_, _> = each.map(|small| (small.container, small)).collect();
    let mut all: Vec<_> = all.into_values().collect();
    all.retain(|small| !unread.contains(&small.container));
    all
}

/// What the folders of backups that were committed since then have, with stored bytes of one copy.
fn listed(
    context: &Context<'_>,
    list: &ManifestList,
    since: Option<UnixNanos>,
) -> Result<BTreeMap<ContainerId, u64>> {
    let storage = &context.containers.env().storage;
    let is_new = |at: UnixNanos| since.is_none_or(|since| at > since);
    // What those wrote that were not read is not known: any kind.
    let as_covered = list
        .as_covered
        .iter()
        .filter(|backup| is_new(backup.committed_at));
    let mut folders: BTreeMap<SessionId, Vec<ContainerKind>> = as_covered
        .map(|backup| (backup.covered.session, KINDS.to_vec()))
        .collect();
    for entry in list.backups().filter(|entry| is_new(entry.committed_at)) {
        let spans = entry.backup().map_or(&[][..], |backup| &backup.containers);
        let kinds = KINDS
            .iter()
            .filter(|kind| spans.iter().any(|span| span.kind == **kind));
        folders.insert(entry.session(), kinds.copied().collect());
    }
    let sessions: BTreeSet<SessionId> = folders.keys().copied().collect();
    let folders: Vec<String> = if sessions.len() > LISTED_ONE_BY_ONE {
        KINDS.iter().map(|kind| kind.folder().to_owned()).collect()
    } else {
        let each = folders.into_iter();
        let names = each.flat_map(|(session, kinds)| {
            let of = kinds.into_iter();
            of.map(move |kind| names::container_folder(kind, session))
        });
        names.collect()
    };
    // Of what was trimmed, its own object says nothing of its size: it is no small container before a list says so.
    let mut trimmed = BTreeSet::new();
    let mut highest = BTreeMap::new();
    for folder in folders {
        for object in storage.list(&folder)? {
            trimmed.extend(names::parse_body(&object.name).map(|(id, _)| id));
            if let Some((id, generation)) = names::parse_container(&object.name)
                && sessions.contains(&id.session)
            {
                let known = highest.entry(id).or_insert((generation, object.len));
                *known = (generation, object.len).max(*known);
            }
        }
    }
    let whole = highest.into_iter().filter(|(id, _)| !trimmed.contains(id));
    Ok(whole.map(|(id, (_, len))| (id, len)).collect())
}

#[cfg(test)]
mod tests;
