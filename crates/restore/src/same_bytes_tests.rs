//! Ranges of streams that are compared, against their bytes.

use proptest::prelude::*;
use proptest::sample::Index;
use recipe::SameBytes;

use crate::test_store::{CHUNK_BYTES, containers, reader, store};

/// A part of a stream: repeated bytes, so that parts are often equal.
fn part() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        3 => (0..4u8, 1..4usize).prop_map(|(byte, chunks)| vec![byte; chunks * CHUNK_BYTES]),
        2 => (0..2u8, 1..3000usize).prop_map(|(byte, len)| vec![byte; len]),
        1 => prop::collection::vec(any::<u8>(), 1..2000),
    ]
}

fn stream() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(part(), 1..9).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn ranges_are_equal_if_their_bytes_are(
        before in stream(),
        mut after in stream(),
        shares in any::<bool>(),
        ranges in prop::collection::vec(any::<(Index, Index, Index)>(), 12),
    ) {
        if shares {
            after.extend_from_slice(&before);
        }
        let containers = containers();
        let (first, second) = (store(&containers, 1, &before), store(&containers, 500, &after));
        let nodes = reader(&containers);
        let mut same = SameBytes::new(&nodes, &first, &second);
        let mut equal = |a: usize, b: usize, len: usize| same.are_equal(a as u64, b as u64, len as u64);
        for (a, b, len) in &ranges {
            let (a, b) = (a.index(before.len()), b.index(after.len()));
            let len = len.index(1 + (before.len() - a).min(after.len() - b));
            let want = before[a..a + len] == after[b..b + len];
            prop_assert_eq!(equal(a, b, len).unwrap(), want, "{} {} {}", a, b, len);
        }
        if shares {
            let begin = after.len() - before.len();
            prop_assert!(equal(0, begin, before.len()).unwrap());
        }
        prop_assert!(equal(0, 0, before.len().max(after.len()) + 1).is_err());
    }
}
