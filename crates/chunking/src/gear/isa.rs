//! The instructions that search candidates, chosen at run time.
//!
//! Invariant: the running processor has the instructions that a value of [`Isa`] names.
//! So calls of its functions are sound. All give the same candidates.
#![expect(
    unsafe_code,
    reason = "functions compiled for instructions that not every processor has"
)]

use super::{Gear, portable};

/// Instructions of the running processor for computing the gear hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isa(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Sse41,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Isa {
    /// All that this processor supports, slowest first; never empty.
    #[must_use]
    pub fn available() -> Vec<Self> {
        let mut all = vec![Kind::Portable];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("sse4.1") && is_x86_feature_detected!("ssse3") {
                all.push(Kind::Sse41);
            }
            if is_x86_feature_detected!("avx2") {
                all.push(Kind::Avx2);
            }
            if is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vbmi")
            {
                all.push(Kind::Avx512);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            all.push(Kind::Neon);
        }
        all.into_iter().map(Self).collect()
    }

    /// The fastest that this processor supports.
    #[must_use]
    pub fn best() -> Self {
        Self::available().pop().unwrap_or(Self(Kind::Portable))
    }

    /// Its name, for measurements and failing tests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Sse41 => "sse4.1",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "neon",
        }
    }

    /// Like [`Gear::first`].
    pub(super) fn scan(self, gear: &Gear, bytes: &[u8], from: usize) -> Option<usize> {
        match self.0 {
            Kind::Portable => portable::scan(gear, bytes, from),
            // SAFETY: this kind is made only where the processor has SSE4.1 and SSSE3.
            #[cfg(target_arch = "x86_64")]
            Kind::Sse41 => unsafe { super::sse41::scan(gear, bytes, from) },
            // SAFETY: this kind is made only where the processor has AVX2.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => unsafe { super::avx2::scan(gear, bytes, from) },
            // SAFETY: this kind is made only where the processor has AVX-512 F, BW and VBMI.
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => unsafe { super::avx512::scan(gear, bytes, from) },
            // SAFETY: this kind is made only where the processor has NEON.
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => unsafe { super::neon::scan(gear, bytes, from) },
        }
    }
}
