//! Sixteen lanes with AVX-512 F.
//!
//! [`super::kernel`] uses the operations below and those of the sibling module. Only [`load`],
//! [`store`] and [`rows`] access memory, through references to everything that they read or write.
#![expect(unsafe_code, reason = "loads into vectors take pointers")]

use std::arch::x86_64::{
    __m512i, _mm512_add_epi32, _mm512_loadu_si512, _mm512_mask_mov_epi32, _mm512_ror_epi32,
    _mm512_set1_epi32, _mm512_shuffle_i32x4, _mm512_storeu_si512, _mm512_test_epi32_mask,
    _mm512_unpackhi_epi32, _mm512_unpackhi_epi64, _mm512_unpacklo_epi32, _mm512_unpacklo_epi64,
    _mm512_xor_si512,
};

use super::kernel::{CHUNK_END, CHUNK_START, IV, KEYED_HASH, PARENT, ROOT, SCHEDULE, hash_lanes};
use super::node::{BLOCK_BYTES, Cv, Leaf, Pair};

pub(super) const LANES: usize = 16;
type Vector = __m512i;

hash_lanes!("avx512f");

/// One word a lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u32; LANES]) -> Vector {
    // SAFETY: reads 64 bytes, which the reference covers; no alignment is asked for.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}

/// One word a lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(vector: Vector) -> [u32; LANES] {
    let mut words = [0; LANES];
    // SAFETY: writes 64 bytes, which the array has; no alignment is asked for.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) }
    words
}

/// The word in every lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn splat(word: u32) -> Vector {
    _mm512_set1_epi32(word.cast_signed())
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(x: Vector, y: Vector) -> Vector {
    _mm512_add_epi32(x, y)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor(x: Vector, y: Vector) -> Vector {
    _mm512_xor_si512(x, y)
}

/// Rotates to the right, like the functions below.
#[inline]
#[target_feature(enable = "avx512f")]
fn rotate_16(x: Vector) -> Vector {
    _mm512_ror_epi32::<16>(x)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rotate_12(x: Vector) -> Vector {
    _mm512_ror_epi32::<12>(x)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rotate_8(x: Vector) -> Vector {
    _mm512_ror_epi32::<8>(x)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn rotate_7(x: Vector) -> Vector {
    _mm512_ror_epi32::<7>(x)
}

/// `yes` in the lanes where `which` is not 0, else `no`.
#[inline]
#[target_feature(enable = "avx512f")]
fn choose(which: Vector, yes: Vector, no: Vector) -> Vector {
    _mm512_mask_mov_epi32(no, _mm512_test_epi32_mask(which, which), yes)
}

/// Vector `i` gets word `i` of every lane's block.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(blocks: &[&[u8; BLOCK_BYTES]; LANES]) -> [Vector; 16] {
    let mut out = [splat(0); 16];
    // For four lanes each: the quarter q of vector j has their words 4q + j.
    let fours = [
        rows(blocks[0], blocks[1], blocks[2], blocks[3]),
        rows(blocks[4], blocks[5], blocks[6], blocks[7]),
        rows(blocks[8], blocks[9], blocks[10], blocks[11]),
        rows(blocks[12], blocks[13], blocks[14], blocks[15]),
    ];
    let mut j = 0;
    while j < 4 {
        // Even and odd quarters of two of these, then the first and last of those.
        let even_low = _mm512_shuffle_i32x4::<0x88>(fours[0][j], fours[1][j]);
        let odd_low = _mm512_shuffle_i32x4::<0xdd>(fours[0][j], fours[1][j]);
        let even_high = _mm512_shuffle_i32x4::<0x88>(fours[2][j], fours[3][j]);
        let odd_high = _mm512_shuffle_i32x4::<0xdd>(fours[2][j], fours[3][j]);
        out[j] = _mm512_shuffle_i32x4::<0x88>(even_low, even_high);
        out[j + 4] = _mm512_shuffle_i32x4::<0x88>(odd_low, odd_high);
        out[j + 8] = _mm512_shuffle_i32x4::<0xdd>(even_low, even_high);
        out[j + 12] = _mm512_shuffle_i32x4::<0xdd>(odd_low, odd_high);
        j += 1;
    }
    out
}

/// Four blocks: the quarter q of vector j has their words 4q + j, in their order.
#[inline]
#[target_feature(enable = "avx512f")]
fn rows(
    a: &[u8; BLOCK_BYTES],
    b: &[u8; BLOCK_BYTES],
    c: &[u8; BLOCK_BYTES],
    d: &[u8; BLOCK_BYTES],
) -> [Vector; 4] {
    // SAFETY: each reads 64 bytes, which its reference covers; no alignment is asked for.
    let (a, b, c, d) = unsafe {
        (
            _mm512_loadu_si512(a.as_ptr().cast()),
            _mm512_loadu_si512(b.as_ptr().cast()),
            _mm512_loadu_si512(c.as_ptr().cast()),
            _mm512_loadu_si512(d.as_ptr().cast()),
        )
    };
    let (ab_low, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
    [
        _mm512_unpacklo_epi64(ab_low, cd_low),
        _mm512_unpackhi_epi64(ab_low, cd_low),
        _mm512_unpacklo_epi64(ab_high, cd_high),
        _mm512_unpackhi_epi64(ab_high, cd_high),
    ]
}
