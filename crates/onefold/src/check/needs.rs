//! The slots of containers that backups need: those that their recipes reach.
//!
//! Trouble in slots that no recipe reaches is no damage. Such slots are dead or removed, or the
//! next prune removes them.

use std::collections::{BTreeMap, BTreeSet};

use types::{ContainerId, ContainerKind, SessionId, SlotRange};

use crate::damage::merged;

/// Ranges are merged from this number on, each time that their number has doubled since the last
/// merge.
const MERGE_FROM: usize = 64;

/// The needed slots, by container.
#[derive(Debug, Default)]
pub(super) struct Needs {
    reached: BTreeMap<ContainerId, Reached>,
    /// Sessions with reached containers: the copies of their catalogs are needed.
    sessions: BTreeSet<SessionId>,
    /// A node could not be read, and the slots below it are not known, so any slot may be needed.
    is_partial: bool,
}

#[derive(Debug, Default)]
struct Reached {
    ranges: Vec<SlotRange>,
    merge_at: usize,
}

impl Needs {
    /// Adds slots that a backup reaches.
    pub(super) fn add(&mut self, id: ContainerId, slots: SlotRange) {
        self.sessions.insert(id.session);
        let reached = self.reached.entry(id).or_default();
        reached.ranges.push(slots);
        if reached.ranges.len() >= reached.merge_at.max(MERGE_FROM) {
            reached.ranges = merged(&reached.ranges);
            reached.merge_at = 2 * reached.ranges.len();
        }
    }

    /// Records that the slots below a node are not known.
    pub(super) const fn add_unknown(&mut self) {
        self.is_partial = true;
    }

    /// The reached containers.
    pub(super) fn containers(&self) -> impl Iterator<Item = ContainerId> {
        self.reached.keys().copied()
    }

    /// Whether a backup needs any slot of a container.
    pub(super) fn has(&self, id: ContainerId) -> bool {
        let is_copy_of_needed = id.kind == ContainerKind::Catalog && self.sessions.contains(&id.session);
        self.is_partial || is_copy_of_needed || self.reached.contains_key(&id)
    }

    /// Whether a backup needs any of these slots. An empty list means the whole container.
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
