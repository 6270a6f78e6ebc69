//! Entries of eight bytes: of the map, of its upper pages, of the table of extents.

use format::pool::VOLUME_BLOCK_MIN;
use format::pool::entry::{BIRTH_MAX, MapEntry, PageReference};
use format::pool::table::{ExtentOwner, GRANTS_MAX, TableEntry};
use proptest::prelude::*;
use types::BlockNumber;

use super::samples::{self, block, volume};
use super::strategies as s;
use crate::strategies::number;

/// Packed values, half of them near valid ones.
fn packed() -> impl Strategy<Value = u64> {
    let near = (
        0..8u64,
        number(u64::MAX),
        number((1 << 40) - 1),
        0..64u32,
        any::<bool>(),
    );
    let near = near.prop_map(|(kind, middle, low, bit, flips)| {
        let value = kind << 60 | (middle & u64::from(BIRTH_MAX)) << 40 | low;
        if flips { value ^ 1 << bit } else { value }
    });
    prop_oneof![any::<u64>(), near]
}

proptest! {
    #[test]
    fn an_entry_is_packed_in_one_way(value in packed()) {
        if let Some(entry) = MapEntry::from_u64(value) {
            prop_assert_eq!(entry.to_u64(), value);
            prop_assert!(entry.block().is_none_or(|block| block.get() >= VOLUME_BLOCK_MIN));
        }
        let kind = value >> 60;
        let has_block = value & ((1 << 40) - 1) >= VOLUME_BLOCK_MIN;
        let is_entry = value == 0 || (1..=3).contains(&kind) && has_block;
        prop_assert_eq!(MapEntry::from_u64(value).is_some(), is_entry);
        prop_assert_eq!(MapEntry::from_stored(value).is_some(), is_entry && kind != 3);
    }

    #[test]
    fn a_reference_is_packed_in_one_way(value in packed()) {
        let reference = PageReference::from_u64(value);
        prop_assert_eq!(reference.map_or(0, PageReference::to_u64), value);
        prop_assert_eq!(reference.is_none(), value == 0);
    }

    #[test]
    fn an_extent_is_packed_in_one_way(value in packed(), shift in 0..3u32) {
        let value = value << shift;
        if let Some(entry) = TableEntry::from_u64(value) {
            prop_assert_eq!(entry.to_u64(), value);
        }
    }

    #[test]
    fn extents_decode_to_themselves(entry in s::table_entry()) {
        prop_assert_eq!(TableEntry::from_u64(entry.to_u64()), Some(entry));
    }
}

#[test]
fn the_finders_blocks_are_stored_as_private_ones() {
    let (block, birth) = (block(2000), 7);
    let frozen = MapEntry::Frozen { block, birth };
    assert_eq!(frozen.stored(), MapEntry::Private { block, birth });
    assert_eq!(MapEntry::from_u64(frozen.to_u64()), Some(frozen));
    assert_eq!(MapEntry::from_stored(frozen.to_u64()), None);
    for entry in [
        MapEntry::Zero,
        MapEntry::Private { block, birth },
        MapEntry::Counted { block, birth },
    ] {
        assert_eq!(entry.stored(), entry);
        assert_eq!(MapEntry::from_stored(entry.to_u64()), Some(entry));
    }
}

#[test]
fn owners_that_no_volume_can_be_are_refused() {
    let packed = |kind: u64, grants: u64, volume: u64| kind << 61 | grants << 32 | volume;
    for (why, value) in [
        ("free, with a volume", packed(0, 0, 1)),
        ("granted to nobody", packed(1, 5, 0)),
        ("owned by nobody", packed(2, 5, 0)),
        ("the header of nobody", packed(3, 5, 0)),
        ("a volume above the last", packed(2, 5, u64::from(u32::MAX))),
        ("the pool's, with a volume", packed(4, 0, 1)),
        ("the pool's, granted", packed(4, 1, 0)),
        ("no kind", packed(5, 0, 0)),
        ("no kind, with a volume", packed(7, 5, 1)),
    ] {
        assert_eq!(TableEntry::from_u64(value), None, "{why}");
    }
    let owner = ExtentOwner::Free;
    let grants = GRANTS_MAX;
    assert_eq!(
        TableEntry::from_u64(packed(0, GRANTS_MAX.into(), 0)),
        Some(TableEntry { owner, grants })
    );
}

#[test]
fn what_does_not_fit_is_not_packed() {
    let is_packed = |pack: fn() -> u64| std::panic::catch_unwind(pack).is_ok();
    fn granted(number: u32, grants: u32) -> u64 {
        let owner = ExtentOwner::Granted(volume(number));
        TableEntry { owner, grants }.to_u64()
    }
    fn pools(grants: u32) -> u64 {
        let owner = ExtentOwner::Pool;
        TableEntry { owner, grants }.to_u64()
    }
    fn counted(number: u64, birth: u32) -> u64 {
        let block = block(number);
        MapEntry::Counted { block, birth }.to_u64()
    }
    assert!(is_packed(|| granted(1, GRANTS_MAX)));
    assert!(!is_packed(|| granted(1, GRANTS_MAX + 1)), "30 bits of grants");
    assert!(!is_packed(|| granted(0, 1)), "volume 0");
    assert!(is_packed(|| pools(0)));
    assert!(!is_packed(|| pools(1)), "the pool's, granted");
    assert!(is_packed(|| counted(VOLUME_BLOCK_MIN, BIRTH_MAX)));
    assert!(
        !is_packed(|| counted(VOLUME_BLOCK_MIN, BIRTH_MAX + 1)),
        "21 bits of birth"
    );
    assert!(
        !is_packed(|| counted(VOLUME_BLOCK_MIN - 1, 1)),
        "a block of the pool"
    );
}

#[test]
fn a_reference_notices_another_page() {
    let leaf = samples::leaf();
    let reference = PageReference::to_page(block(5002), &leaf).unwrap();
    assert!(reference.is_to(&leaf));
    for bit in 0..leaf.len() * 8 {
        let mut other = leaf.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(!reference.is_to(&other), "bit {bit}");
    }
    assert!(PageReference::to_page(block(VOLUME_BLOCK_MIN - 1), &leaf).is_err());
    assert!(PageReference::to_page(BlockNumber::MAX, &leaf).is_ok());
    let to_the_pool = PageReference::from_u64(reference.to_u64() & !((1 << 40) - 1)).unwrap();
    assert_eq!(to_the_pool.block, block(0));
    assert!(!to_the_pool.is_to(&leaf), "no page is in extent 0");
}
