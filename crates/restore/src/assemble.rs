//! Carries out a plan: containers are fetched ahead on worker threads, bytes leave in order.
//!
//! Memory: the planner's window, what was fetched and not sent yet, and the steps on their way; the
//! budget is split between them, so that it holds whatever the store looks like (INV-7).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use container::Containers;
use crypto::Fingerprinter;

use crate::error::RestoreError;
use crate::fetch::{Fetched, SlotResult, fetch};
use crate::plan::{Assembly, Next, Planner, Reference, SPOT_BYTES, Step};

/// Where restored bytes go, in stream order.
pub trait Sink {
    /// The next bytes.
    ///
    /// # Errors
    /// Any error ends the restore.
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), RestoreError>;

    /// The next `len` bytes are zeros.
    ///
    /// # Errors
    /// Any error ends the restore.
    fn zeros(&mut self, len: u64) -> Result<(), RestoreError>;

    /// The next `len` bytes could not be had. A sink that can leave them out returns `Ok`.
    ///
    /// # Errors
    /// Any error ends the restore.
    fn lost(&mut self, len: u64, error: &Arc<RestoreError>) -> Result<(), RestoreError>;
}

/// How a restore uses the machine.
#[derive(Debug, Clone, Copy)]
pub struct AssembleOptions {
    /// Memory for assembling, in bytes.
    pub budget_bytes: u64,
    /// How the area moves.
    pub assembly: Assembly,
    /// Threads that fetch; at least 1.
    pub workers: usize,
}

impl AssembleOptions {
    /// The defaults for a machine with `cores` processor cores.
    #[must_use]
    pub fn for_cores(cores: usize) -> Self {
        Self {
            budget_bytes: 96 << 20,
            assembly: Assembly::Rolling,
            workers: cores.max(1),
        }
    }
}

/// What an assembly cost [Lillibridge 3.1: the speed factor is bytes per container read].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AssembleStats {
    /// Bytes that left, zeros included.
    pub bytes: u64,
    /// Containers read, each as often as it was read.
    pub containers_read: u64,
    /// Plain bytes of the regions read.
    pub region_bytes_read: u64,
    /// Most memory held for assembling at any time.
    pub memory_bytes_max: u64,
}

/// References that stand for bytes that cannot be had, by number.
type Lost = Rc<RefCell<VecDeque<(u64, Arc<RestoreError>)>>>;

/// Passes lost parts on as spots that need no container, and notes which they are.
struct NotingLost<I> {
    references: I,
    passed: u64,
    lost: Lost,
}

impl<I> Iterator for NotingLost<I>
where
    I: Iterator<Item = Result<Reference, RestoreError>>,
{
    type Item = Result<Reference, RestoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        let number = self.passed;
        self.passed += 1;
        Some(match self.references.next()? {
            Err(RestoreError::LostPart { len, error }) => {
                self.lost.borrow_mut().push_back((number, error));
                Ok(Reference { chunk: None, len })
            }
            other => other,
        })
    }
}

struct Spot {
    reference: Reference,
    filled: Option<(Arc<Fetched>, SlotResult)>,
}

/// Restores the references' bytes into the sink.
///
/// # Errors
/// Those of the references and of the sink. Bytes that cannot be read, [`RestoreError::LostPart`] of the
/// references among them, are the sink's to judge.
pub fn assemble<I>(
    containers: &Containers,
    printer: &Fingerprinter,
    references: I,
    options: AssembleOptions,
    sink: &mut dyn Sink,
) -> Result<AssembleStats, RestoreError>
where
    I: Iterator<Item = Result<Reference, RestoreError>>,
{
    let workers = options.workers.max(1);
    let (jobs_tx, jobs_rx) = crossbeam_channel::unbounded::<(Step, crossbeam_channel::Sender<Fetched>)>();
    thread::scope(|scope| {
        for number in 0..workers {
            let jobs = jobs_rx.clone();
            let run = move || {
                while let Ok((step, result)) = jobs.recv() {
                    // Nobody waits for it when the restore has failed meanwhile.
                    drop(result.send(fetch(containers, printer, &step)));
                }
            };
            thread::Builder::new()
                .name(format!("fetch-{number}"))
                .spawn_scoped(scope, run)
                .map_err(|source| RestoreError::Target {
                    target: "a new thread".into(),
                    source,
                })?;
        }
        drop(jobs_rx);
        let lost = Lost::default();
        let references = NotingLost {
            references,
            passed: 0,
            lost: Rc::clone(&lost),
        };
        let planner = Planner::new(references, options.assembly, options.budget_bytes / 2);
        Assembler {
            planner,
            lost,
            jobs: jobs_tx,
            in_flight: VecDeque::new(),
            in_flight_max: workers * 2,
            spots: VecDeque::new(),
            first_spot: 0,
            held_bytes: 0,
            ahead_bytes_max: options.budget_bytes / 2,
            stats: AssembleStats::default(),
        }
        .run(sink)
    })
}

struct Assembler<I> {
    planner: Planner<I>,
    lost: Lost,
    jobs: crossbeam_channel::Sender<(Step, crossbeam_channel::Sender<Fetched>)>,
    in_flight: VecDeque<crossbeam_channel::Receiver<Fetched>>,
    in_flight_max: usize,
    spots: VecDeque<Spot>,
    first_spot: u64,
    held_bytes: u64,
    ahead_bytes_max: u64,
    stats: AssembleStats,
}

impl<I> Assembler<I>
where
    I: Iterator<Item = Result<Reference, RestoreError>>,
{
    fn run(mut self, sink: &mut dyn Sink) -> Result<AssembleStats, RestoreError> {
        let mut planned_all = false;
        loop {
            while !planned_all
                && self.in_flight.len() < self.in_flight_max
                && (self.held_bytes < self.ahead_bytes_max || self.in_flight.is_empty())
            {
                match self.planner.next_action()? {
                    None => planned_all = true,
                    Some(Next::Spots(references)) => {
                        self.spots.extend(references.into_iter().map(|reference| Spot {
                            reference,
                            filled: None,
                        }))
                    }
                    Some(Next::Step(step)) => self.submit(step)?,
                }
            }
            self.send_out(sink)?;
            match self.in_flight.pop_front() {
                Some(ticket) => {
                    let fetched = ticket
                        .recv()
                        .map_err(|_| RestoreError::Internal("a fetching thread died"))?;
                    self.fill(fetched);
                }
                None if planned_all => {
                    self.send_out(sink)?;
                    return if self.spots.is_empty() {
                        Ok(self.stats)
                    } else {
                        Err(RestoreError::Internal("a spot was never filled"))
                    };
                }
                None => {}
            }
        }
    }

    fn submit(&mut self, step: Step) -> Result<(), RestoreError> {
        let (tx, rx) = crossbeam_channel::bounded(1);
        self.held_bytes += step.fills.iter().map(|fill| fill.len + SPOT_BYTES).sum::<u64>();
        self.stats.memory_bytes_max = self.stats.memory_bytes_max.max(self.held_bytes);
        self.stats.containers_read += 1;
        self.in_flight.push_back(rx);
        self.jobs
            .send((step, tx))
            .map_err(|_| RestoreError::Internal("all fetching threads died"))
    }

    fn fill(&mut self, mut fetched: Fetched) {
        let spots = std::mem::take(&mut fetched.spots);
        self.stats.region_bytes_read += fetched.read_bytes;
        let fetched = Arc::new(fetched);
        for (number, range) in spots {
            let index = usize::try_from(number - self.first_spot).expect("a spot that is not sent yet");
            self.spots[index].filled = Some((Arc::clone(&fetched), range));
        }
    }

    /// Sends what is filled at the front; neighbours in the same fetched bytes leave as one slice.
    fn send_out(&mut self, sink: &mut dyn Sink) -> Result<(), RestoreError> {
        let mut run: Option<(Arc<Fetched>, Range<usize>)> = None;
        while let Some(spot) = self.spots.front() {
            if spot.reference.chunk.is_some() && spot.filled.is_none() {
                break;
            }
            let spot = self.spots.pop_front().expect("there is one in front");
            self.first_spot += 1;
            let len = spot.reference.len;
            self.stats.bytes += len;
            let Some((fetched, range)) = spot.filled else {
                send_run(&mut run, sink)?;
                let number = self.first_spot - 1;
                let lost = self.lost.borrow_mut().pop_front_if(|(at, _)| *at == number);
                match lost {
                    Some((_, error)) => sink.lost(len, &error)?,
                    None => sink.zeros(len)?,
                }
                continue;
            };
            self.held_bytes -= len + SPOT_BYTES;
            match range {
                Ok(range) => match &mut run {
                    Some((open, bytes)) if Arc::ptr_eq(open, &fetched) && bytes.end == range.start => {
                        bytes.end = range.end;
                    }
                    _ => {
                        send_run(&mut run, sink)?;
                        run = Some((fetched, range));
                    }
                },
                Err(error) => {
                    send_run(&mut run, sink)?;
                    sink.lost(len, &error)?;
                }
            }
        }
        send_run(&mut run, sink)
    }
}

fn send_run(run: &mut Option<(Arc<Fetched>, Range<usize>)>, sink: &mut dyn Sink) -> Result<(), RestoreError> {
    if let Some((fetched, range)) = run.take() {
        sink.bytes(&fetched.bytes[range])?;
    }
    Ok(())
}
