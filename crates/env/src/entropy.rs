//! Randomness: salts, ids, keys.
//!
//! [`SystemEntropy`] is the system's generator; [`SeededEntropy`] repeats itself with its seed and
//! is for tests and generators of test data alone. Both may be used from many threads at once.

mod seeded;
mod system;
#[cfg(test)]
mod tests;

use std::fmt;

pub use seeded::SeededEntropy;
pub use system::SystemEntropy;

/// A source of random bytes.
pub trait Entropy: Send + Sync + fmt::Debug {
    /// Fills the buffer with bytes that nobody can guess (a test's: that repeat with its seed).
    fn fill(&self, out: &mut [u8]);
}
