//! Computes what a prune would do: its first half and its decision, without a write.
//!
//! It follows the steps of [`crate::prune`], from the same marks, manifests and sessions. It keeps
//! all new marks in memory, because it writes nothing. It counts sessions that a run would end as
//! ended, in one epoch; a run may need two, because the next epoch sweeps the sessions that an
//! epoch ended. It counts the final list of an open epoch as executed.

use std::collections::{BTreeMap, BTreeSet};

use format::reclaim::Removed;
use types::SessionId;

use crate::context::Context;
use crate::dead_sessions;
use crate::epoch;
use crate::epochs::{self, Epochs, Found};
use crate::error::Result;
use crate::exclusive_bytes;
use crate::final_list::{self, Ground};
use crate::inputs::Known;
use crate::list;
use crate::lost_backups;
use crate::options::PruneOptions;
use crate::remove::{self, Executed};
use crate::slots::SlotMap;

/// What a prune would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Preview {
    /// Containers that would be deleted whole.
    pub containers_removed: u64,
    /// Containers that would lose slots, and whose survivors would be copied.
    pub containers_compacted: u64,
    /// Containers that would lose slots without a copy.
    pub containers_trimmed: u64,
    /// By how many bytes the store would shrink, if [`Self::bytes_copied`] is exact.
    pub bytes_freed: u64,
    /// Bytes of new generations: an estimate where a region must be compressed again.
    pub bytes_copied: u64,
    /// Bytes that would stay dead.
    pub bytes_left_dead: u64,
    /// Nodes read to find out.
    pub nodes_read: u64,
    /// For each backup that counts as forgotten: about how many stored bytes no other backup
    /// reaches, kept or forgotten. A backup that cannot be read has no entry.
    pub alone: BTreeMap<SessionId, u64>,
    /// Forgotten backups that would stay stored, each with an archival backup that refers forward
    /// to it.
    pub kept: BTreeMap<SessionId, SessionId>,
}

/// Computes what [`crate::prune`] would do if these backups were forgotten too. It writes nothing,
/// and no session waits for it. Sessions that run beside it may keep some of the data.
///
/// # Errors
/// Those of [`crate::prune`].
pub fn preview(
    context: &Context<'_>,
    options: &PruneOptions,
    forget: &BTreeSet<SessionId>,
) -> Result<Preview> {
    let context = &context.with_policy(options.policy);
    let mut epochs = Epochs::list(context.sealer)?;
    let open = open_list(context, &mut epochs)?;
    let first = match &open {
        Some(list) => remove::forecast(context.containers, list, context.packing)?,
        None => Executed::default(),
    };
    let mut known = Known::of(context, options, epochs, None)?;
    // A preview puts no object, so it cannot ask the storage for the time.
    let now = context.sealer.env().clock.wall();
    for dead in dead_sessions::among(context, options, &known.listing, now) {
        let ended = if dead.is_abandoned {
            &mut known.ended.first
        } else {
            &mut known.ended.by_epoch
        };
        ended.insert(dead.info.id);
    }
    let lost = known
        .listing
        .table
        .lost
        .iter()
        .find(|id| !forget.contains(id))
        .copied();
    lost_backups::ensure_none(lost, options.allow_missing_manifests)?;
    let mut list = std::mem::take(&mut known.listing.manifests);
    let forgotten = exclusive_bytes::manifests(context, &list, forget)?;
    list.forget(forget);
    let mut plan = known.plan(context, options, &list, None)?;
    let left = known
        .removed
        .as_ref()
        .map_or(&[][..], |(removed, _)| &removed.left);
    let alone = exclusive_bytes::bytes(context, &plan.condemned, &forgotten)?;
    if let Some(open) = &open {
        // The open epoch's list removes these slots first, and no count of live slots has them.
        plan.take_out(&open.slots, left, &known.ended);
    }
    let told = Preview {
        bytes_left_dead: left.iter().map(|left| left.dead_bytes).sum(),
        nodes_read: plan.nodes,
        kept: std::mem::take(&mut plan.kept),
        alone,
        ..Preview::default()
    };
    if !known.is_needed(context, options, None, &plan)? {
        return Ok(told.with(&[first]));
    }
    let mut limits = known.limits(options);
    limits.repack_bytes_max = limits.repack_bytes_max.saturating_sub(first.copied_bytes);
    let stored = epoch::stored_bytes(known.removed.as_ref(), &list, context.manifests)?;
    let ground = Ground {
        known: left,
        stored_bytes: stored,
        limits,
    };
    let decided = final_list::decide(context, &plan.condemned, &SlotMap::default(), ground)?;
    let marks = plan.after.revisions();
    let removed = list::make(context, known.epochs.next(), &known.epochs, marks, decided)?;
    let done = remove::forecast(context.containers, &removed, context.packing)?;
    let bytes_left_dead = removed.left.iter().map(|left| left.dead_bytes).sum();
    let told = Preview {
        bytes_left_dead,
        ..told
    };
    Ok(told.with(&[first, done]))
}

impl Preview {
    fn with(mut self, done: &[Executed]) -> Self {
        for done in done {
            self.containers_removed += done.removed;
            self.containers_compacted += done.compacted;
            self.containers_trimmed += done.trimmed;
            self.bytes_copied += done.copied_bytes;
        }
        let freed: u64 = done.iter().map(|done| done.freed_bytes).sum();
        self.bytes_freed = freed.saturating_sub(self.bytes_copied);
        self
    }
}

/// The final list of an open epoch: a run executes it first, and then continues as after a finished
/// epoch.
fn open_list(context: &Context<'_>, epochs: &mut Epochs) -> Result<Option<Removed>> {
    let Some(open) = epochs.open() else {
        return Ok(None);
    };
    Ok(match epochs::read_removed(context.sealer, open)? {
        Found::Whole(list) => {
            epochs.condemned.clear();
            Some(list)
        }
        _ => None,
    })
}
