//! Worker threads for what only costs processor time: fingerprints and compression.
//!
//! A job never waits for another job, so any number of workers finishes. Results are collected through
//! tickets in the order of submission, whichever worker was faster: what is stored depends on the order
//! of chunks alone, never on timing.

use crossbeam_channel::{Receiver, Sender};

use crate::queue::Closed;

type Job = Box<dyn FnOnce() + Send>;

/// Where jobs are handed in. Cheap to clone; the workers end when the last one is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Workers {
    jobs: Sender<Job>,
}

/// The claim to one job's result.
#[derive(Debug)]
pub(crate) struct Ticket<R> {
    result: Receiver<R>,
}

/// What the worker threads run until no more jobs can come.
#[derive(Debug, Clone)]
pub(crate) struct JobQueue {
    jobs: Receiver<Job>,
}

/// A queue of at most `depth` jobs.
#[must_use]
pub(crate) fn queue(depth: usize) -> (Workers, JobQueue) {
    let (tx, rx) = crossbeam_channel::bounded(depth);
    (Workers { jobs: tx }, JobQueue { jobs: rx })
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
        self.jobs.send(job).map_err(|_| Closed)?;
        Ok(Ticket { result: rx })
    }
}

impl<R> Ticket<R> {
    /// Waits for the result.
    ///
    /// # Errors
    /// [`Closed`] when the job was dropped unrun or panicked.
    pub(crate) fn wait(self) -> Result<R, Closed> {
        self.result.recv().map_err(|_| Closed)
    }
}

impl JobQueue {
    /// Runs jobs until none can come any more.
    pub(crate) fn run(&self) {
        while let Ok(job) = self.jobs.recv() {
            job();
        }
    }
}
