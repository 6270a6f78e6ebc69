use proptest::prelude::*;

use super::*;

/// The summary of these keys. A key may occur several times.
fn build(keys: &[u64]) -> (u32, Vec<u8>, Vec<u64>) {
    let ends = keys.first().zip(keys.last()).unwrap_or((&0, &0));
    let shift = shift_for(keys.len(), *ends.0, *ends.1);
    let mut builder = SummaryBuilder::new(shift);
    for equal in keys.chunk_by(|a, b| a == b) {
        builder.push(equal[0], equal.len());
    }
    let (blocks, tops) = builder.finish();
    (shift, blocks, tops)
}

fn parse(blocks: &[u8], number: usize) -> SummaryBlock<'_> {
    let block = Block::check(Block::bytes_at(blocks, number).unwrap()).unwrap();
    SummaryBlock::parse(block).unwrap()
}

fn spread(count: u64) -> Vec<u64> {
    let mut keys: Vec<u64> = (1..=count)
        .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - KEY_BITS))
        .collect();
    keys.sort_unstable();
    keys
}

/// Every key is found at its place, and the upper bits come back in order.
fn check(keys: &[u64]) {
    let (shift, blocks, tops) = build(keys);
    assert_eq!(blocks.len() / crate::block::BLOCK_BYTES, tops.len());
    let uppers: Vec<u64> = (0..tops.len()).flat_map(|at| parse(&blocks, at).keys()).collect();
    let expected: Vec<u64> = keys.iter().map(|key| key >> (shift - REMAINDER_BITS)).collect();
    assert_eq!(uppers, expected);
    for (position, key) in keys.iter().enumerate() {
        let at = tops.partition_point(|top| top <= key) - 1;
        let found = parse(&blocks, at).find(*key, shift).unwrap();
        assert!(
            found.contains(&(position as u64)),
            "{key:x} at {position}: {found:?}"
        );
        let same = |of: u64| of >> (shift - REMAINDER_BITS) == key >> (shift - REMAINDER_BITS);
        assert!(found.clone().all(|at| same(keys[usize::try_from(at).unwrap()])));
    }
}

#[test]
fn keys_are_found_at_their_places() {
    check(&[]);
    check(&[77]);
    check(&[77, 77, 77]);
    check(&[0, (1 << KEY_BITS) - 1]);
    for count in [2, 500, 4000, 50_000] {
        check(&spread(count));
    }
    // A gap that no block could hold, and many keys in one quotient.
    let mut keys: Vec<u64> = (0..2000).chain((0..2000).map(|n| (1 << 47) + n)).collect();
    keys.push((1 << KEY_BITS) - 1);
    check(&keys);
    check(&(0..9000).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4)))]

    #[test]
    fn any_keys_are_found(
        mut keys in proptest::collection::vec((0u64..1 << KEY_BITS, 0u32..40, 1usize..8), 0..600),
    ) {
        let mut keys: Vec<u64> = keys
            .drain(..)
            .flat_map(|(key, shift, times)| std::iter::repeat_n(key >> shift, times))
            .collect();
        keys.sort_unstable();
        // A fingerprint does not have more candidates.
        let keys: Vec<u64> = keys.chunk_by(|a, b| a == b).flat_map(|same| &same[..same.len().min(8)]).copied().collect();
        check(&keys);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), crate::block::BODY_BYTES),
        head in proptest::collection::vec(0u8..40, 64),
        keys in proptest::collection::vec(any::<u64>(), 20),
        shift in SHIFT_MIN..=SHIFT_MAX,
    ) {
        bytes[..64].copy_from_slice(&head);
        close_block(&mut bytes);
        let block = Block::check(Block::bytes_at(&bytes, 0).unwrap()).unwrap();
        if let Some(block) = SummaryBlock::parse(block) {
            for key in keys {
                let _found = block.find(key, shift);
            }
            prop_assert!(block.keys().count() <= block.keys);
        }
    }
}

#[test]
fn absent_keys_are_filtered_and_a_key_takes_some_eleven_bits() {
    for count in [1u64 << 15, 40_000, 60_000] {
        let keys = spread(count);
        let (shift, blocks, tops) = build(&keys);
        let bits = blocks.len() as f64 * 8.0 / count as f64;
        assert!((9.5..12.5).contains(&bits), "{bits} bits a key");
        let absent = |n: u64| n.wrapping_mul(0x2545_f491_4f6c_dd1d) >> (64 - KEY_BITS);
        let passed = (1..100_000u64)
            .map(absent)
            .filter(|key| {
                let at = tops.partition_point(|top| top <= key).checked_sub(1);
                at.is_some_and(|at| parse(&blocks, at).find(*key, shift).is_some())
            })
            .count();
        assert!(
            (150..500).contains(&passed),
            "{passed} of 100,000 absent keys passed"
        );
    }
}
