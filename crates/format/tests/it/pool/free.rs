//! Free blocks of an extent have one encoding: a list of few, a bitmap of many.

use format::pool::state::VolumeState;
use proptest::prelude::*;

use super::samples::{bits, extent};
use super::strategies as s;

fn state(free: format::pool::state::FreeBits) -> VolumeState {
    VolumeState {
        free_blocks: vec![(extent(1), free)],
        ..VolumeState::default()
    }
}

/// The bytes of a state with these bytes instead of free blocks.
fn with(free: &[u8]) -> Vec<u8> {
    // Version, batch, mapped, counted, free extents; an extent with some free blocks, its number.
    let before = [1, 0, 0, 0, 0, 1, 1];
    // Unreferenced, suspects, taken, given, different.
    [&before[..], free, &[0; 5]].concat()
}

fn list(numbers: &[u16]) -> Vec<u8> {
    let mut out = vec![numbers.len() as u8];
    out.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
    out
}

fn bitmap(count: [u8; 2], free: format::pool::state::FreeBits) -> Vec<u8> {
    let words = free.iter().flat_map(|word| word.to_le_bytes());
    count.into_iter().chain(words).collect()
}

#[test]
fn few_blocks_are_a_list_and_many_a_bitmap() {
    let few: Vec<u16> = (0..63).collect();
    assert_eq!(state(bits(0..63)).to_bytes(), with(&list(&few)));
    let many: Vec<u16> = (0..64).collect();
    let bytes = bitmap([64, 0], bits(0..64));
    assert_eq!(
        state(bits(0..64)).to_bytes(),
        with(&[&[64], &bytes[2..]].concat())
    );
    assert!(
        VolumeState::decode(&with(&list(&many))).is_err(),
        "many as a list"
    );
    let few = bitmap([63, 0], bits(0..63));
    assert!(
        VolumeState::decode(&with(&[&[63], &few[2..]].concat())).is_err(),
        "few as a bitmap"
    );
}

#[test]
fn free_blocks_that_no_encoder_writes_are_refused() {
    assert!(VolumeState::decode(&with(&list(&[5, 1023]))).is_ok());
    assert!(VolumeState::decode(&with(&bitmap([0xff, 0x07], bits(1..1024)))).is_ok());
    for (why, free) in [
        ("none", list(&[])),
        ("twice", list(&[5, 5])),
        ("descending", list(&[6, 5])),
        ("behind the extent", list(&[5, 1024])),
        ("another count", bitmap([0xfe, 0x07], bits(1..1024))),
        ("all", bitmap([0x80, 0x08], [u64::MAX; 16])),
        ("more than all", bitmap([0x81, 0x08], [u64::MAX; 16])),
    ] {
        assert!(VolumeState::decode(&with(&free)).is_err(), "{why}");
    }
}

proptest! {
    #[test]
    fn free_blocks_decode_to_themselves(free in s::free_bits()) {
        let bytes = state(free).to_bytes();
        prop_assert_eq!(VolumeState::decode(&bytes).unwrap().free_blocks, vec![(extent(1), free)]);
        let count: u32 = free.iter().map(|word| word.count_ones()).sum();
        let len = if count < 64 { 1 + 2 * count as usize } else { 128 + 1 + usize::from(count >= 128) };
        prop_assert_eq!(bytes.len(), with(&[]).len() + len);
    }
}
