//! Eight lanes with AVX2.
//!
//! [`super::kernel`] and the AVX-512 module document what each operation must do.
#![expect(unsafe_code, reason = "loads into vectors take pointers")]

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_blendv_epi8, _mm256_loadu_si256, _mm256_or_si256,
    _mm256_permute2x128_si256, _mm256_set1_epi32, _mm256_setr_epi8, _mm256_shuffle_epi8, _mm256_slli_epi32,
    _mm256_srli_epi32, _mm256_storeu_si256, _mm256_unpackhi_epi32, _mm256_unpackhi_epi64,
    _mm256_unpacklo_epi32, _mm256_unpacklo_epi64, _mm256_xor_si256,
};

use super::kernel::{CHUNK_END, CHUNK_START, IV, KEYED_HASH, PARENT, ROOT, SCHEDULE, hash_lanes};
use super::node::{BLOCK_BYTES, Cv, Leaf, Pair};

pub(super) const LANES: usize = 8;
type Vector = __m256i;

hash_lanes!("avx2");

#[inline]
#[target_feature(enable = "avx2")]
fn load(words: &[u32; LANES]) -> Vector {
    // SAFETY: reads 32 bytes, which the reference covers; no alignment is asked for.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(vector: Vector) -> [u32; LANES] {
    let mut words = [0; LANES];
    // SAFETY: writes 32 bytes, which the array has; no alignment is asked for.
    unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), vector) }
    words
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: u32) -> Vector {
    _mm256_set1_epi32(word.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(x: Vector, y: Vector) -> Vector {
    _mm256_add_epi32(x, y)
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor(x: Vector, y: Vector) -> Vector {
    _mm256_xor_si256(x, y)
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotate_16(x: Vector) -> Vector {
    let bytes = _mm256_setr_epi8(
        2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15,
        12, 13,
    );
    _mm256_shuffle_epi8(x, bytes)
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotate_12(x: Vector) -> Vector {
    _mm256_or_si256(_mm256_srli_epi32::<12>(x), _mm256_slli_epi32::<20>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotate_8(x: Vector) -> Vector {
    let bytes = _mm256_setr_epi8(
        1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12, 1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14,
        15, 12,
    );
    _mm256_shuffle_epi8(x, bytes)
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotate_7(x: Vector) -> Vector {
    _mm256_or_si256(_mm256_srli_epi32::<7>(x), _mm256_slli_epi32::<25>(x))
}

/// Each lane of `which` must have all bits set, or none.
#[inline]
#[target_feature(enable = "avx2")]
fn choose(which: Vector, yes: Vector, no: Vector) -> Vector {
    _mm256_blendv_epi8(no, yes, which)
}

#[inline]
#[target_feature(enable = "avx2")]
fn transpose(blocks: &[&[u8; BLOCK_BYTES]; LANES]) -> [Vector; 16] {
    let mut out = [splat(0); 16];
    let mut half = 0;
    while half < 2 {
        let low = rows(blocks[0], blocks[1], blocks[2], blocks[3], half);
        let high = rows(blocks[4], blocks[5], blocks[6], blocks[7], half);
        let mut j = 0;
        while j < 4 {
            out[8 * half + j] = _mm256_permute2x128_si256::<0x20>(low[j], high[j]);
            out[8 * half + j + 4] = _mm256_permute2x128_si256::<0x31>(low[j], high[j]);
            j += 1;
        }
        half += 1;
    }
    out
}

/// One half of four blocks: the half h of vector j has their words 4h + j of it, in their order.
#[inline]
#[target_feature(enable = "avx2")]
fn rows(
    a: &[u8; BLOCK_BYTES],
    b: &[u8; BLOCK_BYTES],
    c: &[u8; BLOCK_BYTES],
    d: &[u8; BLOCK_BYTES],
    half: usize,
) -> [Vector; 4] {
    let part = |block: &[u8; BLOCK_BYTES]| {
        let (halves, _) = block.as_chunks::<32>();
        // SAFETY: reads 32 bytes, which the reference covers; no alignment is asked for.
        unsafe { _mm256_loadu_si256(halves[half].as_ptr().cast()) }
    };
    let (a, b, c, d) = (part(a), part(b), part(c), part(d));
    let (ab_low, ab_high) = (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
    let (cd_low, cd_high) = (_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab_low, cd_low),
        _mm256_unpackhi_epi64(ab_low, cd_low),
        _mm256_unpacklo_epi64(ab_high, cd_high),
        _mm256_unpackhi_epi64(ab_high, cd_high),
    ]
}
