//! Newer generations: found when they are needed, and not looked for otherwise.

use container::{Compression, ContainerError};
use env::Storage;
use types::{ContainerKind, RegionIndex};

use crate::store::*;

#[test]
fn slots_survive_rewriting() {
    let mut store = Store::new();
    store.put(data(1), &sample());
    store.put_survivors(data(1), 1, &[(4, &[7; 300]), (0, &noise(1, 100))]);
    store.storage.delete(&name(data(1), 0)).unwrap();
    store.reopen();
    assert_eq!(store.read(data(1), 0).unwrap(), noise(1, 100));
    assert_eq!(store.read(data(1), 4).unwrap(), [7; 300]);
    let error = store.read(data(1), 1).unwrap_err();
    assert!(
        matches!(error, ContainerError::NoSlot { slot: at, .. } if at == slot(1)),
        "{error}"
    );
    let view = store.containers.catalog(data(1)).unwrap();
    assert_eq!((view.generation(), plan_of(&view)), (generation(1), vec![4, 0]));
}

#[test]
fn an_older_generation_that_still_exists_is_good_enough() {
    let mut store = Store::new();
    store.put(data(1), &sample());
    store.put_survivors(data(1), 1, &[(4, &[7; 300])]);
    store.reopen();
    let before = store.storage.counters();
    assert_eq!(store.read(data(1), 4).unwrap(), [7; 300]);
    assert_eq!(store.storage.counters().since(&before).lists, 0);
    let view = store.containers.catalog(data(1)).unwrap();
    assert_eq!(view.generation(), generation(0));
    let newer = store.containers.newer(&view).unwrap().expect("there is one");
    assert_eq!(newer.generation(), generation(1));
    assert_eq!(
        store.containers.catalog(data(1)).unwrap().generation(),
        generation(1),
        "cached from now on"
    );
    assert!(store.containers.newer(&newer).unwrap().is_none());
}

#[test]
fn a_reader_continues_after_a_generation_vanished() {
    let store = Store::new();
    store.put(data(1), &sample());
    let view = store.containers.catalog(data(1)).unwrap();
    store.put_survivors(data(1), 1, &[(5, &noise(4, 50))]);
    store.put_survivors(data(1), 2, &[(5, &noise(4, 50))]);
    store.storage.delete(&name(data(1), 0)).unwrap();
    store.storage.delete(&name(data(1), 1)).unwrap();
    let error = store
        .containers
        .read_region(&view, RegionIndex::new(1).unwrap())
        .unwrap_err();
    assert!(matches!(error, ContainerError::Vanished { .. }), "{error}");
    assert_eq!(
        store.read(data(1), 5).unwrap(),
        noise(4, 50),
        "read_chunk does so by itself"
    );
    assert_eq!(
        store.containers.catalog(data(1)).unwrap().generation(),
        generation(2)
    );
}

#[test]
fn one_listing_serves_all_containers_of_a_session() {
    let mut store = Store::new();
    for n in 0..20 {
        store.put(data(n), &sample());
        store.put_survivors(data(n), 1, &[(0, &noise(1, 100))]);
        store.storage.delete(&name(data(n), 0)).unwrap();
    }
    store.reopen();
    let before = store.storage.counters();
    for n in 0..20 {
        store.containers.catalog(data(n)).unwrap();
    }
    let cost = store.storage.counters().since(&before);
    assert_eq!(
        (cost.lists, cost.gets),
        (1, 21),
        "one failed guess, one listing, then one read each"
    );
}

#[test]
fn a_damaged_generation_is_healed_by_a_newer() {
    let mut store = Store::new();
    let sealed = store.put(data(1), &sample());
    store.put_survivors(
        data(1),
        1,
        &[(0, &noise(1, 100)), (3, &b"to be or not to be ".repeat(20))],
    );
    let at = usize::try_from(sealed.catalog().rows()[0].offset).unwrap();
    store.damage(&name(data(1), 0), |bytes| bytes[at] ^= 1);
    store.reopen();
    assert_eq!(store.read(data(1), 0).unwrap(), noise(1, 100), "a damaged region");
    store.damage(&name(data(1), 0), |bytes| bytes.truncate(500));
    store.reopen();
    assert_eq!(
        store.read(data(1), 0).unwrap(),
        noise(1, 100),
        "a damaged trailer"
    );
}

#[test]
fn a_torn_newer_generation_does_not_hide_a_good_older() {
    let mut store = Store::new();
    store.put(data(1), &sample());
    store.put_survivors(data(1), 1, &[(0, &noise(1, 100))]);
    store.damage(&name(data(1), 1), |bytes| bytes.truncate(200));
    // The reader remembered the highest generation. A crash tore it before it was durable.
    let view = store.containers.catalog(data(1)).unwrap();
    store.containers.clear_catalogs();
    drop(view);
    assert_eq!(store.read(data(1), 0).unwrap(), noise(1, 100));
    store.reopen();
    let view = store.containers.catalog(data(1)).unwrap();
    assert!(
        store.containers.newer(&view).unwrap().is_none(),
        "no newer one can be read"
    );
}

#[test]
fn an_absent_container_is_missing() {
    let store = Store::new();
    store.put(data(1), &sample());
    let error = store.read(data(2), 0).unwrap_err();
    assert!(
        matches!(error, ContainerError::Missing { container } if container == data(2)),
        "{error}"
    );
    store.storage.delete(&name(data(1), 0)).unwrap();
    let error = store.read(data(1), 0).unwrap_err();
    assert!(
        matches!(error, ContainerError::Missing { .. }),
        "deleted under a cached catalog: {error}"
    );
}

#[test]
fn generations_are_listed() {
    let store = Store::new();
    for n in [0, 2, 11] {
        store
            .containers
            .put(&store.seal(data(1), n, &sample(), Compression::Off))
            .unwrap();
    }
    assert_eq!(
        store.containers.generations(data(1)).unwrap(),
        [0, 2, 11].map(generation)
    );
}

#[test]
fn one_listing_of_each_folder_tells_the_newest_generations() {
    let recipe = |n| id(ContainerKind::Recipe, 3, n);
    let mut store = Store::new();
    for n in 0..10 {
        store.put(data(n), &sample());
        store.put(recipe(n + 10), &sample());
    }
    store.put_survivors(data(4), 2, &[(0, &noise(1, 100))]);
    store.put_survivors(recipe(14), 1, &[(0, &noise(1, 100))]);
    // Of the newest generation, one copy exists.
    store.storage.delete(&name(recipe(14), 1)).unwrap();
    store.storage.delete(&name(data(5), 0)).unwrap();
    store.reopen();
    let ids: Vec<_> = (0..10).map(data).chain((10..20).map(recipe)).collect();
    let before = store.storage.counters();
    let newest = store.containers.newest_generations(&ids).unwrap();
    assert_eq!(store.storage.counters().since(&before).lists, 3);
    for (id, newest) in ids.into_iter().zip(newest) {
        let expected = match id.sequence.get() {
            4 => Some(generation(2)),
            5 => None,
            14 => Some(generation(1)),
            _ => Some(generation(0)),
        };
        assert_eq!(newest, expected, "{id}");
    }
}
