//! Containers of chunks that have no bytes, an index of all of them, and recipes.
//!
//! Memory: up to some 180 bytes a stored chunk, and twelve for each run of a recipe. A chunk that is gone takes 40 until its
//! whole container is.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, SequenceNumber, SessionId, Slot};

use crate::error::LabError;
use crate::trace::Chunk;

/// Containers that one session of ids has room for.
const SEQUENCES: u64 = SequenceNumber::MAX.get() as u64 + 1;

/// Fingerprints are nearly random already.
#[derive(Debug, Default)]
pub(super) struct PrintHasher(u64);

impl Hasher for PrintHasher {
    fn write(&mut self, bytes: &[u8]) {
        // All of it: what other programs wrote may be random in a few bytes alone.
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

/// Where a chunk lies: the container's number, and its own in that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct At {
    container: u32,
    slot: u32,
}

#[derive(Debug)]
struct Held {
    fingerprint: Fingerprint,
    len: u32,
    /// How often recipes name it.
    uses: u32,
}

#[derive(Debug, Default)]
struct Container {
    chunks: Vec<Held>,
    /// Of chunks that recipes name.
    bytes: u64,
}

/// Chunks of one container in a row; without a container, zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// [`ZEROS`] for zeros, `first` being how many bytes.
    container: u32,
    first: u32,
    count: u32,
}

const ZEROS: u32 = u32::MAX;

/// What a backup is made of.
#[derive(Debug, Default)]
pub(super) struct Recipe {
    runs: Vec<Run>,
    chunks: u64,
    bytes: u64,
}

impl Recipe {
    /// Zeros not counted.
    pub(super) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Zeros not counted.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn push(&mut self, at: At, len: u32) {
        self.chunks += 1;
        self.bytes += u64::from(len);
        if let Some(last) = self.runs.last_mut()
            && last.container == at.container
            && last.first + last.count == at.slot
        {
            last.count += 1;
            return;
        }
        self.runs.push(Run {
            container: at.container,
            first: at.slot,
            count: 1,
        });
    }

    fn places(&self) -> impl Iterator<Item = At> + '_ {
        let runs = self.runs.iter().filter(|run| run.container != ZEROS);
        runs.flat_map(|run| {
            (run.first..run.first + run.count).map(|slot| At {
                container: run.container,
                slot,
            })
        })
    }
}

/// A piece of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    /// `None` for zeros.
    pub(super) location: Option<(ChunkLocation, Fingerprint)>,
    pub(super) len: u32,
}

#[derive(Debug)]
pub(super) struct Store {
    container_bytes_max: u64,
    index: HashMap<Fingerprint, At, BuildHasherDefault<PrintHasher>>,
    containers: Vec<Container>,
    /// Whether the last container takes more, and its bytes.
    open_bytes: Option<u64>,
    bytes_taken: u64,
    bytes_stored: u64,
}

impl Store {
    pub(super) fn new(container_bytes_max: u64) -> Self {
        Self {
            container_bytes_max,
            index: HashMap::default(),
            containers: Vec::new(),
            open_bytes: None,
            bytes_taken: 0,
            bytes_stored: 0,
        }
    }

    /// Bytes of all chunks that were ever stored.
    pub(super) fn bytes_taken(&self) -> u64 {
        self.bytes_taken
    }

    /// Bytes of those that are.
    pub(super) fn bytes_stored(&self) -> u64 {
        self.bytes_stored
    }

    /// Containers that have any chunk.
    pub(super) fn containers(&self) -> u64 {
        self.containers
            .iter()
            .filter(|container| container.bytes > 0)
            .count() as u64
    }

    /// Takes the next chunk of a backup.
    pub(super) fn take(&mut self, chunk: &Chunk, recipe: &mut Recipe) -> Result<(), LabError> {
        let Some(fingerprint) = chunk.fingerprint else {
            recipe.runs.push(Run {
                container: ZEROS,
                first: chunk.len,
                count: 1,
            });
            return Ok(());
        };
        let at = match self.index.get(&fingerprint) {
            Some(at) => *at,
            None => self.add(fingerprint, chunk.len)?,
        };
        let container = &mut self.containers[at.container as usize];
        let held = &mut container.chunks[at.slot as usize];
        if held.len != chunk.len {
            return Err(LabError::Settings(format!(
                "a chunk of {} bytes has the fingerprint of one of {}: these are not traces of one kind of data",
                chunk.len, held.len
            )));
        }
        if held.uses == 0 {
            container.bytes += u64::from(held.len);
            self.bytes_stored += u64::from(held.len);
        }
        held.uses += 1;
        recipe.push(at, held.len);
        Ok(())
    }

    /// Puts a new chunk in the open container, or in the next where that is full.
    fn add(&mut self, fingerprint: Fingerprint, len: u32) -> Result<At, LabError> {
        let bytes = u64::from(len);
        let has_slot = self
            .containers
            .last()
            .is_some_and(|last| last.chunks.len() < Slot::MAX.get() as usize);
        let fits = |open: u64| open + bytes <= self.container_bytes_max && has_slot;
        if !self.open_bytes.is_some_and(fits) {
            self.containers.push(Container::default());
            self.open_bytes = Some(0);
        }
        *self.open_bytes.get_or_insert(0) += bytes;
        self.bytes_taken += bytes;
        let number = u32::try_from(self.containers.len() - 1)
            .ok()
            .filter(|number| *number < ZEROS);
        let container = number.ok_or_else(|| {
            LabError::Settings("the workload has more containers than there are numbers".to_owned())
        })?;
        let chunks = &mut self.containers[container as usize].chunks;
        let slot = u32::try_from(chunks.len()).expect("below the greatest slot");
        chunks.push(Held {
            fingerprint,
            len,
            uses: 0,
        });
        let at = At { container, slot };
        self.index.insert(fingerprint, at);
        Ok(at)
    }

    /// The backup is complete: its last container takes no more.
    pub(super) fn close(&mut self) {
        self.open_bytes = None;
    }

    /// A backup goes, and what it alone named.
    pub(super) fn forget(&mut self, recipe: &Recipe) {
        for at in recipe.places() {
            let container = &mut self.containers[at.container as usize];
            let held = &mut container.chunks[at.slot as usize];
            held.uses -= 1;
            if held.uses > 0 {
                continue;
            }
            container.bytes -= u64::from(held.len);
            self.bytes_stored -= u64::from(held.len);
            if self.index.get(&held.fingerprint) == Some(&at) {
                self.index.remove(&held.fingerprint);
            }
            if container.bytes == 0 {
                // Nobody names any of it, and nobody can find it.
                container.chunks = Vec::new();
            }
        }
    }

    /// What keeping a container takes: a slot of a cache, as large as a container may be [Lillibridge 4.5].
    pub(super) fn slot_bytes(&self) -> u64 {
        self.container_bytes_max
    }

    /// The stream of a backup.
    pub(super) fn pieces<'a>(&'a self, recipe: &'a Recipe) -> impl Iterator<Item = Piece> + 'a {
        recipe.runs.iter().flat_map(move |run| {
            let is_zeros = run.container == ZEROS;
            let slots = if is_zeros {
                0..1
            } else {
                run.first..run.first + run.count
            };
            slots.map(move |slot| {
                if is_zeros {
                    return Piece {
                        location: None,
                        len: run.first,
                    };
                }
                let held = &self.containers[run.container as usize].chunks[slot as usize];
                let location = ChunkLocation {
                    container: id(run.container),
                    slot: Slot::new(slot).expect("checked when it was stored"),
                };
                Piece {
                    location: Some((location, held.fingerprint)),
                    len: held.len,
                }
            })
        })
    }
}

fn id(number: u32) -> ContainerId {
    let (session, sequence) = (u64::from(number) / SEQUENCES, u64::from(number) % SEQUENCES);
    let sequence = u32::try_from(sequence).expect("24 bits");
    ContainerId {
        session: SessionId::new(session + 1).expect("8 bits"),
        kind: ContainerKind::Data,
        sequence: SequenceNumber::new(sequence).expect("24 bits"),
    }
}
