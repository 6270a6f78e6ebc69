//! How many backups share the pools.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts backups that run. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningCount(Arc<AtomicUsize>);

/// A backup that runs. Dropped at its end.
#[derive(Debug)]
pub(crate) struct Running(RunningCount);

impl RunningCount {
    /// Counts one more backup.
    pub(crate) fn begin(&self) -> Running {
        self.0.fetch_add(1, Ordering::Relaxed);
        Running(self.clone())
    }

    /// How many run now.
    pub(crate) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}
