//! What a run does on a disk that is full. What an epoch has not finished since there was no room is carried on by the next
//! one: it ends all the same.
//!
//! Slots of data that are listed and could not be removed stay where they are. No look-up returns them as long as their list stands, and that
//! stands as long as they do (`housekeeping::drop_old_lists`). Who rewrites them, and when, is for a later epoch to decide:
//! so the next one is announced before this one is closed. It condemns them together with what was left before, by the same marks, and
//! is finished at once, copying nothing: they are on its list as what stays.
//!
//! Nodes are not among them: all that are listed are gone before any data is (INV-9).

use std::collections::BTreeSet;

use env::StorageError;
use format::frame::ObjectKind;
use format::names;
use format::reclaim::{Condemned, ContainerSlots, Removed};
use object::ObjectError;
use session::{HeldLease, Session, SessionError};

use crate::epochs::{self, Epochs};
use crate::error::{ReclaimError, Result};
use crate::finish;
use crate::plan::{Limits, Unused};
use crate::prune::{Context, PruneOptions, PruneReport};
use crate::slots::{SlotSet, entry};

/// The epoch that is open, and the one that may come of it where there is no room.
const OPEN_MAX: usize = 2;

/// Finishes the epoch that is open.
pub(crate) fn finish_open(
    context: &Context<'_>,
    options: &PruneOptions,
    (session, lease): (&Session, &HeldLease),
    report: &mut PruneReport,
) -> Result<()> {
    for _ in 0..OPEN_MAX {
        let epochs = Epochs::list(context.sealer)?;
        let Some(epoch) = epochs.open() else { break };
        if epochs.is_illegible(context.sealer, epoch)? {
            break;
        }
        let leaving;
        let options = if report.given_up.is_empty() {
            options
        } else {
            leaving = PruneOptions {
                limits: Limits {
                    unused_max: Unused::Unlimited,
                    ..options.limits
                },
                ..options.clone()
            };
            &leaving
        };
        finish::epoch(context, options, session, lease, (epoch, None), report)?;
    }
    Ok(())
}

/// Announces the epoch that carries on what this one gives up. Durable on return.
pub(crate) fn carry_on(context: &Context<'_>, removed: &Removed, given_up: &[ContainerSlots]) -> Result<()> {
    let condemned = Condemned {
        epoch: removed.epoch.next(),
        marks: removed.marks.clone(),
        slots: joined(removed.left.iter().map(|left| &left.slots).chain(given_up)),
    };
    let name = names::condemned(condemned.epoch);
    let bytes = condemned.to_bytes();
    if epochs::create(context.sealer, &name, ObjectKind::Condemned, &bytes)? {
        Ok(())
    } else {
        Err(ReclaimError::Overtaken)
    }
}

/// Says what an epoch has given up. What an earlier one of this run gave up, and this one has done, is on it no more.
pub(crate) fn report(report: &mut PruneReport, removed: &Removed, given_up: &[ContainerSlots]) {
    if !report.given_up.is_empty() {
        let listed = removed.slots.iter();
        let listed: BTreeSet<String> = listed.map(|slots| slots.container.to_string()).collect();
        report.given_up.retain(|container| !listed.contains(container));
    }
    let names = given_up.iter().map(|slots| slots.container.to_string());
    report.given_up.extend(names);
}

/// One entry a container, in order.
fn joined<'a>(all: impl Iterator<Item = &'a ContainerSlots>) -> Vec<ContainerSlots> {
    let mut all: Vec<&ContainerSlots> = all.collect();
    all.sort_by_key(|slots| slots.container);
    let each = all.chunk_by(|a, b| a.container == b.container);
    each.map(|of_one| {
        let container = of_one[0].container;
        if of_one.iter().any(|slots| slots.slots.is_none()) {
            return entry(container, None);
        }
        let ranges = of_one.iter().filter_map(|slots| slots.slots.as_ref()).flatten();
        let set: SlotSet = ranges.copied().collect();
        entry(container, Some(&set))
    })
    .collect()
}

/// Fails where there is no room for a heartbeat: then others find none for their answers, and waiting for those is in
/// vain. Who has a reserve gives it up, and goes on.
pub(crate) fn ensure_room_to_answer(session: &Session) -> Result<()> {
    match session.tick() {
        Err(
            error @ (SessionError::Storage(StorageError::NoSpace { .. })
            | SessionError::Object(ObjectError::Storage(StorageError::NoSpace { .. }))),
        ) => Err(error.into()),
        // The next tick may do; whether the session is over is asked elsewhere.
        Ok(_) | Err(_) => Ok(()),
    }
}
