//! The processor's prefetch hint: it loads a cache line while the program continues.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the hint takes a pointer")
)]

/// Prefetches the cache line of a byte. This changes only the time. On processors other than x86-64
/// it does nothing, and each line is loaded when it is read.
#[inline]
pub(crate) fn expect_line(byte: &u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has the instruction. It reads and writes nothing that a
    // program can observe.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
