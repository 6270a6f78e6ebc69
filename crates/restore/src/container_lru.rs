//! Whole containers in memory, for the assembler that keeps them.
//!
//! The first thread that needs a container loads it, and others wait. Each chunk that cannot be
//! read has an error of its own.

use std::sync::{Arc, OnceLock};

use container::{CatalogView, Containers};
use crypto::Fingerprinter;
use types::{ChunkLocation, ContainerId};

use crate::error::RestoreError;
use crate::fetch::{Brought, FetchedBytes, FoundAt, SpotRun, fetch, fits, part, push};
use crate::plan::{ChunkPart, Fill, Place};
use crate::pool::RegionPool;
use crate::read_split::pieces;

/// A container that stays until nobody refers to it.
#[derive(Debug)]
pub(crate) struct KeptContainer {
    id: ContainerId,
    loaded: OnceLock<Result<Loaded, Arc<RestoreError>>>,
}

#[derive(Debug)]
struct Loaded {
    view: Arc<CatalogView>,
    /// By position in the catalog.
    chunks: Vec<Option<KeptChunk>>,
    read_bytes: u64,
}

/// What holds a chunk, and where in it, or why not.
type KeptChunk = (Arc<FetchedBytes>, Result<FoundAt, Arc<RestoreError>>);

impl KeptContainer {
    pub(crate) fn new(id: ContainerId) -> Self {
        Self {
            id,
            loaded: OnceLock::new(),
        }
    }

    /// What the fills want of it. The first call reads all of it.
    pub(crate) fn take(
        &self,
        containers: &Containers,
        printer: &Fingerprinter,
        pool: &Arc<RegionPool>,
        fills: &[Fill],
    ) -> Vec<Brought> {
        let mut is_first = false;
        let loaded = self.loaded.get_or_init(|| {
            is_first = true;
            Loaded::load(containers, printer, pool, self.id)
        });
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return vec![Brought::failed(fills, error)],
        };
        let mut brought: Vec<Brought> = Vec::new();
        for fill in fills {
            let (bytes, found) = loaded.find(fill);
            let goes_on = brought
                .last()
                .is_some_and(|last| Arc::ptr_eq(&last.bytes, &bytes));
            if !goes_on {
                brought.push(Brought {
                    bytes,
                    runs: Vec::new(),
                    to_keep: Vec::new(),
                    read_bytes: 0,
                });
            }
            if let (Some(last), Some(spot)) = (brought.last_mut(), fill.spot()) {
                push(&mut last.runs, spot, fill.len, found);
            }
        }
        if let Some(first) = brought.first_mut().filter(|_| is_first) {
            first.read_bytes = loaded.read_bytes;
        }
        brought
    }
}

impl Loaded {
    fn load(
        containers: &Containers,
        printer: &Fingerprinter,
        pool: &Arc<RegionPool>,
        id: ContainerId,
    ) -> Result<Self, Arc<RestoreError>> {
        let view = containers.catalog(id).map_err(|error| Arc::new(error.into()))?;
        let all: Vec<Fill> = (0_u64..)
            .zip(view.entries())
            .map(|(position, entry)| Fill {
                place: Place::Spot(position),
                part: ChunkPart {
                    location: ChunkLocation {
                        container: view.id(),
                        slot: entry.slot,
                    },
                    fingerprint: entry.fingerprint,
                    chunk_len: u64::from(entry.len),
                    skip: 0,
                },
                len: u64::from(entry.len),
            })
            .collect();
        let mut loaded = Self {
            chunks: all.iter().map(|_| None).collect(),
            view: Arc::clone(&view),
            read_bytes: 0,
        };
        for piece in pieces(&view, &all) {
            let brought = fetch(containers, printer, pool, None, &piece);
            loaded.read_bytes += brought.read_bytes;
            for run in brought.runs {
                loaded.keep(&brought.bytes, &run);
            }
        }
        Ok(loaded)
    }

    /// Takes a run of chunks apart.
    fn keep(&mut self, bytes: &Arc<FetchedBytes>, run: &SpotRun) {
        let mut offset = 0;
        for position in run.first..run.first + run.count {
            let position = usize::try_from(position).unwrap_or(usize::MAX);
            let Some(entry) = self.view.entries().get(position) else {
                return;
            };
            let len = entry.len as usize;
            let found = match &run.found {
                Ok(at) => at
                    .part(offset, len)
                    .ok_or_else(|| Arc::new(RestoreError::Internal("a chunk is longer than its bytes"))),
                Err(error) => Err(Arc::clone(error)),
            };
            offset += len;
            if let Some(chunk) = self.chunks.get_mut(position) {
                *chunk = Some((Arc::clone(bytes), found));
            }
        }
    }

    fn find(&self, fill: &Fill) -> KeptChunk {
        let wrong_slot = || {
            let location = fill.part.location;
            (
                Arc::default(),
                Err(Arc::new(RestoreError::WrongSlot { location })),
            )
        };
        let position = self.view.position(fill.slot()).filter(|_| fits(&self.view, fill));
        let Some(Some((bytes, found))) = position.and_then(|position| self.chunks.get(position)) else {
            return wrong_slot();
        };
        match found {
            Ok(whole) => part(whole, fill).map_or_else(wrong_slot, |at| (Arc::clone(bytes), Ok(at))),
            Err(error) => (Arc::clone(bytes), Err(Arc::clone(error))),
        }
    }
}
