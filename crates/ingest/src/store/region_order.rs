//! Regions in the order of their chunks' numbers.
//!
//! Two halves make regions: the client from chunks that it has read, and the store from chunks that
//! it stores again. They arrive in any order, and their numbers decide in which order
//! they are packed.

use std::collections::BTreeMap;

use crate::dedup::Lane;
use crate::error::IngestError;
use crate::region::ReadyRegion;

/// Regions that wait for those before them. One thread.
#[derive(Debug, Default)]
pub(crate) struct RegionOrder {
    /// For each lane: the number of the first chunk of the next region.
    next: [u64; Lane::COUNT],
    /// By lane and first number.
    early: BTreeMap<(usize, u64), ReadyRegion>,
}

impl RegionOrder {
    /// Takes a region that has arrived.
    ///
    /// # Errors
    /// [`IngestError::Internal`] if its numbers came before.
    pub(crate) fn push(&mut self, region: ReadyRegion) -> Result<(), IngestError> {
        let at = (region.lane.number(), region.first);
        let is_late = region.first < self.next[at.0];
        if is_late || self.early.insert(at, region).is_some() {
            return Err(IngestError::Internal("a region came twice"));
        }
        Ok(())
    }

    /// The next region of a lane, if it has arrived.
    pub(crate) fn pop(&mut self, lane: Lane) -> Option<ReadyRegion> {
        let next = &mut self.next[lane.number()];
        let region = self.early.remove(&(lane.number(), *next))?;
        *next += region.entries.len() as u64;
        Some(region)
    }

    /// Whether so many chunks of each lane have had their turn.
    pub(crate) fn has(&self, chunks: [u64; Lane::COUNT]) -> bool {
        chunks.iter().zip(self.next).all(|(wanted, next)| *wanted <= next)
    }

    /// Whether no region waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.early.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use container::PendingEntry;
    use proptest::prelude::*;
    use types::Fingerprint;

    use super::*;
    use crate::region::{PlainBytes, RegionBytes};

    fn region(lane: Lane, first: u64, count: usize) -> ReadyRegion {
        let entry = PendingEntry::chunk(Fingerprint::from_bytes([0; 32]), 1);
        ReadyRegion {
            lane,
            first,
            entries: vec![entry; count],
            bytes: RegionBytes::Raw(PlainBytes::default()),
        }
    }

    /// Regions of both lanes, by lane, first number and count, in any order.
    fn shuffled() -> impl Strategy<Value = Vec<(Lane, u64, usize)>> {
        let lane = prop::sample::select(vec![Lane::Content, Lane::Metadata]);
        prop::collection::vec((lane, 1_usize..5), 0..20)
            .prop_map(|counts| {
                let mut next = [0; Lane::COUNT];
                let numbered = counts.into_iter().map(|(lane, count)| {
                    let first = next[lane.number()];
                    next[lane.number()] += count as u64;
                    (lane, first, count)
                });
                numbered.collect::<Vec<_>>()
            })
            .prop_shuffle()
    }

    proptest! {
        /// In whatever order they arrive, each lane's regions have their turn in the order of their
        /// numbers. A count of chunks is reached once all regions up to it have had their turn.
        #[test]
        fn regions_have_their_turn_in_order(regions in shuffled()) {
            let mut order = RegionOrder::default();
            let mut had = [0; Lane::COUNT];
            for (lane, first, count) in &regions {
                order.push(region(*lane, *first, *count)).expect("once");
                while let Some(ready) = order.pop(*lane) {
                    prop_assert_eq!(ready.first, had[lane.number()]);
                    had[lane.number()] += ready.entries.len() as u64;
                }
                prop_assert!(order.has(had));
                prop_assert!(!order.has([had[0] + 1, had[1]]));
                prop_assert!(!order.has([had[0], had[1] + 1]));
            }
            let of = |wanted: Lane| regions.iter().filter(move |(lane, ..)| *lane == wanted);
            let all = |lane| of(lane).map(|(.., count)| *count as u64).sum::<u64>();
            prop_assert_eq!(had, [all(Lane::Content), all(Lane::Metadata)]);
            prop_assert!(order.is_empty());
        }
    }

    #[test]
    fn a_region_that_arrives_twice_is_an_error() {
        let mut order = RegionOrder::default();
        order.push(region(Lane::Content, 3, 2)).expect("once");
        assert!(order.push(region(Lane::Content, 3, 2)).is_err());
        order.push(region(Lane::Content, 0, 3)).expect("once");
        while order.pop(Lane::Content).is_some() {}
        assert!(order.push(region(Lane::Content, 0, 3)).is_err());
    }
}
