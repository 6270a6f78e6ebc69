//! The processor's hint that memory will be read: it fetches the line while the program goes on.
#![cfg_attr(
    target_arch = "x86_64",
    expect(unsafe_code, reason = "the hint takes a pointer")
)]

/// Asks for the line of the processor's cache that has a byte. Changes nothing but time; on
/// processors other than x86-64 it does nothing, and each line is waited for when it is read.
#[inline]
pub(crate) fn expect_line(byte: &u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every processor of this kind has the instruction; it reads and writes nothing that a
    // program sees.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = byte;
}
