//! The memory of segments that wait for the packer.
//!
//! The packer keeps a segment until the chunks before it have come, and the client decides when
//! that is. Who serves a client that may lie asks how much waits. Nothing here fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many children of segments are in memory, from the decision on the segment until its node is
/// written. Cheap to clone, for any number of threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unplaced(Arc<AtomicUsize>);

impl Unplaced {
    pub(crate) fn add(&self, children: usize) {
        self.0.fetch_add(children, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, children: usize) {
        self.0.fetch_sub(children, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}
