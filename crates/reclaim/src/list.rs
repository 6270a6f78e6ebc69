//! The final list of an epoch, made from the decision. Writes nothing, so a preview makes it too.

use format::reclaim::{ContainerRun, Removed};
use types::Epoch;

use crate::context::Context;
use crate::epochs::{self, Epochs, Found};
use crate::error::Result;
use crate::final_list::Decided;
use crate::options::MarkRevisions;

/// Makes the list.
pub(crate) fn make(
    context: &Context<'_>,
    epoch: Epoch,
    epochs: &Epochs,
    marks: MarkRevisions,
    decided: Decided,
) -> Result<Removed> {
    Ok(Removed {
        epoch,
        slots: decided.slots,
        marks,
        left: decided.left,
        gone: gone(context, epochs, epoch)?,
        stored_bytes: decided.stored_bytes,
    })
}

/// The names of containers that earlier epochs removed whole, from the lists that still exist. If a
/// removed list cannot be read, every container that its epoch condemned counts.
pub(crate) fn gone(context: &Context<'_>, epochs: &Epochs, before: Epoch) -> Result<Vec<ContainerRun>> {
    let mut taken = Vec::new();
    for epoch in epochs.removed.range(..before) {
        let slots = match epochs::read_removed(context.sealer, *epoch)? {
            Found::Whole(removed) => {
                taken.extend(removed.gone.iter().flat_map(|run| run.ids()));
                removed.slots
            }
            _ => match epochs::read_condemned(context.sealer, *epoch)? {
                Found::Whole(condemned) => condemned.slots,
                _ => continue,
            },
        };
        let whole = slots.into_iter().filter(|entry| entry.slots.is_none());
        taken.extend(whole.map(|entry| entry.container));
    }
    Ok(ContainerRun::collect(taken))
}
