//! The look-up stage: is this segment known whole, and if not, which of its chunks are?
//!
//! One thread, in stream order. A known segment is one look-up (G3, R1); only unknown ones fall through to their
//! chunks ([`crate::dedup`]). New chunks are gathered into regions here. A chunk that this session has
//! stored is known by its number, sealed or not: when containers are sealed changes nothing of what is found.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use container::{ContainerError, Containers, PendingEntry};
use crypto::Fingerprinter;
use index::{Index, ResolverStats};
use recipe::{KnownNode, Piece, RangeWalker, RecipeError};
use types::{ChunkLocation, Fingerprint};

use crate::buffer::InBuffer;
use crate::chunk::{Chunked, Event};
use crate::close::SealedNotice;
use crate::counters::Counters;
use crate::dedup::{
    Bytes, Deduplicator, Lane, NewChunk, Outlet, PlacedSegment, Segment, SegmentBody, SegmentChild,
    Segmenter, StreamIndex,
};
use crate::door::Door;
use crate::error::{Halt, IngestError};
use crate::piece::CopyRange;
use crate::queue::{Closed, Receiver, Sender};
use crate::refetch::Refetch;
use crate::region::{ClosedRegion, RegionBuilder};
use crate::workers::Workers;

/// A source that is slow must not keep reclamation waiting: requests are looked for this often.
const POLL: Duration = Duration::from_millis(500);

/// What the packer gets, in order within each stream.
#[derive(Debug)]
pub(crate) enum ToPack {
    /// A region of new chunks.
    Region(ClosedRegion),
    /// A looked-up segment.
    Segment {
        stream: StreamIndex,
        segment: PlacedSegment,
    },
    /// A stream is complete.
    End(StreamIndex),
    /// Reclamation asks: everything before this is to be durable and declared (rule 4).
    Answer,
}

/// The stage's state.
pub(crate) struct LookupStage<'a> {
    pub(crate) door: &'a Door,
    pub(crate) printer: Fingerprinter,
    pub(crate) counters: &'a Counters,
    pub(crate) sealed: crossbeam_channel::Receiver<SealedNotice>,
    /// By stream.
    pub(crate) segmenters: Vec<Segmenter<InBuffer>>,
    pub(crate) dedup: Deduplicator<&'a Counters, Index, Containers, InBuffer>,
    pub(crate) to_pack: ToPacker<'a>,
    /// Filled at the end.
    pub(crate) stats: &'a Mutex<ResolverStats>,
}

/// Gathers new chunks into regions, and hands those and segments on.
pub(crate) struct ToPacker<'a> {
    pub(crate) regions: [RegionBuilder; Lane::COUNT],
    pub(crate) workers: Workers,
    pub(crate) output: Sender<ToPack>,
    pub(crate) stored: Refetch<'a>,
    /// As of [`Door`].
    pub(crate) insists: bool,
}

impl ToPacker<'_> {
    fn close_region(&mut self, lane: Lane) -> Result<(), Halt> {
        if let Some(region) = self.regions[lane.number()].close(&self.workers)? {
            self.output.send(ToPack::Region(region))?;
        }
        Ok(())
    }
}

impl Outlet<InBuffer> for ToPacker<'_> {
    type Error = Halt;

    fn fetch(&mut self, at: ChunkLocation, fingerprint: &Fingerprint) -> Result<Option<InBuffer>, Halt> {
        let read = self.stored.read(at, fingerprint).map_err(IngestError::from)?;
        if read.is_none() && self.insists {
            let container = at.container;
            let error = RecipeError::Container(ContainerError::Missing { container });
            return Err(IngestError::Previous(error).into());
        }
        Ok(read)
    }

    fn store(
        &mut self,
        lane: Lane,
        fingerprint: &Fingerprint,
        len: u32,
        bytes: &InBuffer,
    ) -> Result<NewChunk, Halt> {
        let region = &mut self.regions[lane.number()];
        let entry = PendingEntry::chunk(*fingerprint, len);
        let new = region.push(entry, &bytes.buffer, bytes.offset as usize);
        if region.is_full() {
            self.close_region(lane)?;
        }
        Ok(new)
    }

    fn place(&mut self, stream: StreamIndex, segment: PlacedSegment) -> Result<(), Halt> {
        Ok(self.output.send(ToPack::Segment { stream, segment })?)
    }
}

impl LookupStage<'_> {
    pub(crate) fn run(mut self, input: &Receiver<Chunked>) -> Result<(), Halt> {
        let ended = self.take_all(input);
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = self.dedup.stats();
        ended
    }

    fn take_all(&mut self, input: &Receiver<Chunked>) -> Result<(), Halt> {
        let mut done = Vec::new();
        loop {
            let Chunked {
                stream,
                buffer,
                events,
                prints,
            } = match input.recv_within(POLL) {
                Ok(Some(chunked)) => chunked,
                Ok(None) => {
                    self.let_collect()?;
                    continue;
                }
                Err(Closed) => return Ok(()),
            };
            // Also a source of zeros alone, which has no segments, must not keep reclamation waiting.
            self.note_sealed();
            self.let_collect()?;
            let prints = prints.wait()?;
            let mut prints = prints.into_iter();
            for event in events {
                let segmenter = &mut self.segmenters[usize::from(stream.0)];
                match event {
                    Event::Chunk { offset, len } => {
                        let print = prints.next().expect("one print a chunk");
                        let len = u64::from(len);
                        match print {
                            None => segmenter.push_zeros(len),
                            Some(fingerprint) => {
                                self.counters.chunks.add(1);
                                let bytes = Bytes::Read(InBuffer {
                                    buffer: Arc::clone(&buffer),
                                    offset,
                                });
                                segmenter.push(
                                    SegmentChild {
                                        fingerprint,
                                        len,
                                        bytes,
                                    },
                                    &mut done,
                                );
                            }
                        }
                    }
                    Event::Zeros(len) => segmenter.push_zeros(len),
                    Event::Copy(range) => self.copy(stream, &range, &mut done)?,
                    Event::End => {
                        segmenter.finish(&mut done);
                        self.place_all(stream, &mut done)?;
                        let door = self.door;
                        self.dedup
                            .end_window(&|| door.look_up(), &mut self.to_pack, stream)?;
                        self.to_pack.close_region(self.dedup.lane(stream))?;
                        self.to_pack.output.send(ToPack::End(stream))?;
                    }
                }
                self.place_all(stream, &mut done)?;
            }
        }
    }

    /// Takes a range of an earlier stream into this one: whole segments where both are aligned, else
    /// chunk by chunk until they are again (B3).
    fn copy(
        &mut self,
        stream: StreamIndex,
        range: &CopyRange,
        done: &mut Vec<Segment<InBuffer>>,
    ) -> Result<(), Halt> {
        let door = self.door;
        let mut walker = RangeWalker::new(door.nodes(), &range.root, range.offset, range.len)
            .map_err(IngestError::Previous)?;
        loop {
            // A range may be as long as the whole backup.
            self.let_collect()?;
            let segmenter = &mut self.segmenters[usize::from(stream.0)];
            let Some(piece) = walker
                .next(segmenter.is_aligned())
                .map_err(IngestError::Previous)?
            else {
                return Ok(());
            };
            match piece {
                Piece::Node(child) => {
                    self.counters.segments.add(1);
                    self.counters.segments_known.add(1);
                    let recipe::Place::At(location) = child.place else {
                        return Err(IngestError::Internal("a node without a place").into());
                    };
                    let body = SegmentBody::Known(KnownNode {
                        location,
                        containers_max: child.containers_max,
                    });
                    let segment = PlacedSegment {
                        fingerprint: child.fingerprint,
                        len: child.logical_len,
                        body,
                    };
                    let node = || recipe::NodeSource::node(door.nodes(), location).ok();
                    self.dedup
                        .take_copied(&|| door.look_up(), &mut self.to_pack, stream, segment, node)?;
                }
                Piece::Chunk(child) => {
                    let bytes = match child.place {
                        recipe::Place::At(location) => Bytes::Stored(location),
                        recipe::Place::Zeros => Bytes::Zeros,
                    };
                    self.counters.chunks.add(1);
                    let child = SegmentChild {
                        fingerprint: child.fingerprint,
                        len: child.logical_len,
                        bytes,
                    };
                    segmenter.push(child, done);
                }
                Piece::Zeros { len } => segmenter.push_zeros(len),
                Piece::PartOfChunk { child, skip, len } => {
                    self.copy_edge(stream, &child, skip, len, done)?;
                }
            }
            self.place_all(stream, done)?;
        }
    }

    /// An edge inside a chunk: those bytes become a chunk of their own.
    fn copy_edge(
        &mut self,
        stream: StreamIndex,
        child: &recipe::Child,
        skip: u64,
        len: u64,
        done: &mut Vec<Segment<InBuffer>>,
    ) -> Result<(), Halt> {
        let recipe::Place::At(location) = child.place else {
            return Err(IngestError::Internal("a part of a chunk without a place").into());
        };
        let whole = self
            .door
            .containers()
            .read_chunk(location)
            .map_err(|error| IngestError::Previous(error.into()))?;
        let (from, to) = (usize::try_from(skip), usize::try_from(skip + len));
        let part = match (from, to) {
            (Ok(from), Ok(to)) => whole.get(from..to),
            _ => None,
        };
        let part = part.ok_or(IngestError::Internal("a part outside its chunk"))?;
        let mut buffer = self.door.edge_buffers().take();
        buffer.spare_mut()[..part.len()].copy_from_slice(part);
        buffer.advance(part.len());
        let segmenter = &mut self.segmenters[usize::from(stream.0)];
        if chunking::is_zero(part) {
            segmenter.push_zeros(len);
            return Ok(());
        }
        self.counters.chunks.add(1);
        let fingerprint = self.printer.chunk(part);
        let bytes = Bytes::Read(InBuffer {
            buffer: Arc::new(buffer),
            offset: 0,
        });
        segmenter.push(
            SegmentChild {
                fingerprint,
                len,
                bytes,
            },
            done,
        );
        Ok(())
    }

    fn place_all(&mut self, stream: StreamIndex, done: &mut Vec<Segment<InBuffer>>) -> Result<(), Halt> {
        for segment in done.drain(..) {
            self.note_sealed();
            self.let_collect()?;
            let door = self.door;
            self.dedup
                .take(&|| door.look_up(), &mut self.to_pack, stream, segment)?;
        }
        Ok(())
    }

    /// Where a checkpoint is asked for: all that was found before goes ahead of the request.
    fn let_collect(&mut self) -> Result<(), Halt> {
        if self.door.take_collection_request() {
            for lane in [Lane::Content, Lane::Metadata] {
                self.to_pack.close_region(lane)?;
            }
            self.to_pack.output.send(ToPack::Answer)?;
        }
        Ok(())
    }

    fn note_sealed(&mut self) {
        while let Ok(notice) = self.sealed.try_recv() {
            self.dedup.sealed(notice.catalog.id());
        }
    }
}
