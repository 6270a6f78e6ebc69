//! Threads that run jobs: fingerprints and compression, reads ahead, puts.
//!
//! A pool's threads serve any number of sessions. A job never waits for another job of its pool, so
//! any number of threads finishes. Results are collected through tickets in the order of
//! submission, whichever thread was faster: what is stored depends on the order of chunks alone,
//! never on timing.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crossbeam_channel::{Receiver, Sender};
use env::Clock;

use crate::queue::Closed;
use crate::stage::{StageStats, received, sent};

type Job = Box<dyn FnOnce() + Send>;

/// Threads, and the queue of their jobs. The threads end when the pool and all [`Workers`] of it
/// are dropped.
#[derive(Debug)]
pub(crate) struct ThreadPool {
    name: &'static str,
    jobs: Sender<Job>,
    queue: Receiver<Job>,
    clock: Arc<dyn Clock>,
    started: Mutex<usize>,
}

/// Where a stage hands in its jobs. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Workers {
    jobs: Sender<Job>,
    clock: Arc<dyn Clock>,
    stage: Arc<StageStats>,
}

/// The claim to one job's result.
#[derive(Debug)]
pub(crate) struct Ticket<R> {
    result: Receiver<thread::Result<R>>,
    clock: Arc<dyn Clock>,
}

impl ThreadPool {
    /// A pool without threads, whose queue holds `depth` jobs.
    #[must_use]
    pub(crate) fn new(name: &'static str, depth: usize, clock: &Arc<dyn Clock>) -> Self {
        let (jobs, queue) = crossbeam_channel::bounded(depth);
        Self {
            name,
            jobs,
            queue,
            clock: Arc::clone(clock),
            started: Mutex::new(0),
        }
    }

    /// Hands in jobs of a stage. Starts threads until there are `threads`; more are left alone.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub(crate) fn workers(&self, threads: usize, stage: &Arc<StageStats>) -> io::Result<Workers> {
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        while *started < threads.max(1) {
            let queue = self.queue.clone();
            let thread = thread::Builder::new().name(format!("{}-{started}", self.name));
            thread.spawn(move || {
                for job in queue {
                    job();
                }
            })?;
            *started += 1;
        }
        stage.has_threads(*started);
        Ok(Workers {
            jobs: self.jobs.clone(),
            clock: Arc::clone(&self.clock),
            stage: Arc::clone(stage),
        })
    }
}

impl Workers {
    /// Hands in a job, waiting while the queue is full.
    ///
    /// # Errors
    /// [`Closed`] when the threads are gone.
    pub(crate) fn submit<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Ticket<R>, Closed> {
        let (tx, rx) = crossbeam_channel::bounded(1);
        let (clock, stage) = (Arc::clone(&self.clock), Arc::clone(&self.stage));
        let job: Job = Box::new(move || {
            let run = AssertUnwindSafe(|| stage.run_job(&*clock, job));
            // Nobody waits for the result when its stage has failed meanwhile.
            drop(tx.send(panic::catch_unwind(run)));
        });
        if !sent(&*self.clock, &self.jobs, job) {
            return Err(Closed);
        }
        Ok(Ticket {
            result: rx,
            clock: Arc::clone(&self.clock),
        })
    }
}

impl<R> Ticket<R> {
    /// Waits for the result.
    ///
    /// # Errors
    /// [`Closed`] when the job was dropped unrun.
    ///
    /// # Panics
    /// When the job did.
    pub(crate) fn wait(self) -> Result<R, Closed> {
        match received(&*self.clock, &self.result) {
            None => Err(Closed),
            Some(Ok(result)) => Ok(result),
            Some(Err(payload)) => panic::resume_unwind(payload),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use env::SystemClock;

    use super::*;

    fn pool() -> ThreadPool {
        ThreadPool::new("test", 1, &(Arc::new(SystemClock) as _))
    }

    #[test]
    fn sessions_share_threads_and_each_has_its_results() {
        let pool = pool();
        let stages = ["one", "another"].map(StageStats::new);
        let [one, another] = &stages;
        let (first, second) = (pool.workers(2, one).unwrap(), pool.workers(1, another).unwrap());
        let tickets: Vec<_> = (0..100)
            .map(|number| {
                let workers = if number % 2 == 0 { &first } else { &second };
                workers.submit(move || number).unwrap()
            })
            .collect();
        let results: Vec<i32> = tickets.into_iter().map(|ticket| ticket.wait().unwrap()).collect();
        assert_eq!(results, (0..100).collect::<Vec<_>>());
        for stage in &stages {
            assert_eq!(stage.threads.load(Ordering::Relaxed), 2);
        }
    }

    #[test]
    fn a_panic_ends_its_waiters_and_no_worker_thread() {
        let pool = pool();
        let workers = pool.workers(1, &StageStats::new("panics")).unwrap();
        let ticket = workers.submit(|| panic!("a test")).unwrap();
        let waited: thread::Result<Result<(), Closed>> =
            panic::catch_unwind(AssertUnwindSafe(|| ticket.wait()));
        assert!(waited.is_err());
        assert_eq!(workers.submit(|| 7).unwrap().wait(), Ok(7));
    }

    #[test]
    fn threads_end_with_their_pool() {
        let pool = pool();
        let alive = Arc::new(AtomicU64::new(0));
        let workers = pool.workers(1, &StageStats::new("ends")).unwrap();
        let held = Arc::clone(&alive);
        workers
            .submit(move || {
                thread_local!(static HELD: std::cell::RefCell<Option<Arc<AtomicU64>>> = const { std::cell::RefCell::new(None) });
                HELD.set(Some(held));
            })
            .unwrap()
            .wait()
            .unwrap();
        drop(workers);
        assert_eq!(Arc::strong_count(&alive), 2, "the pool keeps its thread");
        drop(pool);
        let mut naps = 0;
        while Arc::strong_count(&alive) > 1 {
            SystemClock.sleep(std::time::Duration::from_millis(5));
            naps += 1;
            assert!(naps < 2000, "the thread still runs after ten seconds");
        }
    }
}
