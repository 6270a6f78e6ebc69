//! Randomness: salts, ids, keys.
//!
//! [`SystemEntropy`] is the system's generator. [`SeededEntropy`] is reproducible by its seed, and
//! only for tests and generators of test data. Many threads may use both.

mod seeded;
mod system;
#[cfg(test)]
mod tests;

use std::fmt;

pub use seeded::SeededEntropy;
pub use system::SystemEntropy;

/// A source of random bytes.
pub trait Entropy: Send + Sync + fmt::Debug {
    /// Fills the buffer with bytes that nobody can guess. (A test's source repeats them with its
    /// seed.)
    fn fill(&self, out: &mut [u8]);
}
