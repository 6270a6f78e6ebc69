//! Threads and memory that all backups into a store share.

use std::io;
use std::sync::Arc;

use env::{AlignedPool, Clock};

use crate::running::{Running, RunningCount};
use crate::stage::StageStats;
use crate::workers::{ThreadPool, Workers};

/// What a container may have over its target: a region, and what its catalog takes beyond the
/// estimate.
const CONTAINER_SLACK_BYTES: usize = 1 << 20;

/// A share of this or less is a container's whole length.
const SMALL_SHARE_BYTES: u64 = 2 << 20;

/// So many buffers of containers are kept that nobody uses: those of two writers, and one.
const SPARE_MAX: usize = 3;

/// Threads that put containers, and the memory of containers that are open. A store has them once,
/// for all its backups. Cheap to clone.
#[derive(Debug, Clone)]
pub struct StorePools {
    writers: Arc<ThreadPool>,
    buffers: AlignedPool,
    open_bytes: u64,
    running: RunningCount,
}

impl StorePools {
    /// For containers of `container_bytes`. Backups that run at once share `open_bytes` of memory
    /// for their open containers: where that is less than a container and 1 MiB for each, they
    /// close containers earlier.
    #[must_use]
    pub fn new(container_bytes: u32, open_bytes: u64, clock: &Arc<dyn Clock>) -> Self {
        Self {
            writers: Arc::new(ThreadPool::new("write", 1, clock)),
            buffers: AlignedPool::new(container_bytes as usize + CONTAINER_SLACK_BYTES, SPARE_MAX),
            open_bytes,
            running: RunningCount::default(),
        }
    }

    /// Counts one more backup.
    pub(crate) fn begin(&self) -> Running {
        self.running.begin()
    }

    /// Stored bytes at which a container of a backup closes now, whatever its target. Its last
    /// region, its catalog and the rest of its last page, which has 2 MiB, belong to the share. A
    /// small share is not made smaller by that.
    pub(crate) fn container_bytes_max(&self) -> u64 {
        let share = self.open_bytes / self.running.now().max(1) as u64;
        let without_region = share.saturating_sub(CONTAINER_SLACK_BYTES as u64);
        without_region.max(share.min(SMALL_SHARE_BYTES))
    }

    /// At least so many threads, for a backup's jobs.
    pub(crate) fn writers(&self, threads: usize, stage: &Arc<StageStats>) -> io::Result<Workers> {
        self.writers.workers(threads, stage)
    }

    /// Buffers for containers.
    pub(crate) fn buffers(&self) -> &AlignedPool {
        &self.buffers
    }
}

#[cfg(test)]
mod tests {
    use env::SystemClock;

    use super::*;

    #[test]
    fn backups_that_run_share_the_memory_of_open_containers() {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let mib = 1 << 20;
        let pools = StorePools::new(1 << 20, 9 * mib, &clock);
        assert_eq!(pools.container_bytes_max(), 8 * mib, "nobody runs");
        let first = pools.begin();
        assert_eq!(pools.container_bytes_max(), 8 * mib);
        let mut others = vec![pools.begin(), pools.clone().begin()];
        assert_eq!(pools.container_bytes_max(), 2 * mib);
        others.push(pools.begin());
        assert_eq!(pools.container_bytes_max(), 2 * mib, "of 2.25 MiB");
        others.extend((0..5).map(|_| pools.begin()));
        assert_eq!(pools.container_bytes_max(), mib);
        drop(others);
        assert_eq!(pools.container_bytes_max(), 8 * mib);
        drop(first);
        assert_eq!(pools.container_bytes_max(), 8 * mib);
    }
}
