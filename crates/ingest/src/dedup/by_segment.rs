//! Deduplication by segments: a segment is known whole, or all of it is stored [RevDedup 2.3] (R1,
//! R8).
//!
//! If a segment is not known whole, its chunks are looked up neither in the index nor among the
//! session's own. They are stored in order, so that a backup's new data is stored together, and a
//! backup costs one look-up for each segment. Chunks that are stored twice because of this are
//! found later, out of line. Zeros stay zeros. Chunks that were copied by reference from the
//! previous backup are read, and stored with the rest.
//!
//! One case refers to chunks. A session that took over data of a dead one may find a segment there:
//! all of its chunks in order and side by side, as it would have stored them itself. This costs one
//! more look-up, only in such sessions.

use std::ops::Deref;

use index::sampling::SampleLevel;
use index::{Catalog, CatalogSource, HookIndex};
use types::{ChunkLocation, Fingerprint};

use super::placed::{PlacedAt, PlacedChild, SegmentBody, StreamIndex};
use super::segment::{Bytes, Segment, SegmentChild};
use super::whole::{placed, removed};
use super::window::Deduplicator;
use super::{Holdings, Outlet};
use crate::counters::Counters;
use crate::error::IngestError;

impl<K: Deref<Target = Counters>, I: HookIndex, C: CatalogSource, B> Deduplicator<K, I, C, B> {
    /// Takes the next segment of a stream: refers to it, or stores it.
    pub(super) fn take_whole<H, O>(
        &mut self,
        look_up: &impl Fn() -> H,
        outlet: &mut O,
        stream: StreamIndex,
        segment: &Segment<B>,
    ) -> Result<(), O::Error>
    where
        H: Holdings<Index = I, Catalogs = C>,
        O: Outlet<B>,
    {
        let at = usize::from(stream.0);
        let holdings = look_up();
        if let Some(known) = self.find_whole(&holdings, &segment.fingerprint)? {
            let body = self.refer_to_whole(at, known);
            return outlet.place(stream, placed(segment, body));
        }
        if let Some(children) = self.find_taken_over(&holdings, segment)? {
            let number = self.own_segments.add((segment.fingerprint, segment.len), 0);
            let body = SegmentBody::Fresh { number, children };
            return outlet.place(stream, placed(segment, body));
        }
        // Nothing was found, so nothing must be kept from reclamation until it has its place.
        drop(holdings);
        let mut held = None;
        let body = self.store_whole((look_up, &mut held), outlet, stream, segment)?;
        outlet.place(stream, placed(segment, body))
    }

    /// Stores all of a segment's chunks. If it refers to one, it begins a look-up, which the caller
    /// ends once the segment has its place.
    fn store_whole<H, O>(
        &mut self,
        (look_up, held): (&impl Fn() -> H, &mut Option<H>),
        outlet: &mut O,
        stream: StreamIndex,
        segment: &Segment<B>,
    ) -> Result<SegmentBody, O::Error>
    where
        H: Holdings<Index = I, Catalogs = C>,
        O: Outlet<B>,
    {
        let lane = self.lane(stream);
        let mut children = Vec::with_capacity(segment.children.len());
        for child in &segment.children {
            let fetched;
            let bytes = match &child.bytes {
                Bytes::Zeros => Err(PlacedAt::Zeros),
                Bytes::Read(bytes) => Ok(bytes),
                Bytes::Stored(location) => {
                    fetched = outlet.fetch(*location, &child.fingerprint)?;
                    if fetched.is_none() && held.get_or_insert_with(look_up).is_removed(*location) {
                        return Err(removed(*location).into());
                    }
                    fetched.as_ref().ok_or(PlacedAt::Stored(*location))
                }
            };
            let place = match bytes {
                Err(place) => place,
                Ok(bytes) => {
                    PlacedAt::New(self.want(outlet, lane, (&child.fingerprint, child.len), bytes)?)
                }
            };
            children.push(placed_child(child, place));
        }
        let number = self.own_segments.add((segment.fingerprint, segment.len), 0);
        Ok(SegmentBody::Fresh { number, children })
    }

    /// The place of this segment in the data of a session that was taken over, if it stored the
    /// whole segment.
    fn find_taken_over(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        segment: &Segment<B>,
    ) -> Result<Option<Vec<PlacedChild>>, IngestError> {
        if holdings.taken_over().is_empty() {
            return Ok(None);
        }
        let mut chunks = segment.children.iter().filter(|child| has_bytes(child));
        let Some(first) = chunks.next() else {
            return Ok(None);
        };
        let mut begins = self.ask_taken_over(holdings, &first.fingerprint)?;
        // If not every chunk has a hook, a chunk that should have one may lead to the container.
        let halved = self.decider.hooks_halved;
        let may_have_hook = |child: &&SegmentChild<B>| SampleLevel::of(&child.fingerprint).get() >= halved;
        if begins.is_empty()
            && halved > 0
            && let Some(hooked) = chunks.find(may_have_hook)
            && !self.ask_taken_over(holdings, &hooked.fingerprint)?.is_empty()
        {
            begins = self.ask_taken_over(holdings, &first.fingerprint)?;
        }
        for begin in begins {
            if let Some(children) = self.follow(holdings, segment, begin)? {
                return Ok(Some(children));
            }
        }
        Ok(None)
    }

    /// The segment's children, if its chunks are side by side from this place on. At the end of a
    /// container they continue at the beginning of another.
    fn follow(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        segment: &Segment<B>,
        begin: ChunkLocation,
    ) -> Result<Option<Vec<PlacedChild>>, IngestError> {
        let mut next = begin;
        let mut catalog = self.decider.chunks.catalogs().catalog(begin.container)?;
        let mut children = Vec::with_capacity(segment.children.len());
        for child in &segment.children {
            if !has_bytes(child) {
                children.push(placed_child(child, PlacedAt::Zeros));
                continue;
            }
            if catalog
                .as_ref()
                .is_some_and(|it| it.fingerprint(next.slot).is_none())
            {
                let goes_on = |at: &ChunkLocation| at.slot.get() == 0 && at.container > next.container;
                let begins = self.ask_taken_over(holdings, &child.fingerprint)?;
                let Some(begin) = begins.into_iter().filter(goes_on).min_by_key(|at| at.container) else {
                    return Ok(None);
                };
                next = begin;
                catalog = self.decider.chunks.catalogs().catalog(begin.container)?;
            }
            let found = catalog
                .as_ref()
                .and_then(|catalog| catalog.fingerprint(next.slot));
            if found != Some(child.fingerprint) || holdings.is_absent(next) {
                return Ok(None);
            }
            children.push(placed_child(child, PlacedAt::Stored(next)));
            let Some(slot) = next.slot.checked_add(1) else {
                return Ok(None);
            };
            next.slot = slot;
        }
        Ok(Some(children))
    }

    /// The places where sessions that were taken over stored a chunk.
    fn ask_taken_over(
        &mut self,
        holdings: &impl Holdings<Index = I, Catalogs = C>,
        fingerprint: &Fingerprint,
    ) -> Result<Vec<ChunkLocation>, IngestError> {
        let taken_over = holdings.taken_over();
        let mut places = Vec::new();
        let is_absent = |at: ChunkLocation| !taken_over.contains(&at.container) || holdings.is_absent(at);
        let prefers = |id| taken_over.contains(&id);
        self.decider
            .chunks
            .resolve(fingerprint, &is_absent, &prefers, &mut places)?;
        Ok(places)
    }
}

fn has_bytes<B>(child: &SegmentChild<B>) -> bool {
    !matches!(child.bytes, Bytes::Zeros)
}

fn placed_child<B>(child: &SegmentChild<B>, place: PlacedAt) -> PlacedChild {
    PlacedChild {
        fingerprint: child.fingerprint,
        len: child.len,
        place,
    }
}
