//! The paper's store: a complete index of all chunks [Lillibridge 4.1].
//!
//! Memory: up to some 180 bytes for each stored chunk, and sixteen for each run of a recipe. A
//! removed chunk takes 40 until its whole container is removed.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use types::{Fingerprint, Slot};

use super::containers::{At, Container, Containers, Held};
use super::recipe::{Part, Recipe};
use crate::error::SimulateError;
use crate::trace::Chunk;

/// A trivial hash: fingerprints are nearly random already.
#[derive(Debug, Default)]
struct PrintHasher(u64);

impl Hasher for PrintHasher {
    fn write(&mut self, bytes: &[u8]) {
        // Hashes all bytes: in traces of other programs, only a few bytes may be random.
        for word in bytes.as_chunks::<8>().0 {
            let mixed =
                (self.0.rotate_left(29) ^ u64::from_le_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.0 = mixed ^ (mixed >> 32);
        }
    }
    fn write_usize(&mut self, _: usize) {}
    fn finish(&self) -> u64 {
        self.0
    }
}

/// Finds every stored chunk.
#[derive(Debug)]
pub(super) struct ExactStore {
    pub(super) container_bytes_max: u64,
    seal: bool,
    index: HashMap<Fingerprint, At, BuildHasherDefault<PrintHasher>>,
    pub(super) containers: Containers,
    /// The bytes of the last container, if it takes more chunks.
    open_bytes: Option<u64>,
    bytes_taken: u64,
    taken_before: u64,
    recipe: Recipe,
}

impl ExactStore {
    pub(super) fn new(container_bytes_max: u64, seal: bool) -> Self {
        Self {
            container_bytes_max,
            seal,
            index: HashMap::default(),
            containers: Containers::default(),
            open_bytes: None,
            bytes_taken: 0,
            taken_before: 0,
            recipe: Recipe::default(),
        }
    }

    pub(super) fn begin(&mut self) -> Result<(), SimulateError> {
        self.containers.begin_session()?;
        self.taken_before = self.bytes_taken;
        Ok(())
    }

    /// Takes the next chunk of a backup.
    pub(super) fn take(&mut self, chunk: &Chunk) -> Result<(), SimulateError> {
        let Some(fingerprint) = chunk.fingerprint else {
            self.recipe.push_zeros(u64::from(chunk.len));
            return Ok(());
        };
        let at = match self.index.get(&fingerprint) {
            Some(at) => *at,
            None => self.add(fingerprint, chunk.len)?,
        };
        super::check_len(self.containers.held(at), u64::from(chunk.len))?;
        self.containers.name(at);
        self.recipe.push_chunk(at, chunk.len);
        Ok(())
    }

    /// Puts a new chunk into the open container, or into a new one if that is full.
    fn add(&mut self, fingerprint: Fingerprint, len: u32) -> Result<At, SimulateError> {
        let bytes = u64::from(len);
        let has_slot = self
            .containers
            .last_mut()
            .is_some_and(|last| last.chunks.len() < Slot::MAX.get() as usize);
        let fits = |open: u64| open + bytes <= self.container_bytes_max && has_slot;
        if !self.open_bytes.is_some_and(fits) {
            self.containers.push(Container::default())?;
            self.open_bytes = Some(0);
        }
        *self.open_bytes.get_or_insert(0) += bytes;
        self.bytes_taken += bytes;
        let at = self.containers.push_chunk(Held {
            fingerprint,
            len,
            uses: 0,
        });
        self.index.insert(fingerprint, at);
        Ok(at)
    }

    /// Ends the backup. Returns its recipe and the bytes stored for it.
    pub(super) fn end(&mut self) -> (Recipe, u64) {
        if self.seal {
            self.open_bytes = None;
        }
        (
            std::mem::take(&mut self.recipe),
            self.bytes_taken - self.taken_before,
        )
    }

    /// Deletes a backup, and what only this backup referred to.
    pub(super) fn forget(&mut self, recipe: &Recipe) {
        for part in &recipe.parts {
            let Part::Run { first, count } = *part else {
                continue;
            };
            for slot in first.slot..first.slot + count {
                let at = At { slot, ..first };
                if let Some(gone) = self.containers.unname(at)
                    && self.index.get(&gone.fingerprint) == Some(&at)
                {
                    self.index.remove(&gone.fingerprint);
                }
            }
        }
    }
}
