//! The gear hash with AVX-512 (F, BW and VBMI, as since Ice Lake and Zen 4): 64 bytes at once.
//!
//! [`super::kernel`] uses the operations below; every sibling module has the same ones. Only
//! [`load`] and [`table`] access memory, through references to everything that they read.
#![expect(unsafe_code, reason = "loads into vectors take pointers")]

use std::arch::x86_64::{
    __m512i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm512_add_epi16, _mm512_alignr_epi8,
    _mm512_alignr_epi64, _mm512_broadcast_i32x4, _mm512_cmple_epu16_mask, _mm512_loadu_si512,
    _mm512_min_epu16, _mm512_movepi8_mask, _mm512_movm_epi16, _mm512_mullo_epi16, _mm512_packs_epi16,
    _mm512_permutexvar_epi8, _mm512_set1_epi16, _mm512_srli_epi16, _mm512_unpackhi_epi8,
    _mm512_unpacklo_epi8, _mm512_xor_si512,
};

use super::kernel::scan;

pub(super) const BYTES: usize = 64;
type Vector = __m512i;

scan!("avx512f,avx512bw,avx512vbmi");

/// The bytes as they stand in memory.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn load(bytes: &[u8; BYTES]) -> Vector {
    // SAFETY: reads 64 bytes, which the reference covers; no alignment is asked for.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// The 16 bytes in every lane.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn table(bytes: &[u8; 16]) -> Vector {
    // SAFETY: reads 16 bytes, which the reference covers; no alignment is asked for.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

/// The word everywhere.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn splat(word: u16) -> Vector {
    _mm512_set1_epi16(word.cast_signed())
}

/// Two numbers for each byte: the last four bits of one are its low half, and those of the other
/// its high half.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn halves(x: Vector) -> (Vector, Vector) {
    (x, _mm512_srli_epi16::<4>(x))
}

/// For each byte of `at`, the table's byte with the number in its last four bits. The table is
/// repeated four times, because the instruction uses six bits.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up(table: Vector, at: Vector) -> Vector {
    _mm512_permutexvar_epi8(at, table)
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn xor(x: Vector, y: Vector) -> Vector {
    _mm512_xor_si512(x, y)
}

/// Words of low and high bytes; the first eight of each lane, and the last eight.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn interleave(low: Vector, high: Vector) -> (Vector, Vector) {
    (_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high))
}

/// `x + y * k`, by words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn add_product(x: Vector, y: Vector, k: Vector) -> Vector {
    _mm512_add_epi16(x, _mm512_mullo_epi16(y, k))
}

/// In each lane the last word of `x`, then the first seven of `y`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn back_1_word(x: Vector, y: Vector) -> Vector {
    _mm512_alignr_epi8::<14>(y, x)
}

/// In each lane the last two words of `x`, then the first six of `y`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn back_2_words(x: Vector, y: Vector) -> Vector {
    _mm512_alignr_epi8::<12>(y, x)
}

/// In each lane the last four words of `x`, then the first four of `y`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn back_4_words(x: Vector, y: Vector) -> Vector {
    _mm512_alignr_epi8::<8>(y, x)
}

/// The last lane of the previous vector, then all lanes but the last of this one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn back_1_lane(before: Vector, x: Vector) -> Vector {
    _mm512_alignr_epi64::<6>(x, before)
}

/// The same by two lanes, which may reach into the vector before the previous one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn back_2_lanes(_before_that: Vector, before: Vector, x: Vector) -> Vector {
    _mm512_alignr_epi64::<4>(x, before)
}

/// A bit for each byte, in the order of the bytes: whether its word is at most that of `limit`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn at_most(a: Vector, b: Vector, limit: Vector) -> u64 {
    let a = _mm512_movm_epi16(_mm512_cmple_epu16_mask(a, limit));
    let b = _mm512_movm_epi16(_mm512_cmple_epu16_mask(b, limit));
    _mm512_movepi8_mask(_mm512_packs_epi16(a, b))
}

/// Whether any such bit is set, faster.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn any_at_most(a: Vector, b: Vector, limit: Vector) -> bool {
    _mm512_cmple_epu16_mask(_mm512_min_epu16(a, b), limit) != 0
}

/// Prefetches the cache line of an address, if there is one.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn fetch(at: *const u8) {
    _mm_prefetch::<_MM_HINT_T0>(at.cast());
}
