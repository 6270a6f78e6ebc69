//! Putting marks: those of one group, or of all groups that were marked.
//!
//! No marks are durable before the next barrier, and no group depends on another, so several are
//! put at once. Marks that an interrupted run leaves do not count, or add to those that count
//! (docs/protocol.md, "Which marks count").

use std::sync::Arc;

use format::frame::ObjectKind;
use format::names;
use format::reclaim::{GroupId, Marks};
use object::Sealer;
use types::{Epoch, Revision};

use super::{InForce, StoredMarks};
use crate::error::{ReclaimError, Result};

/// Puts the marks of all groups in `marked`, for an epoch or to count at once. Marks that were put
/// for an epoch and now count at once get a new revision, which `after` then has.
///
/// # Errors
/// `Overtaken` if a revision is taken; of the storage.
pub(crate) fn put_all(
    sealer: &Sealer,
    marked: &[(GroupId, Revision)],
    after: &mut InForce,
    epoch: Option<Epoch>,
) -> Result<()> {
    let ours = |is_put: bool| {
        if is_put {
            Ok(())
        } else {
            Err(ReclaimError::Overtaken)
        }
    };
    object::several(sealer.env().storage.is_far(), marked.len(), |at| {
        let (group, _) = marked[at];
        match after.groups.get(&group) {
            Some(stored) if !stored.is_put() => ours(put(sealer, group, stored, epoch)?),
            // Marks that exceed the memory budget were put when they were made.
            _ => Ok(()),
        }
    })?;
    if epoch.is_some() {
        return Ok(());
    }
    // One after another: each is read again, and all together exceed the memory budget.
    for (group, _) in marked {
        let Some(stored) = after.groups.get_mut(group).filter(|stored| stored.is_put()) else {
            continue;
        };
        let counted = put_without_epoch(sealer, *group, stored)?;
        *stored = Arc::new(counted.ok_or(ReclaimError::Overtaken)?);
    }
    Ok(())
}

/// Writes a group's marks, for an epoch or without one. Returns whether the revision was free. Not
/// durable before the next barrier.
pub(crate) fn put(
    sealer: &Sealer,
    group: GroupId,
    stored: &StoredMarks,
    epoch: Option<Epoch>,
) -> Result<bool> {
    let name = names::marks(group, stored.revision);
    let marks = Marks {
        group,
        epoch,
        covers: stored.covers.clone(),
        live: stored.live(sealer, group)?.into_owned(),
    };
    match sealer.put(&name, ObjectKind::Marks, &marks.to_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.is_already_exists() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Puts marks that were put for an epoch again, as the next revision, which counts at once. `None`:
/// the revision is taken.
fn put_without_epoch(sealer: &Sealer, group: GroupId, stored: &StoredMarks) -> Result<Option<StoredMarks>> {
    let counted = StoredMarks {
        revision: stored.revision.next(),
        covers: stored.covers.clone(),
        live: Some(stored.live(sealer, group)?.into_owned()),
    };
    let is_put = put(sealer, group, &counted, None)?;
    Ok(is_put.then_some(StoredMarks {
        live: None,
        ..counted
    }))
}
