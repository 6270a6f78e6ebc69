//! The number of inputs that are hashed side by side, chosen at run time.
//!
//! Invariant: the running processor has the instructions that a value of [`LaneWidth`] names. So
//! calls of its functions are sound.
#![cfg_attr(
    target_arch = "x86_64",
    expect(
        unsafe_code,
        reason = "functions compiled for instructions that not every processor has"
    )
)]

#[cfg(target_arch = "x86_64")]
use super::node::{Cv, Leaf, Pair};

/// A number of lanes that the running processor supports: 1 (BLAKE3's own library does all), 8 or
/// 16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LaneWidth(Kind);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    One,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl LaneWidth {
    /// All widths that this processor supports, narrowest first; never empty.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        expect(unused_mut, reason = "there is one width")
    )]
    pub(crate) fn available() -> Vec<Self> {
        let mut all = vec![Self(Kind::One)];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                all.push(Self(Kind::Avx2));
            }
            if is_x86_feature_detected!("avx512f") {
                all.push(Self(Kind::Avx512));
            }
        }
        all
    }

    /// The widest that this processor supports.
    pub(crate) fn widest() -> Self {
        Self::available().pop().unwrap_or(Self(Kind::One))
    }

    /// The number of inputs side by side.
    pub(crate) const fn count(self) -> usize {
        match self.0 {
            Kind::One => 1,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => super::avx2::LANES,
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => super::avx512::LANES,
        }
    }

    /// The chaining values of leaves, at most as many as there are lanes.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn leaves(self, key: &Cv, leaves: &[Leaf<'_>], out: &mut [Cv]) {
        match self.0 {
            Kind::One => unreachable!("one lane is left to the library"),
            // SAFETY: this kind is made only where the processor has AVX2.
            Kind::Avx2 => unsafe { super::avx2::leaves(key, leaves, out) },
            // SAFETY: this kind is made only where the processor has AVX-512 F.
            Kind::Avx512 => unsafe { super::avx512::leaves(key, leaves, out) },
        }
    }

    /// The chaining values over pairs of them, at most as many as there are lanes.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn pairs(self, key: &Cv, pairs: &[Pair], cvs: &mut [Cv]) {
        match self.0 {
            Kind::One => unreachable!("one lane is left to the library"),
            // SAFETY: this kind is made only where the processor has AVX2.
            Kind::Avx2 => unsafe { super::avx2::pairs(key, pairs, cvs) },
            // SAFETY: this kind is made only where the processor has AVX-512 F.
            Kind::Avx512 => unsafe { super::avx512::pairs(key, pairs, cvs) },
        }
    }
}
