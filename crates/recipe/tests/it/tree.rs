//! Small trees that are built by hand.

use format::node::NodeEntry;
use format::session::SpineNode;
use proptest::prelude::*;
use recipe::{Child, NodeSink, NodeSource, Place, RecipeError, TreeBuilder, segment_node};
use types::{ContainerKind, Fingerprint};

use crate::store::{Store, at, level, printer};

fn chunk(n: u32, len: u64) -> Child {
    Child::chunk(
        printer().chunk(&n.to_le_bytes()),
        len,
        at(ContainerKind::Data, n / 100, n % 100),
    )
}

#[test]
fn an_empty_stream_has_a_root() {
    let store = Store::new(8);
    let root = store.builder(4).finish(&mut store.sink()).unwrap();
    assert_eq!((root.level, root.len), (level(1), 0));
    assert_eq!(root.fingerprint, printer().node_hasher(level(1)).finish());
    assert!(store.node(root.location).unwrap().entries.is_empty());
    assert_eq!(recipe::ChunkRefs::whole(&store, &root).count(), 0);
}

#[test]
fn zeros_in_any_pieces_are_one_child() {
    let store = Store::new(8);
    let mut builder = store.builder(4);
    for len in [1, 5, 4096, 1 << 50] {
        builder
            .push(
                Child::zeros(Fingerprint::from_bytes([0; 32]), len),
                &mut store.sink(),
            )
            .unwrap();
    }
    let root = builder.finish(&mut store.sink()).unwrap();
    let node = store.node(root.location).unwrap();
    let len = (1 << 50) + 4102;
    assert_eq!(node.entries, [NodeEntry::Zeros { len }]);
    assert_eq!((node.logical_len, node.containers_max), (len, 0));
    let refs: Vec<_> = recipe::ChunkRefs::whole(&store, &root)
        .map(Result::unwrap)
        .collect();
    assert_eq!(refs.len(), 1);
    assert_eq!((refs[0].place, refs[0].len), (Place::Zeros, len));
    assert_eq!(refs[0].fingerprint, printer().zeros(len));
}

#[test]
fn a_node_of_neighbours_is_one_run() {
    let children: Vec<Child> = (10..20).chain(30..35).map(|n| chunk(n, 7)).collect();
    let mut children = children;
    children.insert(4, Child::zeros(printer().zeros(9), 9));
    children.push(chunk(135, 7));
    let node = segment_node(&children);
    let run = |first: u32, count: u32| {
        let first = at(ContainerKind::Data, first / 100, first % 100);
        let (container, first) = (first.container, first.slot);
        NodeEntry::Run {
            container,
            first,
            count,
            logical_len: u64::from(count) * 7,
        }
    };
    assert_eq!(
        node.entries,
        [
            run(10, 4),
            NodeEntry::Zeros { len: 9 },
            run(14, 6),
            run(30, 5),
            run(135, 1)
        ]
    );
    assert_eq!((node.logical_len, node.containers_max), (16 * 7 + 9, 2));
}

#[test]
fn more_than_eight_levels_are_refused() {
    let store = Store::new(1000);
    let mut builder = store.builder(4);
    let top = Child {
        level: level(8),
        containers_max: 1,
        ..chunk(1, 1000)
    };
    builder.push_node(top, &mut store.sink()).unwrap();
    assert!(builder.is_aligned(level(8)));
    let second = Child {
        fingerprint: printer().chunk(b"another"),
        ..top
    };
    let refused = builder.clone().push_node(second, &mut store.sink());
    assert!(matches!(refused, Err(RecipeError::TooLong)));
    let root = builder.finish(&mut store.sink()).unwrap();
    assert_eq!((root.level, root.fingerprint), (level(8), top.fingerprint));
}

#[test]
fn more_bytes_than_a_number_holds_are_refused() {
    let store = Store::new(8);
    let mut builder = store.builder(4);
    builder.push_zeros(u64::MAX).unwrap();
    assert!(matches!(builder.push_zeros(1), Err(RecipeError::TooLong)));
}

#[test]
#[should_panic(expected = "whole nodes follow only where nothing below them is open")]
fn a_node_cannot_follow_an_open_chunk() {
    let store = Store::new(8);
    let mut builder = store.builder(4);
    builder.push(chunk(1, 10), &mut store.sink()).unwrap();
    let node = Child {
        level: level(1),
        ..chunk(2, 10)
    };
    drop(builder.push_node(node, &mut store.sink()));
}

#[test]
fn children_of_open_nodes_are_pending() {
    let store = Store::new(8);
    let mut builder = store.builder(4);
    let children: Vec<Child> = (0..40).map(|n| chunk(n, 10)).collect();
    for child in &children {
        builder.push(*child, &mut store.sink()).unwrap();
    }
    let pending: u64 = builder.pending().map(|child| child.logical_len).sum();
    assert_eq!(pending, builder.len());
}

/// A stored segment of one chunk.
fn segment(store: &Store, number: u32) -> Child {
    let node = segment_node(&[chunk(number, 7)]);
    let mut hasher = printer().node_hasher(level(1));
    hasher.push(&chunk(number, 7).fingerprint, 7);
    let fingerprint = hasher.finish();
    let location = store.sink().store(&fingerprint, &node).unwrap();
    Child {
        fingerprint,
        logical_len: 7,
        level: level(1),
        place: Place::At(location),
        containers_max: 1,
    }
}

#[test]
fn no_builder_continues_from_an_impossible_spine() {
    let store = Store::new(100);
    let mut builder = store.builder(4);
    for number in 0..100 {
        builder
            .push_node(segment(&store, number), &mut store.sink())
            .unwrap();
    }
    let spine = builder.spine().unwrap();
    let resume = |spine: &[SpineNode]| TreeBuilder::resume(printer(), 4, spine).is_some();
    assert!(
        resume(&spine) && spine.last().unwrap().level > level(1),
        "{spine:?}"
    );
    let reversed: Vec<_> = spine.iter().rev().copied().collect();
    assert!(!resume(&reversed), "levels in another order");
    for changed in [
        SpineNode {
            level: level(0),
            ..spine[0]
        },
        SpineNode { len: 0, ..spine[0] },
        SpineNode {
            len: u64::MAX,
            ..spine[0]
        },
    ] {
        let mut spine = spine.clone();
        spine[0] = changed;
        assert!(!resume(&spine), "{changed:?}");
    }
    // The cut rule ends a node somewhere among so many children: no builder leaves all of them.
    let segments: Vec<SpineNode> = (0..100)
        .map(|number| {
            let one = segment(&store, number).as_root().unwrap();
            let (level, fingerprint, location) = (one.level, one.fingerprint, one.location);
            SpineNode {
                level,
                fingerprint,
                len: 7,
                location,
                containers_max: 1,
            }
        })
        .collect();
    assert!(!resume(&segments));
    builder.push(chunk(1, 7), &mut store.sink()).unwrap();
    assert!(builder.spine().is_none(), "a chunk is pending");
    let mut builder = store.builder(4);
    builder.push_zeros(1).unwrap();
    assert!(builder.spine().is_none(), "zeros are held back");
}

proptest! {
    /// Deep trees of small nodes: levels fall by one from the root, and every stream has the levels
    /// it needs.
    /// A spine can be taken between whole segments alone, as backups push them.
    #[test]
    fn a_resumed_tree_is_the_tree(segments in 1..400u32, stops in proptest::collection::vec(0..400u32, 0..4)) {
        let store = Store::new(100);
        let (mut straight, mut resumed) = (store.builder(4), store.builder(4));
        for number in 0..segments {
            if stops.contains(&number) {
                let spine = resumed.spine().expect("nodes alone are pending");
                let again = TreeBuilder::resume(printer(), 4, &spine).expect("what a builder left");
                prop_assert_eq!(again.len(), resumed.len());
                prop_assert_eq!(again.last(), resumed.last());
                resumed = again;
            }
            let segment = segment(&store, number);
            straight.push_node(segment, &mut store.sink()).unwrap();
            resumed.push_node(segment, &mut store.sink()).unwrap();
        }
        let roots = [straight, resumed].map(|builder| builder.finish(&mut store.sink()).unwrap());
        prop_assert_eq!(roots[0].fingerprint, roots[1].fingerprint);
        prop_assert_eq!((roots[0].len, roots[0].level), (roots[1].len, roots[1].level));
    }

    #[test]
    fn levels_grow_with_the_logarithm(count in 1..3000u32) {
        let store = Store::new(1000);
        let children: Vec<_> = (0..count).map(|n| {
            let fingerprint = printer().chunk(&n.to_le_bytes());
            let place = store.put_entry(ContainerKind::Data, fingerprint, level(0), 10);
            (10, Some(Child::chunk(fingerprint, 10, place)))
        }).collect();
        let root = store.build(&children, 4, &mut store.sink());
        let highest = root.level.get();
        // Nodes have 2 to 8 children, except the last one of a level.
        prop_assert!(8u64.pow(u32::from(highest)) >= u64::from(count));
        prop_assert!(highest == 1 || 2u64.pow(u32::from(highest) - 1) <= u64::from(count));
        let refs = recipe::ChunkRefs::whole(&store, &root);
        prop_assert_eq!(refs.map(|r| r.unwrap().fingerprint).collect::<Vec<_>>(),
            children.iter().map(|(_, chunk)| chunk.unwrap().fingerprint).collect::<Vec<_>>());
    }
}

#[test]
fn builders_are_values() {
    fn is_send<T: Send>(_: &T) {}
    is_send(&TreeBuilder::new(printer(), 512));
}
