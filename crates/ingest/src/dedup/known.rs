//! Segments that come without their chunks (B1).
//!
//! Such a segment is taken only if it is known whole. If the store cannot refer to it at once, it
//! reads the chunks' fingerprints itself, and the segment waits for its window. If the segment is
//! not known, it comes again with its chunks. In each case the decision is the one that it would
//! have had with its chunks.

use std::ops::Deref;

use index::{CatalogSource, HookIndex};
use types::{ChunkLocation, Fingerprint};

use super::placed::{PlacedSegment, StreamIndex};
use super::segment::{Segment, SegmentChild};
use super::whole::Whole;
use super::window::Deduplicator;
use super::{Holdings, Outlet};
use crate::counters::Counters;
use crate::error::IngestError;

impl<K: Deref<Target = Counters>, I: HookIndex, C: CatalogSource, B> Deduplicator<K, I, C, B> {
    /// Takes the next segment of a stream without its chunks, if it is known whole. Returns whether
    /// it did. If not, the caller must take the segment with its chunks.
    ///
    /// `open` returns the chunks of the segment as the store has them, as if they were read from
    /// the source. It gets the place of the segment's node, if that was looked up already. `None`:
    /// the store does not have the segment, or cannot read it.
    ///
    /// # Errors
    /// Those of [`Self::take`], and of `open`.
    pub fn take_brief<H, O>(
        &mut self,
        look_up: &impl Fn() -> H,
        outlet: &mut O,
        stream: StreamIndex,
        (fingerprint, len): (Fingerprint, u64),
        open: impl FnOnce(Option<ChunkLocation>) -> Result<Option<Vec<SegmentChild<B>>>, IngestError>,
    ) -> Result<bool, O::Error>
    where
        H: Holdings<Index = I, Catalogs = C>,
        O: Outlet<B>,
    {
        let at = usize::from(stream.0);
        let mut found = None;
        // Behind a segment that waits, a segment is looked up at the end of the window.
        if self.streams[at].waiting.is_empty() {
            let holdings = look_up();
            let known = self.find_whole(&holdings, &fingerprint)?;
            let Some(known) = known.filter(|known| known.has_len(len)) else {
                return Ok(false);
            };
            let accounts = &self.streams[at].accounts;
            let is_decided = known.charge(accounts) <= accounts.left_so_far(len)
                && known.is_worth(accounts, len, accounts.least());
            if is_decided {
                self.counters.segments.add(1);
                let segment = PlacedSegment {
                    fingerprint,
                    len,
                    body: self.refer_to_whole(at, known),
                };
                outlet.place(stream, segment)?;
                drop(holdings);
                self.count(look_up, outlet, stream, len)?;
                return Ok(true);
            }
            let Whole::Known(known, _) = known else {
                return Ok(false);
            };
            found = Some(known.location);
        }
        let Some(children) = open(found)? else {
            return Ok(false);
        };
        let segment = Segment {
            fingerprint,
            len,
            children,
        };
        self.take(look_up, outlet, stream, segment)?;
        Ok(true)
    }
}
