//! The last known generations.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use types::{ContainerId, Generation};

/// The most remembered generations (INV-7). Beyond it all are dropped, and looked up again.
const REMEMBERED_MAX: usize = 1 << 18;

/// Generations above 0, as last known.
#[derive(Debug, Default)]
pub(crate) struct Generations {
    seen: Mutex<HashMap<ContainerId, Generation>>,
}

impl Generations {
    pub(crate) fn guess(&self, id: ContainerId) -> Generation {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(&id).copied().unwrap_or(Generation::FIRST)
    }

    pub(crate) fn remember(&self, id: ContainerId, generation: Generation) {
        if generation == Generation::FIRST {
            return;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REMEMBERED_MAX && !seen.contains_key(&id) {
            seen.clear();
        }
        let known = seen.entry(id).or_insert(generation);
        *known = generation.max(*known);
    }

    pub(crate) fn forget(&self, id: ContainerId) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.remove(&id);
    }
}
