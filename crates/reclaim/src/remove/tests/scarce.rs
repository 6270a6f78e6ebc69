//! Lists that are executed without room for copies.

use super::*;

fn run_full(storage: &FaultStorage, list: &Removed) -> Result<Executed> {
    let how = Execution {
        packing: PACKING,
        copies_bytes_max: 3000,
        gives_up: true,
        is_again: true,
        damaged: &|_| Ok(SlotSet::default()),
        progress: &Watch::default(),
    };
    execute(&open(storage), list, &how)
}

/// Makes the disk full: from now on, only deletions free space. Returns its size.
fn fill(storage: &FaultStorage) -> u64 {
    let objects = storage.handle().list("").unwrap();
    let used: u64 = objects.iter().map(|object| object.space).sum();
    storage.set_capacity_bytes(Some(used));
    used
}

/// Containers of nodes that lose some slots.
fn nodes(storage: &FaultStorage) -> (Model, Removed) {
    let (containers, mut model) = (open(storage), Model::new());
    use ContainerKind::{Recipe, Small};
    for id in [id(Recipe, 1, 3), id(Small, 2, 0)] {
        put(&containers, id, &[300; 11], &mut model);
    }
    storage.barrier().unwrap();
    let list = list(vec![
        entry(id(Recipe, 1, 3), Some(&[(2, 5)])),
        entry(id(Small, 2, 0), Some(&[(0, 1), (10, 1)])),
    ]);
    (model, list)
}

#[test]
fn nodes_are_replaced_where_there_is_not_a_byte_of_room() {
    let storage = FaultStorage::new();
    let (model, list) = nodes(&storage);
    fill(&storage);
    let error = run(&storage, &list).unwrap_err();
    assert!(error.is_no_space(), "as long as there may be a reserve: {error}");
    check_survivors(&storage, &model, &list);
    let out = run_full(&storage, &list).unwrap();
    assert_eq!((out.compacted, out.given_up.len()), (2, 0));
    storage.set_capacity_bytes(None);
    check_done(&storage, &model, &list);
}

#[test]
fn nodes_that_are_replaced_in_place_have_a_whole_copy_at_every_moment() {
    let quiet = FaultStorage::new();
    let (_, list) = nodes(&quiet);
    fill(&quiet);
    let before = quiet.counters().mutating();
    run_full(&quiet, &list).unwrap();
    let operations = quiet.counters().mutating() - before;
    for n in 1..=operations {
        for (fault, policy) in stops(n) {
            let when = format!("{fault:?} {policy:?}");
            let storage = FaultStorage::new();
            let (model, list) = nodes(&storage);
            let capacity = fill(&storage);
            storage.inject(fault);
            run_full(&storage, &list).unwrap_err();
            let after = storage.crash(policy);
            check_survivors(&after, &model, &list);
            after.set_capacity_bytes(Some(capacity));
            let done = run_full(&after, &list);
            done.unwrap_or_else(|error| panic!("{when}: {error}"));
            after.set_capacity_bytes(None);
            check_done(&after, &model, &list);
        }
    }
}

#[test]
fn a_missing_second_copy_is_made_before_data_below_it_is_removed() {
    let storage = FaultStorage::new();
    let (model, list) = nodes(&storage);
    // Killed between the two copies of the new generation.
    storage.inject(Fault::kill(2).counting(env::fault::Counted::Only(OpKind::Put)));
    run(&storage, &list).unwrap_err();
    let after = storage.crash(CrashPolicy::KeepAll);
    let out = run(&after, &list).unwrap();
    assert_eq!(out.mirrors_made, 1, "it is not made anew");
    check_done(&after, &model, &list);
}

#[test]
fn data_without_space_for_its_copy_stays_and_all_else_is_removed() {
    let storage = FaultStorage::new();
    let (containers, mut model) = (open(&storage), Model::new());
    let whole = id(ContainerKind::Data, 1, 0);
    let (large, little) = (id(ContainerKind::Data, 1, 1), id(ContainerKind::Data, 2, 0));
    put(&containers, whole, &[3000; 2], &mut model);
    put(&containers, large, &[3000; 11], &mut model);
    put(&containers, little, &[300; 5], &mut model);
    storage.barrier().unwrap();
    let full = list(vec![
        entry(whole, None),
        entry(large, Some(&[(1, 1)])),
        entry(little, Some(&[(3, 2)])),
    ]);
    fill(&storage);
    let out = run_full(&storage, &full).unwrap();
    let given_up: Vec<_> = out.given_up.iter().map(|slots| slots.container).collect();
    assert_eq!((given_up, out.removed, out.compacted), (vec![large], 1, 1));
    // Its listed slots still exist, and its other slots are unchanged.
    let containers = open(&storage);
    for slot in 0..11 {
        assert_eq!(read(&containers, large, slot).as_ref(), model.get(&(large, slot)));
    }
    let rest = list(vec![entry(whole, None), entry(little, Some(&[(3, 2)]))]);
    check_survivors(&storage, &model, &rest);
    storage.set_capacity_bytes(None);
    let out = run(&storage, &full).unwrap();
    assert_eq!(out.compacted, 1);
    check_done(&storage, &model, &full);
}
