//! Randomness: salts, ids, keys.

use std::fmt;

/// A source of random bytes.
pub trait Entropy: Send + Sync + fmt::Debug {
    /// Fills the buffer with bytes that nobody can guess (a test's: that repeat with its seed).
    fn fill(&self, out: &mut [u8]);
}
