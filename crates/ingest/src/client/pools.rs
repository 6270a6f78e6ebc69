//! Threads and buffers that all clients of a process share.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use env::Clock;

use crate::backup_session::Distance;
use crate::buffer::BufferPool;
use crate::client::turns::Turns;
use crate::running::{Running, RunningCount};
use crate::stage::StageStats;
use crate::workers::{ThreadPool, Workers};

/// Bytes of offered segments that all backups hold before they wait, ...
const UNGATHERED_BYTES: u64 = 32 << 20;
/// ... that one holds (two segments of the usual length), ...
const UNGATHERED_BYTES_MAX: u64 = 8 << 20;
/// ... and that one holds whose store is far: verdicts wait behind the chunks of earlier segments.
const UNGATHERED_BYTES_FAR: u64 = 24 << 20;

/// Threads that fingerprint and compress, and buffers that sources are read into. A process makes
/// them once, for all its backups: 16 of these at a time then need no more threads for their
/// processor time than one (G10). Cheap to clone.
#[derive(Debug, Clone)]
pub struct ClientPools {
    workers: Arc<ThreadPool>,
    buffers: Arc<Mutex<Vec<BufferPool>>>,
    running: RunningCount,
    turns: Arc<Turns>,
}

/// A backup that runs, with its share of the memory. Dropped at its end.
#[derive(Debug)]
pub(crate) struct Share {
    _running: Running,
    /// How many ran when it began, with itself.
    sharing: usize,
}

impl ClientPools {
    /// No threads and no buffers; the first backup makes them.
    #[must_use]
    pub fn new(clock: &Arc<dyn Clock>) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self {
            workers: Arc::new(ThreadPool::new("work", 2 * cores, clock)),
            buffers: Arc::default(),
            running: RunningCount::default(),
            turns: Arc::new(Turns::new()),
        }
    }

    /// The turns of all backups.
    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Counts one more backup.
    pub(crate) fn begin(&self) -> Share {
        let running = self.running.begin();
        Share {
            sharing: self.running.now(),
            _running: running,
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

impl Share {
    /// Bytes of offered segments that a stream of the backup may hold before it waits.
    pub(crate) fn ungathered_bytes_max(&self, distance: Distance) -> u64 {
        let most = match distance {
            Distance::Here => UNGATHERED_BYTES_MAX,
            Distance::Far { .. } => UNGATHERED_BYTES_FAR,
        };
        (UNGATHERED_BYTES / self.sharing as u64).min(most)
    }
}
