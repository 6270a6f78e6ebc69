//! The index on disk, held in memory: runs and images give the same answers, and bad images are
//! dropped.

use env::Storage;
use env::fault::FaultStorage;
use format::names;
use index::conformance::{self, Promise};
use index::{HookKind, Index, IndexOptions, SessionContainers, Warning};
use types::ObjectName;

use crate::store::*;

pub(crate) const HELD: IndexOptions = IndexOptions {
    memory_bytes_max: Some(4 << 20),
    ..SMALL
};

fn images(storage: &FaultStorage) -> Vec<ObjectName> {
    let names = runs(storage).into_iter();
    names
        .filter(|name| names::parse_index_image(name).is_some())
        .collect()
}

#[test]
fn the_resident_index_conforms() {
    conformance::check(Promise::Exact, |hooks| {
        let storage = FaultStorage::new();
        open(&storage, HELD)
            .add_session(session(1), hooks.iter().copied())
            .unwrap();
        open(&storage, HELD)
    });
    conformance::check(Promise::Exact, |hooks| {
        let storage = FaultStorage::new();
        let index = open(&storage, HELD);
        index.add_session(session(1), hooks.iter().copied()).unwrap();
        index
    });
}

fn with_sessions(index: &Index, model: &mut Model, sessions: std::ops::Range<u64>) {
    for n in sessions {
        let hooks: Vec<_> = (0..40 * n)
            .map(|m| hook(bits(m * 3 + n), data(n, 0)))
            .chain((0..n).map(|m| {
                let recipe = id(types::ContainerKind::Recipe, n, 1);
                conformance::hook(HookKind::Node, bits(m * 7), recipe)
            }))
            .collect();
        index.add_session(session(n), hooks.iter().copied()).unwrap();
        model.add(&hooks);
    }
}

#[test]
fn look_ups_read_no_run_after_publishing_merging_or_rebuilding() {
    let storage = FaultStorage::new();
    let (index, mut model) = (open(&storage, HELD), Model::default());
    with_sessions(&index, &mut model, 1..12);
    model.check(&index);
    index.merge(&|| true, &|_| true).unwrap();
    model.check(&index);
    // Sessions of another process, which holds nothing in memory.
    with_sessions(&open(&storage, SMALL), &mut model, 12..24);
    index.reload().unwrap();
    model.check(&index);
    assert_eq!(index.stats().blocks_read, 0);
    // For a fingerprint in many runs, memory keeps only the newest containers.
    let (entries, held) = (index.stats().entries, index.stats().memory.unwrap().entries);
    let held: u64 = held.iter().sum();
    assert!(held <= entries && held > entries * 9 / 10, "{held} of {entries}");
    let containers = containers(&storage);
    put(&containers, data(30, 0), &[1]);
    let committed = [SessionContainers {
        session: session(30),
        containers: vec![data(30, 0)],
    }];
    index.rebuild(&containers, &committed).unwrap();
    let bits = containers.fingerprinter().chunk(&chunk(1)).index_bits();
    assert_eq!(ask(&index, bits, HookKind::Data), [data(30, 0)]);
    assert_eq!(index.stats().memory.unwrap().entries, [1, 0]);
}

#[test]
fn merging_drops_removed_containers_from_memory() {
    let storage = FaultStorage::new();
    let (index, mut model) = (open(&storage, HELD), Model::default());
    with_sessions(&index, &mut model, 1..20);
    index
        .merge(&|| true, &|container| container != data(3, 0))
        .unwrap();
    for m in 0..120 {
        assert!(!ask(&index, bits(m * 3 + 3), HookKind::Data).contains(&data(3, 0)));
    }
    assert_eq!(ask(&index, bits(19), HookKind::Data)[0], data(19, 0));
}

#[test]
fn an_image_spares_reading_the_runs_that_are_in_it() {
    let storage = FaultStorage::new();
    let (index, mut model) = (open(&storage, HELD), Model::default());
    assert!(!index.checkpoint().unwrap(), "nothing is in it");
    with_sessions(&index, &mut model, 1..9);
    assert!(index.checkpoint().unwrap());
    assert!(!index.checkpoint().unwrap(), "nothing new");
    assert_eq!(images(&storage).len(), 1);
    with_sessions(&open(&storage, SMALL), &mut model, 9..10);

    let with_image = reads_of_opening(&storage);
    let index = open(&storage, HELD);
    model.check(&index);
    with_sessions(&index, &mut model, 10..30);
    assert!(index.checkpoint().unwrap());
    assert_eq!(images(&storage).len(), 1, "the older one is gone");
    model.check(&open(&storage, HELD));

    for name in images(&storage) {
        storage.delete(&name).unwrap();
    }
    assert!(with_image * 2 < reads_of_opening(&storage));
    model.check(&open(&storage, HELD));
    assert!(!open(&storage, SMALL).checkpoint().unwrap(), "nothing is held");
}

/// Requests to read bytes when the index is opened.
fn reads_of_opening(storage: &FaultStorage) -> u64 {
    let before = storage.counters();
    open(storage, HELD);
    storage.counters().since(&before).gets
}

#[test]
fn a_bad_image_is_a_warning_and_is_deleted() {
    let storage = FaultStorage::new();
    let (index, mut model) = (open(&storage, HELD), Model::default());
    with_sessions(&index, &mut model, 1..9);
    index.checkpoint().unwrap();
    let name = images(&storage).remove(0);
    for damage in [
        |bytes: &mut Vec<u8>| bytes[5000] ^= 1,
        |bytes: &mut Vec<u8>| bytes.truncate(99),
    ] {
        storage.damage(&name, damage);
        let index = open(&storage, HELD);
        model.check(&index);
        let warnings = index.take_warnings();
        assert!(
            matches!(warnings.as_slice(), [Warning::BadRun { name: bad, .. }] if *bad == name),
            "{warnings:?}"
        );
    }
    let index = open(&storage, HELD);
    index.merge(&|| true, &|_| true).unwrap();
    assert!(images(&storage).is_empty());
    assert!(index.checkpoint().unwrap());
    assert!(open(&storage, HELD).take_warnings().is_empty());
    // An image of another budget is useless and harmless.
    let other = IndexOptions {
        memory_bytes_max: Some(1 << 20),
        ..SMALL
    };
    let index = open(&storage, other);
    model.check(&index);
    assert!(index.take_warnings().is_empty());
}
