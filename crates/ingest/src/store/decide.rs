//! The look-up stage: finds whether a segment is known whole, and if not, which of its chunks are.
//!
//! One thread, in stream order. A known segment is one look-up (G3, R1); only unknown ones fall
//! through to their chunks ([`crate::dedup`]). The stage asks the client for new chunks by number.
//! It identifies the session's own chunks by these numbers, sealed or not. So the time at which
//! containers are sealed does not change what it finds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use container::{ContainerError, Containers, PendingEntry};
use index::{Index, ResolverStats};
use recipe::{Child, NodeSource, Place, RecipeError, SEGMENT_LEVEL, TreeRoot, open_node};
use types::{ChunkLocation, Fingerprint};

use crate::buffer::InBuffer;
use crate::counters::Counters;
use crate::dedup::{
    Bytes, Deduplicator, Holdings, Lane, NewChunk, Outlet, PlacedSegment, Segment, SegmentBody, SegmentChild,
    StreamIndex,
};
use crate::error::{Halt, IngestError};
use crate::message::{Offer, OfferedPlace, OfferedSegment, Verdict, Wanted};
use crate::queue::{Closed, Receiver, Sender};
use crate::region::{OfferedRegion, RegionBuilder};
use crate::store::close::SealedNotice;
use crate::store::opening::Opening;
use crate::store::refetch::Refetch;
use crate::store::session::StoreSession;
use crate::store::unplaced::Unplaced;

/// How often the stage looks for requests, so that a slow source does not make reclamation wait.
const POLL: Duration = Duration::from_millis(500);

/// After so many children of segments, all open regions are sent. A known segment is one. Until
/// then the packer keeps the segments behind an open region: some 5 MiB.
const FLUSHED_CHILDREN: usize = 1 << 16;
/// More offers than this never wait for the chunks of a brief segment, ...
const BEHIND_MAX: usize = 4096;
/// ... nor more chunks of offers: some 20 MiB. A client sends 65,536, and those of one message and
/// one segment more ([`crate::brief`]).
const BEHIND_CHUNKS_MAX: usize = 1 << 18;

/// A message to the packer. Segments come in order within each stream. Regions state where they
/// belong.
#[derive(Debug)]
pub(crate) enum ToPack {
    /// A region of new chunks.
    Region(OfferedRegion),
    /// A looked-up segment.
    Segment {
        stream: StreamIndex,
        segment: PlacedSegment,
    },
    /// A stream is complete.
    End(StreamIndex),
    /// A request of reclamation: the segments before this message, and so many new chunks of each
    /// lane, must become durable and declared (rule 4).
    Answer([u64; Lane::COUNT]),
}

/// Where the bytes of a possibly wanted chunk are.
#[derive(Debug)]
pub(crate) enum ChunkBytes {
    /// In the client, which has offered it: its position in its segment.
    Client(u32),
    /// In the client, which has offered the segment without its chunks. The store has read which
    /// ones it has.
    Opened(u32),
    /// Here: they were read from the place to which an earlier backup refers.
    Refetched(InBuffer),
}

/// The stage's state.
pub(crate) struct DecideStage {
    pub(crate) session: Arc<StoreSession>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) sealed: crossbeam_channel::Receiver<SealedNotice>,
    pub(crate) dedup: Deduplicator<Arc<Counters>, Index, Containers, ChunkBytes>,
    pub(crate) outlet: Decisions,
    /// Reads the chunks of brief segments that are known.
    pub(crate) opening: Opening,
    /// The brief segment whose chunks the stage waits for: its stream, fingerprint and length.
    pub(crate) asked: Option<(StreamIndex, Fingerprint, u64)>,
    /// The offers behind it, ...
    pub(crate) behind: VecDeque<Offer>,
    /// ... and how many chunks they have.
    pub(crate) behind_chunks: usize,
    /// Streams that have not ended.
    pub(crate) open: usize,
    /// Set at the end.
    pub(crate) stats: Arc<Mutex<ResolverStats>>,
}

/// Sends decisions to the packer and to the client.
pub(crate) struct Decisions {
    pub(crate) to_pack: Sender<ToPack>,
    pub(crate) verdicts: Sender<Verdict>,
    /// Wanted chunks of the present segment.
    pub(crate) wanted: Vec<Wanted>,
    /// Chunks that the store reads and stores again.
    pub(crate) refetched: [RegionBuilder; Lane::COUNT],
    pub(crate) refetch: Refetch,
    /// Children of segments since all open regions were sent.
    pub(crate) unflushed: usize,
    /// Children of the segments that the packer has not written.
    pub(crate) unplaced: Unplaced,
    /// As for [`StoreSession::insisting`].
    pub(crate) insists: bool,
}

impl Decisions {
    fn close_refetched(&mut self, lane: Lane) -> Result<(), Halt> {
        if let Some(region) = self.refetched[lane.number()].close_here() {
            self.to_pack.send(ToPack::Region(region))?;
        }
        Ok(())
    }

    /// Sends all open regions, and asks the client for its open ones.
    fn flush(&mut self, lane: Option<Lane>) -> Result<(), Halt> {
        if lane.is_none() {
            self.unflushed = 0;
        }
        for each in [Lane::Content, Lane::Metadata] {
            if lane.is_none_or(|lane| lane == each) {
                self.close_refetched(each)?;
            }
        }
        Ok(self.verdicts.send(Verdict::Flush(lane))?)
    }
}

impl Outlet<ChunkBytes> for Decisions {
    type Error = Halt;

    fn fetch(&mut self, at: ChunkLocation, fingerprint: &Fingerprint) -> Result<Option<ChunkBytes>, Halt> {
        let read = self.refetch.read(at, fingerprint).map_err(IngestError::from)?;
        if read.is_none() && self.insists {
            let container = at.container;
            let error = RecipeError::Container(ContainerError::Missing { container });
            return Err(IngestError::Previous(error).into());
        }
        Ok(read.map(ChunkBytes::Refetched))
    }

    fn store(
        &mut self,
        new: NewChunk,
        fingerprint: &Fingerprint,
        len: u32,
        bytes: &ChunkBytes,
    ) -> Result<(), Halt> {
        match bytes {
            ChunkBytes::Client(child) | ChunkBytes::Opened(child) => {
                // No chunk from here can follow in the open region any more. Left open, it would
                // keep the packer from all that comes after it.
                self.close_refetched(new.lane)?;
                let is_opened = matches!(bytes, ChunkBytes::Opened(_));
                self.wanted.push(Wanted {
                    child: *child,
                    new,
                    chunk: is_opened.then_some((*fingerprint, u64::from(len))),
                });
            }
            ChunkBytes::Refetched(bytes) => {
                let lane = new.lane.number();
                if !self.refetched[lane].is_followed_by(new) {
                    self.close_refetched(new.lane)?;
                }
                let entry = PendingEntry::chunk(*fingerprint, len);
                self.refetched[lane].push(new, entry, &bytes.buffer, bytes.offset as usize);
                if self.refetched[lane].is_full() {
                    self.close_refetched(new.lane)?;
                }
            }
        }
        Ok(())
    }

    fn place(&mut self, stream: StreamIndex, segment: PlacedSegment) -> Result<(), Halt> {
        let wanted = std::mem::take(&mut self.wanted);
        let children = segment.children();
        self.unflushed += children;
        self.unplaced.add(children);
        self.to_pack.send(ToPack::Segment { stream, segment })?;
        self.verdicts.send(Verdict::Segment { stream, wanted })?;
        // The packer keeps each segment until the chunks before it have come. A chunk may be in an
        // open region that nothing fills: a backup may have terabytes of known data behind it.
        if self.unflushed >= FLUSHED_CHILDREN {
            self.flush(None)?;
        }
        Ok(())
    }
}

fn chunks_in(offer: &Offer) -> usize {
    match offer {
        Offer::Segment { segment, .. } => segment.children.len(),
        _ => 0,
    }
}

impl DecideStage {
    pub(crate) fn run(mut self, input: &Receiver<Vec<Offer>>) -> Result<(), Halt> {
        let ended = self.take_all(input);
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner) = self.dedup.stats();
        ended
    }

    fn take_all(&mut self, input: &Receiver<Vec<Offer>>) -> Result<(), Halt> {
        loop {
            let offers = match input.recv_within(POLL) {
                Ok(offers) => offers.unwrap_or_default(),
                Err(Closed) => return Ok(()),
            };
            // A source that has only zeros has no segments, and must not make reclamation wait
            // either.
            self.note_sealed();
            self.let_collect()?;
            for offer in offers {
                self.take_in_turn(offer)?;
            }
        }
    }

    /// Takes an offer, or leaves it behind a segment whose chunks have not come. Decisions follow
    /// from the order of the offers alone, whatever the time at which the chunks come.
    fn take_in_turn(&mut self, offer: Offer) -> Result<(), Halt> {
        let mut next = match (offer, self.asked) {
            (Offer::Children { stream, children }, Some((asked, fingerprint, len))) if stream == asked => {
                self.asked = None;
                let segment = OfferedSegment {
                    fingerprint,
                    len,
                    children,
                };
                Some(Offer::Segment { stream, segment })
            }
            (Offer::Children { .. }, _) => {
                return Err(IngestError::Internal("chunks that nobody has asked for").into());
            }
            (offer, Some(_)) => {
                self.behind_chunks += chunks_in(&offer);
                if self.behind.len() >= BEHIND_MAX || self.behind_chunks > BEHIND_CHUNKS_MAX {
                    return Err(
                        IngestError::Internal("too many offers before chunks that were asked for").into(),
                    );
                }
                self.behind.push_back(offer);
                None
            }
            (offer, None) => Some(offer),
        };
        while let Some(offer) = next {
            self.take(offer)?;
            self.note_sealed();
            self.let_collect()?;
            next = self.asked.is_none().then(|| self.behind.pop_front()).flatten();
            self.behind_chunks -= next.as_ref().map_or(0, chunks_in);
        }
        Ok(())
    }

    fn take(&mut self, offer: Offer) -> Result<(), Halt> {
        let session = Arc::clone(&self.session);
        let look_up = || session.look_up();
        match offer {
            Offer::Segment { stream, segment } => {
                self.dedup
                    .take(&look_up, &mut self.outlet, stream, for_decision(segment))?;
                self.tell_whether_it_waits(stream)
            }
            Offer::Brief {
                stream,
                fingerprint,
                len,
            } => {
                let brief = (fingerprint, len);
                let open = |at| {
                    let chunks = self.opening.chunks(&session, brief, at)?;
                    Ok(chunks.map(|chunks| {
                        children_with(chunks, |number, _| Bytes::Read(ChunkBytes::Opened(number)))
                    }))
                };
                if self
                    .dedup
                    .take_brief(&look_up, &mut self.outlet, stream, brief, open)?
                {
                    return self.tell_whether_it_waits(stream);
                }
                self.asked = Some((stream, fingerprint, len));
                Ok(self.outlet.verdicts.send(Verdict::Unknown(stream))?)
            }
            Offer::Copy {
                stream,
                fingerprint,
                len,
                node: known,
            } => {
                let held = look_up();
                if !held.keeps_segment(known.location) {
                    drop(held);
                    return self.take_apart(stream, (fingerprint, len), known.location);
                }
                self.counters.segments.add(1);
                self.counters.segments_known.add(1);
                let segment = PlacedSegment {
                    fingerprint,
                    len,
                    body: SegmentBody::Known(known),
                };
                let node = || session.nodes.node(known.location).ok();
                self.dedup
                    .take_copied(&look_up, &mut self.outlet, stream, segment, node)?;
                self.tell_whether_it_waits(stream)
            }
            Offer::End(stream) => {
                self.dedup.end_window(&look_up, &mut self.outlet, stream)?;
                self.outlet.flush(Some(self.dedup.lane(stream)))?;
                self.outlet.to_pack.send(ToPack::End(stream))?;
                self.open = self.open.saturating_sub(1);
                if self.open == 0 {
                    self.outlet.verdicts.send(Verdict::Done)?;
                }
                Ok(())
            }
            Offer::Children { .. } => Err(IngestError::Internal("chunks out of turn").into()),
            // Regions must go to the packer directly. Behind offers, whose verdicts the client must
            // take first, they would cause a deadlock.
            Offer::Region(_) => Err(IngestError::Internal("a region among the offers").into()),
        }
    }

    /// Takes a copied segment that reclamation may remove: its chunks that are in danger are stored
    /// again.
    fn take_apart(
        &mut self,
        stream: StreamIndex,
        (fingerprint, len): (Fingerprint, u64),
        at: ChunkLocation,
    ) -> Result<(), Halt> {
        let root = TreeRoot {
            location: at,
            level: SEGMENT_LEVEL,
            fingerprint,
            len,
        };
        let children = open_node(&self.session.nodes, &root).map_err(IngestError::Previous)?;
        let segment = Segment {
            fingerprint,
            len,
            children: children_with(children, |_, at| Bytes::Stored(at)),
        };
        let session = Arc::clone(&self.session);
        self.dedup
            .take(&|| session.look_up(), &mut self.outlet, stream, segment)?;
        self.tell_whether_it_waits(stream)
    }

    /// If a checkpoint was requested, sends everything found before ahead of the request.
    fn let_collect(&mut self) -> Result<(), Halt> {
        if self.session.take_collection_request() {
            // After the last verdict nobody takes more. Then each region was asked for before.
            if self.open > 0 {
                self.outlet.flush(None)?;
            }
            let wanted = self.dedup.new_chunks();
            self.outlet.to_pack.send(ToPack::Answer(wanted))?;
        }
        Ok(())
    }

    fn tell_whether_it_waits(&self, stream: StreamIndex) -> Result<(), Halt> {
        if self.dedup.is_waiting(stream) {
            self.outlet.verdicts.send(Verdict::Waits(stream))?;
        }
        Ok(())
    }

    fn note_sealed(&mut self) {
        while let Ok(notice) = self.sealed.try_recv() {
            self.dedup.sealed(notice.catalog.id());
        }
    }
}

/// The chunks of a segment that the store has opened, as if the client had offered them. `bytes`
/// says for the n-th one, at this place, where its bytes come from.
fn children_with(
    chunks: Vec<Child>,
    bytes: impl Fn(u32, ChunkLocation) -> Bytes<ChunkBytes>,
) -> Vec<SegmentChild<ChunkBytes>> {
    let chunks = (0..).zip(chunks).map(|(number, child)| SegmentChild {
        fingerprint: child.fingerprint,
        len: child.logical_len,
        bytes: match child.place {
            Place::At(at) => bytes(number, at),
            Place::Zeros => Bytes::Zeros,
        },
    });
    chunks.collect()
}

/// An offered segment, with what the store needs to ask for its chunks.
fn for_decision(offered: OfferedSegment) -> Segment<ChunkBytes> {
    let children = (0..).zip(offered.children).map(|(number, child)| SegmentChild {
        fingerprint: child.fingerprint,
        len: child.len,
        bytes: match child.place {
            OfferedPlace::Client => Bytes::Read(ChunkBytes::Client(number)),
            OfferedPlace::Stored(location) => Bytes::Stored(location),
            OfferedPlace::Zeros => Bytes::Zeros,
        },
    });
    Segment {
        fingerprint: offered.fingerprint,
        len: offered.len,
        children: children.collect(),
    }
}
