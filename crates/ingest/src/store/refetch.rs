//! Reads chunks of earlier backups that are stored once more, into buffers as if from the source.
//!
//! A segment that is stored anew may have chunks that were copied by reference from the previous
//! backup. Mostly they come in the order in which they were stored, so the last region is kept, and
//! each region is read once. An unreadable chunk is not an error here: the backup keeps its
//! reference to it, as earlier backups do.
//!
//! Invariant: returned bytes have the requested fingerprint (INV-5). One thread.

use std::sync::Arc;

use container::{CatalogView, ContainerError, Containers};
use env::StorageError;
use types::{ChunkLocation, Fingerprint, RegionIndex};

use crate::buffer::InBuffer;
use crate::buffer::{Buffer, BufferPool};

/// Room for a region of a store with usual settings.
const BUFFER_BYTES: usize = 256 << 10;

/// Reads chunks, a region at a time.
#[derive(Debug)]
pub(crate) struct Refetch {
    containers: Containers,
    pool: BufferPool,
    last: Option<Region>,
}

/// A region that was read.
#[derive(Debug)]
struct Region {
    view: Arc<CatalogView>,
    index: RegionIndex,
    bytes: Arc<Buffer>,
}

impl Refetch {
    pub(crate) fn new(containers: Containers) -> Self {
        Self {
            containers,
            pool: BufferPool::new(BUFFER_BYTES, 0),
            last: None,
        }
    }

    /// A chunk's bytes. `None`: they are missing or damaged.
    ///
    /// # Errors
    /// If the storage does not answer.
    pub(crate) fn read(
        &mut self,
        at: ChunkLocation,
        fingerprint: &Fingerprint,
    ) -> Result<Option<InBuffer>, ContainerError> {
        if let Some(found) = self.in_region(at, fingerprint) {
            return Ok(Some(found));
        }
        // The read of the single chunk reports or mends a damaged region.
        self.last = self.region(at).ok().flatten();
        if let Some(found) = self.in_region(at, fingerprint) {
            return Ok(Some(found));
        }
        match self.containers.read_chunk(at) {
            Ok(bytes) if self.containers.fingerprinter().chunk(&bytes) == *fingerprint => {
                let buffer = Arc::new(self.filled(&bytes));
                Ok(Some(InBuffer { buffer, offset: 0 }))
            }
            Ok(_) => Ok(None),
            Err(ContainerError::Storage(error)) if !matches!(error, StorageError::Io { .. }) => {
                Err(ContainerError::Storage(error))
            }
            Err(_) => Ok(None),
        }
    }

    /// A chunk of the region that was read last.
    fn in_region(&self, at: ChunkLocation, fingerprint: &Fingerprint) -> Option<InBuffer> {
        let Region { view, index, bytes } = self.last.as_ref()?;
        let place = (view.id() == at.container).then(|| view.place_of(at.slot))??;
        let begin = place.offset as usize;
        let chunk = bytes.filled().get(begin..begin + place.len as usize)?;
        let is_it = place.region == *index && self.containers.fingerprinter().chunk(chunk) == *fingerprint;
        is_it.then(|| InBuffer {
            buffer: Arc::clone(bytes),
            offset: place.offset,
        })
    }

    /// The region that holds a slot.
    fn region(&mut self, at: ChunkLocation) -> Result<Option<Region>, ContainerError> {
        let view = self.containers.catalog(at.container)?;
        let Some(place) = view.place_of(at.slot) else {
            return Ok(None);
        };
        let plain = self.containers.read_region(&view, place.region)?;
        let bytes = Arc::new(self.filled(plain.bytes()));
        Ok(Some(Region {
            view,
            index: place.region,
            bytes,
        }))
    }

    fn filled(&mut self, bytes: &[u8]) -> Buffer {
        if self.pool.capacity() < bytes.len() {
            self.pool = BufferPool::new(bytes.len().next_power_of_two(), 0);
        }
        let mut buffer = self.pool.take();
        buffer.spare_mut()[..bytes.len()].copy_from_slice(bytes);
        buffer.advance(bytes.len());
        buffer
    }
}
