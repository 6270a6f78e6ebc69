//! Wrong nodes: each wrong statement is an error that says where (INV-8), and no wrong data is
//! returned (INV-5).

use format::node::{Node, NodeEntry};
use proptest::prelude::*;
use proptest::sample::Index;
use recipe::{ChunkRefs, NodeSource, RangeWalker, RecipeError, TreeRoot};
use types::{ChunkLocation, ContainerKind, Slot};

use crate::store::{Store, at, level};

/// A stream of random bytes with zeros in the middle, and the place of its first level-1 node.
fn stream() -> (Store, TreeRoot, ChunkLocation) {
    let store = Store::new(16);
    let mut state = 9u32;
    let mut bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    })
    .take(12_000)
    .collect();
    bytes[6000..8000].fill(0);
    let root = store.build(&store.chunk(&bytes), 4, &mut store.sink());
    assert!(root.level >= level(3));
    let mut first = root.location;
    loop {
        let node = store.node(first).unwrap();
        if node.level == level(1) {
            return (store, root, first);
        }
        let NodeEntry::Run {
            container,
            first: slot,
            ..
        } = node.entries[0]
        else {
            panic!("a run")
        };
        first = ChunkLocation { container, slot };
    }
}

fn first_error(store: &Store, root: &TreeRoot) -> RecipeError {
    let mut refs = ChunkRefs::whole(store, root);
    let error = refs.find_map(Result::err).expect("the lie is found");
    assert!(refs.next().is_none(), "nothing follows an error");
    error
}

/// The error for a changed first node. No reference may be returned before it.
fn tampered(change: impl FnOnce(&mut Node)) -> (RecipeError, ChunkLocation) {
    let (store, root, first) = stream();
    store.tamper_node(first, change);
    assert!(ChunkRefs::whole(&store, &root).next().unwrap().is_err());
    (first_error(&store, &root), first)
}

fn change_run(node: &mut Node, change: impl FnOnce(&mut Slot, &mut u32, &mut u64)) {
    let NodeEntry::Run {
        first,
        count,
        logical_len,
        ..
    } = &mut node.entries[0]
    else {
        panic!("a run")
    };
    change(first, count, logical_len);
}

#[test]
fn the_wrong_level() {
    let (error, first) = tampered(|node| node.level = level(2));
    assert!(
        matches!(error, RecipeError::WrongLevel { found_at, .. } if found_at == first),
        "{error}"
    );
    let (error, _) = tampered(|node| node.level = level(0));
    assert!(matches!(error, RecipeError::WrongLevel { .. }), "{error}");
}

#[test]
fn the_wrong_length() {
    let (error, first) = tampered(|node| node.logical_len += 1);
    assert!(
        matches!(error, RecipeError::WrongLength { node, .. } if node == first),
        "{error}"
    );
    let (error, first) = tampered(|node| change_run(node, |_, _, len| *len += 1));
    assert!(
        matches!(error, RecipeError::WrongRunLength { node, .. } if node == first),
        "{error}"
    );
    let (error, first) = tampered(|node| assert!(node.entries.pop().is_some()));
    assert!(
        matches!(error, RecipeError::WrongLength { node, .. } if node == first),
        "{error}"
    );
    let (error, first) = tampered(|node| node.entries.push(NodeEntry::Zeros { len: u64::MAX }));
    assert!(
        matches!(error, RecipeError::WrongLength { node, .. } if node == first),
        "{error}"
    );
}

#[test]
fn slots_that_are_not_there() {
    let (error, first) = tampered(|node| change_run(node, |_, count, _| *count += 500));
    let RecipeError::MissingSlot { node, missing } = error else {
        panic!("{error}")
    };
    assert_eq!((node, missing.container.kind), (first, ContainerKind::Data));
    let (error, first) = tampered(|node| change_run(node, |slot, _, _| *slot = Slot::MAX));
    assert!(
        matches!(error, RecipeError::MissingSlot { node, .. } if node == first),
        "{error}"
    );
    let (error, _) = tampered(|node| change_run(node, |_, count, _| *count = u32::MAX));
    assert!(matches!(error, RecipeError::MissingSlot { .. }), "{error}");
}

#[test]
fn empty_parts() {
    let (error, first) = tampered(|node| node.entries.push(NodeEntry::Zeros { len: 0 }));
    assert!(
        matches!(error, RecipeError::EmptyPart { node } if node == first),
        "{error}"
    );
    let (error, _) = tampered(|node| node.entries.clear());
    assert!(matches!(error, RecipeError::WrongLength { .. }), "{error}");
}

#[test]
fn more_children_than_fit() {
    let (error, first) = tampered(|node| node.entries = vec![NodeEntry::Zeros { len: 1 }; 70_000]);
    assert!(
        matches!(error, RecipeError::TooManyChildren { node, .. } if node == first),
        "{error}"
    );
}

#[test]
fn nodes_among_chunks_and_zeros_among_nodes() {
    let (error, _) = tampered(|node| {
        let nodes = at(ContainerKind::Recipe, 0, 0);
        node.entries[0] = NodeEntry::Run {
            container: nodes.container,
            first: nodes.slot,
            count: 1,
            logical_len: 1,
        };
    });
    assert!(matches!(error, RecipeError::WrongLevel { .. }), "{error}");
    let (store, root, _) = stream();
    store.tamper_node(root.location, |node| {
        node.entries[0] = NodeEntry::Zeros { len: 1 }
    });
    let error = first_error(&store, &root);
    assert!(
        matches!(error, RecipeError::ZerosAboveChunks { node, .. } if node == root.location),
        "{error}"
    );
}

#[test]
fn a_node_that_contains_itself() {
    let (store, root, _) = stream();
    store.tamper_node(root.location, |node| {
        let ChunkLocation { container, slot } = root.location;
        node.entries = vec![NodeEntry::Run {
            container,
            first: slot,
            count: 1,
            logical_len: root.len,
        }];
    });
    assert!(matches!(
        first_error(&store, &root),
        RecipeError::WrongLevel { .. }
    ));
}

#[test]
fn other_chunks_of_equal_length() {
    // The catalog has the slots of two chunks exchanged. Every length and level is right.
    let (store, root, first) = stream();
    let node = store.node(first).unwrap();
    let NodeEntry::Run {
        container,
        first: slot,
        ..
    } = node.entries[0]
    else {
        panic!("a run")
    };
    let location = ChunkLocation { container, slot };
    store.tamper_entry(location, |entry| {
        let mut bytes = *entry.fingerprint.as_bytes();
        bytes[31] ^= 1;
        entry.fingerprint = types::Fingerprint::from_bytes(bytes);
    });
    let error = first_error(&store, &root);
    assert!(
        matches!(error, RecipeError::WrongFingerprint { node, .. } if node == first),
        "{error}"
    );
    // A range that covers only a part of the node is checked as well.
    let mut part = ChunkRefs::new(&store, &root, 0, 1).unwrap();
    assert!(matches!(
        part.next(),
        Some(Err(RecipeError::WrongFingerprint { .. }))
    ));
    // A splice refuses the node as well.
    let mut walker = RangeWalker::new(&store, &root, 0, 1000).unwrap();
    assert!(matches!(
        walker.next(false),
        Err(RecipeError::WrongFingerprint { .. })
    ));
}

#[test]
fn another_root_than_the_manifest_names() {
    let (store, root, _) = stream();
    let other = TreeRoot {
        fingerprint: types::Fingerprint::from_bytes([3; 32]),
        ..root
    };
    assert!(matches!(
        first_error(&store, &other),
        RecipeError::WrongFingerprint { .. }
    ));
    let longer = TreeRoot {
        len: root.len + 1,
        ..root
    };
    assert!(matches!(
        first_error(&store, &longer),
        RecipeError::WrongLength { .. }
    ));
    let chunk = TreeRoot {
        level: level(0),
        ..root
    };
    assert!(first_error(&store, &chunk).to_string().contains("level"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A changed node gives an error, or the very same references.
    #[test]
    fn a_changed_node_gives_an_error_or_the_same_references(
        lies in prop::collection::vec((any::<Index>(), 0..4u8, 0..40u32, any::<u32>()), 1..4),
        victim in any::<bool>(),
    ) {
        let (store, root, first) = stream();
        let told: Vec<_> = ChunkRefs::whole(&store, &root).map(Result::unwrap).collect();
        let victim = if victim { first } else { root.location };
        store.tamper_node(victim, |node| {
            for (index, how, small, any) in &lies {
                let at = index.index(node.entries.len());
                let copy = *index.get(&node.entries);
                match (&mut node.entries[at], how) {
                    (NodeEntry::Run { first, .. }, 0) => *first = Slot::new(*small).unwrap(),
                    (NodeEntry::Run { count, .. }, 1) => *count = *small,
                    (NodeEntry::Run { logical_len, .. }, 2) => *logical_len = u64::from(*any),
                    (NodeEntry::Zeros { len }, _) => *len = u64::from(*any) << small,
                    _ => node.entries.insert(0, copy),
                }
            }
        });
        let mut found = Vec::new();
        for reference in ChunkRefs::whole(&store, &root) {
            match reference {
                Ok(reference) => found.push(reference),
                Err(_) => break,
            }
        }
        prop_assert!(told.starts_with(&found));
    }
}

#[test]
fn ranges_beyond_the_stream() {
    let (store, root, _) = stream();
    for (offset, len) in [(0, root.len + 1), (root.len, 1), (u64::MAX, 1), (1, u64::MAX)] {
        let refused = RangeWalker::new(&store, &root, offset, len);
        assert!(
            matches!(refused, Err(RecipeError::OutOfStream { .. })),
            "{offset} {len}"
        );
    }
    assert!(
        RangeWalker::new(&store, &root, root.len, 0)
            .unwrap()
            .next(true)
            .unwrap()
            .is_none()
    );
}
