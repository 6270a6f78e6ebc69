//! Small trees that are built by hand.

use format::node::NodeEntry;
use proptest::prelude::*;
use recipe::{Child, NodeSource, Place, RecipeError, TreeBuilder, segment_node};
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
fn zeros_are_one_child_however_they_arrive() {
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
fn what_is_open_is_pending() {
    let store = Store::new(8);
    let mut builder = store.builder(4);
    let children: Vec<Child> = (0..40).map(|n| chunk(n, 10)).collect();
    for child in &children {
        builder.push(*child, &mut store.sink()).unwrap();
    }
    let pending: u64 = builder.pending().map(|child| child.logical_len).sum();
    assert_eq!(pending, builder.len());
}

proptest! {
    /// Deep trees of small nodes: levels fall by one from the root, and every stream has the levels
    /// that it needs.
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
