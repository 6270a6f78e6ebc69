//! The view against a plain set of slots.

use std::collections::BTreeSet;

use format::reclaim::ContainerSlots;
use proptest::prelude::*;
use types::{ContainerId, ContainerKind};

use super::{at, container, id, range, slots, whole};
use crate::view::ViewBuilder;

const SLOTS: u32 = 24;

fn containers() -> Vec<ContainerId> {
    let kinds = [ContainerKind::Data, ContainerKind::Recipe, ContainerKind::Small];
    kinds
        .into_iter()
        .flat_map(|kind| [(1, 0), (1, 1), (1, 2), (2, 0), (2, 5)].map(|(s, n)| container(id(s), kind, n)))
        .collect()
}

fn lists() -> impl Strategy<Value = Vec<ContainerSlots>> {
    let entry = (
        0..15usize,
        prop::option::of(prop::collection::vec((0..SLOTS, 1..6u32), 1..4)),
    )
        .prop_map(|(which, ranges)| {
            let container = containers()[which];
            match ranges {
                None => whole(container),
                Some(ranges) => slots(container, &ranges),
            }
        });
    prop::collection::vec(entry, 0..12)
}

proptest! {
    #[test]
    fn a_view_is_the_union_of_its_lists(lists in lists()) {
        let mut model: BTreeSet<(ContainerId, u32)> = BTreeSet::new();
        let mut gone: BTreeSet<ContainerId> = BTreeSet::new();
        let mut builder = ViewBuilder::new(id(9));
        for entry in &lists {
            builder.absent(std::slice::from_ref(entry));
            match &entry.slots {
                None => { gone.insert(entry.container); }
                Some(ranges) => model.extend(
                    ranges.iter().flat_map(|range| range.iter()).map(|slot| (entry.container, slot.get())),
                ),
            }
        }
        let view = builder.build();
        let absent = |container, slot| gone.contains(&container) || model.contains(&(container, slot));
        for container in containers() {
            prop_assert_eq!(view.is_absent_container(container), gone.contains(&container));
            for slot in 0..SLOTS + 8 {
                prop_assert_eq!(view.is_absent(at(container, slot)), absent(container, slot));
                for count in 1..5 {
                    let whole = (slot..slot + count).all(|slot| !absent(container, slot));
                    prop_assert_eq!(view.is_whole(container, range(slot, count)), whole);
                }
            }
        }
    }
}

#[test]
fn a_blind_view_lets_only_the_sessions_own_containers_through() {
    let mut builder = ViewBuilder::new(id(9));
    builder.blind();
    let view = builder.build();
    let (own, other) = (super::data(id(9), 0), super::data(id(8), 0));
    assert!(view.is_blind());
    assert!(!view.is_absent(at(own, 0)) && view.is_whole(own, range(0, 3)));
    assert!(view.is_absent(at(other, 0)) && view.is_absent_container(other));
    assert!(!view.is_whole(other, range(0, 1)));
}
