//! Rewriting: reading exactly one generation, and dropping deleted containers from the caches.

use container::ContainerError;
use env::Storage;
use types::ContainerKind;

use crate::store::*;

#[test]
fn exactly_the_generation_asked_for_is_read_and_nothing_is_cached() {
    let mut store = Store::new();
    store.put(data(1), &sample());
    store.put_survivors(data(1), 1, &[(4, &[7; 300])]);
    store.reopen();
    for (n, slots) in [(0, 6), (1, 1)] {
        let view = store.containers.generation(data(1), generation(n)).unwrap();
        assert_eq!((view.generation(), view.entries().len()), (generation(n), slots));
    }
    assert_eq!(store.containers.catalog_cache_bytes(), 0);
    let error = store.containers.generation(data(1), generation(2)).unwrap_err();
    assert!(matches!(error, ContainerError::Vanished { .. }), "{error}");
}

#[test]
fn a_generation_is_read_from_its_mirror() {
    let store = Store::new();
    let small = id(ContainerKind::Small, 2, 1);
    store.put(small, &sample());
    store.put_survivors(small, 1, &[(4, &[7; 300])]);
    for (n, slots) in [(0, 6), (1, 1)] {
        assert!(store.storage.lose(&name(small, n)));
        let view = store.containers.generation(small, generation(n)).unwrap();
        assert_eq!((view.generation(), view.entries().len()), (generation(n), slots));
    }
}

#[test]
fn forget_drops_a_deleted_container_from_the_caches() {
    let store = Store::new();
    store.put(data(1), &sample());
    store.put_survivors(data(1), 1, &[(4, &[7; 300])]);
    for n in [0, 1] {
        store.storage.delete(&name(data(1), n)).unwrap();
    }
    store.containers.forget(data(1));
    let before = store.storage.counters();
    let error = store.read(data(1), 4).unwrap_err();
    assert!(matches!(error, ContainerError::Missing { .. }), "{error}");
    assert_eq!(
        store.storage.counters().since(&before).gets,
        1,
        "the first is asked for, as ever"
    );
}
