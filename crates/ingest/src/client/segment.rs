//! The segmenter's stage: from chunks to offered segments.
//!
//! One thread. It cuts every stream's chunks into segments, keeps their bytes for the gatherer, and
//! offers their fingerprints to the store. Ranges of the parent become whole segments where both
//! are aligned. Elsewhere they are copied chunk by chunk until they are aligned again (B3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crypto::Fingerprinter;
use env::Clock;
use recipe::{Child, KnownNode, Piece, Place, RangeWalker};

use crate::backup_session::BackupSession;
use crate::buffer::{BufferPool, InBuffer};
use crate::client::chunk::{Chunked, Event};
use crate::client::piece::CopyRange;
use crate::client::ungathered::{Ungathered, counted};
use crate::counters::Counters;
use crate::dedup::{Bytes, Segment, SegmentChild, Segmenter, StreamIndex};
use crate::error::{Halt, IngestError};
use crate::message::{Offer, OfferedChild, OfferedPlace, OfferedSegment};
use crate::queue::Receiver;

/// The longest edge of a copied range inside a chunk.
const EDGE_BYTES_MAX: usize = chunking::CHUNK_BYTES_MAX as usize;

/// The most offers to send together.
const OFFERS_MAX: usize = 64;

/// An offered segment on its way to the gatherer. A copied one has no children.
#[derive(Debug)]
pub(crate) struct Offered {
    pub(crate) stream: StreamIndex,
    pub(crate) children: Vec<SegmentChild<InBuffer>>,
}

/// The stage's state.
pub(crate) struct SegmentStage<'a> {
    pub(crate) session: &'a dyn BackupSession,
    pub(crate) printer: Fingerprinter,
    pub(crate) counters: &'a Counters,
    /// The segmenter of each stream.
    pub(crate) segmenters: Vec<Segmenter<InBuffer>>,
    /// Sends offered segments to the gatherer.
    pub(crate) offered: crossbeam_channel::Sender<Offered>,
    pub(crate) ungathered: &'a Ungathered,
    pub(crate) clock: &'a dyn Clock,
    /// Set if the stage ends before all streams have ended.
    pub(crate) is_broken: &'a AtomicBool,
    edges: BufferPool,
    done: Vec<Segment<InBuffer>>,
    offers: Vec<Offer>,
    ended: usize,
}

impl<'a> SegmentStage<'a> {
    pub(crate) fn new(
        session: &'a dyn BackupSession,
        counters: &'a Counters,
        segmenters: Vec<Segmenter<InBuffer>>,
        offered: crossbeam_channel::Sender<Offered>,
        (ungathered, clock): (&'a Ungathered, &'a dyn Clock),
        is_broken: &'a AtomicBool,
    ) -> Self {
        Self {
            session,
            printer: session.terms().fingerprinter.clone(),
            counters,
            segmenters,
            offered,
            ungathered,
            clock,
            is_broken,
            edges: BufferPool::new(EDGE_BYTES_MAX, 0),
            done: Vec::new(),
            offers: Vec::new(),
            ended: 0,
        }
    }

    pub(crate) fn run(mut self, input: &Receiver<Chunked>) -> Result<(), Halt> {
        let result = self.take_all(input);
        if result.is_err() || self.ended < self.segmenters.len() {
            self.is_broken.store(true, Ordering::Release);
        }
        result
    }

    fn take_all(&mut self, input: &Receiver<Chunked>) -> Result<(), Halt> {
        while let Ok(chunked) = input.recv() {
            self.ungathered.wait(chunked.stream, self.clock);
            self.take(chunked)?;
            self.submit()?;
        }
        Ok(())
    }

    fn take(&mut self, chunked: Chunked) -> Result<(), Halt> {
        let Chunked {
            stream,
            buffer,
            events,
            prints,
        } = chunked;
        let at = usize::from(stream.0);
        let mut prints = prints.wait()?.into_iter();
        let mut events = events.into_iter().peekable();
        while let Some(event) = events.next() {
            match event {
                Event::Chunk { offset, len } => {
                    let len = u64::from(len);
                    match prints.next().expect("one print a chunk") {
                        None => self.segmenters[at].push_zeros(len),
                        Some(fingerprint) => {
                            let bytes = Bytes::Read(InBuffer {
                                buffer: Arc::clone(&buffer),
                                offset,
                            });
                            let child = SegmentChild {
                                fingerprint,
                                len,
                                bytes,
                            };
                            self.push(stream, child)?;
                        }
                    }
                }
                Event::Zeros(len) => self.segmenters[at].push_zeros(len),
                Event::Copy(range) => {
                    let is_last = matches!(events.peek(), Some(Event::End));
                    self.copy(stream, &range, is_last)?;
                }
                Event::End => {
                    self.segmenters[at].finish(&mut self.done);
                    self.offer_done(stream)?;
                    self.offers.push(Offer::End(stream));
                    self.ended += 1;
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, stream: StreamIndex, child: SegmentChild<InBuffer>) -> Result<(), Halt> {
        self.counters.chunks.add(1);
        self.segmenters[usize::from(stream.0)].push(child, &mut self.done);
        self.offer_done(stream)
    }

    /// Takes a range of an earlier stream into this one, which ends with it if it is the last one.
    fn copy(&mut self, stream: StreamIndex, range: &CopyRange, is_last: bool) -> Result<(), Halt> {
        let reader = self.session.reader();
        let walker = RangeWalker::new(reader, &range.root, range.offset, range.len);
        let mut walker = walker.map_err(IngestError::Previous)?.ends_stream(is_last);
        let at = usize::from(stream.0);
        loop {
            let piece = walker
                .next(self.segmenters[at].is_aligned())
                .map_err(IngestError::Previous)?;
            match piece {
                None => return Ok(()),
                Some(Piece::Node(child)) => self.copy_segment(stream, &child)?,
                Some(Piece::Chunk(child)) => {
                    let bytes = match child.place {
                        Place::At(location) => Bytes::Stored(location),
                        Place::Zeros => Bytes::Zeros,
                    };
                    let child = SegmentChild {
                        fingerprint: child.fingerprint,
                        len: child.logical_len,
                        bytes,
                    };
                    self.push(stream, child)?;
                }
                Some(Piece::Zeros { len }) => self.segmenters[at].push_zeros(len),
                Some(Piece::PartOfChunk { child, skip, len }) => {
                    self.copy_edge(stream, &child, skip, len)?;
                }
            }
        }
    }

    fn copy_segment(&mut self, stream: StreamIndex, child: &Child) -> Result<(), Halt> {
        let Place::At(location) = child.place else {
            return Err(IngestError::Internal("a node without a place").into());
        };
        self.offers.push(Offer::Copy {
            stream,
            fingerprint: child.fingerprint,
            len: child.logical_len,
            node: KnownNode {
                location,
                containers_max: child.containers_max,
            },
        });
        self.tell_gatherer(stream, Vec::new())?;
        // A range may be as long as the whole backup.
        if self.offers.len() >= OFFERS_MAX {
            self.submit()
        } else {
            Ok(())
        }
    }

    /// Copies an edge inside a chunk: these bytes become a chunk of their own.
    fn copy_edge(&mut self, stream: StreamIndex, child: &Child, skip: u64, len: u64) -> Result<(), Halt> {
        let Place::At(location) = child.place else {
            return Err(IngestError::Internal("a part of a chunk without a place").into());
        };
        let reader = self.session.reader();
        let whole = reader.chunk(location).map_err(IngestError::Previous)?;
        let (from, to) = (usize::try_from(skip), usize::try_from(skip + len));
        let part = match (from, to) {
            (Ok(from), Ok(to)) => whole.get(from..to),
            _ => None,
        };
        let part = part.ok_or(IngestError::Internal("a part outside its chunk"))?;
        if chunking::is_zero(part) {
            self.segmenters[usize::from(stream.0)].push_zeros(len);
            return Ok(());
        }
        let mut buffer = self.edges.take();
        buffer.spare_mut()[..part.len()].copy_from_slice(part);
        buffer.advance(part.len());
        let child = SegmentChild {
            fingerprint: self.printer.chunk(part),
            len,
            bytes: Bytes::Read(InBuffer {
                buffer: Arc::new(buffer),
                offset: 0,
            }),
        };
        self.push(stream, child)
    }

    fn offer_done(&mut self, stream: StreamIndex) -> Result<(), Halt> {
        for segment in std::mem::take(&mut self.done) {
            let children = segment.children.iter().map(|child| OfferedChild {
                fingerprint: child.fingerprint,
                len: child.len,
                place: match child.bytes {
                    Bytes::Read(_) => OfferedPlace::Client,
                    Bytes::Stored(location) => OfferedPlace::Stored(location),
                    Bytes::Zeros => OfferedPlace::Zeros,
                },
            });
            let offered = OfferedSegment {
                fingerprint: segment.fingerprint,
                len: segment.len,
                children: children.collect(),
            };
            self.offers.push(Offer::Segment {
                stream,
                segment: offered,
            });
            self.tell_gatherer(stream, segment.children)?;
            if self.offers.len() >= OFFERS_MAX {
                self.submit()?;
            }
        }
        Ok(())
    }

    fn tell_gatherer(&self, stream: StreamIndex, children: Vec<SegmentChild<InBuffer>>) -> Result<(), Halt> {
        let held = children.iter().map(SegmentChild::held_bytes);
        self.ungathered.add(stream, (held.sum(), counted(children.len())));
        let offered = Offered { stream, children };
        self.offered.send(offered).map_err(|_| Halt::Closed)
    }

    fn submit(&mut self) -> Result<(), Halt> {
        if !self.offers.is_empty() {
            self.session.submit(std::mem::take(&mut self.offers))?;
        }
        Ok(())
    }
}
