//! The gear hash with SSE4.1, which every x86-64 processor of the last fifteen years has: 16 bytes
//! at once.
//!
//! [`super::kernel`] and the AVX-512 module document what each operation must do.
#![expect(unsafe_code, reason = "loads into vectors take pointers")]

use std::arch::x86_64::{
    __m128i, _MM_HINT_T0, _mm_add_epi16, _mm_alignr_epi8, _mm_and_si128, _mm_cmpeq_epi16, _mm_loadu_si128,
    _mm_min_epu16, _mm_movemask_epi8, _mm_mullo_epi16, _mm_packs_epi16, _mm_prefetch, _mm_set1_epi8,
    _mm_set1_epi16, _mm_shuffle_epi8, _mm_srli_epi16, _mm_unpackhi_epi8, _mm_unpacklo_epi8, _mm_xor_si128,
};

use super::kernel::scan;

pub(super) const BYTES: usize = 16;
type Vector = __m128i;

scan!("sse4.1,ssse3");

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn load(bytes: &[u8; BYTES]) -> Vector {
    // SAFETY: reads 16 bytes, which the reference covers; no alignment is asked for.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn table(bytes: &[u8; 16]) -> Vector {
    load(bytes)
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn splat(word: u16) -> Vector {
    _mm_set1_epi16(word.cast_signed())
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn halves(x: Vector) -> (Vector, Vector) {
    let mask = _mm_set1_epi8(15);
    (
        _mm_and_si128(x, mask),
        _mm_and_si128(_mm_srli_epi16::<4>(x), mask),
    )
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn look_up(table: Vector, at: Vector) -> Vector {
    _mm_shuffle_epi8(table, at)
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn xor(x: Vector, y: Vector) -> Vector {
    _mm_xor_si128(x, y)
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn interleave(low: Vector, high: Vector) -> (Vector, Vector) {
    (_mm_unpacklo_epi8(low, high), _mm_unpackhi_epi8(low, high))
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn add_product(x: Vector, y: Vector, k: Vector) -> Vector {
    _mm_add_epi16(x, _mm_mullo_epi16(y, k))
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn back_1_word(x: Vector, y: Vector) -> Vector {
    _mm_alignr_epi8::<14>(y, x)
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn back_2_words(x: Vector, y: Vector) -> Vector {
    _mm_alignr_epi8::<12>(y, x)
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn back_4_words(x: Vector, y: Vector) -> Vector {
    _mm_alignr_epi8::<8>(y, x)
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn back_1_lane(before: Vector, _x: Vector) -> Vector {
    before
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn back_2_lanes(before_that: Vector, _before: Vector, _x: Vector) -> Vector {
    before_that
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn at_most(a: Vector, b: Vector, limit: Vector) -> u64 {
    let a = _mm_cmpeq_epi16(_mm_min_epu16(a, limit), a);
    let b = _mm_cmpeq_epi16(_mm_min_epu16(b, limit), b);
    u64::from(_mm_movemask_epi8(_mm_packs_epi16(a, b)).cast_unsigned())
}

#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn any_at_most(a: Vector, b: Vector, limit: Vector) -> bool {
    let least = _mm_min_epu16(a, b);
    let found = _mm_cmpeq_epi16(_mm_min_epu16(least, limit), least);
    _mm_movemask_epi8(found) != 0
}

/// Prefetches the cache line of an address, if there is one.
#[inline]
#[target_feature(enable = "sse4.1,ssse3")]
fn fetch(at: *const u8) {
    _mm_prefetch::<_MM_HINT_T0>(at.cast());
}
