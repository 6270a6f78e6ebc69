//! Containers of chunks that have no bytes, an index of all of them, and recipes.
//!
//! Memory: some 80 bytes a stored chunk, and twelve for each run of a recipe.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, SequenceNumber, SessionId, Slot};

use crate::error::LabError;
use crate::trace::Chunk;

/// Containers that one session of ids has room for.
const SEQUENCES: u64 = SequenceNumber::MAX.get() as u64 + 1;

/// Fingerprints are as good as random already.
#[derive(Debug, Default)]
pub(super) struct PrintHasher(u64);

impl Hasher for PrintHasher {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(word) = bytes.get(8..16) {
            self.0 = u64::from_le_bytes(word.try_into().expect("eight bytes"));
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
    /// [`ZEROS`] for zeros, `first` being their number.
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
        let at = match self.index.entry(fingerprint) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(vacant) => {
                let len = u64::from(chunk.len);
                let fits = self
                    .open_bytes
                    .is_some_and(|bytes| bytes + len <= self.container_bytes_max);
                if !fits {
                    self.containers.push(Container::default());
                    self.open_bytes = Some(0);
                }
                let (number, container) = match self.containers.split_last_mut() {
                    Some((last, before)) => (before.len(), last),
                    None => unreachable!("one was pushed"),
                };
                let slot = u32::try_from(container.chunks.len())
                    .ok()
                    .filter(|slot| *slot < Slot::MAX.get());
                let number = u32::try_from(number).ok().filter(|number| *number < ZEROS);
                let (Some(container_number), Some(slot)) = (number, slot) else {
                    return Err(LabError::Settings(
                        "the workload has more containers, or a container more chunks, than there are numbers".to_owned(),
                    ));
                };
                container.chunks.push(Held {
                    fingerprint,
                    len: chunk.len,
                    uses: 0,
                });
                *self.open_bytes.get_or_insert(0) += len;
                self.bytes_taken += len;
                *vacant.insert(At {
                    container: container_number,
                    slot,
                })
            }
        };
        let container = &mut self.containers[at.container as usize];
        let held = &mut container.chunks[at.slot as usize];
        if held.uses == 0 {
            container.bytes += u64::from(held.len);
            self.bytes_stored += u64::from(held.len);
        }
        held.uses += 1;
        recipe.push(at, held.len);
        Ok(())
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

    /// Bytes of a container's chunks.
    pub(super) fn bytes_of(&self, id: ContainerId) -> u64 {
        let number = (id.session.get() - 1) * SEQUENCES + u64::from(id.sequence.get());
        let container = usize::try_from(number)
            .ok()
            .and_then(|number| self.containers.get(number));
        container.map_or(0, |container| container.bytes)
    }

    /// The stream of a backup.
    pub(super) fn pieces<'a>(&'a self, recipe: &'a Recipe) -> impl Iterator<Item = Piece> + 'a {
        recipe.runs.iter().flat_map(move |run| {
            let is_zeros = run.container == ZEROS;
            (run.first..run.first.saturating_add(run.count)).map(move |slot| {
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
