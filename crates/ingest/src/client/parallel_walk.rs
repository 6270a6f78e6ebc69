//! The walk on several threads: one goes through the folders, others ask for the metadata of the
//! files.
//!
//! What each stretch of the walk comes to is awaited in the order in which the stretches were
//! listed, so that nothing depends on which thread was faster. Stretches ahead are bounded
//! ([`STRETCHES_AHEAD`], INV-7). When nobody takes entries any more, all threads end with their
//! next stretch; when one dies, that is told.

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

/// Threads that ask for metadata: on a cold disk or a network most of their time is waiting.
const LOOKERS: usize = 4;
/// Stretches that are looked at or wait to be taken, at most.
const STRETCHES_AHEAD: usize = 6;

/// To be looked at, and where the result is awaited.
type Job = (Stretch, crossbeam_channel::Sender<Looked>);

/// What the thread that goes through the folders says.
enum Listed {
    /// Here comes what the next stretch is found to be.
    Stretch(Receiver<Looked>),
    /// That was all: who falls silent without it has died, and half a tree is no backup.
    End,
}

/// Entries and faults in listing order, as they come.
pub(crate) struct ParallelWalk<'a> {
    clock: &'a dyn Clock,
    walk: Walk,
    stretches: Receiver<Listed>,
    /// The stretch whose turn it is, while it is being looked at.
    current: Option<Receiver<Looked>>,
    has_ended: bool,
}

/// What [`ParallelWalk::next`] gives.
#[expect(
    clippy::large_enum_variant,
    reason = "it is taken apart at once; a box would be one an entry"
)]
pub(crate) enum Next {
    /// An entry, or a fault between entries.
    Item(Result<WalkEntry, TreeError>),
    /// There will be something, but it is not here yet.
    NotYet,
    /// The walk has ended.
    End,
}

impl<'a> ParallelWalk<'a> {
    /// Starts the threads.
    ///
    /// # Errors
    /// When there are no threads to be had.
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

    /// The next entry or fault; waits for it if `wait` says so.
    ///
    /// # Errors
    /// [`IngestError::Internal`] when a thread died.
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

/// Goes through the folders.
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

/// Looks at files.
fn look(mut looker: Looker, queue: &Receiver<Job>, stages: &ClientStages, clock: &dyn Clock) {
    stages.walk.run(clock, || {
        while let Some((stretch, done)) = received(clock, queue) {
            // Nobody waits for it when the backup has stopped.
            drop(done.send(looker.look(stretch)));
        }
    });
}
