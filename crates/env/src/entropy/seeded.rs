//! A reproducible generator.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use super::Entropy;

/// The same bytes for the same seed: for tests, and for generators of test data. Never for keys.
///
/// The bytes are the stream of ChaCha20 under the seed, so a test's recorded values stay the same.
pub struct SeededEntropy(Mutex<ChaCha20Rng>);

impl SeededEntropy {
    /// A generator that begins at the seed's first byte.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        Self(Mutex::new(ChaCha20Rng::from_seed(key)))
    }
}

impl fmt::Debug for SeededEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeededEntropy")
    }
}

impl Entropy for SeededEntropy {
    fn fill(&self, out: &mut [u8]) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fill_bytes(out);
    }
}
