//! Finds the places of a segment's chunks: it is known whole, decided at once, or decided with the
//! rest of its window.
//!
//! A segment is decided at once if it is known whole, or if its chunks need no more containers than
//! the window's share so far. So buffers are held for a whole window only if the stream is
//! fragmented. A segment that needs more waits, with all after it, until the window is complete.
//! Then the containers of all their chunks are ranked together [Lillibridge 3.2], whether a segment
//! is known whole or not. Known segments that need no more than the rest of the cap are referred to
//! whole. With a cap by bytes, a segment also waits if it has too few bytes of a container, because
//! the rest of the window may have more. If all waiting segments are known whole, they are referred
//! to as they are stored. Without a cap no segment waits.
//!
//! Invariant: decisions reach the packer in stream order, under the guard of their look-up. They
//! follow from the order of segments alone. One thread.

use std::ops::Deref;
use std::sync::Arc;

use format::node::Node;
use index::{CatalogSource, HookIndex, Resolver, ResolverStats};
use types::{ContainerId, Fingerprint};

use super::cap::{Accounts, Holder};
use super::decide::Decider;
use super::granularity::{Granularity, Lookups};
use super::placed::{Lane, NewChunk, PlacedAt, PlacedChild, PlacedSegment, SegmentBody, StreamIndex};
use super::places::SharedPlaces;
use super::segment::{Bytes, Segment};
use super::session_chunks::SessionChunks;
use super::waiting::{Waiting, WaitingSegments};
use super::whole::{OwnSegments, Whole, containers_in, containers_of, ensure_kept, placed, removed};
use super::{Holdings, Outlet};
use crate::counters::Counters;
use crate::error::IngestError;

/// One stream.
#[derive(Debug)]
pub(super) struct Stream<B> {
    lane: Lane,
    pub(super) accounts: Accounts,
    /// Segments that wait for the end of their window.
    pub(super) waiting: WaitingSegments<B>,
}

/// Finds the place of each segment: the policy of one backup. It reuses its allocations.
#[derive(Debug)]
pub struct Deduplicator<K, I, C, B> {
    pub(super) counters: K,
    unit: Granularity,
    pub(super) streams: Vec<Stream<B>>,
    pub(super) decider: Decider<I, C>,
    segments: Resolver<I, C>,
    pub(super) own_segments: OwnSegments,
    /// The number of the next new chunk of each lane.
    next_new: [u64; Lane::COUNT],
}

impl<K: Deref<Target = Counters>, I: HookIndex, C: CatalogSource, B> Deduplicator<K, I, C, B> {
    /// For streams with these lanes. `places` has the places of new chunks, which the receiver of
    /// the decisions assigns. `counters` count decisions.
    #[must_use]
    pub fn new(
        lookups: Lookups<I, C>,
        lanes: impl IntoIterator<Item = Lane>,
        places: [SharedPlaces; Lane::COUNT],
        counters: K,
    ) -> Self {
        let Lookups {
            chunks,
            segments,
            hooks_halved,
            memory,
            unit,
            capping,
            container_bytes,
        } = lookups;
        let batch_bytes = container_bytes.max(1);
        // Chunks of the window and of the container that is being filled are near each other.
        let recent_batches = capping.window_bytes.div_ceil(batch_bytes).saturating_add(1);
        let own = SessionChunks::new(memory.own_bytes, batch_bytes, memory.eviction, places);
        let stream = |lane| Stream {
            lane,
            accounts: Accounts::new(capping),
            waiting: WaitingSegments::default(),
        };
        Self {
            counters,
            unit,
            streams: lanes.into_iter().map(stream).collect(),
            decider: Decider::new(own, chunks, recent_batches, hooks_halved),
            segments,
            own_segments: OwnSegments::new(memory.own_segments_max),
            next_new: [0; Lane::COUNT],
        }
    }

    /// How many new chunks of each lane there are so far.
    #[must_use]
    pub fn new_chunks(&self) -> [u64; Lane::COUNT] {
        self.next_new
    }

    /// Whether segments of the stream wait for the rest of their window.
    #[must_use]
    pub fn is_waiting(&self, stream: StreamIndex) -> bool {
        !self.streams[usize::from(stream.0)].waiting.is_empty()
    }

    /// Stores a chunk under the next number of its lane. Later segments of this backup can refer to
    /// it, if chunks are looked up.
    pub(super) fn want<O: Outlet<B>>(
        &mut self,
        outlet: &mut O,
        lane: Lane,
        (fingerprint, len): (&Fingerprint, u64),
        bytes: &B,
    ) -> Result<NewChunk, O::Error> {
        let ordinal = self.next_new[lane.number()];
        let new = NewChunk { lane, ordinal };
        let stored = u32::try_from(len).expect("a chunk is at most some MiB");
        outlet.store(new, fingerprint, stored, bytes)?;
        self.next_new[lane.number()] += 1;
        self.counters.chunks_new.add(1);
        self.counters.bytes_new.add(len);
        if self.unit == Granularity::Chunk {
            self.decider.own.add(fingerprint, stored, new);
        }
        Ok(new)
    }

    /// Returns the look-ups of chunks and of segments.
    #[must_use]
    pub fn into_resolvers(self) -> [Resolver<I, C>; 2] {
        [self.decider.chunks, self.segments]
    }

    /// Records that a container of this backup was put.
    pub fn sealed(&mut self, id: ContainerId) {
        if self.unit == Granularity::Chunk {
            self.decider.own.sealed(id);
        }
    }

    /// The lane of a stream.
    ///
    /// # Panics
    /// If there is no such stream.
    #[must_use]
    pub fn lane(&self, stream: StreamIndex) -> Lane {
        self.streams[usize::from(stream.0)].lane
    }

    /// The statistics of the look-ups of chunks and of segments, together.
    #[must_use]
    pub fn stats(&self) -> ResolverStats {
        self.decider.chunks.stats().plus(self.segments.stats())
    }

    /// Takes the next segment of a stream. `look_up` begins a look-up. The look-up ends when the
    /// found chunks have their places.
    ///
    /// # Errors
    /// If the storage does not answer, or the outlet accepts no more.
    pub fn take<H, O>(
        &mut self,
        look_up: &impl Fn() -> H,
        outlet: &mut O,
        stream: StreamIndex,
        segment: Segment<B>,
    ) -> Result<(), O::Error>
    where
        H: Holdings<Index = I, Catalogs = C>,
        O: Outlet<B>,
    {
        self.counters.segments.add(1);
        if self.unit != Granularity::Chunk {
            return self.take_whole(look_up, outlet, stream, &segment);
        }
        let at = usize::from(stream.0);
        let len = segment.len;
        if !self.streams[at].waiting.is_empty() {
            self.streams[at].waiting.push(Waiting::Open(segment));
            return self.count(look_up, outlet, stream, len);
        }
        let holdings = look_up();
        let left = self.streams[at].accounts.left_so_far(len);
        let known = self.find_whole(&holdings, &segment.fingerprint)?;
        let accounts = &self.streams[at].accounts;
        let charge = known.as_ref().map(|known| known.charge(accounts));
        let is_worth_it = |known: &Whole| known.is_worth(accounts, len, accounts.least());
        if let Some(known) = known.filter(|known| charge <= Some(left) && is_worth_it(known)) {
            let body = self.refer_to_whole(at, known);
            outlet.place(stream, placed(&segment, body))?;
        } else if charge.is_some_and(|charge| charge <= self.streams[at].accounts.left()) {
            // It needs more than its share, but the window may still have room for it.
            self.streams[at].waiting.push(Waiting::Open(segment));
        } else {
            let accounts = &self.streams[at].accounts;
            let is_bound = self
                .decider
                .decide(&holdings, [&segment], accounts, left, accounts.least())?;
            if is_bound && accounts.is_capped() {
                self.streams[at].waiting.push(Waiting::Open(segment));
            } else {
                self.refer_to_chosen(at);
                let body = self.store(&holdings, outlet, at, &segment, &mut 0)?;
                outlet.place(stream, placed(&segment, body))?;
            }
        }
        drop(holdings);
        self.count(look_up, outlet, stream, len)
    }

    /// Takes a segment that was copied from an earlier backup. The backup refers to it, whatever
    /// the cap. `node` returns its node, which only a cap needs.
    ///
    /// # Errors
    /// Those of [`Self::take`].
    pub fn take_copied<H, O>(
        &mut self,
        look_up: &impl Fn() -> H,
        outlet: &mut O,
        stream: StreamIndex,
        segment: PlacedSegment,
        node: impl FnOnce() -> Option<Arc<Node>>,
    ) -> Result<(), O::Error>
    where
        H: Holdings<Index = I, Catalogs = C>,
        O: Outlet<B>,
    {
        let at = usize::from(stream.0);
        let len = segment.len;
        if self.streams[at].accounts.is_capped()
            && let Some(node) = node()
        {
            for container in containers_of(&node) {
                self.streams[at].accounts.refer(Holder::Container(container));
            }
        }
        if self.streams[at].waiting.is_empty() {
            outlet.place(stream, segment)?;
        } else {
            self.streams[at].waiting.push(Waiting::Placed(segment));
        }
        self.count(look_up, outlet, stream, len)
    }

    pub(super) fn count<H, O>(
        &mut self,
        look_up: &impl Fn() -> H,
        outlet: &mut O,
        stream: StreamIndex,
        len: u64,
    ) -> Result<(), O::Error>
    where
        H: Holdings<Index = I, Catalogs = C>,
        O: Outlet<B>,
    {
        let stream_of = &mut self.streams[usize::from(stream.0)];
        if stream_of.accounts.add(len) || stream_of.waiting.are_many() {
            self.end_window(look_up, outlet, stream)?;
        }
        Ok(())
    }

    /// Decides on the waiting segments, and begins a new window. Called at a stream's end.
    ///
    /// # Errors
    /// Those of [`Self::take`].
    pub fn end_window<H, O>(
        &mut self,
        look_up: &impl Fn() -> H,
        outlet: &mut O,
        stream: StreamIndex,
    ) -> Result<(), O::Error>
    where
        H: Holdings<Index = I, Catalogs = C>,
        O: Outlet<B>,
    {
        let at = usize::from(stream.0);
        let mut waiting = self.streams[at].waiting.take();
        if !waiting.is_empty() {
            let holdings = look_up();
            let least = self.streams[at].accounts.least_at_end();
            let copied = waiting.iter().filter_map(|item| match item {
                Waiting::Placed(segment) => Some(segment),
                Waiting::Open(_) => None,
            });
            ensure_kept(&holdings, copied)?;
            match self.all_known(&holdings, &waiting, least)? {
                Some(wholes) => self.refer_to_all(outlet, stream, &mut waiting, wholes)?,
                None => self.decide_on_all(&holdings, outlet, stream, &mut waiting, least)?,
            }
        }
        self.streams[at].waiting.reuse(waiting);
        self.streams[at].accounts.end_window();
        Ok(())
    }

    fn refer_to_all<O: Outlet<B>>(
        &mut self,
        outlet: &mut O,
        stream: StreamIndex,
        waiting: &mut Vec<Waiting<B>>,
        wholes: Vec<Whole>,
    ) -> Result<(), O::Error> {
        let mut wholes = wholes.into_iter();
        for item in waiting.drain(..) {
            let segment = match item {
                Waiting::Placed(segment) => segment,
                Waiting::Open(segment) => {
                    let whole = wholes.next().expect("one for each that is open");
                    placed(&segment, self.refer_to_whole(usize::from(stream.0), whole))
                }
            };
            outlet.place(stream, segment)?;
        }
        Ok(())
    }

    fn decide_on_all<O: Outlet<B>>(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        outlet: &mut O,
        stream: StreamIndex,
        waiting: &mut Vec<Waiting<B>>,
        least: u64,
    ) -> Result<(), O::Error> {
        let at = usize::from(stream.0);
        let open = waiting.iter().filter_map(|item| match item {
            Waiting::Open(segment) => Some(segment),
            Waiting::Placed(_) => None,
        });
        let accounts = &self.streams[at].accounts;
        self.decider
            .decide(holdings, open, accounts, accounts.left(), least)?;
        self.decider.decide_on_rest(holdings, accounts, least)?;
        self.refer_to_chosen(at);
        let mut chunk = 0;
        for item in waiting.drain(..) {
            let segment = match item {
                Waiting::Placed(segment) => segment,
                Waiting::Open(segment) => {
                    // A known segment needs no new node, and no more containers than the choice
                    // leaves.
                    let known = self.find_whole(holdings, &segment.fingerprint)?;
                    let accounts = &self.streams[at].accounts;
                    let is_had = |known: &Whole| {
                        known.charge(accounts) <= accounts.left()
                            && known.is_worth(accounts, segment.len, least)
                    };
                    let body = match known.filter(is_had) {
                        Some(known) => {
                            chunk += segment.chunks_read();
                            self.refer_to_whole(at, known)
                        }
                        None => self.store(holdings, outlet, at, &segment, &mut chunk)?,
                    };
                    placed(&segment, body)
                }
            };
            outlet.place(stream, segment)?;
        }
        Ok(())
    }

    /// The waiting segments, if all are known whole and the cap is by bytes. Each of them is as in
    /// some earlier backup, and no chunk of it is stored again, wherever it is. So an unchanged
    /// stretch costs only the look-ups of its segments, and no space. If a segment of the window
    /// changed, the window is decided as a whole.
    fn all_known(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        waiting: &[Waiting<B>],
        least: u64,
    ) -> Result<Option<Vec<Whole>>, IngestError> {
        if least == 0 {
            return Ok(None);
        }
        let mut wholes = Vec::new();
        for item in waiting {
            let Waiting::Open(segment) = item else { continue };
            match self.find_whole(holdings, &segment.fingerprint)? {
                Some(whole) => wholes.push(whole),
                None => return Ok(None),
            }
        }
        Ok(Some(wholes))
    }

    /// A segment that is known whole.
    pub(super) fn find_whole(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        fingerprint: &Fingerprint,
    ) -> Result<Option<Whole>, IngestError> {
        if let Some(own) = self.own_segments.held.get(fingerprint) {
            return Ok(Some(Whole::Own(*own)));
        }
        let found = holdings.find_segment(&mut self.segments, fingerprint)?;
        Ok(found.map(|(known, node)| Whole::Known(known, node)))
    }

    pub(super) fn refer_to_whole(&mut self, at: usize, whole: Whole) -> SegmentBody {
        self.counters.segments_known.add(1);
        let accounts = &mut self.streams[at].accounts;
        match whole {
            Whole::Own(own) => {
                accounts.refer_to_some(own.containers);
                SegmentBody::Repeated(own.number)
            }
            Whole::Known(known, node) => {
                if accounts.is_capped() {
                    for id in containers_of(&node) {
                        accounts.refer(Holder::Container(id));
                    }
                }
                SegmentBody::Known(known)
            }
        }
    }

    fn refer_to_chosen(&mut self, at: usize) {
        let accounts = &mut self.streams[at].accounts;
        for holder in self.decider.chosen() {
            match holder {
                Holder::Own(batch) if self.decider.is_recent(batch) => {}
                holder => accounts.refer(holder),
            }
        }
    }

    /// Stores the chunks of a segment that must be stored. `chunk` counts the decided chunks.
    fn store<O: Outlet<B>>(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        outlet: &mut O,
        at: usize,
        segment: &Segment<B>,
        chunk: &mut usize,
    ) -> Result<SegmentBody, O::Error> {
        let lane = self.streams[at].lane;
        let mut children = Vec::with_capacity(segment.children.len());
        for child in &segment.children {
            let place = match &child.bytes {
                Bytes::Zeros => PlacedAt::Zeros,
                Bytes::Stored(location) if holdings.is_removed(*location) => {
                    let bytes = outlet.fetch(*location, &child.fingerprint)?;
                    let bytes = bytes.ok_or_else(|| removed(*location))?;
                    PlacedAt::New(self.want(outlet, lane, (&child.fingerprint, child.len), &bytes)?)
                }
                Bytes::Stored(location) => {
                    let holder = Holder::Container(location.container);
                    self.streams[at].accounts.refer(holder);
                    PlacedAt::Stored(*location)
                }
                Bytes::Read(bytes) => {
                    let decided = self.decider.place(*chunk);
                    let found = decided.is_none() && self.decider.is_offered(*chunk);
                    *chunk += 1;
                    let again = || self.decider.newest_recent(&child.fingerprint);
                    match decided.or_else(again) {
                        Some(place) => place,
                        None => {
                            if found {
                                self.counters.chunks_capped.add(1);
                                self.counters.bytes_capped.add(child.len);
                            }
                            PlacedAt::New(self.want(outlet, lane, (&child.fingerprint, child.len), bytes)?)
                        }
                    }
                }
            };
            children.push(PlacedChild {
                fingerprint: child.fingerprint,
                len: child.len,
                place,
            });
        }
        let containers = if self.streams[at].accounts.is_capped() {
            containers_in(&children)
        } else {
            0
        };
        let number = self
            .own_segments
            .add((segment.fingerprint, segment.len), containers);
        Ok(SegmentBody::Fresh { number, children })
    }
}
