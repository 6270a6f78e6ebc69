//! Worker threads for what only costs processor time: fingerprints and compression.
//!
//! A job never waits for another job, so any number of workers finishes. Results are collected
//! through tickets in the order of submission, whichever worker was faster: what is stored depends
//! on the order of chunks alone, never on timing.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use env::Clock;

use crate::queue::Closed;
use crate::stage::{received, sent};

type Job = Box<dyn FnOnce() + Send>;

/// Where jobs are handed in. Cheap to clone; the workers end when the last one is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Workers {
    jobs: Sender<Job>,
    clock: Arc<dyn Clock>,
}

/// The claim to one job's result.
#[derive(Debug)]
pub(crate) struct Ticket<R> {
    result: Receiver<R>,
    clock: Arc<dyn Clock>,
}

/// What the worker threads run until no more jobs can come.
#[derive(Debug, Clone)]
pub(crate) struct JobQueue {
    jobs: Receiver<Job>,
    clock: Arc<dyn Clock>,
}

/// A queue of at most `depth` jobs.
#[must_use]
pub(crate) fn queue(depth: usize, clock: &Arc<dyn Clock>) -> (Workers, JobQueue) {
    let (tx, rx) = crossbeam_channel::bounded(depth);
    let workers = Workers {
        jobs: tx,
        clock: Arc::clone(clock),
    };
    let jobs = JobQueue {
        jobs: rx,
        clock: Arc::clone(clock),
    };
    (workers, jobs)
}

impl Workers {
    /// Hands in a job, waiting while all queues are full.
    ///
    /// # Errors
    /// [`Closed`] when the workers are gone.
    pub(crate) fn submit<R: Send + 'static>(
        &self,
        job: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Ticket<R>, Closed> {
        let (tx, rx) = crossbeam_channel::bounded(1);
        let job: Job = Box::new(move || {
            // Nobody waits for the result when its stage has failed meanwhile.
            drop(tx.send(job()));
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
    /// [`Closed`] when the job was dropped unrun or panicked.
    pub(crate) fn wait(self) -> Result<R, Closed> {
        received(&*self.clock, &self.result).ok_or(Closed)
    }
}

impl JobQueue {
    /// Runs jobs until none can come any more.
    pub(crate) fn run(&self) {
        while let Some(job) = received(&*self.clock, &self.jobs) {
            job();
        }
    }
}
