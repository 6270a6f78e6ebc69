//! Guards of look-ups: they keep a view while it may be swapped.
//!
//! A look-up holds a guard from before it asks the index until its result is recorded for the next
//! checkpoint. When an epoch appears, the view is swapped at once. An answer then waits until every
//! guard of an older view is returned (the drain rule). The lock is held for an instant, once for
//! the look-ups of a whole window. A guard that is never returned only delays the answer.
//! Reclamation expires a session that does not answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::view::ReclaimView;

#[derive(Debug)]
pub(crate) struct LookupGate {
    inside: Mutex<Inside>,
    left: Condvar,
}

#[derive(Debug)]
struct Inside {
    view: Arc<ReclaimView>,
    generation: u64,
    permits: BTreeMap<u64, usize>,
}

impl Inside {
    fn is_drained(&self) -> bool {
        self.permits
            .keys()
            .next()
            .is_none_or(|oldest| *oldest == self.generation)
    }
}

/// The right to look up, and the view for it. It is held until the result of the look-up is
/// recorded.
#[derive(Debug)]
pub struct EpochGuard {
    gate: Arc<LookupGate>,
    view: Arc<ReclaimView>,
    generation: u64,
}

impl EpochGuard {
    /// The slots to treat as absent.
    #[must_use]
    pub fn view(&self) -> &ReclaimView {
        &self.view
    }
}

impl Drop for EpochGuard {
    fn drop(&mut self) {
        let mut inside = self.gate.lock();
        if let Some(count) = inside.permits.get_mut(&self.generation) {
            *count -= 1;
            if *count == 0 {
                inside.permits.remove(&self.generation);
            }
        }
        drop(inside);
        self.gate.left.notify_all();
    }
}

impl LookupGate {
    pub(crate) fn new(view: ReclaimView) -> Self {
        let inside = Inside {
            view: Arc::new(view),
            generation: 0,
            permits: BTreeMap::new(),
        };
        Self {
            inside: Mutex::new(inside),
            left: Condvar::new(),
        }
    }

    pub(crate) fn enter(self: &Arc<Self>) -> EpochGuard {
        let mut inside = self.lock();
        let generation = inside.generation;
        *inside.permits.entry(generation).or_default() += 1;
        EpochGuard {
            gate: Arc::clone(self),
            view: Arc::clone(&inside.view),
            generation,
        }
    }

    pub(crate) fn view(&self) -> Arc<ReclaimView> {
        Arc::clone(&self.lock().view)
    }

    pub(crate) fn swap(&self, view: ReclaimView) {
        let mut inside = self.lock();
        inside.view = Arc::new(view);
        inside.generation += 1;
    }

    pub(crate) fn is_drained(&self) -> bool {
        self.lock().is_drained()
    }

    /// Waits until no look-up uses an older view than the present one, and returns the present one.
    pub(crate) fn drained(&self) -> Arc<ReclaimView> {
        let inside = self.lock();
        let inside = self
            .left
            .wait_while(inside, |inside| !inside.is_drained())
            .unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&inside.view)
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
