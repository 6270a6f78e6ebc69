//! The view against a plain set of slots.

use std::collections::BTreeSet;

use format::reclaim::{ContainerSlots, Moved};
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
    fn a_view_is_the_set_of_what_its_lists_name(lists in lists()) {
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
fn a_slot_of_a_merged_container_is_known_by_its_place() {
    let [from, other, to] = [1, 2, 9].map(|n| super::data(id(1), n));
    let moved = |from, count, here| Moved {
        from,
        count,
        to,
        first_here: at(to, here).slot,
        is_new: false,
    };
    let mut builder = ViewBuilder::new(id(9));
    builder.moved(vec![moved(other, 2, 20), moved(from, 5, 10)]);
    let view = builder.build();
    let came_from = |slot| view.came_from(at(to, slot));
    assert_eq!(
        [9, 10, 14, 15].map(came_from),
        [None, Some(from), Some(from), None]
    );
    assert_eq!(
        [19, 20, 21, 22].map(came_from),
        [None, Some(other), Some(other), None]
    );
    assert_eq!(view.came_from(at(from, 0)), None);
    assert_eq!(view.named_now(from, range(1, 3)), (to, range(11, 3)));
    assert_eq!(view.named_now(other, range(1, 1)), (to, range(21, 1)));
    assert_eq!(view.named_now(to, range(1, 3)), (to, range(1, 3)));
    assert_eq!(
        view.moved().collect::<BTreeSet<_>>(),
        BTreeSet::from([(from, to), (other, to)])
    );
}

/// Slots that were found damaged before their container was merged, and after.
#[test]
fn what_is_damaged_is_absent_by_every_name() {
    let [from, to] = [1, 9].map(|n| super::data(id(1), n));
    let moved = Moved {
        from,
        count: 5,
        to,
        first_here: at(to, 10).slot,
        is_new: false,
    };
    for listed in [slots(from, &[(1, 2), (4, 9)]), slots(to, &[(11, 2), (14, 1)])] {
        let mut builder = ViewBuilder::new(id(9));
        builder.moved(vec![moved]);
        builder.absent_by_all_names(listed);
        let view = builder.build();
        for (n, is_absent) in [(0, false), (1, true), (2, true), (3, false), (4, true)] {
            assert_eq!(view.is_absent(at(from, n)), is_absent, "{n}");
            assert_eq!(view.is_absent(at(to, 10 + n)), is_absent, "{n}");
        }
        assert!(!view.is_absent(at(to, 15)) && !view.is_absent(at(to, 9)));
    }
    // Of a stub that was lost nothing is.
    let mut builder = ViewBuilder::new(id(9));
    builder.moved(vec![moved]);
    builder.absent_by_all_names(whole(from));
    let view = builder.build();
    assert!(view.is_absent_container(from) && view.is_whole(to, range(0, 20)));
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
