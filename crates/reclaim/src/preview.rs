//! What a prune would do: its first half, and its decision, of which nothing is written.
//!
//! Goes the way that [`crate::prune`] goes, from the same look at marks, manifests and sessions. Marks that it makes are held, all of
//! them: it has nowhere to put them.

use std::collections::{BTreeMap, BTreeSet};

use types::SessionId;

use crate::alone;
use crate::decide::{self, Ground};
use crate::error::Result;
use crate::finish;
use crate::known::Known;
use crate::merge::Candidates;
use crate::prune::{Context, PruneOptions};

/// What a run would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preview {
    /// Containers that would be deleted whole, and their bytes.
    pub containers_removed: u64,
    /// Containers that would lose a part, and of which the rest would be copied.
    pub containers_compacted: u64,
    /// Containers that would lose a part without a copy.
    pub containers_trimmed: u64,
    /// Small containers that would be merged into others.
    pub containers_merged: u64,
    /// Bytes that the store would get smaller by, about.
    pub bytes_freed: u64,
    /// Bytes that would be written anew.
    pub bytes_copied: u64,
    /// Bytes that would stay dead.
    pub bytes_left_dead: u64,
    /// Nodes read to find out.
    pub nodes_read: u64,
    /// Of each backup that is taken for forgotten: stored bytes, about, that no other backup reaches, of those that stay or
    /// of those that go. Not of one that cannot be read.
    pub alone: BTreeMap<SessionId, u64>,
}

/// What [`crate::prune`] would do, were these backups forgotten too. Writes nothing, and holds nobody up: sessions that run
/// beside it may keep some of it.
///
/// # Errors
/// As [`crate::prune`].
pub fn preview(
    context: &Context<'_>,
    options: &PruneOptions,
    forget: &BTreeSet<SessionId>,
) -> Result<Preview> {
    let mut known = Known::load(context, options)?;
    let mut list = std::mem::take(&mut known.census.manifests);
    let forgotten = alone::manifests(context, &list, forget)?;
    list.forget(forget);
    let plan = known.plan(context, options, &list, None)?;
    let live = crate::slots::SlotMap::default();
    let left = known
        .removed
        .as_ref()
        .map_or(&[][..], |(removed, _)| &removed.left);
    let alone = alone::bytes(context, &plan.condemned, &forgotten, &known.moves)?;
    if !known.is_needed(context, options, None, &list, &plan)? {
        return Ok(Preview {
            bytes_left_dead: left.iter().map(|left| left.dead_bytes).sum(),
            nodes_read: plan.nodes,
            alone,
            ..Preview::default()
        });
    }
    let stored = finish::stored_bytes(known.removed.as_ref(), &list, context.manifests)?;
    let ground = Ground {
        known: left,
        stored_bytes: stored,
        limits: known.limits(options),
        moves: &known.moves,
        candidates: Candidates::gather(context, options, known.removed.as_ref(), &list, &known.moves)?,
    };
    let decided = decide::decide(context, &plan.condemned, &live, ground)?;
    Ok(Preview {
        containers_merged: decided.sets.iter().map(|set| set.sources.len() as u64).sum(),
        containers_removed: decided.whole,
        containers_compacted: decided.compacted,
        containers_trimmed: decided.trimmed,
        bytes_freed: decided.freed_bytes,
        bytes_copied: decided.copied_bytes,
        bytes_left_dead: decided.left.iter().map(|left| left.dead_bytes).sum(),
        nodes_read: plan.nodes,
        alone,
    })
}
