//! Reproducible random numbers: each follows from a seed.

use std::fmt;

use env::{Entropy, SeededEntropy};

const BUFFER_WORDS: usize = 512;

/// SplitMix64's mixing function. It is a bijection.
pub(crate) const fn mixed(n: u64) -> u64 {
    let n = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Pseudo-random bytes with access to any word: word `n` of a sequence is always the same, and no
/// two words of it are equal. This is faster than [`Rng`], so that the consumer of the bytes sets
/// the pace.
pub(crate) fn noise(sequence: u64, first_word: u64, out: &mut [u8]) {
    for (word, n) in out.chunks_mut(8).zip(first_word..) {
        let bytes = drawn(sequence, n).to_le_bytes();
        word.copy_from_slice(&bytes[..word.len()]);
    }
}

/// The number `n` of a sequence, without computing those before it. No number occurs twice.
pub(crate) const fn drawn(seed: u64, n: u64) -> u64 {
    mixed(mixed(seed) ^ n.wrapping_mul(0xd134_2543_de82_ef95))
}

/// A generator for one kind of random decision. Each kind has its own, so that more draws of one
/// kind do not change another.
pub(crate) struct Rng {
    entropy: SeededEntropy,
    buffer: Vec<u8>,
    at: usize,
}

impl Rng {
    /// `stream` distinguishes generators with the same seed.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self {
            entropy: SeededEntropy::new(seed.rotate_left(32) ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            buffer: vec![0; 8 * BUFFER_WORDS],
            at: 8 * BUFFER_WORDS,
        }
    }

    pub(crate) fn number(&mut self) -> u64 {
        if self.at == self.buffer.len() {
            self.entropy.fill(&mut self.buffer);
            self.at = 0;
        }
        let mut word = [0; 8];
        word.copy_from_slice(&self.buffer[self.at..self.at + 8]);
        self.at += 8;
        u64::from_le_bytes(word)
    }

    /// Uniform below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        let wide = u128::from(self.number()) * u128::from(end);
        u64::try_from(wide >> 64).expect("less than what it was multiplied by")
    }

    /// Uniform above 0 and up to 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are drawn")]
    pub(crate) fn share(&mut self) -> f64 {
        ((self.number() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Below `end`, which is not 0. The odds of `k` are about 1 / (k + 1) of those of 0.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "numbers of directories"
    )]
    pub(crate) fn skewed_below(&mut self, end: u64) -> u64 {
        (((end + 1) as f64).powf(self.share()) as u64).clamp(1, end) - 1
    }

    /// Normally distributed with mean 0 and deviation 1.
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * self.share().ln()).sqrt() * (std::f64::consts::TAU * self.share()).cos()
    }

    /// Whether an event with this probability in a million happens.
    pub(crate) fn happens(&mut self, of_a_million: u64) -> bool {
        self.below(1_000_000) < of_a_million
    }

    /// Exponentially distributed with this mean.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "lengths of chunks"
    )]
    pub(crate) fn exponential(&mut self, mean: u64) -> u64 {
        (-self.share().ln() * mean as f64) as u64
    }

    /// Log-normally distributed with this mean. `sigma` is the standard deviation of the logarithm.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "lengths of files"
    )]
    pub(crate) fn log_normal(&mut self, mean: u64, sigma: f64) -> u64 {
        let normal = self.normal();
        (mean as f64 * (sigma * normal - sigma * sigma / 2.0).exp()) as u64
    }
}

impl fmt::Debug for Rng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rng")
    }
}
