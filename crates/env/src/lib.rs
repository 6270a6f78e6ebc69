//! The only doors to time, randomness and storage.

mod clock;
mod entropy;
mod error;
mod storage;

use std::sync::Arc;

pub use clock::Clock;
pub use entropy::Entropy;
pub use error::StorageError;
pub use storage::{LockState, ObjectBytes, ObjectMeta, ProcessLock, Storage};

/// The doors together, as handed to whatever needs them. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Env {
    /// The store's objects.
    pub storage: Arc<dyn Storage>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub entropy: Arc<dyn Entropy>,
}
