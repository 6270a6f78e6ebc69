use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use container::{Compression, ContainerBuilder, PendingEntry, compress_region};
use env::fault::{CrashPolicy, Fault, FaultStorage, OpKind};
use format::container::Codec;
use proptest::prelude::*;
use types::{
    ChunkLocation, ContainerKind, Epoch, Generation, Level, ObjectName, SequenceNumber, SessionId, Slot,
};

use super::*;
use crate::test_store;

mod generations;
mod scarce;
mod trimming;

const PACKING: Packing = Packing {
    region_bytes: 1000,
    compression: Compression::Level(1),
    container_bytes: 40_000,
};

/// The bytes of each chunk that must exist, by container and slot.
type Model = BTreeMap<(ContainerId, u32), Vec<u8>>;

#[derive(Debug, Default)]
struct Watch {
    done: AtomicU64,
    total: AtomicU64,
    stop_after: Option<u64>,
}

impl Progress for Watch {
    fn add_nodes(&self, _: u64) {}
    fn waits_for(&self, _: &[crate::progress::Waiting]) {}
    fn warn(&self, _: crate::warning::Warning) {}
    fn set_total_bytes(&self, _: u64) {}
    fn set_total(&self, containers: u64) {
        self.total.store(containers, Ordering::Relaxed);
    }
    fn add_done(&self, containers: u64) {
        self.done.fetch_add(containers, Ordering::Relaxed);
    }
    fn is_cancelled(&self) -> bool {
        self.stop_after
            .is_some_and(|stop| self.done.load(Ordering::Relaxed) >= stop)
    }
}

fn open(storage: &FaultStorage) -> Containers {
    open_on(Arc::new(storage.clone()))
}

fn open_on(storage: Arc<dyn Storage>) -> Containers {
    test_store::containers(storage, 16 << 20)
}

fn run(storage: &FaultStorage, list: &Removed) -> Result<Executed> {
    run_with(&open(storage), list, 3000)
}

fn run_with(containers: &Containers, list: &Removed, copies_bytes_max: u64) -> Result<Executed> {
    let how = Execution {
        packing: PACKING,
        copies_bytes_max,
        gives_up: false,
        is_again: false,
        damaged: &|_| Ok(SlotSet::default()),
        progress: &Watch::default(),
    };
    execute(containers, list, &how)
}

fn id(kind: ContainerKind, session: u64, sequence: u32) -> ContainerId {
    ContainerId {
        session: SessionId::new(session).unwrap(),
        kind,
        sequence: SequenceNumber::new(sequence).unwrap(),
    }
}

fn generation(n: u32) -> Generation {
    Generation::new(n).unwrap()
}

fn range(first: u32, count: u32) -> SlotRange {
    SlotRange::new(Slot::new(first).unwrap(), count).unwrap()
}

fn entry(container: ContainerId, slots: Option<&[(u32, u32)]>) -> ContainerSlots {
    let slots = slots.map(|slots| slots.iter().map(|(first, count)| range(*first, *count)).collect());
    ContainerSlots { container, slots }
}

fn list(mut slots: Vec<ContainerSlots>) -> Removed {
    slots.sort_by_key(|entry| entry.container);
    Removed {
        epoch: Epoch::new(1).unwrap(),
        slots,
        marks: Vec::new(),
        left: Vec::new(),
        gone: Vec::new(),
        stored_bytes: 0,
    }
}

/// Every third chunk is random, so a region of such chunks is stored raw.
fn chunk(of: ContainerId, slot: u32, len: usize) -> Vec<u8> {
    let mut state = (of.to_u64() ^ (u64::from(slot) << 7)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let is_random = (slot / 4).is_multiple_of(3);
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3] & if is_random { 0xff } else { 1 }
        })
        .collect()
}

fn build(containers: &Containers, id: ContainerId, n: u32, chunks: &[Vec<u8>]) -> SealedContainer {
    let mut builder = ContainerBuilder::new(id, generation(n));
    for chunks in chunks.chunks(4) {
        let entries: Vec<PendingEntry> = chunks
            .iter()
            .map(|chunk| {
                let fingerprint = containers.fingerprinter().chunk(chunk);
                let mut entry = PendingEntry::chunk(fingerprint, u32::try_from(chunk.len()).unwrap());
                if id.kind == ContainerKind::Recipe {
                    entry.level = Level::new(1).unwrap();
                }
                entry
            })
            .collect();
        builder.append(compress_region(chunks.concat(), Compression::Level(1)), &entries);
    }
    builder.seal(containers).unwrap()
}

fn put(containers: &Containers, id: ContainerId, lens: &[usize], model: &mut Model) {
    let chunks: Vec<Vec<u8>> = (0u32..).zip(lens).map(|(n, len)| chunk(id, n, *len)).collect();
    containers.put(&build(containers, id, 0, &chunks)).unwrap();
    model.extend((0u32..).zip(chunks).map(|(n, chunk)| ((id, n), chunk)));
}

fn read(containers: &Containers, container: ContainerId, slot: u32) -> Option<Vec<u8>> {
    let slot = Slot::new(slot).unwrap();
    containers.read_chunk(ChunkLocation { container, slot }).ok()
}

/// The survivors are readable by their old references.
fn check_survivors(storage: &FaultStorage, model: &Model, list: &Removed) {
    let containers = open(storage);
    for ((id, slot), bytes) in model {
        if !is_on(list, *id, *slot) {
            assert_eq!(
                read(&containers, *id, *slot).as_ref(),
                Some(bytes),
                "{id} slot {slot}"
            );
        }
    }
}

/// Checks that nothing else exists: one generation, in all its copies, all sound.
fn check_done(storage: &FaultStorage, model: &Model, list: &Removed) {
    check_survivors(storage, model, list);
    let containers = open(storage);
    let mut live: BTreeMap<ContainerId, bool> = BTreeMap::new();
    for (id, slot) in model.keys() {
        let is_live = !is_on(list, *id, *slot);
        *live.entry(*id).or_default() |= is_live;
        if !is_live {
            assert_eq!(read(&containers, *id, *slot), None, "{id} slot {slot} is gone");
        }
    }
    for (id, is_live) in live {
        let found = objects::list(storage, id.session, id.kind, &[id]).unwrap();
        assert_eq!(found.contains_key(&id), is_live, "{id}");
        if is_live {
            assert!(found[&id].alone(id.kind).is_some(), "{id}: {found:?}");
            assert!(containers.verify(id, Depth::Full).unwrap().is_sound(), "{id}");
        }
    }
    for object in storage.list("").unwrap() {
        assert!(storage.is_durable(&object.name), "{}", object.name);
    }
}

fn is_on(list: &Removed, id: ContainerId, slot: u32) -> bool {
    list.slots.iter().any(|entry| {
        let has = |slots: &Vec<SlotRange>| slots.iter().any(|range| range.contains(Slot::new(slot).unwrap()));
        entry.container == id && entry.slots.as_ref().is_none_or(has)
    })
}

/// Some containers of all kinds, and a list that names parts of them and whole ones.
fn sample(storage: &FaultStorage) -> (Model, Removed) {
    let (containers, mut model) = (open(storage), Model::new());
    use ContainerKind::{Archive, Data, Recipe, Small};
    for (kind, session, sequence) in [
        (Data, 1, 0),
        (Data, 1, 1),
        (Data, 1, 2),
        (Recipe, 1, 3),
        (Recipe, 1, 4),
        (Small, 2, 0),
        (Data, 3, 0),
        (Archive, 3, 1),
    ] {
        put(&containers, id(kind, session, sequence), &[300; 11], &mut model);
    }
    storage.barrier().unwrap();
    let list = list(vec![
        entry(id(Data, 1, 0), None),
        entry(id(Data, 1, 1), Some(&[(0, 3), (6, 1)])),
        entry(id(Recipe, 1, 3), Some(&[(2, 5)])),
        entry(id(Recipe, 1, 4), None),
        entry(id(Small, 2, 0), Some(&[(0, 1), (10, 1)])),
        entry(id(Data, 3, 0), Some(&[(0, 11)])),
        entry(id(Data, 7, 0), None),
        entry(id(Data, 7, 1), Some(&[(3, 1)])),
    ]);
    (model, list)
}

#[test]
fn listed_slots_are_removed_and_the_rest_stays_readable() {
    let storage = FaultStorage::new();
    let (model, list) = sample(&storage);
    let before: u64 = storage.list("").unwrap().iter().map(|object| object.len).sum();
    let (containers, watch) = (open(&storage), Watch::default());
    let how = Execution {
        packing: PACKING,
        copies_bytes_max: 3000,
        gives_up: false,
        is_again: false,
        damaged: &|_| Ok(SlotSet::default()),
        progress: &watch,
    };
    let out = execute(&containers, &list, &how).unwrap();
    check_done(&storage, &model, &list);
    let after: u64 = storage.list("").unwrap().iter().map(|object| object.len).sum();
    assert_eq!(before + out.copied_bytes - out.freed_bytes, after);
    assert_eq!((out.removed, out.compacted, out.kept.len()), (3, 3, 3));
    assert!(out.damaged.is_empty());
    assert_eq!((watch.done.into_inner(), watch.total.into_inner()), (8, 8));
    let (mutating, puts) = (storage.counters().mutating(), storage.counters().puts);
    let again = run(&storage, &list).unwrap();
    let cost = (
        storage.counters().mutating() - mutating,
        storage.counters().puts - puts,
    );
    assert_eq!(cost, (2, 0), "two barriers alone");
    assert_eq!(
        (again.freed_bytes, again.copied_bytes, again.kept),
        (0, 0, out.kept)
    );
}

#[test]
fn nodes_are_deleted_durably_before_any_data() {
    let storage = FaultStorage::new();
    let (_, list) = sample(&storage);
    let containers = open(&storage);
    storage.start_trace();
    run_with(&containers, &list, 3000).unwrap();
    let trace = storage.take_trace();
    let is_node = |name: &str| {
        ["recipe/", "small/", "mirror/"]
            .iter()
            .any(|f| name.starts_with(f))
    };
    let deletes = |nodes: bool| {
        let of = trace
            .iter()
            .enumerate()
            .filter(move |(_, op)| op.kind == OpKind::Delete && is_node(&op.name) == nodes);
        of.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let (nodes, data) = (deletes(true), deletes(false));
    let between = &trace[*nodes.last().unwrap()..*data.first().unwrap()];
    assert!(between.iter().any(|op| op.kind == OpKind::Barrier));
    let copies = trace
        .iter()
        .position(|op| op.kind == OpKind::Put && op.name.starts_with("data/"));
    let whole = trace
        .iter()
        .position(|op| op.kind == OpKind::Delete && op.name == "data/0000000000001/00000000.0");
    assert!(whole.unwrap() < copies.unwrap(), "space before copies");
}

/// The machine stops before or after the n-th operation. Bytes under no barrier are kept, lost or
/// torn.
fn stops(n: u64) -> impl Iterator<Item = (Fault, CrashPolicy)> {
    let policies = [
        CrashPolicy::KeepAll,
        CrashPolicy::DropAll,
        CrashPolicy::TearAll,
        CrashPolicy::Seeded(1),
        CrashPolicy::Seeded(2),
        CrashPolicy::Seeded(3),
    ];
    let faults = [Fault::stop_after(n), Fault::stop(n)];
    faults
        .into_iter()
        .flat_map(move |fault| policies.map(|policy| (fault, policy)))
}

#[test]
fn a_stop_at_every_operation_loses_nothing_and_the_next_finishes() {
    let quiet = FaultStorage::new();
    let (_, list) = sample(&quiet);
    let before = quiet.counters().mutating();
    run(&quiet, &list).unwrap();
    let operations = quiet.counters().mutating() - before;
    for n in 1..=operations {
        for (fault, policy) in stops(n) {
            let storage = FaultStorage::new();
            let (model, list) = sample(&storage);
            storage.inject(fault);
            run(&storage, &list).unwrap_err();
            let storage = storage.crash(policy);
            check_survivors(&storage, &model, &list);
            run(&storage, &list).unwrap();
            check_done(&storage, &model, &list);
        }
        let storage = FaultStorage::new();
        let (model, list) = sample(&storage);
        let killed = storage.handle();
        killed.inject_here(Fault::kill_after(n));
        run(&killed, &list).unwrap_err();
        run(&storage, &list).unwrap();
        check_done(&storage, &model, &list);
    }
}

#[test]
fn a_full_disk_at_every_put_is_an_error_and_space_lets_it_finish() {
    let quiet = FaultStorage::new();
    let (_, list) = sample(&quiet);
    let before = quiet.counters().puts;
    run(&quiet, &list).unwrap();
    let puts = quiet.counters().puts - before;
    for n in 1..=puts {
        let storage = FaultStorage::new();
        let (model, list) = sample(&storage);
        let fault = Fault::fail_from(n, env::fault::FailWith::NoSpace);
        storage.inject(fault.counting(env::fault::Counted::Only(OpKind::Put)));
        let error = run(&storage, &list).unwrap_err();
        assert!(error.to_string().contains("no space left"), "{error}");
        check_survivors(&storage, &model, &list);
        storage.clear_faults();
        run(&storage, &list).unwrap();
        check_done(&storage, &model, &list);
    }
}

/// The space of whole containers is enough for copies: old generations are deleted when space runs
/// out.
#[test]
fn a_disk_with_room_for_one_copy_is_enough() {
    let storage = FaultStorage::new();
    let (containers, mut model) = (open(&storage), Model::new());
    let parts: Vec<ContainerId> = (0..6).map(|n| id(ContainerKind::Data, 1, n)).collect();
    for part in &parts {
        put(&containers, *part, &[300; 11], &mut model);
    }
    storage.barrier().unwrap();
    let listed: Vec<_> = parts.iter().map(|id| entry(*id, Some(&[(1, 2)]))).collect();
    let list = list(listed);
    let used: u64 = storage.list("").unwrap().iter().map(|object| object.len).sum();
    storage.set_capacity_bytes(Some(used + used / 6));
    run_with(&containers, &list, u64::MAX).unwrap();
    check_done(&storage, &model, &list);
}

#[test]
fn a_listing_a_folder_and_a_read_and_a_put_a_container() {
    let storage = FaultStorage::new();
    let (containers, mut model) = (open(&storage), Model::new());
    let ids: Vec<ContainerId> = (0..40).map(|n| id(ContainerKind::Data, 1, n)).collect();
    for id in &ids {
        put(&containers, *id, &[300; 11], &mut model);
    }
    storage.barrier().unwrap();
    let (whole, parts) = ids.split_at(20);
    let whole = whole.iter().map(|id| entry(*id, None));
    let parts = parts.iter().map(|id| entry(*id, Some(&[(4, 3)])));
    let list = list(whole.chain(parts).collect());
    let containers = open(&storage);
    let before = storage.counters();
    run_with(&containers, &list, 1 << 20).unwrap();
    let cost = storage.counters().since(&before);
    assert_eq!(
        (
            cost.lists,
            cost.gets,
            cost.puts,
            cost.deletes,
            cost.barriers,
            cost.heads
        ),
        (3, 40, 20, 40, 3, 0),
        "whole ones, parts, and whether a rival came; catalog and regions of each; one batch, and the two ends"
    );
    check_done(&storage, &model, &list);
}

#[test]
fn several_threads_delete_many_whole_containers() {
    let storage = FaultStorage::new();
    let (containers, mut model) = (open(&storage), Model::new());
    let ids: Vec<ContainerId> = (0..100).map(|n| id(ContainerKind::Recipe, 1, n)).collect();
    for id in &ids {
        put(&containers, *id, &[10], &mut model);
    }
    storage.barrier().unwrap();
    let list = list(ids.iter().map(|id| entry(*id, None)).collect());
    storage.inject(Fault::fail(70, env::fault::FailWith::Io));
    run(&storage, &list).unwrap_err();
    run(&storage, &list).unwrap();
    check_done(&storage, &model, &list);
}

fn rot(storage: &FaultStorage, name: &ObjectName, at: u64) {
    let at = usize::try_from(at).unwrap();
    assert!(storage.damage(name, |bytes| bytes[at] ^= 1));
}

#[test]
fn a_damaged_survivor_keeps_its_container_as_it_is() {
    let storage = FaultStorage::new();
    let (mut model, list) = sample(&storage);
    let (data, recipe) = (id(ContainerKind::Data, 1, 1), id(ContainerKind::Recipe, 1, 3));
    let offset = |id| open(&storage).catalog(id).unwrap().rows()[1].offset;
    rot(&storage, &names::container(data, generation(0)), offset(data));
    rot(&storage, &names::container(recipe, generation(0)), offset(recipe));
    let out = run(&storage, &list).unwrap();
    assert_eq!(out.damaged.len(), 1, "the mirror has the node");
    assert_eq!(out.damaged[0].0, data);
    assert!(matches!(out.damaged[0].1, ContainerError::DigestMismatch { .. }));
    assert!(!out.kept.contains(&data));
    assert_eq!(open(&storage).generations(data).unwrap(), [generation(0)]);
    assert_eq!(read(&open(&storage), data, 9), model.get(&(data, 9)).cloned());
    model.retain(|(id, _), _| *id != data);
    check_done(&storage, &model, &list);
}

#[test]
fn damage_of_removed_slots_does_not_matter() {
    let storage = FaultStorage::new();
    let (containers, mut model) = (open(&storage), Model::new());
    let data = id(ContainerKind::Data, 1, 1);
    put(&containers, data, &[300; 11], &mut model);
    storage.barrier().unwrap();
    let row = containers.catalog(data).unwrap().rows()[1];
    rot(&storage, &names::container(data, generation(0)), row.offset);
    let list = list(vec![entry(data, Some(&[(4, 4)]))]);
    assert!(run(&storage, &list).unwrap().damaged.is_empty());
    check_done(&storage, &model, &list);
}

#[test]
fn an_unreadable_rest_of_an_attempt_is_not_trusted() {
    // The new generation is torn at its end, torn in its middle, without a mirror, or with a bad
    // mirror.
    for how in 0..4 {
        let storage = FaultStorage::new();
        let (containers, mut model) = (open(&storage), Model::new());
        let recipe = id(ContainerKind::Recipe, 1, 1);
        put(&containers, recipe, &[300; 11], &mut model);
        let list = list(vec![entry(recipe, Some(&[(0, 1)]))]);
        let dead = list.slots[0].slots.clone().unwrap();
        let view = containers.generation(recipe, generation(0)).unwrap();
        let sealed = rewrite(&containers, &view, &dead, generation(1), PACKING)
            .unwrap()
            .unwrap();
        containers.put(&sealed).unwrap();
        storage.barrier().unwrap();
        let (main, mirror) = (
            names::container(recipe, generation(1)),
            names::mirror(recipe, generation(1)).unwrap(),
        );
        match how {
            0 => assert!(storage.damage(&main, |bytes| bytes.truncate(200))),
            1 => rot(&storage, &main, 100),
            2 => assert!(storage.lose(&mirror)),
            _ => rot(&storage, &mirror, 100),
        }
        run(&storage, &list).unwrap();
        check_done(&storage, &model, &list);
        // A whole main copy gets its mirror, and is not made again.
        let stays = if how >= 2 { generation(1) } else { generation(2) };
        assert_eq!(open(&storage).generations(recipe).unwrap(), [stays]);
    }
}

#[test]
fn a_whole_rest_of_an_attempt_is_used() {
    let storage = FaultStorage::new();
    let (containers, mut model) = (open(&storage), Model::new());
    let data = id(ContainerKind::Data, 1, 1);
    put(&containers, data, &[300; 11], &mut model);
    let list = list(vec![entry(data, Some(&[(0, 1)]))]);
    let dead = list.slots[0].slots.clone().unwrap();
    let view = containers.generation(data, generation(0)).unwrap();
    let sealed = rewrite(&containers, &view, &dead, generation(1), PACKING).unwrap();
    containers.put(&sealed.unwrap()).unwrap();
    let puts = storage.counters().puts;
    run(&storage, &list).unwrap();
    assert_eq!(storage.counters().puts, puts);
    check_done(&storage, &model, &list);
}

#[test]
fn regions_fill_up_and_raw_regions_stay_raw() {
    let storage = FaultStorage::new();
    let (containers, mut model) = (open(&storage), Model::new());
    let data = id(ContainerKind::Data, 1, 1);
    put(&containers, data, &[300; 48], &mut model);
    storage.barrier().unwrap();
    // Of each region of four chunks one survives. Then whole regions survive.
    let gone: Vec<(u32, u32)> = (0..6).map(|n| (n * 4 + 1, 3)).collect();
    let list = list(vec![entry(data, Some(&gone))]);
    run(&storage, &list).unwrap();
    check_done(&storage, &model, &list);
    let view = open(&storage).catalog(data).unwrap();
    assert!(view.rows().len() < 12, "{}", view.rows().len());
    let slots: Vec<u32> = view.entries().iter().map(|entry| entry.slot.get()).collect();
    assert!(slots.is_sorted(), "physical order is kept");
    for (number, row) in (0u32..).zip(view.rows()) {
        let slots = view.slots_in(types::RegionIndex::new(number).unwrap());
        let is_random: Vec<bool> = slots
            .iter()
            .flat_map(|range| range.iter())
            .map(|slot| slot.get() / 4 % 3 == 0)
            .collect();
        if is_random.iter().all(|is| *is) {
            assert_eq!(row.codec, Codec::Raw);
        } else if is_random.iter().all(|is| !*is) {
            assert_eq!(row.codec, Codec::Zstd);
        }
    }
}

#[test]
fn a_region_of_which_all_survives_stays_as_it_is() {
    let storage = FaultStorage::new();
    let (containers, mut model) = (open(&storage), Model::new());
    let data = id(ContainerKind::Data, 1, 1);
    // Three regions in four are compressed. The second one loses a chunk, and the last one is tiny.
    put(&containers, data, &[300; 17], &mut model);
    storage.barrier().unwrap();
    let before = containers.catalog(data).unwrap();
    let list = list(vec![entry(data, Some(&[(5, 1)]))]);
    // A region that is written again is not compressed.
    let packing = Packing {
        compression: Compression::Off,
        ..PACKING
    };
    let how = Execution {
        packing,
        copies_bytes_max: 3000,
        gives_up: false,
        is_again: false,
        damaged: &|_| Ok(SlotSet::default()),
        progress: &Watch::default(),
    };
    execute(&open(&storage), &list, &how).unwrap();
    check_done(&storage, &model, &list);
    let after = open(&storage).catalog(data).unwrap();
    let of_slot = |view: &CatalogView, slot: u32| {
        let slot = Slot::new(slot).unwrap();
        let row = *view.row(view.place_of(slot).unwrap().region).unwrap();
        (row.codec, row.stored_len)
    };
    assert_eq!(of_slot(&after, 8), of_slot(&before, 8), "as it was");
    assert_eq!(of_slot(&before, 4).0, Codec::Zstd);
    assert_eq!(of_slot(&after, 4).0, Codec::Raw, "gathered anew");
    assert_eq!(of_slot(&after, 16).0, Codec::Raw, "a tiny one is gathered, too");
}

#[test]
fn large_containers_are_read_while_they_are_sealed() {
    let storage = FaultStorage::new();
    let (containers, mut model) = (open(&storage), Model::new());
    let [first, second, rotten] = [1, 2, 3].map(|n| id(ContainerKind::Data, 1, n));
    for id in [first, second, rotten] {
        put(&containers, id, &[50_000; 120], &mut model);
    }
    storage.barrier().unwrap();
    let dead: Vec<(u32, u32)> = (0..40).map(|n| (n * 3, 1)).collect();
    let list = list([first, second, rotten].map(|id| entry(id, Some(&dead))).to_vec());
    let rows = containers.catalog(rotten).unwrap();
    let far = rows.rows().len() - 2;
    rot(
        &storage,
        &names::container(rotten, generation(0)),
        rows.rows()[far].offset,
    );
    let out = run(&storage, &list).unwrap();
    assert_eq!(
        out.damaged.iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        [rotten]
    );
    assert_eq!(out.compacted, 2);
    assert_eq!(open(&storage).generations(rotten).unwrap(), [generation(0)]);
    model.retain(|(id, _), _| *id != rotten);
    check_done(&storage, &model, &list);
}

#[test]
fn deleted_containers_leave_the_caches() {
    let storage = FaultStorage::new();
    let (_, list) = sample(&storage);
    let containers = open(&storage);
    for entry in &list.slots {
        drop(containers.catalog(entry.container));
    }
    run_with(&containers, &list, 3000).unwrap();
    for entry in &list.slots {
        // The storage has no deleted container: a catalog of one could come from the cache alone.
        let (id, found) = (entry.container, containers.catalog(entry.container).ok());
        let dead = entry.slots.clone().unwrap_or_default();
        assert!(
            found.is_none_or(|view| entry.slots.is_some() && is_rid_of(&view, &dead)),
            "{id}"
        );
    }
}

#[test]
fn a_removal_stops_on_request_and_continues_later() {
    let storage = FaultStorage::new();
    let (model, list) = sample(&storage);
    let containers = open(&storage);
    for stop in 0..8 {
        let watch = Watch {
            stop_after: Some(stop),
            ..Watch::default()
        };
        let how = Execution {
            packing: PACKING,
            copies_bytes_max: 3000,
            gives_up: false,
            is_again: false,
            damaged: &|_| Ok(SlotSet::default()),
            progress: &watch,
        };
        if let Err(error) = execute(&containers, &list, &how) {
            assert!(matches!(error, ReclaimError::Interrupted), "{error}");
        }
        check_survivors(&storage, &model, &list);
    }
    run(&storage, &list).unwrap();
    check_done(&storage, &model, &list);
}

#[test]
fn two_simultaneous_executions_have_the_same_result() {
    for n in 0..40 {
        let storage = FaultStorage::new();
        let (model, list) = sample(&storage);
        let first = storage.handle();
        first.inject_here(Fault::kill(n));
        std::thread::scope(|scope| {
            let (other, list) = (storage.handle(), &list);
            scope.spawn(move || drop(run(&first, list)));
            scope.spawn(move || drop(run(&other, list)));
        });
        check_survivors(&storage, &model, &list);
        run(&storage, &list).unwrap();
        check_done(&storage, &model, &list);
    }
}

type Plan = Vec<(usize, Vec<usize>, Option<Vec<bool>>, bool)>;

fn plans() -> impl Strategy<Value = Plan> {
    let lens = prop::collection::vec(1usize..700, 1..30);
    let dead = prop::option::of(prop::collection::vec(any::<bool>(), 30));
    prop::collection::vec((0..5usize, lens, dead, any::<bool>()), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn any_list_of_any_containers_is_executed(plan in plans(), batch in 1u64..20_000) {
        let storage = FaultStorage::new();
        let (containers, mut model, mut slots) = (open(&storage), Model::new(), Vec::new());
        for (sequence, (kind, lens, dead, is_listed)) in (0u32..).zip(&plan) {
            let id = id(ContainerKind::ALL[*kind], u64::from(sequence % 2 + 1), sequence);
            put(&containers, id, lens, &mut model);
            let dead = dead.as_ref().map(|dead| {
                let dead: Vec<u32> = (0u32..).zip(dead).filter(|(_, dead)| **dead).map(|(n, _)| n).collect();
                let runs = dead.chunk_by(|a, b| a + 1 == *b);
                runs.map(|run| (run[0], u32::try_from(run.len()).unwrap())).collect::<Vec<_>>()
            });
            if *is_listed && dead.as_ref().is_none_or(|dead| !dead.is_empty()) {
                slots.push(entry(id, dead.as_deref()));
            }
        }
        storage.barrier().unwrap();
        let list = list(slots);
        run_with(&open(&storage), &list, batch).unwrap();
        check_done(&storage, &model, &list);
        let before = storage.counters();
        let again = run_with(&open(&storage), &list, batch).unwrap();
        let cost = storage.counters().since(&before);
        prop_assert_eq!((cost.puts, cost.deletes, again.freed_bytes, again.copied_bytes), (0, 0, 0, 0));
    }
}
