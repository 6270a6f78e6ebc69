//! A run on a full disk. An epoch that finds no room for a rewrite passes it on to the next epoch,
//! and still ends.
//!
//! Listed slots of data that could not be removed stay where they are. Look-ups do not return them
//! while their list exists, and the list exists while they do (`expire_metadata::drop_old_lists`).
//! A later epoch decides which containers it rewrites, and when. So this run announces the next
//! epoch before it closes the open one. That epoch condemns these slots, and those that earlier
//! epochs left, by the same marks. This run finishes it at once and copies nothing: all slots stay
//! as `left` on its list.
//!
//! No nodes are among them: all listed nodes are removed before any data (INV-9).

use std::collections::BTreeSet;

use env::StorageError;
use format::frame::ObjectKind;
use format::names;
use format::reclaim::{Condemned, ContainerSlots, Removed};
use object::ObjectError;
use session::{Session, SessionError};

use crate::context::Context;
use crate::epochs::{self};
use crate::error::{ReclaimError, Result};
use crate::options::PruneReport;
use crate::slots::{SlotSet, entry};

/// Announces the epoch that takes over the slots that this one gives up. Durable on return.
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

/// Reports the containers that an epoch gave up. Removes those that an earlier epoch of this run
/// gave up and this one has rewritten.
pub(crate) fn report(report: &mut PruneReport, removed: &Removed, given_up: &[ContainerSlots]) {
    if !report.given_up.is_empty() {
        let listed = removed.slots.iter();
        let listed: BTreeSet<String> = listed.map(|slots| slots.container.to_string()).collect();
        report.given_up.retain(|container| !listed.contains(container));
    }
    let names = given_up.iter().map(|slots| slots.container.to_string());
    report.given_up.extend(names);
}

/// Joins the entries of each container into one, in order.
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

/// Fails if there is no room for a heartbeat. Then other sessions find no room for their answers,
/// and waiting for those is useless. A caller with a reserve gives it up, and continues.
pub(crate) fn ensure_room_to_answer(session: &Session) -> Result<()> {
    match session.tick() {
        Err(
            error @ (SessionError::Storage(StorageError::NoSpace { .. })
            | SessionError::Object(ObjectError::Storage(StorageError::NoSpace { .. }))),
        ) => Err(error.into()),
        // The next tick may succeed; other code asks whether the session is over.
        Ok(_) | Err(_) => Ok(()),
    }
}
