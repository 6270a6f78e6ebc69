//! The gear hash with NEON, which every 64-bit ARM processor has: 16 bytes at once.
//!
//! [`super::kernel`] and the AVX-512 module document what each operation must do.
#![expect(unsafe_code, reason = "loads into vectors take pointers")]

use std::arch::aarch64::{
    uint8x16_t, vaddv_u8, vand_u8, vandq_u8, vcleq_u16, vdupq_n_u8, vdupq_n_u16, veorq_u8, vextq_u8, vld1_u8,
    vld1q_u8, vminq_u16, vminvq_u16, vmlaq_u16, vmovn_u16, vqtbl1q_u8, vreinterpretq_u8_u16,
    vreinterpretq_u16_u8, vshrq_n_u8, vzip1q_u8, vzip2q_u8,
};

use super::kernel::scan;

pub(super) const BYTES: usize = 16;
type Vector = uint8x16_t;

scan!("neon");

#[inline]
#[target_feature(enable = "neon")]
fn load(bytes: &[u8; BYTES]) -> Vector {
    // SAFETY: reads 16 bytes, which the reference covers; no alignment is asked for.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

#[inline]
#[target_feature(enable = "neon")]
fn table(bytes: &[u8; 16]) -> Vector {
    load(bytes)
}

#[inline]
#[target_feature(enable = "neon")]
fn splat(word: u16) -> Vector {
    vreinterpretq_u8_u16(vdupq_n_u16(word))
}

#[inline]
#[target_feature(enable = "neon")]
fn halves(x: Vector) -> (Vector, Vector) {
    (vandq_u8(x, vdupq_n_u8(15)), vshrq_n_u8::<4>(x))
}

#[inline]
#[target_feature(enable = "neon")]
fn look_up(table: Vector, at: Vector) -> Vector {
    vqtbl1q_u8(table, at)
}

#[inline]
#[target_feature(enable = "neon")]
fn xor(x: Vector, y: Vector) -> Vector {
    veorq_u8(x, y)
}

#[inline]
#[target_feature(enable = "neon")]
fn interleave(low: Vector, high: Vector) -> (Vector, Vector) {
    (vzip1q_u8(low, high), vzip2q_u8(low, high))
}

#[inline]
#[target_feature(enable = "neon")]
fn add_product(x: Vector, y: Vector, k: Vector) -> Vector {
    let (x, y, k) = (
        vreinterpretq_u16_u8(x),
        vreinterpretq_u16_u8(y),
        vreinterpretq_u16_u8(k),
    );
    vreinterpretq_u8_u16(vmlaq_u16(x, y, k))
}

#[inline]
#[target_feature(enable = "neon")]
fn back_1_word(x: Vector, y: Vector) -> Vector {
    vextq_u8::<14>(x, y)
}

#[inline]
#[target_feature(enable = "neon")]
fn back_2_words(x: Vector, y: Vector) -> Vector {
    vextq_u8::<12>(x, y)
}

#[inline]
#[target_feature(enable = "neon")]
fn back_4_words(x: Vector, y: Vector) -> Vector {
    vextq_u8::<8>(x, y)
}

#[inline]
#[target_feature(enable = "neon")]
fn back_1_lane(before: Vector, _x: Vector) -> Vector {
    before
}

#[inline]
#[target_feature(enable = "neon")]
fn back_2_lanes(before_that: Vector, _before: Vector, _x: Vector) -> Vector {
    before_that
}

#[inline]
#[target_feature(enable = "neon")]
fn at_most(a: Vector, b: Vector, limit: Vector) -> u64 {
    let limit = vreinterpretq_u16_u8(limit);
    let a = vcleq_u16(vreinterpretq_u16_u8(a), limit);
    let b = vcleq_u16(vreinterpretq_u16_u8(b), limit);
    // SAFETY: reads 8 bytes of an array of 8.
    let bits = unsafe { vld1_u8([1, 2, 4, 8, 16, 32, 64, 128].as_ptr()) };
    let of_half = |half| u64::from(vaddv_u8(vand_u8(half, bits)));
    of_half(vmovn_u16(a)) | of_half(vmovn_u16(b)) << 8
}

#[inline]
#[target_feature(enable = "neon")]
fn any_at_most(a: Vector, b: Vector, limit: Vector) -> bool {
    let least = vminq_u16(vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b));
    u64::from(vminvq_u16(least)) <= u64::from(vminvq_u16(vreinterpretq_u16_u8(limit)))
}

/// Does nothing: stable Rust does not have the hint for this processor.
#[inline]
#[target_feature(enable = "neon")]
fn fetch(_at: *const u8) {}
