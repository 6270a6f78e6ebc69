//! Recipes of a few containers, for tests of planners.

use proptest::prelude::*;
use restore::plan::{ChunkPart, Reference};
use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, SequenceNumber, SessionId, Slot};

pub(super) fn chunk(container: u32, slot: u32, len: u64) -> Reference {
    let container = ContainerId {
        session: SessionId::new(1).unwrap(),
        kind: ContainerKind::Data,
        sequence: SequenceNumber::new(container).unwrap(),
    };
    let location = ChunkLocation {
        container,
        slot: Slot::new(slot).unwrap(),
    };
    let fingerprint = Fingerprint::from_bytes([0; 32]);
    Reference {
        chunk: Some(ChunkPart {
            location,
            fingerprint,
            chunk_len: len,
            skip: 0,
        }),
        len,
    }
}

pub(super) fn zeros(len: u64) -> Reference {
    Reference { chunk: None, len }
}

pub(super) fn recipes() -> impl Strategy<Value = Vec<Reference>> {
    let one = prop_oneof![
        4 => (0..12u32, 0..30u32, 1..40u64).prop_map(|(c, s, len)| chunk(c, s, len)),
        1 => (1..100u64).prop_map(zeros),
    ];
    prop::collection::vec(one, 0..200)
}
