//! For each queried slot, the first two backups that refer to it.
//!
//! Plain values. The slots of a container are sorted, disjoint pieces with equal owners. References
//! come in runs, so the pieces are few.

use std::collections::HashMap;

use types::{ContainerId, Slot, SlotRange};

use crate::slots::SlotMap;

const NOBODY: u32 = u32::MAX;

/// Slots `[first, end)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OwnedSlots {
    first: u32,
    end: u32,
    by: [u32; 2],
}

impl OwnedSlots {
    /// The owners of the slots if `who` refers to them too.
    const fn with(&self, who: u32) -> [u32; 2] {
        match self.by {
            [NOBODY, _] => [who, NOBODY],
            [first, NOBODY] if first != who => [first, who],
            by => by,
        }
    }
}

/// The owners of the queried slots.
#[derive(Debug, Default)]
pub(super) struct SlotOwners {
    containers: HashMap<ContainerId, Vec<OwnedSlots>>,
}

impl SlotOwners {
    /// These slots, without owners.
    pub(super) fn none_of(slots: SlotMap) -> Self {
        let piece = |range: SlotRange| OwnedSlots {
            first: range.first().get(),
            end: range.end(),
            by: [NOBODY; 2],
        };
        let containers = slots.into_sets();
        Self {
            containers: containers
                .map(|(container, set)| (container, set.ranges().map(piece).collect()))
                .collect(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// Adds `who` to the owners of these slots. Slots outside of the query are ignored.
    pub(super) fn add(&mut self, container: ContainerId, slots: SlotRange, who: u32) {
        let Some(pieces) = self.containers.get_mut(&container) else {
            return;
        };
        let (from, to) = (slots.first().get(), slots.end());
        let begin = pieces.partition_point(|piece| piece.end <= from);
        let end = begin + pieces[begin..].partition_point(|piece| piece.first < to);
        let touched = &pieces[begin..end];
        if touched.iter().all(|piece| piece.with(who) == piece.by) {
            return;
        }
        let mut new: Vec<OwnedSlots> = Vec::with_capacity(touched.len() + 2);
        for piece in touched {
            let (first, end) = (from.max(piece.first), to.min(piece.end));
            let parts = [
                (piece.first, first, piece.by),
                (first, end, piece.with(who)),
                (end, piece.end, piece.by),
            ];
            for (first, end, by) in parts {
                match new.last_mut() {
                    _ if first >= end => {}
                    Some(last) if last.end == first && last.by == by => last.end = end,
                    _ => new.push(OwnedSlots { first, end, by }),
                }
            }
        }
        pieces.splice(begin..end, new);
    }

    /// The first two backups that refer to a slot.
    pub(super) fn by(&self, container: ContainerId, slot: Slot) -> impl Iterator<Item = u32> {
        let pieces = self.containers.get(&container).map_or(&[][..], Vec::as_slice);
        let at = pieces.partition_point(|piece| piece.end <= slot.get());
        let here = pieces.get(at).filter(|piece| piece.first <= slot.get());
        let by = here.map_or([NOBODY; 2], |piece| piece.by);
        by.into_iter().filter(|who| *who != NOBODY)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use types::{ContainerKind, SequenceNumber, SessionId};

    use super::*;

    fn range(first: u32, count: u32) -> SlotRange {
        SlotRange::new(Slot::new(first).unwrap(), count).unwrap()
    }

    proptest! {
        #[test]
        fn each_slot_knows_the_first_two(
            asked in proptest::collection::vec((0..60u32, 1..9u32), 0..9),
            runs in proptest::collection::vec((0..60u32, 1..20u32, 0..4u32), 0..30),
        ) {
            let id = |n| ContainerId {
                session: SessionId::new(1).unwrap(),
                kind: ContainerKind::Data,
                sequence: SequenceNumber::new(n).unwrap(),
            };
            let mut slots = SlotMap::default();
            let mut model = vec![None; 100];
            for (first, count) in asked {
                slots.insert(id(1), range(first, count));
                (first..first + count).for_each(|slot| model[slot as usize] = Some(Vec::new()));
            }
            let mut met = SlotOwners::none_of(slots);
            for (first, count, who) in runs {
                met.add(id(1), range(first, count), who);
                met.add(id(2), range(first, count), who);
                for by in model[first as usize..(first + count) as usize].iter_mut().flatten() {
                    if by.len() < 2 && !by.contains(&who) {
                        by.push(who);
                    }
                }
            }
            for (slot, by) in (0..).zip(model) {
                let slot = Slot::new(slot).unwrap();
                prop_assert_eq!(met.by(id(1), slot).collect::<Vec<_>>(), by.unwrap_or_default());
                prop_assert_eq!(met.by(id(2), slot).count(), 0);
            }
            let pieces = met.containers.values().flatten();
            prop_assert!(pieces.clone().zip(pieces.skip(1)).all(|(one, next)| one.end <= next.first));
        }
    }
}
