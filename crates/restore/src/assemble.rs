//! Carries out a plan: one thread plans, several fetch pieces of containers ahead, and the caller's
//! thread sends the bytes in order.
//!
//! Memory (INV-7): the bytes of a step are charged to the budget when it is submitted, until they
//! are sent. A step brings at most half of the budget, and waits until the budget has room for it.
//! A kept chunk is charged until it is dropped. Extra bytes of a piece are charged when the piece
//! arrives, or its chunks are copied out if the budget has no room.
//!
//! Three things are not charged: the memory that each fetching thread reads into, segments opened
//! ahead, and the buffers of a large file that is being written. Those are at most five of 4 MiB
//! (`tree::BlockWriter`), because large files are written one after another.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use crossbeam_channel::{Receiver, Sender};
use crypto::Fingerprinter;
use recipe::StoreReader;

use crate::belady::{self, AheadPlanner};
use crate::charge::charge;
use crate::error::RestoreError;
use crate::fetch::{Brought, Piece, fetch};
use crate::memory_budget::MemoryBudget;
use crate::message::{AssembleStats, Message, Planned};
use crate::plan::{Next, Reference, SPOT_BYTES, Step, Uses};
use crate::pool::RegionPool;
use crate::read_sizes::ReadSizes;
use crate::read_split::pieces;
use crate::send::{Sender as Sending, Sink};

/// Concurrent requests on any machine: an array of disks, or remote storage, serves several in the
/// time of one.
const REQUESTS: usize = 8;

/// With more prefetch threads, catalogs would leave the cache before the planner uses them.
const PREFETCH_THREADS_MAX: usize = 32;

/// How a restore uses the machine.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AssembleOptions {
    /// Memory for assembling, in bytes.
    pub budget_bytes: u64,
    /// Threads that fetch; at least 1. Each waits for the disk, and then computes.
    pub workers: usize,
    /// Threads that read recipes ahead of the planner. Without any, the planner waits for each
    /// request.
    pub prefetch_threads: usize,
    /// Threads that create small files, at least 2: they wait for the file system as often as for a
    /// core.
    pub finishers: usize,
}

types::setters!(AssembleOptions {
    budget_bytes: u64,
    workers: usize,
    prefetch_threads: usize,
    finishers: usize,
});

impl Default for AssembleOptions {
    /// The defaults for this machine.
    fn default() -> Self {
        Self::for_cores(thread::available_parallelism().map_or(1, std::num::NonZero::get))
    }
}

impl AssembleOptions {
    /// The defaults for a machine with `cores` processor cores.
    #[must_use]
    pub fn for_cores(cores: usize) -> Self {
        let threads = cores + 2;
        let options = Self {
            budget_bytes: 96 << 20,
            workers: threads,
            prefetch_threads: threads,
            finishers: threads,
        };
        // With these, some threads wait for the disk while others compute.
        options.with_requests(REQUESTS.max(threads))
    }

    /// Uses so many concurrent requests for regions, and as many for recipes and catalogs. The
    /// latter are limited, so that the cache holds what they bring until it is planned.
    #[must_use]
    pub fn with_requests(self, requests: usize) -> Self {
        Self {
            workers: requests,
            prefetch_threads: requests.min(PREFETCH_THREADS_MAX),
            ..self
        }
    }
}

/// Restores the bytes of the references into the sink.
///
/// # Errors
/// Errors of the references and of the sink. For bytes that cannot be read,
/// [`RestoreError::LostPart`] of the references included, the sink decides.
pub fn assemble<I>(
    reader: &dyn StoreReader,
    printer: &Fingerprinter,
    references: I,
    options: AssembleOptions,
    sink: &mut dyn Sink,
) -> Result<AssembleStats, RestoreError>
where
    I: Iterator<Item = Result<Reference, RestoreError>> + Send,
{
    let (pieces_tx, pieces_rx) = crossbeam_channel::unbounded::<Piece>();
    let (messages_tx, messages_rx) = crossbeam_channel::unbounded::<Message>();
    let pool = Arc::new(RegionPool::new(ReadSizes::of(reader)));
    let room = Arc::new(MemoryBudget::new(
        options.budget_bytes,
        asked_max(options.budget_bytes),
    ));
    thread::scope(|scope| {
        // However this function ends, the planner must stop waiting for room.
        let _closing = Closing(&room);
        for number in 0..options.workers.max(1) {
            let (pieces, messages) = (pieces_rx.clone(), messages_tx.clone());
            let (pool, room) = (&pool, &room);
            spawn(scope, format!("fetch-{number}"), move || {
                let _closing = ClosingInPanic(room);
                work(reader, printer, pool, room, &pieces, &messages);
            })?;
        }
        drop(pieces_rx);
        let planning = Planning {
            reader,
            room: &room,
            pieces: pieces_tx,
            messages: messages_tx,
            planned: Planned::default(),
        };
        spawn(scope, "plan".to_owned(), move || {
            planning.run(references, options.budget_bytes)
        })?;
        let mut stats = Sending::new(sink, &room).run(&messages_rx)?;
        stats.memory_bytes_max = room.most_bytes();
        Ok(stats)
    })
}

fn spawn<'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: String,
    run: impl FnOnce() + Send + 'scope,
) -> Result<(), RestoreError> {
    let spawned = thread::Builder::new().name(name).spawn_scoped(scope, run);
    spawned.map(drop).map_err(RestoreError::NoThread)
}

struct Closing<'a>(&'a MemoryBudget);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A piece is never finished if its thread panics. Without this guard the planner would wait for
/// the piece, and the caller for the planner.
struct ClosingInPanic<'a>(&'a MemoryBudget);

impl Drop for ClosingInPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.close();
        }
    }
}

fn work(
    reader: &dyn StoreReader,
    printer: &Fingerprinter,
    pool: &Arc<RegionPool>,
    room: &Arc<MemoryBudget>,
    pieces: &Receiver<Piece>,
    messages: &Sender<Message>,
) {
    while let Ok(piece) = pieces.recv() {
        let brought = fetch(reader, printer, pool, room, &piece);
        if messages.send(Message::Brought(brought)).is_err() {
            // The restore failed meanwhile, so no receiver is left.
            return;
        }
    }
}

/// References to lost bytes, with the number of each.
type Lost = Rc<RefCell<VecDeque<(u64, Arc<RestoreError>)>>>;

/// Passes lost parts on as spots that need no container, and records which they are.
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

/// The planning thread.
struct Planning<'a> {
    reader: &'a dyn StoreReader,
    room: &'a MemoryBudget,
    pieces: Sender<Piece>,
    messages: Sender<Message>,
    planned: Planned,
}

impl Planning<'_> {
    fn run<I>(mut self, references: I, budget_bytes: u64)
    where
        I: Iterator<Item = Result<Reference, RestoreError>>,
    {
        let lost = Lost::default();
        let references = NotingLost {
            references,
            passed: 0,
            lost: Rc::clone(&lost),
        };
        // The other half is for reading ahead.
        let memory_bytes = budget_bytes / 2;
        self.room.take(belady::references_bytes(memory_bytes), 0);
        let done = self.plan(AheadPlanner::new(references, memory_bytes), &lost);
        // Sending fails only if the receiver failed.
        drop(self.messages.send(Message::Planned(done.map(|()| self.planned))));
    }

    /// Stops early when the budget is closed.
    fn plan<I>(&mut self, mut planner: AheadPlanner<I>, lost: &Lost) -> Result<(), RestoreError>
    where
        I: Iterator<Item = Result<Reference, RestoreError>>,
    {
        while self.room.wait_for(0) {
            match planner.next_action()? {
                None => return Ok(()),
                Some(Next::Spots(references)) => self.note(&references, lost),
                Some(Next::Step(step)) => self.submit(&step),
                Some(Next::Uses(uses)) => self.pass_on(uses),
            }
        }
        Ok(())
    }

    /// Reports spots that need no chunk.
    fn note(&mut self, references: &[Reference], lost: &Lost) {
        for reference in references {
            let spot = self.planned.spots;
            self.planned.spots += 1;
            if reference.chunk.is_none() {
                let lost = lost.borrow_mut().pop_front_if(|(at, _)| *at == spot);
                self.room.take(SPOT_BYTES, 0);
                self.tell(Message::NoChunk {
                    spot,
                    len: reference.len,
                    lost: lost.map(|(_, error)| error),
                });
            }
        }
    }

    /// Waits until the budget has room for the step, and submits it.
    fn submit(&mut self, step: &Step) {
        let bytes = step.fills.iter().map(charge).sum();
        if !self.room.wait_for(bytes) {
            return;
        }
        self.planned.containers_read += 1;
        let view = match self.reader.catalog(step.container) {
            Ok(view) => view,
            Err(error) => {
                self.room.take(bytes, 1);
                let error = Arc::new(error.into());
                return self.tell(Message::Brought(Brought::failed(&step.fills, &error)));
            }
        };
        let pieces = pieces(&view, &step.fills, ReadSizes::of(self.reader));
        self.room.take(bytes, pieces.len() as u64);
        for piece in pieces {
            // Sending fails only if all fetching threads, and with them the restore, have ended.
            drop(self.pieces.send(piece));
        }
    }

    fn pass_on(&self, uses: Uses) {
        // Counts as a piece: dropped chunks free their room as soon as this message was handled.
        self.room.take(uses.uses.len() as u64 * SPOT_BYTES, 1);
        self.tell(Message::Uses(uses));
    }

    fn tell(&self, message: Message) {
        // Sending fails only if the receiver failed.
        drop(self.messages.send(message));
    }
}

/// The part of the budget for requested bytes. The rest is for bytes that are read along with the
/// wanted ones.
const fn asked_max(budget_bytes: u64) -> u64 {
    budget_bytes - budget_bytes / 8
}
