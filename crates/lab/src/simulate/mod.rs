//! The simulator: what a store would hold and a restore would read, without a byte of payload.
//!
//! As in Lillibridge 4.1: a full index of chunks, containers that are full when the next chunk would put them over their
//! size, backups deleted by a schedule, chunks that nobody refers to gone from their containers, no merging. Restores are
//! planned by the engine's own assemblers ([`restore::plan`], [`restore::lru`]).

mod measure;
mod store;

use std::collections::VecDeque;

pub use measure::{Memory, Restored};
use store::{Recipe, Store};

use crate::error::LabError;
use crate::trace::{BackupHead, Chunk, Extent, Sink};

/// How the store is laid out, and what is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// A container's plain bytes at most; the paper's is 4 MB.
    pub container_bytes: u64,
    /// Whether each backup begins a container of its own, as sessions do; the paper's go on with the last one.
    pub seal: bool,
    /// The n-th backup before goes as the next comes; `None`: all stay.
    pub keep: Option<usize>,
    /// Each backup is restored with each of these.
    pub memories: Vec<Memory>,
    /// The first so many backups are not restored.
    pub skip: u64,
}

/// What came of a backup.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Containers that have any.
    pub containers: u64,
    /// What its restores read, for each of [`Settings::memories`]; none where it was skipped.
    pub restored: Vec<Restored>,
}

impl Outcome {
    /// The cumulative deduplication factor: bytes of all backups that are kept, to bytes stored.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure to show")]
    pub fn factor(&self) -> f64 {
        self.bytes_kept as f64 / self.bytes_stored.max(1) as f64
    }
}

/// Takes backups, and tells of each what came of it.
#[derive(Debug)]
pub struct Simulator<T> {
    settings: Settings,
    store: Store,
    kept: VecDeque<Recipe>,
    bytes_kept: u64,
    open: Option<(BackupHead, Recipe, u64)>,
    backups: u64,
    tell: T,
}

impl<T: FnMut(Outcome) -> Result<(), LabError>> Simulator<T> {
    /// An empty store; `tell` is called after each backup.
    ///
    /// # Errors
    /// `Settings`.
    pub fn new(settings: Settings, tell: T) -> Result<Self, LabError> {
        if settings.container_bytes == 0 || settings.keep == Some(0) {
            return Err(LabError::Settings(
                "a container has room for at least one byte, and at least one backup is kept".to_owned(),
            ));
        }
        let store = Store::new(settings.container_bytes);
        Ok(Self {
            settings,
            store,
            kept: VecDeque::new(),
            bytes_kept: 0,
            open: None,
            backups: 0,
            tell,
        })
    }
}

impl<T: FnMut(Outcome) -> Result<(), LabError>> Sink for Simulator<T> {
    fn begin(&mut self, head: &BackupHead) -> Result<(), LabError> {
        while self.settings.keep.is_some_and(|keep| self.kept.len() >= keep) {
            if let Some(old) = self.kept.pop_front() {
                self.bytes_kept -= old.bytes();
                self.store.forget(&old);
            }
        }
        self.open = Some((head.clone(), Recipe::default(), self.store.bytes_taken()));
        Ok(())
    }

    fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), LabError> {
        let Some((_, recipe, _)) = &mut self.open else {
            return Err(LabError::Settings("a chunk is of no backup".to_owned()));
        };
        for chunk in chunks {
            self.store.take(chunk, recipe)?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), LabError> {
        let Some((head, recipe, taken_before)) = self.open.take() else {
            return Err(LabError::Settings("the end is of no backup".to_owned()));
        };
        if self.settings.seal {
            self.store.close();
        }
        self.bytes_kept += recipe.bytes();
        let restored = if self.backups < self.settings.skip {
            Vec::new()
        } else {
            let each = self.settings.memories.iter();
            each.map(|memory| measure::restore(&self.store, &recipe, *memory))
                .collect()
        };
        self.backups += 1;
        let outcome = Outcome {
            name: head.name,
            extent: head.extent,
            chunks: recipe.chunks(),
            bytes: recipe.bytes(),
            bytes_new: self.store.bytes_taken() - taken_before,
            bytes_kept: self.bytes_kept,
            bytes_stored: self.store.bytes_stored(),
            containers: self.store.containers(),
            restored,
        };
        if self.settings.keep.is_some() {
            self.kept.push_back(recipe);
        }
        (self.tell)(outcome)
    }
}

#[cfg(test)]
mod tests;
