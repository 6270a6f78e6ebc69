//! The simulator: what a store would hold and a restore would read, computed without payload.
//!
//! There are two ways to find chunks. [`Finding::Exact`] is the simulator of Lillibridge 4.1: it
//! has a full index of chunks, and a container is full when the next chunk would exceed its size.
//! [`Finding::Engine`] is the engine's policy itself, over traces instead of bytes. With both, a
//! [`Schedule`] deletes backups, and chunks without a reference leave their containers. Restores
//! are planned by the engine's own planner ([`restore::belady`]) and by other planners for
//! comparison ([`Assembly`]).

mod ahead;
mod area;
mod assembly;
mod averages;
mod bound;
mod catalogs;
mod containers;
mod engine;
mod exact;
mod lru;
mod measure;
mod nodes;
mod recipe;
mod schedule;
mod session;
mod slots;
mod stored;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use format::node::Node;

pub use ahead::Ahead;
pub use assembly::Assembly;
pub use averages::{AVERAGED, Average, Averages, Step, mean, over_time};
use containers::{Containers, Held};
use engine::EngineStore;
pub use engine::{Looked, Policy};
use exact::ExactStore;
pub use index::sampling::SamplingRate;
pub use measure::{Memory, Restored};
use recipe::Recipe;
use schedule::Backups;
pub use schedule::Schedule;

use crate::error::SimulateError;
use crate::trace::{BackupHead, Chunk, Extent, Sink};

/// How stored chunks are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    /// A full index finds all of them. Nothing is capped.
    Exact {
        /// Whether each backup begins a new container, as sessions do. The paper's store continues
        /// the last one.
        seal: bool,
    },
    /// The engine's policy.
    Engine(Policy),
}

/// The layout of the store, and the measurements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The most plain bytes of a container. With the engine's policy: the size of the object at
    /// which a container is full. The paper has 4 MB.
    pub container_bytes: u64,
    /// How chunks are found.
    pub finding: Finding,
    /// Which backups are kept.
    pub schedule: Schedule,
    /// Each backup is restored with each of these memories.
    pub memories: Vec<Memory>,
    /// The number of first backups that are not restored.
    pub skip: u64,
}

/// The results of one backup.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// How much it holds.
    pub extent: Extent,
    /// Its chunks, zeros not counted.
    pub chunks: u64,
    /// Its bytes, zeros not counted.
    pub bytes: u64,
    /// Bytes of chunks that were stored for it.
    pub bytes_new: u64,
    /// Bytes of all backups that are kept.
    pub bytes_kept: u64,
    /// Bytes of all chunks that are stored.
    pub bytes_stored: u64,
    /// Containers that have any of these chunks.
    pub containers: u64,
    /// Counts of the engine's look-ups, with [`Finding::Engine`].
    pub looked: Option<Looked>,
    /// The reads of its restores, for each of [`Settings::memories`]; empty if it was skipped.
    pub restored: Vec<Restored>,
    /// Containers read, for each way to look ahead ([`Simulator::looking_ahead`]).
    pub ahead: Vec<(Ahead, u64)>,
    /// For each size of memory in `ahead`: the least number of containers that any restore with it
    /// reads.
    pub at_least: Vec<(u64, u64)>,
}

impl Outcome {
    /// The cumulative deduplication factor: bytes of all kept backups divided by stored bytes.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure to show")]
    pub fn factor(&self) -> f64 {
        self.bytes_kept as f64 / self.bytes_stored.max(1) as f64
    }
}

/// A store of either kind.
#[derive(Debug)]
enum Store {
    Exact(ExactStore),
    Engine(Box<EngineStore>),
}

impl Store {
    fn containers(&self) -> &Containers {
        match self {
            Self::Exact(store) => &store.containers,
            Self::Engine(store) => store.containers(),
        }
    }

    fn node(&self, number: u32) -> Option<&Node> {
        match self {
            Self::Exact(_) => None,
            Self::Engine(store) => Some(store.nodes().node(number)),
        }
    }

    /// Memory that a kept container takes: a slot of a cache, as large as a container may be
    /// [Lillibridge 4.5].
    fn slot_bytes(&self) -> u64 {
        match self {
            Self::Exact(store) => store.container_bytes_max,
            Self::Engine(store) => store.container_bytes,
        }
    }

    fn begin(&mut self) -> Result<(), SimulateError> {
        match self {
            Self::Exact(store) => store.begin(),
            Self::Engine(store) => store.begin(),
        }
    }

    fn take(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
        match self {
            Self::Exact(store) => chunks.iter().try_for_each(|chunk| store.take(chunk)),
            Self::Engine(store) => chunks.iter().try_for_each(|chunk| store.take(chunk)),
        }
    }

    fn end(&mut self) -> Result<(Recipe, u64, Option<Looked>), SimulateError> {
        match self {
            Self::Exact(store) => {
                let (recipe, bytes_new) = store.end();
                Ok((recipe, bytes_new, None))
            }
            Self::Engine(store) => {
                let (recipe, bytes_new, looked) = store.end()?;
                Ok((recipe, bytes_new, Some(looked)))
            }
        }
    }

    fn forget(&mut self, recipes: &[Recipe]) {
        match self {
            Self::Exact(store) => recipes.iter().for_each(|recipe| store.forget(recipe)),
            Self::Engine(store) => store.forget(recipes),
        }
    }
}

/// Takes backups, and passes the results of each to `tell`.
#[derive(Debug)]
pub struct Simulator<T> {
    settings: Settings,
    store: Store,
    kept: Backups,
    bytes_kept: u64,
    open: Option<BackupHead>,
    cancelled: Arc<AtomicBool>,
    ahead: Vec<Ahead>,
    backups: u64,
    tell: T,
}

impl<T: FnMut(Outcome) -> Result<(), SimulateError>> Simulator<T> {
    /// An empty store; `tell` is called after each backup.
    ///
    /// # Errors
    /// `Settings`.
    pub fn new(settings: Settings, tell: T) -> Result<Self, SimulateError> {
        if settings.container_bytes == 0 || settings.schedule == Schedule::Cycle(0) {
            return Err(SimulateError::Settings(
                "a container has room for at least one byte, and at least one backup is kept".to_owned(),
            ));
        }
        let store = match settings.finding {
            Finding::Exact { seal } => Store::Exact(ExactStore::new(settings.container_bytes, seal)),
            Finding::Engine(policy) => {
                Store::Engine(Box::new(EngineStore::new(settings.container_bytes, policy)?))
            }
        };
        Ok(Self {
            settings,
            store,
            kept: Backups::default(),
            bytes_kept: 0,
            open: None,
            cancelled: Arc::default(),
            ahead: Vec::new(),
            backups: 0,
            tell,
        })
    }

    /// Restores each backup in these ways too.
    #[must_use]
    pub fn looking_ahead(mut self, ahead: Vec<Ahead>) -> Self {
        self.ahead = ahead;
        self
    }

    /// Stops with [`SimulateError::Interrupted`] once the flag is true, even within a restore.
    #[must_use]
    pub fn until(mut self, cancelled: Arc<AtomicBool>) -> Self {
        self.cancelled = cancelled;
        self
    }

    /// Restores later backups with each of these memories.
    pub fn restore_with(&mut self, memories: Vec<Memory>) {
        self.settings.memories = memories;
    }
}

impl<T: FnMut(Outcome) -> Result<(), SimulateError>> Sink for Simulator<T> {
    fn begin(&mut self, head: &BackupHead) -> Result<(), SimulateError> {
        if self.open.is_some() {
            return Err(SimulateError::Settings(
                "a backup begins within another".to_owned(),
            ));
        }
        let leaving = self.kept.leaving(self.settings.schedule);
        self.bytes_kept -= leaving.iter().map(|recipe| recipe.bytes).sum::<u64>();
        if !leaving.is_empty() {
            self.store.forget(&leaving);
        }
        self.open = Some(head.clone());
        self.store.begin()
    }

    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), SimulateError> {
        if self.open.is_none() {
            return Err(SimulateError::Settings("a chunk is of no backup".to_owned()));
        }
        self.store.take(chunks)
    }

    fn end(&mut self) -> Result<(), SimulateError> {
        let Some(head) = self.open.take() else {
            return Err(SimulateError::Settings("the end is of no backup".to_owned()));
        };
        let (recipe, bytes_new, looked) = self.store.end()?;
        self.bytes_kept += recipe.bytes;
        let poll = || {
            if self.cancelled.load(Ordering::Relaxed) {
                Err(SimulateError::Interrupted)
            } else {
                Ok(())
            }
        };
        let (mut restored, mut ahead, mut at_least) = (Vec::new(), Vec::new(), Vec::new());
        if self.backups >= self.settings.skip {
            for memory in &self.settings.memories {
                restored.push(measure::restore(&self.store, &recipe, *memory, &poll)?);
            }
            for memory in &self.ahead {
                let references = measure::references(&self.store, &recipe);
                ahead.push((*memory, ahead::reads(references, *memory, &poll)?));
                if at_least.iter().all(|(bytes, _)| *bytes != memory.bytes) {
                    let held = memory.bytes + self.store.slot_bytes();
                    let bound = bound::reads_at_least(|| measure::references(&self.store, &recipe), held);
                    at_least.push((memory.bytes, bound));
                    poll()?;
                }
            }
        }
        self.backups += 1;
        let outcome = Outcome {
            name: head.name,
            extent: head.extent,
            chunks: recipe.chunks,
            bytes: recipe.bytes,
            bytes_new,
            bytes_kept: self.bytes_kept,
            bytes_stored: self.store.containers().bytes(),
            containers: self.store.containers().count(),
            looked,
            restored,
            ahead,
            at_least,
        };
        if self.settings.schedule != Schedule::All {
            self.kept.add(recipe, head.extent);
        }
        (self.tell)(outcome)
    }
}

/// Equal fingerprints must have equal lengths.
fn check_len(held: &Held, len: u64) -> Result<(), SimulateError> {
    if u64::from(held.len) == len {
        return Ok(());
    }
    Err(SimulateError::Settings(format!(
        "a chunk of {len} bytes has the fingerprint of one of {}: these are not traces of one kind of data",
        held.len
    )))
}

#[cfg(test)]
mod test_recipes;
#[cfg(test)]
mod tests;
