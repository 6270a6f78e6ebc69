//! Which chunks of a backup other live backups refer to, of whatever series [RevDedup 2.4.2] (R3).
//!
//! Those stay where they are. Nothing is lost where this is wrong: what is removed marks decide, which know every backup. A chunk
//! that is passed over here is stored twice, no more; so the archival backups of other series are not asked, of which there may be
//! thousands.

use format::manifest::Backup;
use recipe::RecipeError;
use types::{ChunkLocation, ContainerId, SessionId, SlotRange};

use crate::error::{ReclaimError, Result};
use crate::mark::{self, Visit, Walk, WalkError};
use crate::progress::Progress;
use crate::prune::Context;
use crate::slots::SlotMap;

struct Meeting<'a> {
    wanted: &'a SlotMap,
    /// Nodes that were come by.
    seen: SlotMap,
    met: SlotMap,
}

impl Visit for Meeting<'_> {
    fn node(&mut self, at: ChunkLocation) -> bool {
        self.seen.insert(at.container, SlotRange::one(at.slot))
    }

    fn chunks(&mut self, container: ContainerId, slots: SlotRange) {
        if let Some(wanted) = self.wanted.get(container) {
            self.met.add(container, &wanted.within(slots));
        }
    }
}

/// Which of the wanted slots these backups reach. Every node of theirs is read once. Of one that is damaged `told` is told.
///
/// # Errors
/// `Interrupted`; of the storage.
pub(super) fn of<'a>(
    context: &Context<'_>,
    wanted: &SlotMap,
    told: &dyn Progress,
    backups: impl IntoIterator<Item = (SessionId, &'a Backup)>,
) -> Result<SlotMap> {
    let mut meeting = Meeting {
        wanted,
        seen: SlotMap::default(),
        met: SlotMap::default(),
    };
    let mut walk = Walk::new(context.nodes, context.progress);
    if wanted.iter().next().is_some() {
        for (session, backup) in backups {
            match mark::backup(&mut walk, backup, &mut meeting) {
                Err(WalkError::Interrupted) => return Err(ReclaimError::Interrupted),
                Err(WalkError::Recipe(RecipeError::Container(error))) if !error.is_gone() => {
                    return Err(error.into());
                }
                // What it shares with it is stored twice, perhaps.
                Err(WalkError::Recipe(error)) => told.warn(&format!(
                    "what backup {session} shares cannot be told: {error}; run `check`"
                )),
                Ok(()) => {}
            }
        }
    }
    Ok(meeting.met)
}
