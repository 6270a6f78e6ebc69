//! How much a backup needs of each container.

use std::collections::BTreeMap;

use format::node::NodeEntry;
use recipe::{NodeCache, NodeSource, RecipeError, TreeRoot, child_nodes};
use session::ReclaimView;
use types::{ContainerId, ContainerKind, SlotRange};

use crate::progress::Progress;
use crate::slots::SlotMap;

/// Kinds of containers that hold chunks of live backups. A backup that was archival and no longer
/// refers forward may have chunks in archive containers, which only it has.
const HOLD_CHUNKS: [ContainerKind; 3] = [ContainerKind::Data, ContainerKind::Small, ContainerKind::Archive];

/// The chunks that the backup needs of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needed {
    /// Plain bytes, each chunk once.
    pub(super) bytes: u64,
    pub(super) chunks: u64,
    /// Whether none of these chunks is known to be damaged.
    pub(super) is_whole: bool,
}

/// The needed chunks of each container.
#[derive(Default)]
pub(super) struct Needs {
    pub(super) of: BTreeMap<ContainerId, Needed>,
    /// Chunks that were counted, by the places that nodes name.
    slots: SlotMap,
    nodes: SlotMap,
}

impl Needs {
    /// Adds the chunks of a stream. The bytes of a run count in full even if a part of it was
    /// counted before, and so do those of a chunk that nodes name in two places. So repair never
    /// copies more than this.
    ///
    /// # Errors
    /// Of nodes.
    pub(super) fn add(
        &mut self,
        nodes: &NodeCache,
        root: &TreeRoot,
        view: &ReclaimView,
        progress: &dyn Progress,
    ) -> Result<(), RecipeError> {
        let mut todo = vec![*root];
        while let Some(at) = todo.pop() {
            let slot = SlotRange::one(at.location.slot);
            if progress.is_cancelled() || !self.nodes.insert(at.location.container, slot) {
                continue;
            }
            if at.level.get() > 1 {
                todo.extend(child_nodes(nodes, &at)?.into_iter().rev());
                continue;
            }
            for entry in &nodes.node(at.location)?.entries {
                self.add_entry(entry, view);
            }
        }
        Ok(())
    }

    fn add_entry(&mut self, entry: &NodeEntry, view: &ReclaimView) {
        let NodeEntry::Run {
            container,
            first,
            count,
            logical_len,
        } = *entry
        else {
            return;
        };
        let Some(slots) = SlotRange::new(first, count).filter(|_| HOLD_CHUNKS.contains(&container.kind))
        else {
            return;
        };
        let of = self.of.entry(container).or_insert(Needed {
            bytes: 0,
            chunks: 0,
            is_whole: true,
        });
        let known = self.slots.get(container).map_or(0, |known| {
            let met = known.within(slots);
            met.ranges().map(|range| u64::from(range.count())).sum()
        });
        if known < u64::from(count) {
            of.bytes += logical_len;
            of.chunks += u64::from(count) - known;
            of.is_whole &= view.is_whole(container, slots);
            self.slots.insert(container, slots);
        }
    }
}

#[cfg(test)]
mod tests {
    use types::{SequenceNumber, SessionId, Slot};

    use super::*;

    fn id(kind: ContainerKind, n: u32) -> ContainerId {
        ContainerId {
            session: SessionId::new(1).unwrap(),
            kind,
            sequence: SequenceNumber::new(n).unwrap(),
        }
    }

    fn run(container: ContainerId, first: u32, count: u32, logical_len: u64) -> NodeEntry {
        NodeEntry::Run {
            container,
            first: Slot::new(first).unwrap(),
            count,
            logical_len,
        }
    }

    #[test]
    fn a_chunk_counts_once() {
        let (one, other) = (id(ContainerKind::Data, 1), id(ContainerKind::Small, 2));
        let entries = [
            run(one, 0, 10, 1000),
            run(other, 0, 1, 50),
            // All but two of its chunks were counted before.
            run(one, 8, 4, 400),
            run(one, 2, 5, 500),
            NodeEntry::Zeros { len: 5000 },
            run(one, 3, 1, 100),
            run(one, 12, 1, 100),
            run(id(ContainerKind::Archive, 3), 0, 1, 10),
        ];
        let mut needs = Needs::default();
        let view = ReclaimView::default();
        entries.iter().for_each(|entry| needs.add_entry(entry, &view));
        let of = |id| {
            let of: Needed = needs.of[&id];
            (of.bytes, of.chunks)
        };
        assert_eq!(of(one), (1500, 13));
        assert_eq!(of(other), (50, 1));
        // From when it was archival.
        assert_eq!(of(id(ContainerKind::Archive, 3)), (10, 1));
        assert_eq!(needs.of.len(), 3);
    }
}
