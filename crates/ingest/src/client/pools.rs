//! Threads and buffers that all clients of a process share.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use env::Clock;

use crate::buffer::BufferPool;
use crate::stage::StageStats;
use crate::workers::{ThreadPool, Workers};

/// Threads that fingerprint and compress, and buffers that sources are read into. A process makes
/// them once, for all its backups: 16 of these at a time then need no more threads for their
/// processor time than one (G10). Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClientPools {
    workers: Arc<ThreadPool>,
    buffers: Arc<Mutex<Vec<BufferPool>>>,
}

impl ClientPools {
    /// No threads and no buffers; the first backup makes them.
    #[must_use]
    pub fn new(clock: &Arc<dyn Clock>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            workers: Arc::new(ThreadPool::new("work", 2 * cores, clock)),
            buffers: Arc::default(),
        }
    }

    /// At least so many threads, for a backup's jobs.
    pub(crate) fn workers(&self, threads: usize, stage: &Arc<StageStats>) -> io::Result<Workers> {
        self.workers.workers(threads, stage)
    }

    /// Buffers with room for `capacity` bytes behind `headroom` spare ones: backups that read alike
    /// share them.
    pub(crate) fn buffers(&self, capacity: usize, headroom: usize) -> BufferPool {
        let mut pools = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.iter().find(|pool| pool.is_for(capacity, headroom)) {
            return pool.clone();
        }
        // Those of backups that have ended and read otherwise are of no more use.
        pools.retain(BufferPool::is_in_use);
        let pool = BufferPool::new(capacity, headroom);
        pools.push(pool.clone());
        pool
    }
}
