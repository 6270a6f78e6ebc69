//! What the removed lists of earlier epochs say that are still there.

use format::reclaim::ContainerRun;
use types::Epoch;

use crate::epochs::{self, Epochs, Found};
use crate::error::Result;
use crate::prune::Context;
use crate::slots::SlotMap;

/// What was removed, and must not be found again.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The names of containers that went whole: taken for ever.
    pub(crate) gone: Vec<ContainerRun>,
    /// Slots of containers that stayed.
    pub(crate) parts: SlotMap,
}

impl Record {
    /// Of the epochs before that one. Of one whose removed list cannot be read all counts that it condemned.
    pub(crate) fn load(context: &Context<'_>, epochs: &Epochs, before: Epoch) -> Result<Self> {
        let (mut taken, mut parts) = (Vec::new(), SlotMap::default());
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
            for entry in slots {
                match entry.slots {
                    None => taken.push(entry.container),
                    Some(ranges) => ranges
                        .into_iter()
                        .for_each(|range| _ = parts.insert(entry.container, range)),
                }
            }
        }
        let gone = ContainerRun::collect(taken);
        Ok(Self { gone, parts })
    }
}
