//! The system's generator.

use super::Entropy;

/// The system's generator of random bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    /// # Panics
    /// If the system gives no random bytes: a key or salt made without them would be worse than
    /// none.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the door that the others are sent to"
    )]
    fn fill(&self, out: &mut [u8]) {
        getrandom::fill(out).expect("a running system has random bytes");
    }
}
