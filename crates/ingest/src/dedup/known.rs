//! Segments that come without their chunks (B1).
//!
//! Such a segment is decided only if it is known whole. If it is not, it comes again with its
//! chunks, and the decision is the one that it would have had at first.

use std::ops::Deref;

use index::{CatalogSource, HookIndex};
use types::Fingerprint;

use super::placed::{PlacedSegment, StreamIndex};
use super::whole::Whole;
use super::window::Deduplicator;
use super::{Holdings, Outlet};
use crate::counters::Counters;

impl<K: Deref<Target = Counters>, I: HookIndex, C: CatalogSource, B> Deduplicator<K, I, C, B> {
    /// Takes the next segment of a stream without its chunks, if it is known whole and
    /// [`Self::take`] would refer to it at once. Returns whether it did. If not, the caller must
    /// take the segment with its chunks.
    ///
    /// # Errors
    /// Those of [`Self::take`].
    pub fn take_brief<H, O>(
        &mut self,
        look_up: &impl Fn() -> H,
        outlet: &mut O,
        stream: StreamIndex,
        (fingerprint, len): (Fingerprint, u64),
    ) -> Result<bool, O::Error>
    where
        H: Holdings<Index = I, Catalogs = C>,
        O: Outlet<B>,
    {
        let at = usize::from(stream.0);
        if !self.streams[at].waiting.is_empty() {
            return Ok(false);
        }
        let holdings = look_up();
        let known = self.find_whole(&holdings, &fingerprint)?;
        let accounts = &self.streams[at].accounts;
        let is_decided = |known: &Whole| {
            known.has_len(len)
                && known.charge(accounts) <= accounts.left_so_far(len)
                && known.is_worth(accounts, len, accounts.least())
        };
        let Some(known) = known.filter(is_decided) else {
            return Ok(false);
        };
        self.counters.segments.add(1);
        let segment = PlacedSegment {
            fingerprint,
            len,
            body: self.refer_to_whole(at, known),
        };
        outlet.place(stream, segment)?;
        drop(holdings);
        self.count(look_up, outlet, stream, len)?;
        Ok(true)
    }
}
