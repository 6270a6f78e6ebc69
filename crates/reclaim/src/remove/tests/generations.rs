//! Containers with several generations. Healing remakes a container without the slots that it did
//! not find, and the lost generation may come back beside the new one.

use std::collections::BTreeSet;

use super::*;

const SLOTS: u32 = 6;

/// What a generation has in a slot. Healing writes zeros for a chunk that it does not find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Has {
    Chunk,
    Rot,
    Zeros,
    Nothing,
}

/// Puts a generation, each chunk in a region of its own. A generation without any slot is not put.
fn put_generation(storage: &FaultStorage, id: ContainerId, n: u32, has: &[Has]) {
    let containers = open(storage);
    let mut builder = ContainerBuilder::new(id, generation(n));
    let mut rotten = Vec::new();
    for (slot, has) in (0..SLOTS).zip(has).filter(|(_, has)| **has != Has::Nothing) {
        let bytes = chunk(id, slot, 100);
        let level = u8::from(id.kind == ContainerKind::Recipe);
        let entry = format::container::CatalogEntry {
            slot: Slot::new(slot).unwrap(),
            fingerprint: containers.fingerprinter().chunk(&bytes),
            len: 100,
            level: Level::new(level).unwrap(),
            logical_len: 100,
        };
        let stored = if *has == Has::Zeros { vec![0; 100] } else { bytes };
        builder.append_survivors(compress_region(stored, Compression::Off), &[entry]);
        rotten.push(*has == Has::Rot);
    }
    if rotten.is_empty() {
        return;
    }
    let sealed = builder.seal(&containers).unwrap();
    let rows = sealed.catalog().rows().to_vec();
    containers.put(&sealed).unwrap();
    for (row, _) in rows.iter().zip(rotten).filter(|(_, is_rotten)| *is_rotten) {
        rot(storage, &names::container(id, generation(n)), row.offset);
        if let Some(mirror) = names::mirror(id, generation(n)) {
            rot(storage, &mirror, row.offset);
        }
    }
    storage.barrier().unwrap();
}

/// The slots that are whole in some generation.
fn whole(storage: &FaultStorage, id: ContainerId) -> BTreeSet<u32> {
    let containers = open(storage);
    let found = objects::list(storage, id.session, id.kind, &[id]).unwrap();
    let generations = found.get(&id).into_iter().flat_map(|of| of.generations.keys());
    let mut out = BTreeSet::new();
    for n in generations {
        let view = containers.generation(id, *n).unwrap();
        for entry in view.entries() {
            let region = view.region_of(entry.slot).unwrap();
            let read = containers.read_region(&view, region);
            let bytes = read
                .ok()
                .and_then(|region| region.slot_bytes(&view, entry.slot).map(<[u8]>::to_vec));
            if bytes.is_some_and(|bytes| bytes == chunk(id, entry.slot.get(), 100)) {
                out.insert(entry.slot.get());
            }
        }
    }
    out
}

fn has() -> impl Strategy<Value = Has> {
    prop_oneof![6 => Just(Has::Chunk), 1 => Just(Has::Rot), 1 => Just(Has::Zeros), 2 => Just(Has::Nothing)]
}

/// Executes a list, while lists of damage name these slots.
fn run_beside_damage(storage: &FaultStorage, list: &Removed, damaged: &BTreeSet<u32>) -> Executed {
    let damaged: SlotSet = damaged.iter().map(|slot| range(*slot, 1)).collect();
    let how = Execution {
        packing: PACKING,
        copies_bytes_max: 3000,
        gives_up: false,
        is_again: false,
        damaged: &|_| Ok(damaged.clone()),
        progress: &Watch::default(),
    };
    execute(&open(storage), list, &how).unwrap()
}

/// The slots of these generations.
fn slots_of(has: &[Has]) -> BTreeSet<u32> {
    let there = (0..SLOTS).zip(has).filter(|(_, has)| **has != Has::Nothing);
    there.map(|(slot, _)| slot).collect()
}

fn generations(has: impl Strategy<Value = Has>) -> impl Strategy<Value = Vec<Vec<Has>>> {
    prop::collection::vec(prop::collection::vec(has, SLOTS as usize), 1..4)
}

/// Healing writes no zeros for nodes.
fn has_node() -> impl Strategy<Value = Has> {
    prop_oneof![6 => Just(Has::Chunk), 1 => Just(Has::Rot), 2 => Just(Has::Nothing)]
}

fn dead_slots(id: ContainerId, dead: &BTreeSet<u32>) -> Removed {
    let dead: Vec<(u32, u32)> = dead.iter().map(|slot| (*slot, 1)).collect();
    list(vec![entry(id, Some(&dead))])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    /// No generation is deleted that has a slot which no other one has.
    #[test]
    fn slots_of_only_one_generation_stay(
        generations in generations(has()),
        dead in prop::collection::btree_set(0..SLOTS, 1..4),
    ) {
        let storage = FaultStorage::new();
        let id = id(ContainerKind::Data, 1, 1);
        for (n, has) in (0..).zip(&generations) {
            put_generation(&storage, id, n, has);
        }
        let before = whole(&storage, id);
        let out = run(&storage, &dead_slots(id, &dead)).unwrap();
        let after = whole(&storage, id);
        let kept: BTreeSet<u32> = before.difference(&dead).copied().collect();
        prop_assert!(after.is_superset(&kept), "{:?} of {:?}: {:?}", after, kept, out);
    }

    /// For nodes this holds only for slots that lists of damage name. If the newest generation
    /// lacks one of them, the container stays as it is for healing.
    #[test]
    fn a_listed_node_that_one_generation_has_alone_stays(
        generations in generations(has_node()),
        dead in prop::collection::btree_set(0..SLOTS, 1..4),
        damaged in prop::collection::btree_set(0..SLOTS, 1..4),
    ) {
        let storage = FaultStorage::new();
        let id = id(ContainerKind::Recipe, 1, 1);
        for (n, has) in (0..).zip(&generations) {
            put_generation(&storage, id, n, has);
        }
        let before = whole(&storage, id);
        let stood = open(&storage).generations(id).unwrap();
        let out = run_beside_damage(&storage, &dead_slots(id, &dead), &damaged);
        let after = whole(&storage, id);
        let kept: BTreeSet<u32> = before.difference(&dead).copied().collect();
        let kept: BTreeSet<u32> = kept.intersection(&damaged).copied().collect();
        prop_assert!(after.is_superset(&kept), "{:?} of {:?}: {:?}", after, kept, out);
        let mut slots = generations.iter().map(|has| slots_of(has)).filter(|slots| !slots.is_empty()).rev();
        let newest = slots.next().unwrap_or_default();
        let older: BTreeSet<u32> = slots.flatten().filter(|slot| damaged.contains(slot)).collect();
        let is_short = older.difference(&newest).any(|slot| !dead.contains(slot));
        if is_short {
            prop_assert_eq!(open(&storage).generations(id).unwrap(), stood, "healing unites them: {:?}", out);
            prop_assert_eq!(out.short.len(), 1);
        }
    }
}
