//! Carries out a plan: one thread plans, several fetch pieces of containers ahead, and the caller's
//! thread sends bytes out in order.
//!
//! Memory (INV-7): the bytes of a step are charged to the budget when it is submitted, until they
//! are sent. A step brings at most half of the budget, and waits until the budget has room for it.
//! A kept chunk is charged until it is dropped. Extra bytes of a piece are charged when the
//! piece is there, or its chunks are copied out if the budget has no room. Three things are not
//! charged: the memory that each fetching thread reads into, segments opened ahead, and the buffers
//! of a large file that is being written. Those are at most five of 4 MiB (`tree::BlockWriter`),
//! because large files are written one after another.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use container::Containers;
use crossbeam_channel::{Receiver, Sender};
use crypto::Fingerprinter;

use crate::belady::{self, AheadPlanner};
use crate::charge::charge;
use crate::error::RestoreError;
use crate::fetch::{Brought, Piece, fetch};
use crate::memory_budget::MemoryBudget;
use crate::message::{AssembleStats, Message, Planned};
use crate::plan::{Next, Reference, SPOT_BYTES, Step, Uses};
use crate::pool::RegionPool;
use crate::read_split::pieces;
use crate::send::{Sender as Sending, Sink};

/// Requests that are under way at once, whatever the machine: an array of disks, or storage that is
/// far away, serves several in the time of one.
const REQUESTS: usize = 8;

/// Catalogs that more of them read would leave the cache before they are planned with.
const SCOUTS_MAX: usize = 32;

/// How a restore uses the machine.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct AssembleOptions {
    /// Memory for assembling, in bytes.
    pub budget_bytes: u64,
    /// Threads that fetch; at least 1. Each waits for the disk or computes, in turn.
    pub workers: usize,
    /// Threads that read recipes ahead of the planner. With none it waits for each request.
    pub scouts: usize,
    /// Threads that make small files, at least 2: they wait for the file system as often as for a
    /// core.
    pub finishers: usize,
}

types::setters!(AssembleOptions {
    budget_bytes: u64,
    workers: usize,
    scouts: usize,
    finishers: usize,
});

impl Default for AssembleOptions {
    /// For this machine.
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
            scouts: threads,
            finishers: threads,
        };
        // So that some wait for the disk while the others compute.
        options.with_requests(REQUESTS.max(threads))
    }

    /// With so many requests under way at once: of regions, and as many for recipes and catalogs,
    /// but no more than bring what is held until it is planned.
    #[must_use]
    pub fn with_requests(self, requests: usize) -> Self {
        Self {
            workers: requests,
            scouts: requests.min(SCOUTS_MAX),
            ..self
        }
    }
}

/// Restores the references' bytes into the sink.
///
/// # Errors
/// Those of the references and of the sink. Bytes that cannot be read, [`RestoreError::LostPart`]
/// of the references among them, are the sink's to judge.
pub fn assemble<I>(
    containers: &Containers,
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
    let pool = Arc::new(RegionPool::default());
    let room = Arc::new(MemoryBudget::new(
        options.budget_bytes,
        asked_max(options.budget_bytes),
    ));
    thread::scope(|scope| {
        // Whatever ends this, the planner must not wait for room any longer.
        let _closing = Closing(&room);
        for number in 0..options.workers.max(1) {
            let (pieces, messages) = (pieces_rx.clone(), messages_tx.clone());
            let (pool, room) = (&pool, &room);
            spawn(scope, format!("fetch-{number}"), move || {
                let _closing = ClosingInPanic(room);
                work(containers, printer, pool, room, &pieces, &messages);
            })?;
        }
        drop(pieces_rx);
        let planning = Planning {
            containers,
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

/// A piece that a thread dies on is never dealt with: without this the planner would wait for it,
/// and the caller for the planner.
struct ClosingInPanic<'a>(&'a MemoryBudget);

impl Drop for ClosingInPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.close();
        }
    }
}

fn work(
    containers: &Containers,
    printer: &Fingerprinter,
    pool: &Arc<RegionPool>,
    room: &Arc<MemoryBudget>,
    pieces: &Receiver<Piece>,
    messages: &Sender<Message>,
) {
    while let Ok(piece) = pieces.recv() {
        let brought = fetch(containers, printer, pool, room, &piece);
        if messages.send(Message::Brought(brought)).is_err() {
            // Nobody waits for it: the restore has failed meanwhile.
            return;
        }
    }
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

/// The planning thread.
struct Planning<'a> {
    containers: &'a Containers,
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
        // The other half is for what is read ahead.
        let memory_bytes = budget_bytes / 2;
        self.room.take(belady::references_bytes(memory_bytes), 0);
        let done = self.plan(AheadPlanner::new(references, memory_bytes), &lost);
        // Fails only when the other end has failed by itself.
        drop(self.messages.send(Message::Planned(done.map(|()| self.planned))));
    }

    /// Ends early when nobody wants more.
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

    /// Tells of spots that need no chunk.
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

    /// Waits until the step fits in the room.
    fn submit(&mut self, step: &Step) {
        let bytes = step.fills.iter().map(charge).sum();
        if !self.room.wait_for(bytes) {
            return;
        }
        self.planned.containers_read += 1;
        let view = match self.containers.catalog(step.container) {
            Ok(view) => view,
            Err(error) => {
                self.room.take(bytes, 1);
                let error = Arc::new(error.into());
                return self.tell(Message::Brought(Brought::failed(&step.fills, &error)));
            }
        };
        let pieces = pieces(&view, &step.fills);
        self.room.take(bytes, pieces.len() as u64);
        for piece in pieces {
            // Fails only when all fetching threads have gone, and with them the restore.
            drop(self.pieces.send(piece));
        }
    }

    fn pass_on(&self, uses: Uses) {
        // Taken like a piece: dropped chunks free their room as soon as this was handled.
        self.room.take(uses.uses.len() as u64 * SPOT_BYTES, 1);
        self.tell(Message::Uses(uses));
    }

    fn tell(&self, message: Message) {
        // As above.
        drop(self.messages.send(message));
    }
}

/// How much of the budget may be asked for: the rest is for bytes that are read along with the
/// wanted ones.
const fn asked_max(budget_bytes: u64) -> u64 {
    budget_bytes - budget_bytes / 8
}
