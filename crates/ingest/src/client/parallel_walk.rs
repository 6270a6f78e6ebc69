//! The walk on several threads: one reads the folders, others read the metadata of the files.
//!
//! The results of the stretches are taken in the order in which the stretches were listed, so
//! nothing depends on which thread was faster. The number of stretches ahead is bounded
//! ([`STRETCHES_AHEAD`], INV-7). When nobody takes entries any more, all threads end with their
//! next stretch. If a thread dies, the walk reports it.

#[cfg(test)]
mod tests;

use std::thread::{self, Scope};

use crossbeam_channel::{Receiver, TryRecvError};
use env::Clock;
use tree::{Looked, Looker, Stretch, TreeError, Walk, WalkEntry, WalkOptions};

use crate::client::source_input::Around;
use crate::client::stages::ClientStages;
use crate::error::IngestError;
use crate::stage::{received, sent};

/// Threads that read metadata. On a cold disk or a network, they wait most of the time.
const LOOKERS: usize = 4;
/// The most stretches that are examined or wait to be taken.
const STRETCHES_AHEAD: usize = 6;

/// A stretch to examine, and the channel for its result.
type Job = (Stretch, crossbeam_channel::Sender<Looked>);

/// A message of the thread that reads the folders.
enum Listed {
    /// The channel for the result of the next stretch.
    Stretch(Receiver<Looked>),
    /// The walk is complete. A thread that ends without this message has died, and half a tree is
    /// no backup.
    End,
}

/// Entries and faults in listing order, as they come.
pub(crate) struct ParallelWalk<'a> {
    clock: &'a dyn Clock,
    walk: Walk,
    stretches: Receiver<Listed>,
    /// The next stretch, while it is examined.
    current: Option<Receiver<Looked>>,
    has_ended: bool,
}

/// The result of [`ParallelWalk::next`].
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once; a box would be one an entry"
)]
pub(crate) enum Next {
    /// An entry, or a fault between entries.
    Item(Result<WalkEntry, TreeError>),
    /// More will come, but it is not available yet.
    NotYet,
    /// The walk has ended.
    End,
}

impl<'a> ParallelWalk<'a> {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the system gives no threads.
    pub(crate) fn start<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        options: WalkOptions,
        around: Around<'env>,
    ) -> std::io::Result<Self>
    where
        'env: 'a,
    {
        let Around { stages, clock, .. } = around;
        let (to_walk, stretches) = crossbeam_channel::bounded(STRETCHES_AHEAD);
        let (jobs, queue) = crossbeam_channel::bounded::<Job>(STRETCHES_AHEAD);
        let (lister, walk) = Walk::apart(options);
        for number in 0..LOOKERS {
            let (looker, queue) = (walk.looker(), queue.clone());
            thread::Builder::new()
                .name(format!("look-{number}"))
                .spawn_scoped(scope, move || look(looker, &queue, stages, clock))?;
        }
        thread::Builder::new()
            .name("walk".to_owned())
            .spawn_scoped(scope, move || {
                stages.walk.run(clock, || list(lister, &to_walk, &jobs, clock));
            })?;
        Ok(Self {
            clock,
            walk,
            stretches,
            current: None,
            has_ended: false,
        })
    }

    /// The next entry or fault. With `wait`, it waits for it.
    ///
    /// # Errors
    /// [`IngestError::Internal`] if a thread died.
    pub(crate) fn next(&mut self, wait: bool) -> Result<Next, IngestError> {
        loop {
            if let Some(item) = self.walk.next() {
                return Ok(Next::Item(item));
            }
            if self.has_ended {
                return Ok(Next::End);
            }
            let current = match self.current.take() {
                Some(current) => current,
                None => match receive(self.clock, &self.stretches, wait) {
                    Ok(Listed::Stretch(next)) => next,
                    Ok(Listed::End) => {
                        self.has_ended = true;
                        continue;
                    }
                    Err(TryRecvError::Empty) => return Ok(Next::NotYet),
                    Err(TryRecvError::Disconnected) => {
                        return Err(IngestError::Internal("the thread that lists folders died"));
                    }
                },
            };
            match receive(self.clock, &current, wait) {
                Ok(looked) => self.walk.accept(looked),
                Err(TryRecvError::Empty) => {
                    self.current = Some(current);
                    return Ok(Next::NotYet);
                }
                Err(TryRecvError::Disconnected) => {
                    return Err(IngestError::Internal("a walking thread died"));
                }
            }
        }
    }
}

fn receive<T>(clock: &dyn Clock, from: &Receiver<T>, wait: bool) -> Result<T, TryRecvError> {
    if wait {
        received(clock, from).ok_or(TryRecvError::Disconnected)
    } else {
        from.try_recv()
    }
}

/// Reads the folders.
fn list(
    lister: impl Iterator<Item = Stretch>,
    to_walk: &crossbeam_channel::Sender<Listed>,
    jobs: &crossbeam_channel::Sender<Job>,
    clock: &dyn Clock,
) {
    for stretch in lister {
        let (done, looked) = crossbeam_channel::bounded(1);
        // Without a receiver the backup has stopped.
        if !sent(clock, to_walk, Listed::Stretch(looked)) || !sent(clock, jobs, (stretch, done)) {
            return;
        }
    }
    sent(clock, to_walk, Listed::End);
}

/// Examines files.
fn look(mut looker: Looker, queue: &Receiver<Job>, stages: &ClientStages, clock: &dyn Clock) {
    stages.walk.run(clock, || {
        while let Some((stretch, done)) = received(clock, queue) {
            // Nobody waits for it when the backup has stopped.
            drop(done.send(looker.look(stretch)));
        }
    });
}
