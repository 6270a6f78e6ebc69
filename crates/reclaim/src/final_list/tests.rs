use std::sync::Arc;

use container::{Compression, ContainerBuilder, PendingEntry, compress_region};
use env::fault::FaultStorage;
use recipe::NodeCache;
use session::{Manifests, SessionPolicy};
use types::{ContainerKind, Level, SequenceNumber, Slot, SlotRange};

use super::*;
use crate::compact::Packing;
use crate::test_store;

const BYTES_MAX: u64 = 1 << 20;

fn range(first: u32, count: u32) -> SlotRange {
    SlotRange::new(Slot::new(first).unwrap(), count).unwrap()
}

fn slots(parts: &[(u32, u32)]) -> SlotSet {
    parts.iter().map(|(first, count)| range(*first, *count)).collect()
}

/// A container of nodes.
fn id() -> ContainerId {
    ContainerId {
        session: SessionId::new(1).unwrap(),
        kind: ContainerKind::Recipe,
        sequence: SequenceNumber::new(0).unwrap(),
    }
}

/// Decides about these slots of the container, of which others are in use.
fn decided(containers: &Containers, condemned: &SlotSet, in_use: &SlotSet) -> Decided {
    let sealer = test_store::sealer(containers);
    let context = Context {
        sealer: &sealer,
        manifests: &Manifests::new(&sealer),
        containers,
        nodes: &NodeCache::new(containers.clone(), BYTES_MAX),
        packing: Packing {
            region_bytes: 1000,
            compression: Compression::Level(1),
            container_bytes: 40_000,
        },
        index: None,
        policy: SessionPolicy::default(),
        process: 1,
        progress: &(),
    };
    let mut live = SlotMap::default();
    live.add(id(), in_use);
    let ground = Ground {
        known: &[],
        stored_bytes: 1000,
        limits: Limits::NOTHING_STAYS,
    };
    decide(&context, &[entry(id(), Some(condemned))], &live, ground).unwrap()
}

/// The list names the dead slots, so that no later epoch lists them again. The next sweep looks at
/// the slots in use.
#[test]
fn dead_slots_of_a_container_of_nodes_that_cannot_be_read_are_listed() {
    let containers = test_store::containers(Arc::new(FaultStorage::new()), BYTES_MAX);
    let found = decided(&containers, &slots(&[(0, 10)]), &slots(&[(2, 3), (20, 1)]));
    assert_eq!(found.slots, [entry(id(), Some(&slots(&[(0, 2), (5, 5)])))]);
    let left: Vec<_> = found.left.iter().map(|left| &left.slots).collect();
    assert_eq!(left, [&entry(id(), Some(&slots(&[(2, 3)])))]);
    assert_eq!(found.stored_bytes, 1000, "nothing is known to be freed");

    let found = decided(&containers, &slots(&[(2, 2)]), &slots(&[(0, 10)]));
    assert!(found.slots.is_empty(), "all are in use");
    assert_eq!(found.left.len(), 1);
}

/// A sweep that cannot read the catalog condemns all slots that there could be. If it can be read
/// later, those that do not exist have no bytes.
#[test]
fn slots_that_do_not_exist_are_no_dead_space() {
    let containers = test_store::containers(Arc::new(FaultStorage::new()), BYTES_MAX);
    let mut builder = ContainerBuilder::new(id(), Generation::FIRST);
    let chunk = b"a node".to_vec();
    let fingerprint = containers.fingerprinter().chunk(&chunk);
    let mut pending = PendingEntry::chunk(fingerprint, 6);
    pending.level = Level::new(1).unwrap();
    builder.append(compress_region(chunk, Compression::Level(1)), &[pending]);
    containers.put(&builder.seal(&containers).unwrap()).unwrap();

    let phantoms = slots(&[(1, 100)]);
    let found = decided(&containers, &phantoms, &slots(&[(0, 1)]));
    assert_eq!(found.slots, [entry(id(), Some(&phantoms))]);
    assert!(found.left.is_empty(), "{:?}", found.left);
    assert_eq!(found.stored_bytes, 1000);
}
