//! Readers in progress, so that a block is used again only when no reader can still be at it.
//!
//! Time is divided into eras. A reader counts itself in the era in which it begins. An era begins
//! when no reader of the one before the present remains. So a block that was unmapped in era `e`
//! has no reader once era `e + 2` has begun.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts readers by era. Any number of threads may use it.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    era: AtomicU64,
    counts: [AtomicU64; 2],
}

/// A reader in progress.
#[derive(Debug)]
pub(crate) struct Reading<'a> {
    count: &'a AtomicU64,
}

impl Readers {
    /// Begins to read.
    pub(crate) fn enter(&self) -> Reading<'_> {
        loop {
            let era = self.era.load(Ordering::SeqCst);
            let count = self.count(era);
            count.fetch_add(1, Ordering::SeqCst);
            if self.era.load(Ordering::SeqCst) == era {
                return Reading { count };
            }
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn count(&self, era: u64) -> &AtomicU64 {
        &self.counts[usize::from(!era.is_multiple_of(2))]
    }

    /// The present era.
    pub(crate) fn era(&self) -> u64 {
        self.era.load(Ordering::SeqCst)
    }

    /// Begins the next era if no reader of the last one remains. One thread at a time.
    pub(crate) fn advance(&self) -> u64 {
        let era = self.era();
        if self.count(era + 1).load(Ordering::SeqCst) == 0 {
            self.era.store(era + 1, Ordering::SeqCst);
        }
        self.era()
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
