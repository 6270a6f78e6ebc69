//! Boundaries of bytes: they are the same for all buffers, return after an edit, and keep to the
//! lengths.

use crate::common::{Definition, gear, noise};
use chunking::{Cdc, CdcSizes, Chunker, ChunkingError, Fixed, Isa, is_zero};
use proptest::prelude::*;

const TINY: CdcSizes = CdcSizes {
    min: 64,
    avg: 128,
    max: 512,
};

fn tiny() -> Cdc {
    Cdc::new(TINY, &gear()).unwrap()
}

fn all_at_once(chunker: &dyn Chunker, bytes: &[u8]) -> Vec<u32> {
    let mut lens = Vec::new();
    assert_eq!(chunker.cut_all(bytes, true, &mut lens), bytes.len());
    lens
}

/// The definition, computed from scratch at every position.
fn by_definition(sizes: CdcSizes, bytes: &[u8]) -> Vec<u32> {
    let definition = Definition::new(&gear());
    let threshold = Cdc::new(sizes, &gear()).unwrap().threshold();
    let (min, max) = (sizes.min as usize, sizes.max as usize);
    let mut lens = Vec::new();
    let mut start = 0;
    while start < bytes.len() {
        let reach = bytes.len().min(start + max);
        let end = (start + min..reach)
            .find(|&end| definition.hash(&bytes[end - 64..end]) < threshold)
            .unwrap_or(reach);
        lens.push(u32::try_from(end - start).unwrap());
        start = end;
    }
    lens
}

/// Cuts with a caller's loop: buffers of the given lengths, with the rest carried over.
fn in_buffers(chunker: &dyn Chunker, bytes: &[u8], buffers: &[usize]) -> Vec<u32> {
    let (mut lens, mut carry, mut rest) = (Vec::new(), Vec::new(), bytes);
    let mut sizes = buffers.iter().cycle();
    loop {
        let (head, tail) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
        carry.extend_from_slice(head);
        rest = tail;
        let cut = chunker.cut_all(&carry, rest.is_empty(), &mut lens);
        carry.drain(..cut);
        assert!(carry.len() < chunker.chunk_bytes_max() as usize);
        if rest.is_empty() {
            return lens;
        }
    }
}

/// Random bytes with stretches that repeat or are zero, where rolling hashes may be weak.
fn mixed() -> impl Strategy<Value = Vec<u8>> {
    let part = (any::<u64>(), 0..900usize, 0..4u8).prop_map(|(seed, len, how)| match how {
        0 => vec![0; len],
        1 => vec![u8::try_from(seed % 256).unwrap(); len],
        _ => noise(seed, len),
    });
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn cdc_follows_the_definition(
        bytes in mixed(), skip in 0..64usize, min in 64..200u32, more in 1..300u32, spread in 2..9u32,
    ) {
        let sizes = CdcSizes { min, avg: min + more, max: (min + more) * spread };
        let bytes = &bytes[skip.min(bytes.len())..];
        let expected = by_definition(sizes, bytes);
        for isa in Isa::available() {
            let cdc = Cdc::new(sizes, &gear()).unwrap().by(isa);
            prop_assert_eq!(&all_at_once(&cdc, bytes), &expected, "{}", isa.name());
        }
    }

    #[test]
    fn buffering_moves_no_boundary(bytes in mixed(), buffers in prop::collection::vec(1..700usize, 1..6)) {
        let cdc = tiny();
        prop_assert_eq!(in_buffers(&cdc, &bytes, &buffers), all_at_once(&cdc, &bytes));
        let fixed = Fixed::new(4096).unwrap();
        prop_assert_eq!(in_buffers(&fixed, &bytes, &buffers), all_at_once(&fixed, &bytes));
    }

    #[test]
    fn lengths_are_within_bounds(bytes in mixed()) {
        let lens = all_at_once(&tiny(), &bytes);
        prop_assert_eq!(lens.iter().map(|&len| len as usize).sum::<usize>(), bytes.len());
        if let Some((last, others)) = lens.split_last() {
            prop_assert!(others.iter().all(|len| (TINY.min..=TINY.max).contains(len)));
            prop_assert!((1..=TINY.max).contains(last));
        }
    }

    #[test]
    fn an_insertion_is_forgotten(seed: u64, at in 0..20_000usize, insert in prop::collection::vec(any::<u8>(), 1..300)) {
        let before = noise(seed, 40_000);
        let mut after = before.clone();
        after.splice(at..at, insert.iter().copied());
        let from_end = |bytes: &[u8]| {
            let mut left = bytes.len();
            let ends = all_at_once(&tiny(), bytes).into_iter().map(move |len| {
                left -= len as usize;
                left
            });
            ends.collect::<Vec<_>>()
        };
        let (old, new) = (from_end(&before), from_end(&after));
        let same = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
        // 20 000 bytes follow the edit; the boundaries of all but the first few of its chunks
        // return.
        prop_assert!(same > 60, "only {} of {} boundaries returned", same, old.len());
    }

    #[test]
    fn one_byte_among_zeros_is_seen(len in 1..600usize, at in any::<prop::sample::Index>(), byte in 1..=255u8) {
        let mut bytes = vec![0; len];
        prop_assert!(is_zero(&bytes));
        bytes[at.index(len)] = byte;
        prop_assert!(!is_zero(&bytes));
    }
}

#[test]
fn the_mean_is_the_average() {
    let bytes = noise(7, 48 << 20);
    for avg in [1 << 10, 4 << 10, 8 << 10] {
        let chunks = all_at_once(&Cdc::new(CdcSizes::around(avg), &gear()).unwrap(), &bytes).len();
        let mean = bytes.len() / chunks;
        // The deviation of the mean of n lengths is avg / 2 / sqrt(n): under 0.7 % here.
        let off = mean.abs_diff(avg as usize) * 1000 / avg as usize;
        assert!(off < 25, "mean {mean} for an average of {avg}");
    }
}

/// The second hash decides one position in 65,536. There are enough bytes for both of its answers.
#[test]
fn the_second_hash_decides_alike_everywhere() {
    let (bytes, sizes) = (noise(5, 6 << 20), CdcSizes::around(200));
    let definition = Definition::new(&gear());
    let threshold = Cdc::new(sizes, &gear()).unwrap().threshold();
    let decided = bytes
        .windows(64)
        .map(|window| definition.hash(window))
        .filter(|hash| hash >> 16 == threshold >> 16)
        .map(|hash| hash < threshold);
    let (yes, no): (Vec<bool>, Vec<bool>) = decided.partition(|&is_candidate| is_candidate);
    assert!(
        yes.len() > 10 && no.len() > 10,
        "{} yes, {} no",
        yes.len(),
        no.len()
    );
    let expected = by_definition(sizes, &bytes);
    for isa in Isa::available() {
        let cdc = Cdc::new(sizes, &gear()).unwrap().by(isa);
        assert_eq!(all_at_once(&cdc, &bytes), expected, "{}", isa.name());
    }
}

/// Every length and every alignment around the widest vector, where the ends of loops may go wrong.
#[test]
fn every_length_and_alignment_is_cut_alike_everywhere() {
    let bytes = noise(23, 1024);
    for skip in 0..64 {
        for len in 0..300 {
            let bytes = &bytes[skip..skip + len];
            let expected = by_definition(TINY, bytes);
            for isa in Isa::available() {
                assert_eq!(
                    all_at_once(&tiny().by(isa), bytes),
                    expected,
                    "{} {skip} {len}",
                    isa.name()
                );
            }
        }
    }
}

/// Boundaries decide which data deduplicates against older backups, so they may never change.
#[test]
fn boundaries_are_those_of_format_1() {
    let cdc = Cdc::new(CdcSizes::default(), &gear()).unwrap();
    assert_eq!(cdc.threshold(), u32::MAX / 4097);
    let lens = all_at_once(&cdc, &noise(11, 60_000));
    assert_eq!(lens, GOLDEN);
}

const GOLDEN: [u32; 7] = [7586, 7009, 6937, 25442, 6041, 6148, 837];

#[test]
fn nothing_is_cut_before_it_is_certain() {
    let fixed = Fixed::new(4096).unwrap();
    assert_eq!(fixed.first_cut(&[1; 4095], false), None);
    assert_eq!(fixed.first_cut(&[1; 4095], true), Some(4095));
    assert_eq!(fixed.first_cut(&[1; 9000], false), Some(4096));
    for chunker in [&fixed as &dyn Chunker, &tiny()] {
        assert_eq!(chunker.first_cut(&[], true), None);
        assert_eq!(chunker.first_cut(&[1; 63], false), None);
    }
}

#[test]
fn impossible_sizes_are_refused() {
    let bad = [
        (63, 128, 512),
        (128, 128, 512),
        (64, 128, 255),
        (64, 128, (1 << 20) + 1),
        (64, u32::MAX, u32::MAX),
    ];
    for (min, avg, max) in bad {
        let refused = Cdc::new(CdcSizes { min, avg, max }, &gear());
        assert!(
            matches!(refused, Err(ChunkingError::Sizes { .. })),
            "{min} {avg} {max}"
        );
    }
    for bytes in [0, 4095, (1 << 20) + 1] {
        assert!(Fixed::new(bytes).is_err());
    }
}
