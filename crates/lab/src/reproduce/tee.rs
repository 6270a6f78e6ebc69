//! One pass over a workload feeds several simulators, on two threads.
//!
//! The calling thread feeds half of the simulators directly. A bounded queue feeds the other half,
//! on a thread of its own. A single simulator runs on that thread. Memory: that of the simulators
//! and of the workload's chunks.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use simulate::{BackupHead, Chunk, Memory, Outcome, Settings, SimulateError, Simulator, Sink};

use super::Progress;

/// The most parts of backups that wait for the other thread.
const QUEUE: usize = 64;

/// Returns the memories with which the n-th backup is restored, numbered from 0.
pub(super) type Schedule = Box<dyn Fn(u64) -> Vec<Memory> + Send>;

/// A simulator's settings, and the memories of its restores.
pub(super) struct Trial {
    pub(super) settings: Settings,
    pub(super) schedule: Schedule,
}

/// A running trial.
struct Running<T> {
    simulator: Simulator<T>,
    schedule: Schedule,
    backups: u64,
}

impl<T: FnMut(Outcome) -> Result<(), SimulateError>> Sink for Running<T> {
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        self.simulator.begin(head)
    }
    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
        self.simulator.chunks(chunks)
    }
    fn end(&mut self) -> Result<(), SimulateError> {
        self.simulator.restore_with((self.schedule)(self.backups));
        self.backups += 1;
        self.simulator.end()
    }
}

/// A part of a backup, for the other thread.
enum Part {
    Begin(BackupHead),
    Chunks(Vec<Chunk>),
    End,
}

/// Replays into the simulators of this thread and of the other.
struct Tee<'a, S> {
    here: Vec<S>,
    there: SyncSender<Part>,
    progress: &'a Progress,
    /// How many simulators take each chunk.
    weight: u64,
}

impl<S> Tee<'_, S> {
    fn send(&self, part: Part) -> Result<(), SimulateError> {
        // The other thread ends early only if it failed. Its own error replaces this one.
        self.there.send(part).map_err(|_| SimulateError::Interrupted)
    }
}

impl<S: Sink> Sink for Tee<'_, S> {
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        self.send(Part::Begin(head.clone()))?;
        self.here.iter_mut().try_for_each(|sink| sink.begin(head))
    }
    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
        let bytes: u64 = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
        self.progress.advance(self.weight * bytes)?;
        self.send(Part::Chunks(chunks.to_vec()))?;
        self.here.iter_mut().try_for_each(|sink| sink.chunks(chunks))
    }
    fn end(&mut self) -> Result<(), SimulateError> {
        self.send(Part::End)?;
        self.here.iter_mut().try_for_each(Sink::end)
    }
}

/// Runs trials over a workload. Returns the outcomes of its backups, a list for each trial.
///
/// Progress counts the bytes of all backups once for each trial. Every chunk must have a hook, so
/// that only caps cost deduplication.
///
/// # Errors
/// `Settings` of a trial, and if hooks were sampled; `Interrupted`; errors of `replay`.
pub(super) fn run(
    replay: impl FnOnce(&mut dyn Sink) -> Result<(), SimulateError>,
    trials: Vec<Trial>,
    progress: &Progress,
) -> Result<Vec<Vec<Outcome>>, SimulateError> {
    let mut outcomes: Vec<Vec<Outcome>> = trials.iter().map(|_| Vec::new()).collect();
    let weight = trials.len() as u64;
    let mut here = Vec::with_capacity(trials.len());
    for (trial, outcomes) in trials.into_iter().zip(&mut outcomes) {
        let tell = |outcome: Outcome| {
            if let Some(period) = outcome
                .looked
                .as_ref()
                .map(|looked| looked.period)
                .filter(|period| *period > 1)
            {
                return Err(SimulateError::Settings(format!(
                    "the index of a trial has too little memory for a hook of every chunk, and kept one in {period}"
                )));
            }
            outcomes.push(outcome);
            Ok(())
        };
        here.push(Running {
            simulator: Simulator::new(trial.settings, tell)?.until(progress.cancelled()),
            schedule: trial.schedule,
            backups: 0,
        });
    }
    let there = here.split_off(here.len() / 2);
    thread::scope(|scope| {
        let (sender, receiver) = sync_channel(QUEUE);
        let other = scope.spawn(move || drain(&receiver, there));
        let mut tee = Tee {
            here,
            there: sender,
            progress,
            weight,
        };
        let replayed = replay(&mut tee);
        drop(tee);
        let other = other
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        other.and(replayed)
    })?;
    Ok(outcomes)
}

fn drain<S: Sink>(parts: &Receiver<Part>, mut sinks: Vec<S>) -> Result<(), SimulateError> {
    for part in parts {
        for sink in &mut sinks {
            match &part {
                Part::Begin(head) => sink.begin(head),
                Part::Chunks(chunks) => sink.chunks(chunks),
                Part::End => sink.end(),
            }?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::generate::TwoYear;
    use crate::generate::Workload as _;
    use simulate::{Finding, Policy, Schedule};

    #[test]
    fn hooks_are_never_sampled() {
        let run = |index_bytes| {
            let finding = Finding::Engine(Policy {
                index_bytes,
                ..Policy::default()
            });
            let trial = Trial {
                settings: Settings {
                    container_bytes: 4 << 20,
                    finding,
                    schedule: Schedule::All,
                    memories: Vec::new(),
                    skip: 0,
                },
                schedule: Box::new(|_| Vec::new()),
            };
            let load = TwoYear {
                snapshot_bytes: 40_000_000,
                weeks: 1,
                chunk_bytes: 256,
                ..TwoYear::default()
            };
            super::run(
                |sink| load.replay(sink),
                vec![trial],
                &Progress::new(Arc::default()),
            )
        };
        assert_eq!(run(64 << 20).unwrap()[0].len(), 5);
        let error = run(1 << 20).unwrap_err().to_string();
        assert!(error.contains("kept one in"), "{error}");
    }
}
