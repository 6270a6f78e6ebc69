//! What a backup needs of each container, and how often a restore reads that.
//!
//! A restore holds a part of the stream at a time: a container whose chunks are needed here and far behind is read for each part
//! [Lillibridge 5.1]. So what it holds is told for each read.

use std::collections::BTreeMap;

use format::node::NodeEntry;
use recipe::{NodeCache, NodeSource, RecipeError, TreeRoot, child_nodes};
use session::ReclaimView;
use types::{ContainerId, ContainerKind, SlotRange};

use super::now;
use crate::progress::Progress;
use crate::slots::SlotMap;

/// Kinds of containers that hold chunks of live backups.
const HOLD_CHUNKS: [ContainerKind; 2] = [ContainerKind::Data, ContainerKind::Small];
/// What a restore holds of a stream at a time, in bytes: as by default.
const AREA_BYTES: u64 = 96 << 20;

/// What the backup needs of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needed {
    /// Plain bytes, each chunk once.
    pub(super) bytes: u64,
    pub(super) chunks: u64,
    /// Parts of the streams that need something of it.
    pub(super) reads: u64,
    /// Whether none of it is known to be damaged.
    pub(super) is_whole: bool,
    /// The part that needed it last.
    area: u64,
}

/// What it needs of each container, as they are now.
#[derive(Default)]
pub(super) struct Needs {
    pub(super) of: BTreeMap<ContainerId, Needed>,
    /// Chunks that were met, under the names that nodes have for them.
    slots: SlotMap,
    nodes: SlotMap,
    /// Bytes of the streams so far.
    position: u64,
}

impl Needs {
    /// Adds those of a stream. A run of which a part was met before counts whole, so that no more is copied than was thought; of
    /// nodes that come again the first counts alone.
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
            if progress.is_cancelled() {
                return Ok(());
            }
            if !self.nodes.insert(at.location.container, slot) {
                self.position += at.len;
            } else if at.level.get() > 1 {
                todo.extend(child_nodes(nodes, &at)?.into_iter().rev());
            } else {
                for entry in &nodes.node(at.location)?.entries {
                    self.add_entry(entry, view);
                }
            }
        }
        Ok(())
    }

    fn add_entry(&mut self, entry: &NodeEntry, view: &ReclaimView) {
        let area = self.position / AREA_BYTES;
        self.position += entry.logical_len();
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
        let of = self.of.entry(now(view, container)).or_insert(Needed {
            bytes: 0,
            chunks: 0,
            reads: 1,
            is_whole: true,
            area,
        });
        if of.area != area {
            of.reads += 1;
            of.area = area;
        }
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
    fn a_container_counts_for_each_part_that_needs_it_and_a_chunk_once() {
        let (one, other) = (id(ContainerKind::Data, 1), id(ContainerKind::Small, 2));
        let entries = [
            run(one, 0, 10, 1000),
            run(other, 0, 1, 50),
            // It is there already, but for two chunks.
            run(one, 8, 4, 400),
            run(one, 2, 5, 500),
            NodeEntry::Zeros { len: AREA_BYTES },
            run(one, 3, 1, 100),
            run(one, 12, 1, 100),
            run(id(ContainerKind::Archive, 3), 0, 1, 10),
        ];
        let mut needs = Needs::default();
        let view = ReclaimView::default();
        entries.iter().for_each(|entry| needs.add_entry(entry, &view));
        let of = |id| {
            let of: Needed = needs.of[&id];
            (of.bytes, of.chunks, of.reads)
        };
        assert_eq!(of(one), (1500, 13, 2));
        assert_eq!(of(other), (50, 1, 1));
        assert_eq!(needs.of.len(), 2);
        assert_eq!(needs.position, AREA_BYTES + 2160);
    }
}
