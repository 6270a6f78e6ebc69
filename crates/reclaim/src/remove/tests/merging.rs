//! Merging: whatever happens, every chunk that is kept is read by its old and its new name, and no other by any.

use format::reclaim::Moved;
use types::{ContainerKind, Slot};

use super::*;
use crate::moves::Moves;
use crate::slots::SlotSet;

/// A store in which epoch after epoch removes and merges.
#[derive(Clone)]
struct Epochs {
    /// By the names that chunks were given first.
    model: Model,
    dead: BTreeSet<(ContainerId, u32)>,
    moved: Vec<Moved>,
}

impl Epochs {
    fn now(&self, id: ContainerId, slot: u32) -> (ContainerId, u32) {
        match self.moved.iter().find(|moved| moved.from == id) {
            Some(moved) => (moved.to, moved.first_here.get() + slot),
            None => (id, slot),
        }
    }

    /// What an epoch would say that lets these chunks go and merges these containers, the first takes over the others.
    fn list(
        &self,
        containers: &Containers,
        dead: &[(ContainerId, u32)],
        sets: &[Vec<ContainerId>],
    ) -> Removed {
        let moves = Moves::new(&self.moved);
        let mut by_container: BTreeMap<ContainerId, SlotSet> = BTreeMap::new();
        for (id, slot) in dead {
            let (now, slot) = self.now(*id, *slot);
            by_container.entry(now).or_default().insert(range(slot, 1));
        }
        let lives = |id: ContainerId| {
            let mut of = self
                .model
                .keys()
                .filter(|(of, _)| self.now(*of, 0).0 == id || *of == id);
            of.any(|key| !self.dead.contains(key) && !dead.contains(key))
        };
        let listed = by_container.iter().map(|(id, slots)| {
            let is_whole = !lives(*id);
            crate::slots::entry(*id, (!is_whole).then_some(slots))
        });
        let slots = moves.with_names(listed.collect(), |moved| !lives(moved.from));
        let mut new = Vec::new();
        for set in sets {
            let Some((target, sources)) = set.split_first() else {
                continue;
            };
            let end = |id| containers.catalog(id).unwrap().slots_end();
            let mut next = end(*target);
            for from in sources {
                let count = end(*from);
                new.push(Moved {
                    from: *from,
                    count,
                    to: *target,
                    first_here: Slot::new(next).unwrap(),
                    is_new: true,
                });
                next += count;
            }
        }
        Removed {
            moved: moves.carried(&slots, new, &BTreeSet::new()),
            ..list(slots)
        }
    }

    fn executed(&mut self, list: &Removed, dead: &[(ContainerId, u32)]) {
        self.dead.extend(dead);
        self.moved.clone_from(&list.moved);
    }

    /// What is kept is read by both names; what an epoch in between would let go may be there or not.
    fn check_kept(&self, containers: &Containers, going: &[(ContainerId, u32)], when: &str) {
        for ((id, slot), bytes) in &self.model {
            if self.dead.contains(&(*id, *slot)) || going.contains(&(*id, *slot)) {
                continue;
            }
            assert_eq!(
                read(containers, *id, *slot).as_ref(),
                Some(bytes),
                "{when}: {id} slot {slot}"
            );
            let (now, there) = self.now(*id, *slot);
            assert_eq!(
                read(containers, now, there).as_ref(),
                Some(bytes),
                "{when}: {now} slot {there}"
            );
        }
    }

    /// And nothing else: one sound generation of each container, which has just what lives, or leads there.
    fn check_done(&self, storage: &FaultStorage, when: &str) {
        let containers = open(storage);
        self.check_kept(&containers, &[], when);
        let mut expected: BTreeMap<ContainerId, BTreeSet<u32>> = BTreeMap::new();
        for (id, slot) in self.model.keys().filter(|key| !self.dead.contains(key)) {
            let (now, there) = self.now(*id, *slot);
            expected.entry(now).or_default().insert(there);
        }
        for (id, slot) in &self.dead {
            let (now, there) = self.now(*id, *slot);
            assert_eq!(read(&containers, *id, *slot), None, "{when}: {id} slot {slot}");
            assert_eq!(read(&containers, now, there), None, "{when}: {now} slot {there}");
        }
        let stubs: BTreeMap<ContainerId, ContainerId> =
            self.moved.iter().map(|moved| (moved.from, moved.to)).collect();
        let ids: BTreeSet<ContainerId> = self.model.keys().map(|(id, _)| *id).collect();
        for id in ids {
            let found = objects::list(storage, id.session, id.kind, &[id])
                .unwrap()
                .remove(&id);
            let slots = expected.remove(&id);
            assert_eq!(
                found.is_some(),
                slots.is_some() || stubs.contains_key(&id),
                "{when}: {id}"
            );
            let Some(found) = found else { continue };
            let generation = found
                .alone(id.kind)
                .unwrap_or_else(|| panic!("{when}: {id}: {found:?}"));
            assert!(
                containers.verify(id, Depth::Full).unwrap().is_sound(),
                "{when}: {id}"
            );
            let view = containers.generation(id, generation).unwrap();
            assert_eq!(view.moved_to(), stubs.get(&id).copied(), "{when}: {id}");
            let stored: BTreeSet<u32> = view.entries().iter().map(|entry| entry.slot.get()).collect();
            assert_eq!(stored, slots.unwrap_or_default(), "{when}: {id}");
        }
        assert_eq!(expected, BTreeMap::new(), "{when}");
    }
}

/// Five small containers, of which one lost its last slots before.
fn small(kind: ContainerKind) -> (FaultStorage, Epochs, Vec<ContainerId>) {
    let storage = FaultStorage::new();
    let containers = open(&storage);
    let mut model = Model::new();
    let ids: Vec<ContainerId> = (0..5).map(|n| id(kind, u64::from(n / 2 + 1), n)).collect();
    for (n, id) in ids.iter().enumerate() {
        put(&containers, *id, &vec![200; n + 3], &mut model);
    }
    storage.barrier().unwrap();
    let mut epochs = Epochs {
        model,
        dead: BTreeSet::new(),
        moved: Vec::new(),
    };
    let dead = [(ids[4], 5), (ids[4], 6)];
    let list = epochs.list(&containers, &dead, &[]);
    run(&storage, &list).unwrap();
    epochs.executed(&list, &dead);
    epochs.check_done(&storage, "before");
    (storage, epochs, ids)
}

/// What is merged loses some slots at the same time, the one that takes over too.
fn going(ids: &[ContainerId]) -> Vec<(ContainerId, u32)> {
    vec![(ids[0], 1), (ids[2], 0), (ids[2], 4), (ids[4], 4)]
}

#[test]
fn small_containers_become_one_and_are_read_by_both_names() {
    for kind in [ContainerKind::Data, ContainerKind::Recipe] {
        let (storage, mut epochs, ids) = small(kind);
        let dead = going(&ids);
        let knows = open(&storage);
        ids.iter().for_each(|id| drop(knows.catalog(*id).unwrap()));
        let set = [4, 0, 1, 2, 3].map(|n| ids[n]).to_vec();
        let list = epochs.list(&open(&storage), &dead, &[set]);
        assert_eq!(list.moved[0].first_here.get(), 7, "slots 5 and 6 were given once");
        let out = run(&storage, &list).unwrap();
        assert_eq!((out.merged, out.compacted), (4, 0), "it is one copy");
        assert_eq!(out.kept, [ids[4]]);
        epochs.executed(&list, &dead);
        epochs.check_done(&storage, "merged");
        // Who knew the catalogs from before finds its way.
        epochs.check_kept(&knows, &[], "with catalogs from before");
        let before = storage.counters().mutating();
        let again = run(&storage, &list).unwrap();
        assert_eq!((again.merged, again.freed_bytes, again.copied_bytes), (0, 0, 0));
        assert!(storage.counters().mutating() - before <= 6, "barriers alone");

        // What was merged goes, by whatever name it is known, and the rest stays.
        let dead: Vec<_> = (0..4)
            .filter(|n| *n != 1)
            .map(|n| (ids[0], n))
            .filter(|key| epochs.model.contains_key(key))
            .collect();
        let list = epochs.list(&open(&storage), &dead, &[]);
        assert!(
            list.slots
                .iter()
                .any(|entry| entry.container == ids[0] && entry.slots.is_none())
        );
        run(&storage, &list).unwrap();
        epochs.executed(&list, &dead);
        epochs.check_done(&storage, "a source gone");
        assert_eq!(epochs.moved.len(), 3);
        epochs.check_kept(&knows, &[], "with catalogs from before, a source gone");
    }
}

#[test]
fn a_crash_at_every_operation_of_a_merge_loses_nothing_and_the_next_finishes() {
    for kind in [ContainerKind::Data, ContainerKind::Recipe] {
        let mut operations = 0;
        for n in 1.. {
            let mut is_reached = false;
            for (fault, policy) in stops(n) {
                let (storage, mut epochs, ids) = small(kind);
                let dead = going(&ids);
                let sets = [vec![ids[3], ids[0], ids[1]], vec![ids[4], ids[2]]];
                let list = epochs.list(&open(&storage), &dead, &sets);
                storage.inject(fault);
                is_reached |= run(&storage, &list).is_err();
                let when = format!("{kind:?}, {fault:?}, {policy:?}");
                let storage = storage.crash(policy);
                epochs.moved.clone_from(&list.moved);
                // By the new names it is there when the merge has come so far.
                let old_names = Epochs {
                    moved: Vec::new(),
                    ..epochs.clone()
                };
                old_names.check_kept(&open(&storage), &dead, &when);
                run(&storage, &list).unwrap_or_else(|error| panic!("{when}: {error}"));
                epochs.executed(&list, &dead);
                epochs.check_done(&storage, &when);
            }
            if !is_reached {
                operations = n;
                break;
            }
        }
        assert!(operations > 15, "{operations}");
    }
}

#[test]
fn who_merges_beside_another_comes_to_the_same() {
    for n in 0..60 {
        let (storage, mut epochs, ids) = small(ContainerKind::Recipe);
        let dead = going(&ids);
        let list = epochs.list(
            &open(&storage),
            &dead,
            &[vec![ids[3], ids[0], ids[1], ids[2], ids[4]]],
        );
        let first = storage.handle();
        first.inject_here(Fault::kill(n));
        std::thread::scope(|scope| {
            let (other, list) = (storage.handle(), &list);
            scope.spawn(move || drop(run(&first, list)));
            scope.spawn(move || drop(run(&other, list)));
        });
        run(&storage, &list).unwrap();
        epochs.executed(&list, &dead);
        epochs.check_done(&storage, &format!("kill {n}"));
    }
}

#[test]
fn a_full_disk_merges_nothing_and_says_nothing() {
    let (storage, mut epochs, ids) = small(ContainerKind::Data);
    let list = epochs.list(&open(&storage), &[], &[vec![ids[4], ids[0], ids[1]]]);
    let used: u64 = storage.list("").unwrap().iter().map(|object| object.len).sum();
    storage.set_capacity_bytes(Some(used + 100));
    let out = run(&storage, &list).unwrap();
    assert_eq!((out.merged, out.copied_bytes), (0, 0));
    epochs.check_kept_by_old_names(&storage);
    // The next epoch lets both names go.
    storage.set_capacity_bytes(None);
    let dead = [(ids[0], 0), (ids[0], 1), (ids[0], 2), (ids[1], 1)];
    epochs.moved.clone_from(&list.moved);
    let list = epochs.list(&open(&storage), &dead, &[]);
    run(&storage, &list).unwrap();
    epochs.dead.extend(dead);
    epochs.check_kept_by_old_names(&storage);
    assert_eq!(read(&open(&storage), ids[1], 1), None);
    assert_eq!(open(&storage).generations(ids[0]).unwrap(), []);
}

impl Epochs {
    fn check_kept_by_old_names(&self, storage: &FaultStorage) {
        let old_names = Self {
            moved: Vec::new(),
            ..self.clone()
        };
        old_names.check_kept(&open(storage), &[], "by old names");
    }
}

#[test]
fn what_cannot_be_read_whole_stays_as_it_is() {
    let (storage, mut epochs, ids) = small(ContainerKind::Data);
    let row = open(&storage).catalog(ids[1]).unwrap().rows()[0];
    rot(&storage, &names::container(ids[1], generation(0)), row.offset);
    epochs
        .model
        .retain(|(id, slot), _| *id != ids[1] || *slot >= row.entry_count);
    let list = epochs.list(&open(&storage), &[], &[vec![ids[4], ids[0], ids[1]]]);
    let out = run(&storage, &list).unwrap();
    assert_eq!((out.merged, out.damaged.len()), (1, 1));
    assert_eq!(out.damaged[0].0, ids[1]);
    epochs.check_kept_by_old_names(&storage);

    // The one that takes over: nothing is merged into it.
    let (storage, epochs, ids) = small(ContainerKind::Data);
    let view = open(&storage).catalog(ids[4]).unwrap();
    rot(
        &storage,
        &names::container(ids[4], view.generation()),
        view.rows()[0].offset,
    );
    let list = epochs.list(&open(&storage), &[], &[vec![ids[4], ids[0], ids[1]]]);
    let out = run(&storage, &list).unwrap();
    assert_eq!((out.merged, out.damaged.len()), (0, 1));
    for id in &ids[..4] {
        assert_eq!(open(&storage).generations(*id).unwrap(), [generation(0)]);
    }
}

/// And no later list lets it: what was left by a merge that came to nothing stays as it is, for stubs lead to the one that
/// is damaged.
#[test]
fn an_older_generation_never_takes_the_place_of_what_was_merged_before() {
    for is_merged_again in [false, true] {
        let (storage, mut epochs, ids) = small(ContainerKind::Data);
        let old = storage.get(&names::container(ids[3], generation(0))).unwrap();
        let list = epochs.list(&open(&storage), &[], &[vec![ids[3], ids[0]]]);
        run(&storage, &list).unwrap();
        epochs.executed(&list, &[]);
        storage
            .put(&names::container(ids[3], generation(0)), &[&old])
            .unwrap();
        // A chunk of its own rots; those of the other are whole.
        let view = open(&storage).generation(ids[3], generation(1)).unwrap();
        let region = view.region_of(Slot::new(2).unwrap()).unwrap();
        let of_region: BTreeSet<Slot> = view
            .slots_in(region)
            .iter()
            .flat_map(|slots| slots.iter())
            .collect();
        rot(
            &storage,
            &names::container(ids[3], generation(1)),
            view.row(region).unwrap().offset,
        );
        let dead = [(ids[3], 0)];
        let sets = [vec![ids[3], ids[1]]];
        let list = epochs.list(&open(&storage), &dead, if is_merged_again { &sets } else { &[] });
        let out = run(&storage, &list).unwrap();
        assert_eq!(out.damaged.len(), 1, "{is_merged_again}");
        assert_eq!(out.damaged[0].0, ids[3]);
        let containers = open(&storage);
        let whole: Vec<u32> = (0..3)
            .filter(|n| !of_region.contains(&Slot::new(epochs.now(ids[0], *n).1).unwrap()))
            .collect();
        assert!(!whole.is_empty(), "{of_region:?}");
        for slot in whole {
            let kept = epochs.model.get(&(ids[0], slot));
            assert_eq!(
                read(&containers, ids[0], slot).as_ref(),
                kept,
                "{is_merged_again}: {slot}"
            );
        }
    }
}

/// A disk that has no room for second copies or for stubs ends no prune with an error, and the next list goes on.
#[test]
fn a_disk_that_fills_in_the_midst_of_a_merge_loses_nothing_and_stops_nobody() {
    for kind in [ContainerKind::Data, ContainerKind::Recipe] {
        let mut came_to = BTreeSet::new();
        for room in (0..20_000).step_by(110) {
            let (storage, mut epochs, ids) = small(kind);
            let list = epochs.list(&open(&storage), &[], &[vec![ids[4], ids[0], ids[1]]]);
            let used: u64 = storage.list("").unwrap().iter().map(|object| object.len).sum();
            storage.set_capacity_bytes(Some(used + room));
            let when = format!("{kind:?}, room for {room}");
            let out = run(&storage, &list).unwrap_or_else(|error| panic!("{when}: {error}"));
            came_to.insert(out.merged);
            epochs.check_kept_by_old_names(&storage);
            storage.set_capacity_bytes(None);
            run(&storage, &list).unwrap();
            epochs.executed(&list, &[]);
            epochs.check_done(&storage, &when);
        }
        assert_eq!(came_to, BTreeSet::from([0, 2]), "{kind:?}");
    }
}

/// Merges that come to little wait for the disk together, and those that come to much one after another.
#[test]
fn many_small_merges_share_their_barriers() {
    let mut barriers = Vec::new();
    for copies_bytes_max in [3000, 200_000] {
        let storage = FaultStorage::new();
        let containers = open(&storage);
        let mut model = Model::new();
        let ids: Vec<ContainerId> = (0..24).map(|n| id(ContainerKind::Data, 1, n)).collect();
        ids.iter()
            .for_each(|id| put(&containers, *id, &[200; 3], &mut model));
        let mut epochs = Epochs {
            model,
            dead: BTreeSet::new(),
            moved: Vec::new(),
        };
        let sets: Vec<_> = ids.chunks(2).map(<[ContainerId]>::to_vec).collect();
        let list = epochs.list(&containers, &[], &sets);
        let before = storage.counters().barriers;
        let out = run_with(&containers, &list, copies_bytes_max).unwrap();
        barriers.push(storage.counters().barriers - before);
        assert_eq!(out.merged, 12);
        epochs.executed(&list, &[]);
        epochs.check_done(&storage, "merged");
    }
    assert!(barriers[0] >= 36 && barriers[1] <= 6, "{barriers:?}");
}

/// A stub that was lost, or cannot be read any more, is made anew by whoever executes a list that has it.
#[test]
fn a_stub_that_is_lost_is_put_again() {
    for kind in [ContainerKind::Data, ContainerKind::Recipe] {
        for is_gone in [true, false] {
            let (storage, mut epochs, ids) = small(kind);
            let list = epochs.list(&open(&storage), &[], &[vec![ids[4], ids[0], ids[1]]]);
            run(&storage, &list).unwrap();
            epochs.executed(&list, &[]);
            let copies = [
                Some(names::container(ids[0], generation(1))),
                names::mirror(ids[0], generation(1)),
            ];
            for name in copies.iter().flatten().filter(|name| storage.get(name).is_ok()) {
                if is_gone {
                    storage.delete(name).unwrap();
                } else {
                    let len = storage.get(name).unwrap().len() as u64;
                    rot(&storage, name, len - 60);
                }
            }
            assert_eq!(read(&open(&storage), ids[0], 0), None);
            let out = run(&storage, &list).unwrap();
            assert_eq!((out.merged, out.damaged.len()), (1, 0), "{kind:?}, {is_gone}");
            epochs.check_done(&storage, &format!("{kind:?}, {is_gone}"));
        }
    }
}

/// A stub that stands keeps the generation that it leads to, though that is damaged and an older one is whole.
#[test]
fn an_older_generation_never_takes_the_place_of_what_a_stub_leads_to() {
    for is_stub_whole in [true, false] {
        let (storage, epochs, ids) = small(ContainerKind::Data);
        let list = epochs.list(&open(&storage), &[(ids[3], 0)], &[vec![ids[3], ids[0]]]);
        let old = storage.get(&names::container(ids[3], generation(0))).unwrap();
        let of_source = storage.get(&names::container(ids[0], generation(0))).unwrap();
        run(&storage, &list).unwrap();
        // As if the older ones had not been deleted yet.
        storage
            .put(&names::container(ids[3], generation(0)), &[&old])
            .unwrap();
        if !is_stub_whole {
            storage
                .put(&names::container(ids[0], generation(0)), &[&of_source])
                .unwrap();
        }
        let row = *open(&storage)
            .generation(ids[3], generation(1))
            .unwrap()
            .rows()
            .last()
            .unwrap();
        rot(&storage, &names::container(ids[3], generation(1)), row.offset);
        let out = run(&storage, &list).unwrap();
        let generations = open(&storage).generations(ids[3]).unwrap();
        if is_stub_whole {
            assert_eq!(out.damaged.len(), 1);
            assert_eq!(generations, [generation(0), generation(1)]);
        } else {
            // What it was merged from stands too, so nothing is lost.
            assert_eq!((out.damaged.len(), generations), (0, vec![generation(2)]));
            let mut epochs = epochs.clone();
            epochs.executed(&list, &[(ids[3], 0)]);
            epochs.check_done(&storage, "mended");
        }
    }
}

type Round = (Vec<(usize, u32)>, Vec<Vec<usize>>, u64);

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let dead = prop::collection::vec((0..8usize, 0..9u32), 0..12);
    let sets = prop::collection::vec(prop::collection::vec(0..8usize, 2..5), 0..3);
    prop::collection::vec((dead, sets, 0..60u64), 1..6)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn any_merges_and_removals_in_any_order(
        rounds in rounds(),
        lens in prop::collection::vec(1..9usize, 8),
        is_recipe in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let storage = FaultStorage::new();
        let kind = if is_recipe { ContainerKind::Recipe } else { ContainerKind::Data };
        let (containers, mut model) = (open(&storage), Model::new());
        let ids: Vec<ContainerId> = (0..8).map(|n| id(kind, u64::from(n % 3 + 1), n)).collect();
        for (id, slots) in ids.iter().zip(&lens) {
            put(&containers, *id, &vec![150; *slots], &mut model);
        }
        storage.barrier().unwrap();
        let mut storage = storage;
        let mut epochs = Epochs { model, dead: BTreeSet::new(), moved: Vec::new() };
        // A process that knows all catalogs from the beginning, and reads again and again.
        for (n, (dead, sets, stop)) in rounds.into_iter().enumerate() {
            let knows = open(&storage);
            ids.iter().for_each(|id| drop(knows.catalog(*id)));
            let dead: Vec<_> = dead
                .into_iter()
                .map(|(n, slot)| (ids[n], slot))
                .filter(|key| epochs.model.contains_key(key) && !epochs.dead.contains(key))
                .collect();
            let lives = |id: ContainerId| {
                let mut own = epochs.model.keys().filter(|(of, _)| *of == id);
                own.any(|key| !epochs.dead.contains(key) && !dead.contains(key))
            };
            let mut taken = BTreeSet::new();
            let is_from = |id: ContainerId| epochs.moved.iter().any(|moved| moved.from == id);
            let is_to = |id: ContainerId| epochs.moved.iter().any(|moved| moved.to == id);
            let sets: Vec<Vec<ContainerId>> = sets
                .into_iter()
                .map(|set| {
                    let members = set.into_iter().map(|n| ids[n]).filter(|id| lives(*id) && !is_from(*id));
                    let members: Vec<_> = members.filter(|id| taken.insert(*id)).collect();
                    let (mut into, mut plain): (Vec<_>, Vec<_>) = members.into_iter().partition(|id| is_to(*id));
                    into.truncate(1);
                    into.append(&mut plain);
                    into
                })
                .filter(|set: &Vec<_>| set.len() > 1)
                .collect();
            let list = epochs.list(&open(&storage), &dead, &sets);
            list.check().unwrap();
            if stop > 0 {
                storage.inject(Fault::stop(stop));
                drop(run(&storage, &list));
                storage = storage.crash(CrashPolicy::Seeded(seed.wrapping_add(n as u64)));
            }
            run(&storage, &list).unwrap();
            epochs.executed(&list, &dead);
            epochs.check_done(&storage, "after a round");
            if stop == 0 {
                epochs.check_kept(&knows, &[], "with catalogs from before");
            }
        }
    }
}
