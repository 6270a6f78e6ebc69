use proptest::prelude::*;

use super::*;
use crate::block::BLOCK_BYTES;
use crate::sampling::SampleLevel;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(4)))]

    #[test]
    fn records_are_read_back_from_every_leaf(
        low_bits in 0u32..=32,
        ordinal_bits in 0u32..=32,
        drawn in proptest::collection::vec(any::<(u64, u8, u32)>(), 0..1200),
    ) {
        let shape = RecordShape { low_bits, ordinal_bits };
        let entries: Vec<Entry> = drawn
            .iter()
            .map(|(key, rank, ordinal)| Entry {
                key: *key,
                rank: rank & 15,
                ordinal: u32::try_from(u64::from(*ordinal) & ((1 << ordinal_bits) - 1)).unwrap(),
            })
            .collect();
        let bytes = shape.write(&entries);
        prop_assert_eq!(bytes.len() as u64 / BLOCK_BYTES as u64, shape.leaves(entries.len() as u64));
        for (position, entry) in entries.iter().enumerate() {
            let expected = Entry { key: entry.key & ((1 << low_bits) - 1), ..*entry };
            let leaf = position / shape.stride();
            let mut places = vec![(leaf, position % shape.stride())];
            if leaf > 0 && position % shape.stride() < LEAF_OVERLAP {
                places.push((leaf - 1, position % shape.stride() + shape.stride()));
            }
            for (leaf, at) in places {
                let block = Block::check(Block::bytes_at(&bytes, leaf).unwrap()).unwrap();
                prop_assert_eq!(shape.read(block, at), Some(expected));
            }
        }
        let block = [7; BLOCK_BYTES];
        let none = shape.read(Block::checked_before(&block), shape.per_leaf());
        prop_assert!(none.is_none(), "past the last");
    }
}

#[test]
fn ranks_decide_which_records_stay() {
    for bits in 0..64 {
        let standing = Standing::from_bits(bits);
        let back = standing_of(rank_of(standing));
        assert_eq!(back.is_anchor, standing.is_anchor);
        for halvings in 0..=14 {
            let rate = crate::sampling::SamplingRate::new(halvings).unwrap();
            assert_eq!(
                back.stays_at(rate),
                standing.stays_at(rate),
                "{standing:?} at {rate}"
            );
        }
    }
    assert!(!standing_of(14).stays_at(crate::sampling::SamplingRate::MIN));
    assert!(standing_of(15).level <= SampleLevel::MAX);
}
