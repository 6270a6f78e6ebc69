//! The places of new chunks: from their number in a lane to container and slot.

use std::sync::{Arc, Mutex, PoisonError};

use types::{ChunkLocation, Slot};

/// The places of a lane. The packer writes them, and look-ups of chunks stored long ago read them.
#[derive(Debug, Clone, Default)]
pub struct SharedPlaces(Arc<Mutex<Places>>);

impl SharedPlaces {
    /// Places the next `count` chunks at `first` and the slots after it.
    pub fn assign(&self, first: ChunkLocation, count: u64) {
        self.with(|places| places.assign(first, count));
    }

    /// How many chunks have a place: those with lower numbers.
    #[must_use]
    pub fn assigned(&self) -> u64 {
        self.with(|places| places.assigned)
    }

    /// The place of a chunk. `None`: its region has not been packed yet.
    #[must_use]
    pub fn of(&self, ordinal: u64) -> Option<ChunkLocation> {
        self.with(|places| places.of(ordinal))
    }

    /// The places of the chunks from `first` up to `end`, as far as they have one, in order.
    pub(crate) fn between(&self, first: u64, end: u64) -> Vec<Span> {
        self.with(|places| places.between(first, end))
    }

    fn with<R>(&self, ask: impl FnOnce(&mut Places) -> R) -> R {
        ask(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The places of one lane's new chunks, in order. There is one entry for each container, so that a
/// backup of terabytes needs some megabytes here.
#[derive(Debug, Default)]
struct Places {
    spans: Vec<Span>,
    assigned: u64,
}

/// Chunks of consecutive numbers in consecutive slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first_ordinal: u64,
    pub(crate) first: ChunkLocation,
    pub(crate) count: u64,
}

impl Places {
    /// Places the next `count` chunks at `first` and the slots after it.
    fn assign(&mut self, first: ChunkLocation, count: u64) {
        let first_ordinal = self.assigned;
        self.assigned += count;
        if let Some(last) = self.spans.last_mut() {
            let goes_on = last.first.container == first.container
                && u64::from(last.first.slot.get()) + last.count == u64::from(first.slot.get());
            if goes_on {
                last.count += count;
                return;
            }
        }
        self.spans.push(Span {
            first_ordinal,
            first,
            count,
        });
    }

    /// The place of a chunk. `None`: its region has not been packed yet.
    fn of(&self, ordinal: u64) -> Option<ChunkLocation> {
        if ordinal >= self.assigned {
            return None;
        }
        let index = self.spans.partition_point(|span| span.first_ordinal <= ordinal) - 1;
        let span = &self.spans[index];
        Some(span.at(ordinal))
    }

    fn between(&self, first: u64, end: u64) -> Vec<Span> {
        let begin = self
            .spans
            .partition_point(|span| span.first_ordinal + span.count <= first);
        let within = self.spans[begin..]
            .iter()
            .take_while(|span| span.first_ordinal < end);
        let cut = within.map(|span| {
            let from = span.first_ordinal.max(first);
            Span {
                first_ordinal: from,
                first: span.at(from),
                count: (span.first_ordinal + span.count).min(end) - from,
            }
        });
        cut.filter(|span| span.count > 0).collect()
    }
}

impl Span {
    fn at(&self, ordinal: u64) -> ChunkLocation {
        let ahead = u32::try_from(ordinal - self.first_ordinal).expect("a span lies in one container");
        let slot = self.first.slot.get() + ahead;
        let slot = Slot::new(slot).expect("the builder gave these slots out");
        ChunkLocation {
            container: self.first.container,
            slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use types::{ContainerId, ContainerKind, SequenceNumber, SessionId};

    use super::*;

    fn at(sequence: u32, slot: u32) -> ChunkLocation {
        let container = ContainerId {
            session: SessionId::new(7).unwrap(),
            kind: ContainerKind::Data,
            sequence: SequenceNumber::new(sequence).unwrap(),
        };
        ChunkLocation {
            container,
            slot: Slot::new(slot).unwrap(),
        }
    }

    #[test]
    fn consecutive_regions_of_a_container_are_one_span() {
        let mut places = Places::default();
        places.assign(at(1, 0), 10);
        places.assign(at(1, 10), 5);
        places.assign(at(2, 0), 3);
        assert_eq!(places.spans.len(), 2);
        assert_eq!(places.of(0), Some(at(1, 0)));
        assert_eq!(places.of(14), Some(at(1, 14)));
        assert_eq!(places.of(15), Some(at(2, 0)));
        assert_eq!(places.of(17), Some(at(2, 2)));
        assert_eq!(places.of(18), None);
        let between = |first, end| -> Vec<_> {
            let spans = places.between(first, end).into_iter();
            spans
                .map(|span| (span.first_ordinal, span.first, span.count))
                .collect()
        };
        assert_eq!(between(3, 16), [(3, at(1, 3), 12), (15, at(2, 0), 1)]);
        assert_eq!(between(17, 99), [(17, at(2, 2), 1)]);
        assert_eq!(between(18, 99), []);
        assert_eq!(between(4, 4), []);
    }

    #[test]
    fn a_gap_between_slots_begins_a_span() {
        let mut places = Places::default();
        places.assign(at(1, 0), 2);
        places.assign(at(1, 5), 2);
        assert_eq!(places.of(1), Some(at(1, 1)));
        assert_eq!(places.of(2), Some(at(1, 5)));
    }
}
