//! Gaps between streams, against their bytes.

use proptest::prelude::*;
use recipe::{Gap, Gaps, TreeRoot};
use types::ByteRange;

use crate::model::{Stream, make, streams};
use crate::store::Store;

fn gaps(store: &Store, before: &TreeRoot, after: &TreeRoot) -> Vec<Gap> {
    Gaps::new(store, before, after).map(Result::unwrap).collect()
}

fn slice(bytes: &[u8], range: ByteRange) -> &[u8] {
    &bytes[usize::try_from(range.offset).unwrap()..usize::try_from(range.end()).unwrap()]
}

/// Fails unless the gaps are in order, and the bytes between them equal.
fn assert_between_equal(before: &Stream, after: &Stream, gaps: &[Gap]) {
    let (mut a, mut b) = (0, 0);
    let of_end = |bytes: &[u8]| ByteRange {
        offset: bytes.len() as u64,
        len: 0,
    };
    let end = Gap {
        before: of_end(&before.bytes),
        after: of_end(&after.bytes),
    };
    for (number, gap) in gaps.iter().chain([&end]).enumerate() {
        let (from_a, from_b) = (gap.before.offset - a, gap.after.offset - b);
        let range = |offset, len| ByteRange { offset, len };
        assert_eq!(
            slice(&before.bytes, range(a, from_a)),
            slice(&after.bytes, range(b, from_b)),
            "before gap {number} of {gaps:?}"
        );
        assert!(
            number == 0 || number == gaps.len() || from_a > 0,
            "gaps touch: {gaps:?}"
        );
        (a, b) = (gap.before.end(), gap.after.end());
    }
    let is_empty = |gap: &Gap| gap.before.len == 0 && gap.after.len == 0;
    assert!(!gaps.iter().any(is_empty), "{gaps:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn streams_are_equal_between_their_gaps(streams in streams()) {
        let store = Store::new(16);
        let mut made: Vec<Stream> = Vec::new();
        for ops in &streams {
            let stream = make(&store, &made, ops);
            for other in &made {
                assert_between_equal(other, &stream, &gaps(&store, &other.root, &stream.root));
                assert_between_equal(&stream, other, &gaps(&store, &stream.root, &other.root));
            }
            prop_assert!(gaps(&store, &stream.root, &stream.root).is_empty());
            made.push(stream);
        }
    }
}

#[test]
fn a_change_costs_the_nodes_above_it() {
    let store = Store::new(64);
    let built = |bytes: Vec<u8>| {
        let children = store.chunk(&bytes);
        let root = store.build(&children, 16, &mut store.sink());
        Stream {
            bytes,
            children,
            root,
        }
    };
    let mut state = 1u32;
    let noise = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    });
    let first = built(noise.take(400_000).collect());
    let part = |from: usize, to: usize| first.bytes[from..to].to_vec();
    // In the middle some bytes more, further behind some less.
    let parts = [
        part(0, 200_000),
        vec![7; 50],
        part(200_000, 300_000),
        part(300_100, 400_000),
    ];
    let second = built(parts.concat());
    store.node_reads.set(0);
    let found = gaps(&store, &first.root, &second.root);
    assert_between_equal(&first, &second, &found);
    assert_eq!(found.len(), 2, "{found:?}");
    let lens = found.iter().map(|gap| gap.before.len + gap.after.len);
    assert!(lens.sum::<u64>() < 4 * 2 * 512, "{found:?}");
    // A few of each level, of either stream.
    let nodes = store.nodes_stored.get();
    assert!(
        store.node_reads.get() < 40 && nodes > 150,
        "{} reads, {nodes} nodes",
        store.node_reads.get()
    );
}
