//! The gear hash with AVX2: 32 bytes at once.
//!
//! [`super::kernel`] and the AVX-512 module document what each operation must do.
#![expect(unsafe_code, reason = "loads into vectors take pointers")]

use std::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_add_epi16, _mm256_alignr_epi8,
    _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi16, _mm256_loadu_si256, _mm256_min_epu16,
    _mm256_movemask_epi8, _mm256_mullo_epi16, _mm256_packs_epi16, _mm256_permute2x128_si256,
    _mm256_set1_epi8, _mm256_set1_epi16, _mm256_shuffle_epi8, _mm256_srli_epi16, _mm256_unpackhi_epi8,
    _mm256_unpacklo_epi8, _mm256_xor_si256,
};

use super::kernel::scan;

pub(super) const BYTES: usize = 32;
type Vector = __m256i;

scan!("avx2");

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; BYTES]) -> Vector {
    // SAFETY: reads 32 bytes, which the reference covers; no alignment is asked for.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn table(bytes: &[u8; 16]) -> Vector {
    // SAFETY: reads 16 bytes, which the reference covers; no alignment is asked for.
    _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn splat(word: u16) -> Vector {
    _mm256_set1_epi16(word.cast_signed())
}

#[inline]
#[target_feature(enable = "avx2")]
fn halves(x: Vector) -> (Vector, Vector) {
    let mask = _mm256_set1_epi8(15);
    (
        _mm256_and_si256(x, mask),
        _mm256_and_si256(_mm256_srli_epi16::<4>(x), mask),
    )
}

#[inline]
#[target_feature(enable = "avx2")]
fn look_up(table: Vector, at: Vector) -> Vector {
    _mm256_shuffle_epi8(table, at)
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor(x: Vector, y: Vector) -> Vector {
    _mm256_xor_si256(x, y)
}

#[inline]
#[target_feature(enable = "avx2")]
fn interleave(low: Vector, high: Vector) -> (Vector, Vector) {
    (_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high))
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_product(x: Vector, y: Vector, k: Vector) -> Vector {
    _mm256_add_epi16(x, _mm256_mullo_epi16(y, k))
}

#[inline]
#[target_feature(enable = "avx2")]
fn back_1_word(x: Vector, y: Vector) -> Vector {
    _mm256_alignr_epi8::<14>(y, x)
}

#[inline]
#[target_feature(enable = "avx2")]
fn back_2_words(x: Vector, y: Vector) -> Vector {
    _mm256_alignr_epi8::<12>(y, x)
}

#[inline]
#[target_feature(enable = "avx2")]
fn back_4_words(x: Vector, y: Vector) -> Vector {
    _mm256_alignr_epi8::<8>(y, x)
}

#[inline]
#[target_feature(enable = "avx2")]
fn back_1_lane(before: Vector, x: Vector) -> Vector {
    _mm256_permute2x128_si256::<0x21>(before, x)
}

#[inline]
#[target_feature(enable = "avx2")]
fn back_2_lanes(_before_that: Vector, before: Vector, _x: Vector) -> Vector {
    before
}

#[inline]
#[target_feature(enable = "avx2")]
fn at_most(a: Vector, b: Vector, limit: Vector) -> u64 {
    let a = _mm256_cmpeq_epi16(_mm256_min_epu16(a, limit), a);
    let b = _mm256_cmpeq_epi16(_mm256_min_epu16(b, limit), b);
    u64::from(_mm256_movemask_epi8(_mm256_packs_epi16(a, b)).cast_unsigned())
}

#[inline]
#[target_feature(enable = "avx2")]
fn any_at_most(a: Vector, b: Vector, limit: Vector) -> bool {
    let least = _mm256_min_epu16(a, b);
    let found = _mm256_cmpeq_epi16(_mm256_min_epu16(least, limit), least);
    _mm256_movemask_epi8(found) != 0
}

/// Prefetches the cache line of an address, if there is one.
#[inline]
#[target_feature(enable = "avx2")]
fn fetch(at: *const u8) {
    _mm_prefetch::<_MM_HINT_T0>(at.cast());
}
