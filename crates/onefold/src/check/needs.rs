//! What backups need of containers: the slots that their recipes reach.
//!
//! What none of them reaches is no damage, whatever became of it: it is dead, was removed, or goes
//! with the next prune.

use std::collections::{BTreeMap, BTreeSet};

use types::{ContainerId, ContainerKind, SessionId, SlotRange};

use super::merged;

/// Ranges are merged when there are twice as many as after the last time, and at least so many.
const MERGE_FROM: usize = 64;

/// The slots that are needed, by container.
#[derive(Debug, Default)]
pub(super) struct Needs {
    reached: BTreeMap<ContainerId, Reached>,
    /// Sessions whose containers are reached: copies of their catalogs are needed.
    sessions: BTreeSet<SessionId>,
    /// A node could not be read, and what is below it is not known: anything may be needed.
    is_partial: bool,
}

#[derive(Debug, Default)]
struct Reached {
    ranges: Vec<SlotRange>,
    merge_at: usize,
}

impl Needs {
    /// A backup reaches these slots.
    pub(super) fn add(&mut self, id: ContainerId, slots: SlotRange) {
        self.sessions.insert(id.session);
        let reached = self.reached.entry(id).or_default();
        reached.ranges.push(slots);
        if reached.ranges.len() >= reached.merge_at.max(MERGE_FROM) {
            reached.ranges = merged(&reached.ranges);
            reached.merge_at = 2 * reached.ranges.len();
        }
    }

    /// What is below a node is not known.
    pub(super) const fn add_unknown(&mut self) {
        self.is_partial = true;
    }

    /// The containers that are reached.
    pub(super) fn containers(&self) -> impl Iterator<Item = ContainerId> {
        self.reached.keys().copied()
    }

    /// Whether anything of a container is needed.
    pub(super) fn has(&self, id: ContainerId) -> bool {
        let is_copy_of_needed = id.kind == ContainerKind::Catalog && self.sessions.contains(&id.session);
        self.is_partial || is_copy_of_needed || self.reached.contains_key(&id)
    }

    /// Whether any of these slots is; none are the whole container.
    pub(super) fn has_any(&self, id: ContainerId, slots: &[SlotRange]) -> bool {
        if slots.is_empty() || !self.reached.contains_key(&id) {
            return self.has(id);
        }
        let reached = self.reached.get(&id).map_or(&[][..], |reached| &reached.ranges);
        let overlaps = |one: &SlotRange, other: &SlotRange| {
            one.first().get() < other.end() && other.first().get() < one.end()
        };
        self.is_partial
            || reached
                .iter()
                .any(|one| slots.iter().any(|other| overlaps(one, other)))
    }
}
