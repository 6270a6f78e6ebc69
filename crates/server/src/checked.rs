//! What the server checks of a running backup (B2).
//!
//! A client may lie about its own data, but later backups of other machines rely on fingerprints.
//! So the server computes them again: of each new chunk, of each segment from its chunks, and it
//! looks at each place to which a client refers. It takes only the chunks that the store wants,
//! each once, under the number that the store gave it. If it knows a segment whole, its fingerprint
//! and its length are enough, because the store itself reads which chunks the segment has.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chunking::CHUNK_BYTES_MAX;
use crypto::Fingerprinter;
use format::node::NODE_CHILDREN_MAX;
use ingest::dedup::{Lane, NewChunk, StreamIndex};
use ingest::{
    BackupSession, CopiedRun, Offer, OfferedChild, OfferedPlace, OfferedSegment, StoredRegion, Verdict,
};
use recipe::{SEGMENT_LEVEL, TreeRoot};
use types::{ByteRange, ChunkLocation, Fingerprint};
use wire::{Refusal, RefusalKind, Sent};

/// Copied segments of one message, at most.
const COPIES_MAX: u64 = 4096;

/// Children of segments that have no verdict, or wait in the store for chunks before them. One
/// takes 72 to 160 bytes, so all take some 30 to 60 MiB: about the memory of a backup's place
/// ([`crate::memory`]). An honest client needs it for a tree of tiny files, and never has more:
///
/// - The store asks for all open regions after 65,536 children, and those of a segment more.
/// - Until they come, the client offers 65,536 more of a stream (`ingest::client`), and those of a
///   buffer.
/// - Some 65,536 wait for their window in a fragmented stream.
///
/// A copy between stores has 131,072 on their way, and then no tiny files' windows.
const CHILDREN_MAX: usize = 3 << 17;
/// Stored bytes that may come before a region that the store waits for. Clients send regions in
/// order.
const EARLY_BYTES_MAX: u64 = 32 << 20;

/// A chunk: fingerprint and length.
type Chunk = (Fingerprint, u64);

/// An offered segment that has no verdict.
enum Expected {
    /// Its chunks.
    Chunks(Vec<Chunk>),
    /// Its fingerprint and length: the client has not sent its chunks.
    Brief(Fingerprint, u64),
    /// The client has not sent its chunks, and the store has read which ones they are.
    Opened,
}

/// The offered segments of a stream that have no verdict, in order.
#[derive(Default)]
struct Queue {
    expected: VecDeque<Expected>,
    /// How many of the first ones wait for more of the stream.
    waits: usize,
}

/// The state of a running backup's checks.
pub(crate) struct Checker<'a> {
    session: &'a dyn BackupSession,
    printer: Fingerprinter,
    /// Whether the client may refer to stored data by its place.
    may_read: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Of each stream.
    offered: Vec<Queue>,
    /// Children of all offered segments that have no verdict.
    children: usize,
    /// The stream of the brief segment whose chunks the store waits for.
    asked: Option<StreamIndex>,
    /// The chunks that the store waits for, by lane and number.
    wanted: BTreeMap<(usize, u64), Chunk>,
    /// Regions that came before one that the store waits for: their bytes, by lane and number. The
    /// store keeps them.
    early: BTreeMap<(usize, u64), u64>,
    /// All streams have ended, and each segment has its verdict.
    is_done: bool,
}

impl Expected {
    /// How many children of the segment are in memory. A segment without them counts as one.
    fn children(&self) -> usize {
        match self {
            Self::Chunks(chunks) => chunks.len().max(1),
            Self::Brief(..) | Self::Opened => 1,
        }
    }
}

impl Queue {
    /// Takes the first segment: it has its verdict.
    fn pop(&mut self) -> Option<Expected> {
        self.waits = self.waits.saturating_sub(1);
        self.expected.pop_front()
    }

    /// Notes that the store needs no more of the next segment, but more of the stream.
    fn note_waiting(&mut self) {
        if let Some(expected) = self.expected.get_mut(self.waits)
            && matches!(expected, Expected::Brief(..))
        {
            *expected = Expected::Opened;
        }
        self.waits += 1;
    }

    /// The first brief segment whose chunks the store does not have.
    fn brief(&mut self) -> Option<&mut Expected> {
        let is_brief = |expected: &&mut Expected| matches!(expected, Expected::Brief(..));
        self.expected.iter_mut().find(is_brief)
    }
}

impl State {
    fn queue_of(&mut self, stream: StreamIndex) -> Result<&mut Queue, Refusal> {
        let queue = self.offered.get_mut(usize::from(stream.0));
        queue.ok_or_else(|| lie("a stream that was not begun"))
    }

    /// Regions of the lane before the first wanted chunk have had their turn.
    fn drop_settled(&mut self, lane: usize) {
        let first = self.wanted.range((lane, 0)..=(lane, u64::MAX)).next();
        let first = first.map_or((lane, u64::MAX), |(at, _)| *at);
        self.early.retain(|at, _| at.0 != lane || *at > first);
    }

    /// Refuses a client that withholds a chunk and goes on: all behind it waits in memory. The
    /// store keeps so many children of segments that have their verdict, with all wanted chunks.
    fn ensure_bounded(&self, unplaced: usize) -> Result<(), Refusal> {
        let is_bounded = self.children.saturating_add(unplaced) <= CHILDREN_MAX
            && self.early.values().sum::<u64>() <= EARLY_BYTES_MAX;
        match is_bounded {
            true => Ok(()),
            false => Err(lie("too much came before a chunk that the store waits for")),
        }
    }
}

fn lie(why: &str) -> Refusal {
    Refusal::new(RefusalKind::Malformed, why)
}

impl<'a> Checker<'a> {
    pub(crate) fn new(session: &'a dyn BackupSession, streams: usize, may_read: bool) -> Self {
        let state = State {
            offered: (0..streams).map(|_| Queue::default()).collect(),
            ..State::default()
        };
        Self {
            session,
            printer: session.terms().fingerprinter.clone(),
            may_read,
            state: Mutex::new(state),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes verdicts before they are sent.
    pub(crate) fn note(&self, verdicts: &[Verdict]) {
        let mut state = self.state();
        for verdict in verdicts {
            match verdict {
                Verdict::Segment { stream, wanted } => {
                    let queue = state.offered.get_mut(usize::from(stream.0));
                    let expected = queue.and_then(Queue::pop);
                    state.children -= expected.as_ref().map_or(0, Expected::children);
                    let chunks = match expected {
                        Some(Expected::Chunks(chunks)) => chunks,
                        // It is known whole, or the store says which chunks it wants.
                        Some(Expected::Brief(..) | Expected::Opened) | None => Vec::new(),
                    };
                    for one in wanted {
                        let offered = || chunks.get(one.child as usize).copied();
                        if let Some(chunk) = one.chunk.or_else(offered) {
                            state.wanted.insert(key(one.new), chunk);
                        }
                    }
                }
                Verdict::Unknown(stream) => state.asked = Some(*stream),
                Verdict::Done => state.is_done = true,
                Verdict::Waits(stream) => {
                    if let Some(queue) = state.offered.get_mut(usize::from(stream.0)) {
                        queue.note_waiting();
                    }
                }
                Verdict::Flush(_) => {}
            }
        }
    }

    /// Whether the backup can be committed.
    pub(crate) fn is_whole(&self) -> bool {
        let state = self.state();
        state.is_done && state.wanted.is_empty()
    }

    /// The offers, if all of them are genuine.
    pub(crate) fn check(&self, sent: Vec<Sent>) -> Result<Vec<Offer>, Refusal> {
        let mut offers = Vec::with_capacity(sent.len());
        let mut copied = 0;
        for one in sent {
            match one {
                Sent::Region(region) => offers.push(self.region(region)?),
                Sent::Offer(offer) => offers.push(self.offer(offer)?),
                Sent::Copies(run) => {
                    copied += u64::from(run.count);
                    if copied > COPIES_MAX {
                        return Err(lie("more copies than one message may have"));
                    }
                    offers.extend(self.copies(&run)?);
                }
            }
        }
        Ok(offers)
    }

    /// The offers of copied segments, if the client knows their fingerprints.
    fn copies(&self, run: &CopiedRun) -> Result<Vec<Offer>, Refusal> {
        self.state().ensure_bounded(self.session.unplaced())?;
        if !self.may_read {
            return Err(lie("this token may not refer to earlier backups"));
        }
        let offers = run.offers(self.session.reader());
        let offers = offers.map_err(|error| Refusal::new(RefusalKind::Previous, error.to_string()))?;
        let offers = offers.ok_or_else(|| lie("no such segments are where the client says"))?;
        for offer in &offers {
            self.ensure_sound(offer)?;
            self.expect(run.stream, Expected::Chunks(Vec::new()))?;
        }
        Ok(offers)
    }

    /// Refuses to copy a segment whose data is damaged or missing by now.
    fn ensure_sound(&self, copy: &Offer) -> Result<(), Refusal> {
        let Offer::Copy {
            fingerprint,
            len,
            node,
            ..
        } = *copy
        else {
            return Ok(());
        };
        let root = TreeRoot {
            location: node.location,
            level: SEGMENT_LEVEL,
            fingerprint,
            len,
        };
        let unsound = self.session.unsound(&root, ByteRange { offset: 0, len });
        if unsound.is_ok_and(|unsound| unsound.is_empty()) {
            return Ok(());
        }
        let why = "data of the earlier backup was damaged or lost meanwhile";
        Err(Refusal::new(RefusalKind::Previous, why))
    }

    fn region(&self, region: StoredRegion) -> Result<Offer, Refusal> {
        {
            let mut state = self.state();
            let lane = region.lane.number();
            let is_first = |state: &State| {
                let first = state.wanted.range((lane, 0)..).next().map(|(at, _)| *at);
                first.is_none_or(|first| first.0 != lane || region.first <= first.1)
            };
            if !is_first(&state) {
                let bytes = region.bytes.bytes().len() as u64;
                state.early.insert((lane, region.first), bytes);
            }
            for (ordinal, (fingerprint, len)) in (region.first..).zip(&region.chunks) {
                let wanted = state.wanted.remove(&(region.lane.number(), ordinal));
                if wanted != Some((*fingerprint, u64::from(*len))) {
                    return Err(lie("a chunk that the store does not want under this number"));
                }
            }
            state.drop_settled(lane);
            state.ensure_bounded(self.session.unplaced())?;
        }
        if !region.is_genuine(&self.printer) {
            return Err(lie("a chunk has another fingerprint than its bytes"));
        }
        Ok(Offer::Region(region.into()))
    }

    fn offer(&self, offer: Offer) -> Result<Offer, Refusal> {
        self.state().ensure_bounded(self.session.unplaced())?;
        match offer {
            Offer::Segment { stream, segment } => {
                self.segment(&segment)?;
                self.expect(stream, Expected::Chunks(chunks_of(&segment.children)))?;
                Ok(Offer::Segment { stream, segment })
            }
            Offer::Brief {
                stream,
                fingerprint,
                len,
            } => {
                self.expect(stream, Expected::Brief(fingerprint, len))?;
                Ok(offer)
            }
            Offer::Children { stream, children } => self.children(stream, children),
            Offer::End(stream) => {
                self.state().queue_of(stream)?;
                Ok(Offer::End(stream))
            }
            Offer::Copy { .. } | Offer::Region(_) => Err(lie("a region or a copy among the offers")),
        }
    }

    fn expect(&self, stream: StreamIndex, expected: Expected) -> Result<(), Refusal> {
        let mut state = self.state();
        let children = expected.children();
        state.queue_of(stream)?.expected.push_back(expected);
        state.children += children;
        Ok(())
    }

    /// The chunks of a brief segment, if the store has asked for them and they are its own.
    fn children(&self, stream: StreamIndex, children: Vec<OfferedChild>) -> Result<Offer, Refusal> {
        let unasked = || lie("chunks that the store has not asked for");
        let (fingerprint, len) = {
            let mut state = self.state();
            state
                .asked
                .take_if(|asked| *asked == stream)
                .ok_or_else(unasked)?;
            let brief = state.offered[usize::from(stream.0)].brief();
            match brief.ok_or_else(unasked)? {
                Expected::Brief(fingerprint, len) => (*fingerprint, *len),
                Expected::Chunks(_) | Expected::Opened => return Err(unasked()),
            }
        };
        let segment = OfferedSegment {
            fingerprint,
            len,
            children,
        };
        self.segment(&segment)?;
        {
            let mut state = self.state();
            if let Some(brief) = state.queue_of(stream)?.brief() {
                *brief = Expected::Chunks(chunks_of(&segment.children));
                state.children += segment.children.len().saturating_sub(1);
            }
        }
        let children = segment.children;
        Ok(Offer::Children { stream, children })
    }

    fn segment(&self, segment: &OfferedSegment) -> Result<(), Refusal> {
        if segment.children.len() > NODE_CHILDREN_MAX as usize {
            return Err(lie("a segment has more chunks than a node holds"));
        }
        let mut hasher = self.printer.node_hasher(SEGMENT_LEVEL);
        let (mut len, mut is_behind_zeros) = (0_u64, false);
        for child in &segment.children {
            self.child(child)?;
            let is_zeros = child.place == OfferedPlace::Zeros;
            if is_zeros && is_behind_zeros {
                return Err(lie("zeros behind zeros: they are one child of a segment"));
            }
            is_behind_zeros = is_zeros;
            hasher.push(&child.fingerprint, child.len);
            len = len.saturating_add(child.len);
        }
        if segment.children.is_empty() || len != segment.len || hasher.finish() != segment.fingerprint {
            return Err(lie("a segment has another fingerprint or length than its chunks"));
        }
        Ok(())
    }

    fn child(&self, child: &OfferedChild) -> Result<(), Refusal> {
        let is_chunk = (1..=u64::from(CHUNK_BYTES_MAX)).contains(&child.len);
        let is_right = match child.place {
            OfferedPlace::Client => is_chunk,
            OfferedPlace::Zeros => child.len > 0 && self.printer.zeros(child.len) == child.fingerprint,
            OfferedPlace::Stored(at) => is_chunk && self.may_read && self.is_at(child, at)?,
        };
        is_right
            .then_some(())
            .ok_or_else(|| lie("a chunk is not where the client says"))
    }

    /// Whether the chunk is there, by the container's catalog.
    fn is_at(&self, child: &OfferedChild, at: ChunkLocation) -> Result<bool, Refusal> {
        let view = self.session.reader().catalog(at.container);
        let view = view.map_err(|error| Refusal::new(RefusalKind::Previous, error.to_string()))?;
        let entry = view.entry(at.slot);
        Ok(entry
            .is_some_and(|entry| entry.fingerprint == child.fingerprint && u64::from(entry.len) == child.len))
    }
}

fn chunks_of(children: &[OfferedChild]) -> Vec<Chunk> {
    let chunk = |child: &OfferedChild| (child.fingerprint, child.len);
    children.iter().map(chunk).collect()
}

fn key(new: NewChunk) -> (usize, u64) {
    let lane: Lane = new.lane;
    (lane.number(), new.ordinal)
}
