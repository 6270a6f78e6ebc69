//! Carries out a plan: one thread plans, several fetch pieces of containers ahead, and the caller's
//! thread sends bytes out in order.
//!
//! Memory (INV-7): the bytes of a step are charged to the budget when it is submitted, until they
//! are sent. A step is at most the planner's window, and planning waits while the budget is used
//! up. A kept chunk is charged until it is dropped. Extra bytes of a piece are charged when the
//! piece is there, or its chunks are copied out if the budget has no room. Three things are not
//! charged: the memory that each fetching thread reads into, segments opened ahead, and the buffers
//! of a large file that is being written. Those are at most five of 4 MiB (`tree::BlockWriter`),
//! because large files are written one after another.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::thread;

use container::Containers;
use crossbeam_channel::{Receiver, Sender};
use crypto::Fingerprinter;
use types::ContainerId;

use crate::belady::{self, AheadPlanner};
use crate::charge::charge;
use crate::container_lru::KeptContainer;
use crate::error::RestoreError;
use crate::fetch::{Brought, Piece, fetch};
use crate::lru::LruPlanner;
use crate::memory_budget::MemoryBudget;
use crate::message::{AssembleStats, Message, Planned};
use crate::plan::{Assembler, Assembly, Fill, From, Next, Planner, Reference, SPOT_BYTES, Step, Uses};
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
    /// How the area moves.
    pub assembly: Assembly,
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
    assembly: Assembly,
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
            assembly: Assembly::LookAhead,
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

/// What a fetching thread does.
enum Job {
    Piece(Piece),
    Kept(Arc<KeptContainer>, Vec<Fill>),
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
    let (jobs_tx, jobs_rx) = crossbeam_channel::unbounded::<Job>();
    let (messages_tx, messages_rx) = crossbeam_channel::unbounded::<Message>();
    let pool = Arc::new(RegionPool::default());
    let room = Arc::new(MemoryBudget::new(options.budget_bytes, asked_max(options)));
    thread::scope(|scope| {
        // Whatever ends this, the planner must not wait for room any longer.
        let _closing = Closing(&room);
        for number in 0..options.workers.max(1) {
            let (jobs, messages) = (jobs_rx.clone(), messages_tx.clone());
            let (pool, room) = (&pool, &room);
            spawn(scope, format!("fetch-{number}"), move || {
                let _closing = ClosingInPanic(room);
                work(containers, printer, pool, room, &jobs, &messages);
            })?;
        }
        drop(jobs_rx);
        let planning = Planning {
            containers,
            waits_for_steps: options.assembly == Assembly::LookAhead,
            room: &room,
            jobs: jobs_tx,
            messages: messages_tx,
            kept: HashMap::new(),
            planned: Planned::default(),
        };
        spawn(scope, "plan".to_owned(), move || {
            planning.run(references, options)
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
    spawned.map(drop).map_err(|source| RestoreError::Target {
        target: "a new thread".into(),
        source,
    })
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
    jobs: &Receiver<Job>,
    messages: &Sender<Message>,
) {
    while let Ok(job) = jobs.recv() {
        let brought = match job {
            Job::Piece(piece) => vec![fetch(containers, printer, pool, Some(room), &piece)],
            Job::Kept(container, fills) => container.take(containers, printer, pool, &fills),
        };
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
    jobs: Sender<Job>,
    messages: Sender<Message>,
    /// Containers that the assembler keeps.
    kept: HashMap<ContainerId, Arc<KeptContainer>>,
    /// A step waits until it fits in the room. Without, what may be asked for leaves room for a
    /// step of any size.
    waits_for_steps: bool,
    planned: Planned,
}

impl Planning<'_> {
    fn run<I>(mut self, references: I, options: AssembleOptions)
    where
        I: Iterator<Item = Result<Reference, RestoreError>>,
    {
        let lost = Lost::default();
        let references = NotingLost {
            references,
            passed: 0,
            lost: Rc::clone(&lost),
        };
        let area = options.budget_bytes / 2;
        let done = match options.assembly {
            Assembly::Rolling | Assembly::Fixed => {
                self.plan(Planner::new(references, options.assembly, area), &lost)
            }
            Assembly::Lru => {
                let containers = self.containers;
                let weigh = |id| plain_bytes(containers, id);
                self.plan(LruPlanner::new(references, area, weigh), &lost)
            }
            Assembly::LookAhead => {
                self.room.take(belady::references_bytes(area), 0);
                self.plan(AheadPlanner::new(references, area), &lost)
            }
        };
        // Fails only when the other end has failed by itself.
        drop(self.messages.send(Message::Planned(done.map(|()| self.planned))));
    }

    /// Ends early when nobody wants more.
    fn plan(
        &mut self,
        mut assembler: impl Assembler<Error = RestoreError>,
        lost: &Lost,
    ) -> Result<(), RestoreError> {
        while self.room.wait_for(0) {
            match assembler.next_action()? {
                None => return Ok(()),
                Some(Next::Spots(references)) => self.note(&references, lost),
                Some(Next::Step(step)) => self.submit(step),
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

    fn submit(&mut self, step: Step) {
        let bytes = step.fills.iter().map(charge).sum();
        if self.waits_for_steps && !self.room.wait_for(bytes) {
            return;
        }
        self.planned.containers_read += u64::from(step.is_read());
        let jobs = match step.from {
            From::Storage => match self.containers.catalog(step.container) {
                Ok(view) => pieces(&view, &step.fills).into_iter().map(Job::Piece).collect(),
                Err(error) => {
                    self.room.take(bytes, 1);
                    let error = Arc::new(error.into());
                    return self.tell(Message::Brought(vec![Brought::failed(&step.fills, &error)]));
                }
            },
            From::StorageToKeep { evicted } => {
                for id in evicted {
                    self.kept.remove(&id);
                }
                let container = Arc::new(KeptContainer::new(step.container));
                self.kept.insert(step.container, Arc::clone(&container));
                vec![Job::Kept(container, step.fills)]
            }
            From::Kept => {
                let container = self.kept.get(&step.container);
                let container = container.expect("the assembler knows what it keeps");
                vec![Job::Kept(Arc::clone(container), step.fills)]
            }
        };
        self.room.take(bytes, jobs.len() as u64);
        for job in jobs {
            // Fails only when all fetching threads have gone, and with them the restore.
            drop(self.jobs.send(job));
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

/// How much of the budget may be asked for.
fn asked_max(options: AssembleOptions) -> u64 {
    let budget_bytes = options.budget_bytes;
    match options.assembly {
        // A step is at most the area, which is the other half.
        Assembly::Rolling | Assembly::Fixed | Assembly::Lru => budget_bytes / 2,
        // The rest is for bytes that are read along with the wanted ones.
        Assembly::LookAhead => budget_bytes - budget_bytes / 8,
    }
}

/// A container's plain bytes; one that cannot be read weighs nothing.
fn plain_bytes(containers: &Containers, id: ContainerId) -> u64 {
    let Ok(view) = containers.catalog(id) else {
        return 0;
    };
    view.entries().iter().map(|entry| u64::from(entry.len)).sum()
}
