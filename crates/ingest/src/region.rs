//! Regions: gathered new chunks, compressed by a worker, in the form that a container stores.
//!
//! Bytes are gathered by reference to the buffers into which they were read. When a region is full
//! the workers compress it. Bytes that do not become smaller are stored from the buffers. So they
//! are copied once, when the container is sealed. If buffers are scarce, chunks are copied instead,
//! because a region with a few chunks from each of many buffers would hold all of these.

use std::sync::Arc;

use container::{CompressedRegion, Compression, PendingEntry, compress_pieces};

use crate::buffer::Buffer;
use crate::dedup::{Lane, NewChunk};
use crate::queue::Closed;
use crate::workers::{Ticket, Workers};

/// A region: its chunks are consecutive new ones of their lane.
#[derive(Debug)]
pub struct OfferedRegion {
    pub(crate) lane: Lane,
    /// The number of its first chunk.
    pub(crate) first: u64,
    pub(crate) entries: Vec<PendingEntry>,
    pub(crate) bytes: Coming,
}

/// The future stored form of a region.
#[derive(Debug)]
pub(crate) enum Coming {
    Ready(RegionBytes),
    Worked(Ticket<RegionBytes>),
}

impl Coming {
    fn of(plain: PlainBytes, compression: Compression, workers: &Workers) -> Result<Self, Closed> {
        Ok(match compression {
            Compression::Off => Self::Ready(RegionBytes::Raw(plain)),
            _ => Self::Worked(workers.submit(move || compress(plain, compression))?),
        })
    }
}

/// A region that is ready to be stored.
#[derive(Debug)]
pub(crate) struct ReadyRegion {
    pub(crate) lane: Lane,
    pub(crate) first: u64,
    pub(crate) entries: Vec<PendingEntry>,
    pub(crate) bytes: RegionBytes,
}

impl OfferedRegion {
    /// A region of these bytes, in the lane and from the number on. A worker compresses it.
    pub(crate) fn of_bytes(
        (lane, first): (Lane, u64),
        entries: Vec<PendingEntry>,
        bytes: Vec<u8>,
        compression: Compression,
        workers: &Workers,
    ) -> Result<Self, Closed> {
        let plain = PlainBytes {
            len: bytes.len(),
            pieces: vec![RegionPiece::Copied(bytes)],
        };
        Ok(Self {
            lane,
            first,
            entries,
            bytes: Coming::of(plain, compression, workers)?,
        })
    }

    /// Waits for the stored form.
    pub(crate) fn wait(self) -> Result<ReadyRegion, Closed> {
        let bytes = match self.bytes {
            Coming::Ready(bytes) => bytes,
            Coming::Worked(ticket) => ticket.wait()?,
        };
        Ok(ReadyRegion {
            lane: self.lane,
            first: self.first,
            entries: self.entries,
            bytes,
        })
    }
}

/// The stored form of a region, before it is sealed.
#[derive(Debug)]
pub(crate) enum RegionBytes {
    /// The plain bytes.
    Raw(PlainBytes),
    /// The compressed bytes, which are fewer.
    Compressed(CompressedRegion),
}

/// A region's plain bytes.
#[derive(Debug, Default)]
pub(crate) struct PlainBytes {
    pieces: Vec<RegionPiece>,
    len: usize,
}

#[derive(Debug)]
enum RegionPiece {
    /// In the buffers into which they were read.
    Shared {
        buffer: Arc<Buffer>,
        start: usize,
        end: usize,
    },
    Copied(Vec<u8>),
}

impl PlainBytes {
    fn push(&mut self, buffer: &Arc<Buffer>, offset: usize, len: usize) {
        self.len += len;
        match self.pieces.last_mut() {
            // Adjacent chunks in one buffer, as new chunks of a file are.
            Some(RegionPiece::Shared {
                buffer: last, end, ..
            }) if *end == offset && Arc::ptr_eq(last, buffer) => *end += len,
            last if buffer.is_scarce() => {
                let bytes = &buffer.filled()[offset..offset + len];
                match last {
                    Some(RegionPiece::Copied(copied)) => copied.extend_from_slice(bytes),
                    _ => self.pieces.push(RegionPiece::Copied(bytes.to_vec())),
                }
            }
            _ => self.pieces.push(RegionPiece::Shared {
                buffer: Arc::clone(buffer),
                start: offset,
                end: offset + len,
            }),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| match piece {
            RegionPiece::Shared { buffer, start, end } => &buffer.filled()[*start..*end],
            RegionPiece::Copied(bytes) => bytes,
        })
    }
}

impl RegionBytes {
    /// The bytes that it will take in a container, without the seal's tag.
    pub(crate) fn stored_len(&self) -> usize {
        match self {
            Self::Raw(plain) => plain.len,
            Self::Compressed(region) => region.stored_len(),
        }
    }
}

/// The open region of a lane.
#[derive(Debug)]
pub(crate) struct RegionBuilder {
    lane: Lane,
    limit: usize,
    compression: Compression,
    plain: PlainBytes,
    entries: Vec<PendingEntry>,
    /// The number of its first chunk.
    first: u64,
}

impl RegionBuilder {
    pub(crate) fn new(lane: Lane, limit: usize, compression: Compression) -> Self {
        Self {
            lane,
            limit,
            compression,
            plain: PlainBytes::default(),
            entries: Vec::new(),
            first: 0,
        }
    }

    /// Compresses from now on in this way.
    pub(crate) fn compress_by(&mut self, compression: Compression) {
        self.compression = compression;
    }

    /// Whether the chunk of this number may follow. If not, the region must be closed first.
    pub(crate) fn is_followed_by(&self, new: NewChunk) -> bool {
        self.entries.is_empty() || self.first + self.entries.len() as u64 == new.ordinal
    }

    /// Adds a chunk whose bytes begin at this offset in the buffer.
    pub(crate) fn push(&mut self, new: NewChunk, entry: PendingEntry, buffer: &Arc<Buffer>, offset: usize) {
        debug_assert!(self.is_followed_by(new), "a region's chunks are consecutive");
        if self.entries.is_empty() {
            self.first = new.ordinal;
        }
        self.plain.push(buffer, offset, entry.len as usize);
        self.entries.push(entry);
    }

    /// Whether the region should be closed.
    pub(crate) fn is_full(&self) -> bool {
        self.plain.len >= self.limit
    }

    /// Closes the region and lets a worker compress it; `None` when it is empty.
    pub(crate) fn close(&mut self, workers: &Workers) -> Result<Option<OfferedRegion>, Closed> {
        let compression = self.compression;
        self.close_with(|plain| Coming::of(plain, compression, workers))
    }

    /// Closes the region and compresses it; `None` when it is empty.
    pub(crate) fn close_here(&mut self) -> Option<OfferedRegion> {
        let compression = self.compression;
        let closed = self.close_with(|plain| Ok(Coming::Ready(compress(plain, compression))));
        closed.unwrap_or_default()
    }

    fn close_with(
        &mut self,
        coming: impl FnOnce(PlainBytes) -> Result<Coming, Closed>,
    ) -> Result<Option<OfferedRegion>, Closed> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let plain = std::mem::take(&mut self.plain);
        let room = self.entries.len();
        let entries = std::mem::replace(&mut self.entries, Vec::with_capacity(room));
        Ok(Some(OfferedRegion {
            lane: self.lane,
            first: self.first,
            entries,
            bytes: coming(plain)?,
        }))
    }
}

fn compress(plain: PlainBytes, compression: Compression) -> RegionBytes {
    let compressed = match compression {
        Compression::Off => None,
        _ => compress_pieces(plain.pieces(), compression),
    };
    compressed.map_or_else(|| RegionBytes::Raw(plain), RegionBytes::Compressed)
}

#[cfg(test)]
mod tests {
    use crypto::{DomainKey, Fingerprinter};

    use super::*;
    use crate::buffer::BufferPool;
    use crate::stage::StageStats;
    use crate::workers::ThreadPool;

    fn filled(pool: &BufferPool, bytes: &[u8]) -> Arc<Buffer> {
        let mut buffer = pool.take();
        buffer.spare_mut()[..bytes.len()].copy_from_slice(bytes);
        buffer.advance(bytes.len());
        Arc::new(buffer)
    }

    /// Every other KiB of many buffers, so that no two chunks are adjacent in one.
    #[test]
    fn a_region_has_the_pushed_bytes_and_keeps_few_buffers() {
        let printer = Fingerprinter::new(&DomainKey::from_bytes([5; 32]));
        let pool = BufferPool::new(4096, 0);
        let mut region = RegionBuilder::new(Lane::Content, usize::MAX, Compression::Off);
        let (mut wanted, mut kept) = (Vec::new(), Vec::new());
        for number in 0..200_u8 {
            let bytes = vec![number; 4096];
            let buffer = filled(&pool, &bytes);
            for offset in [0, 2048] {
                let entry = PendingEntry::chunk(printer.chunk(&bytes[..1024]), 1024);
                let ordinal = u64::from(number) * 2 + offset as u64 / 2048;
                let lane = Lane::Content;
                region.push(NewChunk { lane, ordinal }, entry, &buffer, offset);
                wanted.extend_from_slice(&bytes[..1024]);
            }
            kept.push(Arc::downgrade(&buffer));
        }
        let still = kept.iter().filter(|buffer| buffer.strong_count() > 0).count();
        assert!((1..100).contains(&still), "{still} buffers are kept");
        let pool = ThreadPool::new("work", 1, &(Arc::new(env::SystemClock) as _));
        let workers = pool.workers(1, &StageStats::new("work")).unwrap();
        let ready = region.close(&workers).unwrap().unwrap().wait().unwrap();
        assert_eq!(
            (ready.lane, ready.entries.len(), ready.bytes.stored_len()),
            (Lane::Content, 400, 400 << 10)
        );
        let RegionBytes::Raw(plain) = ready.bytes else {
            panic!("compressed though it is off")
        };
        assert!(plain.pieces().collect::<Vec<_>>().concat() == wanted);
        assert!(region.close(&workers).unwrap().is_none());
    }
}
