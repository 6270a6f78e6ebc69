//! The slots that a look-up must treat as absent.
//!
//! The view is built from every removed list and the names on record in it, every condemned list of
//! an epoch without a removed list, and the lists of damaged slots. (A condemned slot that the
//! removed list leaves in place is kept, and may be found again.) If a list of an epoch cannot be
//! read, everything but the session's own containers is absent. This is safe and costs only
//! deduplication, until reclamation closes that epoch. A view never changes. Many threads may use
//! it; a question costs two binary searches.

use std::collections::HashMap;

use format::reclaim::{ContainerRun, ContainerSlots};
use types::{ChunkLocation, ContainerId, Epoch, SessionId, SlotRange};

use crate::damaged::DamagedObject;

/// The slots that look-ups of one session treat as absent, as of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReclaimView {
    oldest: Option<Epoch>,
    newest: Option<Epoch>,
    own: Option<SessionId>,
    absent: AbsentSlots,
    unreadable: Vec<DamagedObject>,
    blind: bool,
    /// Slots are absent that no list names any more.
    keeps: bool,
}

impl ReclaimView {
    /// This view, in which all that was absent before stays absent.
    pub(crate) fn keeping(mut self, before: &Self) -> Self {
        let mut builder = ViewBuilder {
            runs: std::mem::take(&mut self.absent.whole),
            parts: std::mem::take(&mut self.absent.parts),
            view: self,
        };
        builder.runs.extend(&before.absent.whole);
        for (container, ranges) in &before.absent.parts {
            builder.parts.entry(*container).or_default().extend(ranges);
        }
        builder.view.keeps = true;
        builder.build()
    }

    /// Whether slots are absent that no list names any more.
    pub(crate) fn keeps(&self) -> bool {
        self.keeps
    }

    /// The highest epoch that the view honours. It honours all epochs up to this one.
    #[must_use]
    pub fn newest_epoch(&self) -> Option<Epoch> {
        self.newest
    }

    /// The oldest epoch whose list is kept. Drop caches, runs and nodes that are stamped with an
    /// older one: no list names the slots any more that were removed from compacted containers
    /// before it.
    #[must_use]
    pub fn oldest_epoch(&self) -> Option<Epoch> {
        self.oldest
    }

    /// Whether a look-up must not return this slot.
    #[must_use]
    pub fn is_absent(&self, location: ChunkLocation) -> bool {
        self.blinded(location.container) || self.absent.contains(location)
    }

    /// Whether a look-up must return nothing of this container.
    #[cfg(test)]
    pub(crate) fn is_absent_container(&self, container: ContainerId) -> bool {
        self.blinded(container) || self.absent.contains_all(container)
    }

    /// Whether a look-up may return all of these slots. It is false if even one is absent.
    #[must_use]
    pub fn is_whole(&self, container: ContainerId, slots: SlotRange) -> bool {
        !self.blinded(container) && !self.absent.meets(container, slots)
    }

    /// Whether everything but the session's own containers is absent, because a list cannot be
    /// read.
    #[must_use]
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    /// The lists that cannot be read.
    #[must_use]
    pub fn unreadable(&self) -> &[DamagedObject] {
        &self.unreadable
    }

    fn blinded(&self, container: ContainerId) -> bool {
        self.blind && self.own != Some(container.session)
    }
}

/// A view that is being built.
#[derive(Debug, Default)]
pub(crate) struct ViewBuilder {
    view: ReclaimView,
    runs: Vec<(u64, u64)>,
    parts: HashMap<ContainerId, Vec<SlotRange>>,
}

impl ViewBuilder {
    pub(crate) fn new(own: SessionId) -> Self {
        Self {
            view: ReclaimView {
                own: Some(own),
                ..ReclaimView::default()
            },
            ..Self::default()
        }
    }

    pub(crate) fn saw(&mut self, epoch: Epoch) {
        self.view.newest = self.view.newest.max(Some(epoch));
        self.view.oldest = Some(self.view.oldest.map_or(epoch, |oldest| oldest.min(epoch)));
    }

    pub(crate) fn absent(&mut self, slots: &[ContainerSlots]) {
        for entry in slots {
            match &entry.slots {
                None => self.absent_container(entry.container),
                Some(ranges) => self.parts.entry(entry.container).or_default().extend(ranges),
            }
        }
    }

    pub(crate) fn absent_runs(&mut self, runs: &[ContainerRun]) {
        self.runs
            .extend(runs.iter().map(|run| (run.first.to_u64(), run.last_u64())));
    }

    pub(crate) fn absent_container(&mut self, container: ContainerId) {
        self.runs.push((container.to_u64(), container.to_u64()));
    }

    pub(crate) fn unreadable(&mut self, object: DamagedObject) {
        self.view.unreadable.push(object);
    }

    pub(crate) fn blind(&mut self) {
        self.view.blind = true;
    }

    pub(crate) fn build(mut self) -> ReclaimView {
        self.runs.sort_unstable();
        let mut whole: Vec<(u64, u64)> = Vec::new();
        for (first, end) in self.runs {
            match whole.last_mut() {
                Some((_, last)) if first.saturating_sub(*last) <= 1 => *last = end.max(*last),
                _ => whole.push((first, end)),
            }
        }
        let mut parts = self.parts;
        for ranges in parts.values_mut() {
            *ranges = joined(std::mem::take(ranges));
        }
        self.view.absent = AbsentSlots { whole, parts };
        self.view
    }
}

/// Slots by container, and whole containers as ranges of packed ids, in which the containers of one
/// session are consecutive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct AbsentSlots {
    whole: Vec<(u64, u64)>,
    parts: HashMap<ContainerId, Vec<SlotRange>>,
}

impl AbsentSlots {
    fn contains(&self, location: ChunkLocation) -> bool {
        self.meets(location.container, SlotRange::one(location.slot))
    }

    fn contains_all(&self, container: ContainerId) -> bool {
        let id = container.to_u64();
        let at = self.whole.partition_point(|(_, last)| *last < id);
        self.whole.get(at).is_some_and(|(first, _)| *first <= id)
    }

    fn meets(&self, container: ContainerId, slots: SlotRange) -> bool {
        if self.contains_all(container) {
            return true;
        }
        let Some(ranges) = self.parts.get(&container) else {
            return false;
        };
        let at = ranges.partition_point(|range| range.end() <= slots.first().get());
        ranges
            .get(at)
            .is_some_and(|range| range.first().get() < slots.end())
    }
}

/// The same slots as sorted, disjoint ranges.
fn joined(mut ranges: Vec<SlotRange>) -> Vec<SlotRange> {
    ranges.sort_unstable();
    let mut out: Vec<SlotRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.first().get() <= last.end() => {
                let count = range.end().max(last.end()) - last.first().get();
                *last = SlotRange::new(last.first(), count).unwrap_or(*last);
            }
            _ => out.push(range),
        }
    }
    out
}
