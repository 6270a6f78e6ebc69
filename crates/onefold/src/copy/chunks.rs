//! Reads chosen chunks of a store, wherever they are in it.
//!
//! As a restore reads: containers in the order that needs fewest reads, several at a time, and each
//! chunk compared with its fingerprint (INV-5). The caller gets the chunks in its own order. A
//! chunk that cannot be read costs no other chunk. One thread calls; the memory is that of the
//! assembly.

use std::sync::Arc;

use recipe::{NodeSource, StoreReader};
use restore::plan::{ChunkPart, Reference};
use restore::{AssembleOptions, AssembleStats, RestoreError, Sink, assemble};
use types::{ChunkLocation, Fingerprint};

/// A chunk to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WantedChunk {
    /// Where it is.
    pub(crate) location: ChunkLocation,
    /// What it must be.
    pub(crate) fingerprint: Fingerprint,
    /// Its length in bytes, at least 1.
    pub(crate) len: u64,
}

/// Takes each chunk with its number, or why it cannot be read.
pub(crate) type EachChunk<'a> =
    dyn FnMut(usize, Result<&[u8], &Arc<RestoreError>>) -> Result<(), RestoreError> + 'a;

/// Reads these chunks, and passes each on in their order.
///
/// # Errors
/// Those of `each`. The reader failed, and reads no more chunks. The system starts no thread.
pub(crate) fn read_chunks(
    reader: &dyn StoreReader,
    chunks: &[WantedChunk],
    assembling: AssembleOptions,
    each: &mut EachChunk<'_>,
) -> Result<AssembleStats, RestoreError> {
    let reference = |chunk: &WantedChunk| {
        Ok(Reference {
            chunk: Some(ChunkPart {
                location: chunk.location,
                fingerprint: chunk.fingerprint,
                chunk_len: chunk.len,
                skip: 0,
            }),
            len: chunk.len,
        })
    };
    let assembling = assembling.workers(assembling.workers.min(chunks.len().max(1)));
    let printer = NodeSource::fingerprinter(reader).clone();
    let mut sink = ChunkSink {
        chunks,
        next: 0,
        part: Vec::new(),
        each,
    };
    assemble(
        reader,
        &printer,
        chunks.iter().map(reference),
        assembling,
        &mut sink,
    )
}

/// Cuts the bytes of an assembly into chunks again.
struct ChunkSink<'a, 'b> {
    chunks: &'a [WantedChunk],
    /// The chunk whose bytes come next, ...
    next: usize,
    /// ... and those of its bytes that have come, unless all came at once.
    part: Vec<u8>,
    each: &'a mut EachChunk<'b>,
}

impl ChunkSink<'_, '_> {
    /// How many bytes the next chunk lacks.
    fn lacks(&self) -> usize {
        let len = self.chunks.get(self.next).map_or(0, |chunk| chunk.len);
        usize::try_from(len).map_or(usize::MAX, |len| len - self.part.len())
    }
}

impl Sink for ChunkSink<'_, '_> {
    fn bytes(&mut self, mut bytes: &[u8]) -> Result<(), RestoreError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(self.lacks().min(bytes.len()));
            bytes = later;
            if self.lacks() > now.len() {
                self.part.extend_from_slice(now);
                return Ok(());
            }
            let number = self.next;
            self.next += 1;
            if self.part.is_empty() {
                (self.each)(number, Ok(now))?;
            } else {
                self.part.extend_from_slice(now);
                (self.each)(number, Ok(&self.part))?;
                self.part.clear();
            }
        }
        Ok(())
    }

    fn zeros(&mut self, _: u64) -> Result<(), RestoreError> {
        unreachable!("every reference has a chunk")
    }

    fn lost(&mut self, mut len: u64, error: &Arc<RestoreError>) -> Result<(), RestoreError> {
        self.part.clear();
        while let Some(chunk) = self.chunks.get(self.next).filter(|_| len > 0) {
            len = len.saturating_sub(chunk.len);
            let number = self.next;
            self.next += 1;
            (self.each)(number, Err(error))?;
        }
        Ok(())
    }
}
