//! The bytes of a stream, read one after another: for listings and other small streams.
//!
//! The bytes are verified like those of any restore (INV-5): references through their nodes, chunks
//! by their fingerprints. The reader keeps one region, so it reads every region of a stream in
//! order once. For streams of gigabytes use the planner of the `restore` crate.

use std::io::{self, Read};
use std::sync::Arc;

use container::{CatalogView, ContainerError, PlainRegion};
use types::ChunkLocation;

use crate::cache::NodeCache;
use crate::child::Place;
use crate::error::RecipeError;
use crate::refs::{ChunkRef, ChunkRefs};
use crate::source::StoreReader;
use crate::tree_root::TreeRoot;

/// Zeros are returned in pieces of at most so many bytes.
const ZEROS: [u8; 4096] = [0; 4096];

/// Reads a range of a stream in order.
#[derive(Debug)]
pub struct StreamBytes<'a, R: ?Sized = NodeCache> {
    reader: &'a R,
    refs: ChunkRefs<'a, R>,
    region: Option<(Arc<CatalogView>, PlainRegion)>,
    chunk: Vec<u8>,
    taken: usize,
    zeros: u64,
}

impl<'a, R: StoreReader + ?Sized> StreamBytes<'a, R> {
    /// `len` bytes from `offset` on. Reads nothing yet.
    ///
    /// # Errors
    /// [`RecipeError::OutOfStream`].
    pub fn new(reader: &'a R, root: &TreeRoot, offset: u64, len: u64) -> Result<Self, RecipeError> {
        let refs = ChunkRefs::new(reader, root, offset, len)?;
        Ok(Self {
            reader,
            refs,
            region: None,
            chunk: Vec::new(),
            taken: 0,
            zeros: 0,
        })
    }

    /// The next bytes; empty at the end. Never more than one chunk.
    ///
    /// # Errors
    /// An error of the recipe or the chunk. The reader cannot be used afterwards.
    pub fn next_bytes(&mut self) -> Result<&[u8], RecipeError> {
        if self.zeros == 0 && self.taken == self.chunk.len() && !self.advance()? {
            return Ok(&[]);
        }
        if self.zeros > 0 {
            let len = ZEROS.len().min(usize::try_from(self.zeros).unwrap_or(usize::MAX));
            self.zeros -= len as u64;
            return Ok(&ZEROS[..len]);
        }
        let bytes = &self.chunk[self.taken..];
        self.taken = self.chunk.len();
        Ok(bytes)
    }

    fn advance(&mut self) -> Result<bool, RecipeError> {
        let Some(reference) = self.refs.next().transpose()? else {
            return Ok(false);
        };
        match reference.place {
            Place::Zeros => self.zeros = reference.len,
            Place::At(location) => self.load(location, &reference)?,
        }
        Ok(true)
    }

    fn load(&mut self, at: ChunkLocation, reference: &ChunkRef) -> Result<(), RecipeError> {
        let is_here = self.region.as_ref().is_some_and(|(view, region)| {
            view.id() == at.container && region.slot_bytes(view, at.slot).is_some()
        });
        if !is_here {
            self.region = Some(self.reader.region(at)?);
        }
        let (view, region) = self.region.as_ref().expect("read above");
        let bytes = region
            .slot_bytes(view, at.slot)
            .ok_or_else(|| no_slot(view, at))?;
        // The catalog may belong to another generation than the one that verified the recipe.
        let vouched = view.entry(at.slot).is_some_and(|entry| {
            entry.fingerprint == reference.fingerprint && u64::from(entry.len) == reference.chunk_len
        });
        if !vouched {
            return Err(no_slot(view, at));
        }
        self.reader.verify(view, at.slot, bytes)?;
        let skip = usize::try_from(reference.skip).unwrap_or(usize::MAX);
        let len = usize::try_from(reference.len).unwrap_or(usize::MAX);
        let part = bytes
            .get(skip..)
            .and_then(|rest| rest.get(..len))
            .ok_or_else(|| no_slot(view, at))?;
        self.chunk.clear();
        self.chunk.extend_from_slice(part);
        self.taken = 0;
        Ok(())
    }
}

fn no_slot(view: &CatalogView, at: ChunkLocation) -> RecipeError {
    ContainerError::NoSlot {
        container: at.container,
        generation: view.generation(),
        slot: at.slot,
    }
    .into()
}

impl<R: StoreReader + ?Sized> Read for StreamBytes<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        if self.zeros == 0 && self.taken == self.chunk.len() && !self.advance().map_err(io::Error::other)? {
            return Ok(0);
        }
        if self.zeros > 0 {
            let len = out.len().min(usize::try_from(self.zeros).unwrap_or(usize::MAX));
            out[..len].fill(0);
            self.zeros -= len as u64;
            return Ok(len);
        }
        let rest = &self.chunk[self.taken..];
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        self.taken += len;
        Ok(len)
    }
}
