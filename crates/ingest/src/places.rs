//! Where new chunks went: from their number in a lane to container and slot.

use types::{ChunkLocation, Slot};

/// The places of one lane's new chunks, in order. One entry a container, so that a backup of terabytes
/// keeps some megabytes here.
#[derive(Debug, Default)]
pub(crate) struct Places {
    spans: Vec<Span>,
    assigned: u64,
}

#[derive(Debug)]
struct Span {
    first_ordinal: u64,
    first: ChunkLocation,
    count: u64,
}

impl Places {
    /// The next `count` chunks lie at `first` and the slots after it.
    pub(crate) fn assign(&mut self, first: ChunkLocation, count: u64) {
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

    /// Where a chunk went; `None` while its region is still on its way.
    pub(crate) fn of(&self, ordinal: u64) -> Option<ChunkLocation> {
        if ordinal >= self.assigned {
            return None;
        }
        let index = self.spans.partition_point(|span| span.first_ordinal <= ordinal) - 1;
        let span = &self.spans[index];
        let ahead = u32::try_from(ordinal - span.first_ordinal).expect("a span lies in one container");
        let slot = span.first.slot.get() + ahead;
        let slot = Slot::new(slot).expect("the builder gave these slots out");
        Some(ChunkLocation {
            container: span.first.container,
            slot,
        })
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
