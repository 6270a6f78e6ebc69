//! The final list of an epoch, from what was decided. Writes nothing: who asks what a run would do makes it, too.

use format::reclaim::Removed;
use types::{Epoch, UnixNanos};

use crate::decide::Decided;
use crate::epochs::Epochs;
use crate::error::Result;
use crate::merge;
use crate::moves::Moves;
use crate::place;
use crate::prune::{Context, MarkRevisions, PruneOptions};
use crate::record::Record;
use crate::slots;

/// What a list says besides what was decided.
pub(crate) struct Of<'a> {
    pub(crate) epoch: Epoch,
    pub(crate) epochs: &'a Epochs,
    pub(crate) moves: &'a Moves,
    pub(crate) marks: MarkRevisions,
    /// As of [`Removed::looked_at`].
    pub(crate) looked_at: UnixNanos,
}

/// Makes the list.
pub(crate) fn make(
    context: &Context<'_>,
    options: &PruneOptions,
    of: Of<'_>,
    decided: Decided,
) -> Result<Removed> {
    let moves = of.moves;
    let record = Record::load(context, of.epochs, of.epoch)?;
    let again = place::unfinished(context, options, moves)?;
    let placed = place::place(context, &decided.sets, moves, &again, &record)?;
    Ok(Removed {
        epoch: of.epoch,
        moved: moves.carried(&decided.slots, placed.moved, &again),
        slots: slots::with(decided.slots, placed.standing),
        marks: of.marks,
        left: decided.left,
        gone: record.gone,
        stored_bytes: decided.stored_bytes,
        small: merge::with_back(decided.small, &placed.unread, placed.back),
        looked_at: of.looked_at,
    })
}
