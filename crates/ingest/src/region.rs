//! Regions on their way into containers: new chunks, gathered by reference to some 128 KiB, then compressed by a
//! worker where that pays.
//!
//! The bytes of new chunks stay in the buffers that they were read into until the packer copies them, once, to
//! where they are sealed and written from. A region's chunks may lie in many buffers, each held by a few of its
//! bytes: where buffers are scarce, bytes are copied out instead. That changes no stored byte.

use std::sync::Arc;

use container::{CompressedRegion, Compression, PendingEntry, compress_pieces};

use crate::buffer::Buffer;
use crate::dedup::{Lane, NewChunk};
use crate::queue::Closed;
use crate::workers::{Ticket, Workers};

/// A closed region: its chunks are the next ordinals of its lane.
#[derive(Debug)]
pub(crate) struct ClosedRegion {
    pub(crate) lane: Lane,
    pub(crate) entries: Vec<PendingEntry>,
    bytes: Coming,
}

/// What will be stored of a region.
#[derive(Debug)]
enum Coming {
    Ready(RegionBytes),
    Worked(Ticket<RegionBytes>),
}

/// What is stored of a region, before it is sealed.
#[derive(Debug)]
pub(crate) enum RegionBytes {
    /// Its bytes as they are.
    Raw(PlainBytes),
    /// Fewer.
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
    /// Where they were read to.
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
            // Chunks that lie behind each other, as all new ones of a file do.
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

    pub(crate) fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|piece| match piece {
            RegionPiece::Shared { buffer, start, end } => &buffer.filled()[*start..*end],
            RegionPiece::Copied(bytes) => bytes,
        })
    }
}

impl RegionBytes {
    /// Bytes it will take in a container, before the seal's tag.
    pub(crate) fn stored_len(&self) -> usize {
        match self {
            Self::Raw(plain) => plain.len,
            Self::Compressed(region) => region.stored_len(),
        }
    }
}

impl ClosedRegion {
    /// Waits for what is to be stored.
    pub(crate) fn wait(self) -> Result<(Lane, RegionBytes, Vec<PendingEntry>), Closed> {
        let bytes = match self.bytes {
            Coming::Ready(bytes) => bytes,
            Coming::Worked(ticket) => ticket.wait()?,
        };
        Ok((self.lane, bytes, self.entries))
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
    next_ordinal: u64,
}

impl RegionBuilder {
    pub(crate) fn new(lane: Lane, limit: usize, compression: Compression) -> Self {
        Self {
            lane,
            limit,
            compression,
            plain: PlainBytes::default(),
            entries: Vec::new(),
            next_ordinal: 0,
        }
    }

    /// Adds a chunk whose bytes begin there in the buffer.
    pub(crate) fn push(&mut self, entry: PendingEntry, buffer: &Arc<Buffer>, offset: usize) -> NewChunk {
        self.plain.push(buffer, offset, entry.len as usize);
        self.entries.push(entry);
        let ordinal = self.next_ordinal;
        self.next_ordinal += 1;
        NewChunk {
            lane: self.lane,
            ordinal,
        }
    }

    /// Whether the region should be closed.
    pub(crate) fn is_full(&self) -> bool {
        self.plain.len >= self.limit
    }

    /// Closes the region and hands it to a worker, if there is anything to try; `None` when it is empty.
    pub(crate) fn close(&mut self, workers: &Workers) -> Result<Option<ClosedRegion>, Closed> {
        if self.entries.is_empty() {
            return Ok(None);
        }
        let plain = std::mem::take(&mut self.plain);
        let room = self.entries.len();
        let entries = std::mem::replace(&mut self.entries, Vec::with_capacity(room));
        let compression = self.compression;
        let bytes = if compression == Compression::Off {
            Coming::Ready(RegionBytes::Raw(plain))
        } else {
            Coming::Worked(
                workers.submit(move || match compress_pieces(plain.pieces(), compression) {
                    Some(region) => RegionBytes::Compressed(region),
                    None => RegionBytes::Raw(plain),
                })?,
            )
        };
        Ok(Some(ClosedRegion {
            lane: self.lane,
            entries,
            bytes,
        }))
    }
}

#[cfg(test)]
mod tests {
    use crypto::{DomainKey, Fingerprinter};

    use super::*;
    use crate::buffer::BufferPool;

    fn filled(pool: &BufferPool, bytes: &[u8]) -> Arc<Buffer> {
        let mut buffer = pool.take();
        buffer.spare_mut()[..bytes.len()].copy_from_slice(bytes);
        buffer.advance(bytes.len());
        Arc::new(buffer)
    }

    /// Every other KiB of many buffers, so that no two chunks lie behind each other in one.
    #[test]
    fn what_is_gathered_is_what_was_pushed_and_few_buffers_are_kept() {
        let printer = Fingerprinter::new(&DomainKey::from_bytes([5; 32]));
        let pool = BufferPool::new(4096, 0);
        let mut region = RegionBuilder::new(Lane::Content, usize::MAX, Compression::Off);
        let (mut wanted, mut kept) = (Vec::new(), Vec::new());
        for number in 0..200_u8 {
            let bytes = vec![number; 4096];
            let buffer = filled(&pool, &bytes);
            for offset in [0, 2048] {
                let entry = PendingEntry::chunk(printer.chunk(&bytes[..1024]), 1024);
                assert_eq!(
                    region.push(entry, &buffer, offset).ordinal,
                    u64::from(number) * 2 + offset as u64 / 2048
                );
                wanted.extend_from_slice(&bytes[..1024]);
            }
            kept.push(Arc::downgrade(&buffer));
        }
        let still = kept.iter().filter(|buffer| buffer.strong_count() > 0).count();
        assert!((1..100).contains(&still), "{still} buffers are kept");
        let (workers, _jobs) = crate::workers::queue(1, &(Arc::new(env::SystemClock) as _));
        let (lane, bytes, entries) = region.close(&workers).unwrap().unwrap().wait().unwrap();
        assert_eq!(
            (lane, entries.len(), bytes.stored_len()),
            (Lane::Content, 400, 400 << 10)
        );
        let RegionBytes::Raw(plain) = bytes else {
            panic!("compressed though it is off")
        };
        assert!(plain.pieces().collect::<Vec<_>>().concat() == wanted);
        assert!(region.close(&workers).unwrap().is_none());
    }
}
