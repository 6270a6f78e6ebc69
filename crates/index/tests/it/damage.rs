//! Any objects under `index/` cause a warning at worst, and never an invented answer.

use std::sync::Arc;

use env::Storage;
use env::fault::FaultStorage;
use index::{HookKind, Index, IndexOptions, SessionContainers, Warning};
use types::{ObjectName, StoreId};

use crate::store::*;

fn one_run() -> (FaultStorage, ObjectName) {
    let storage = FaultStorage::new();
    let index = open(&storage, IndexOptions::default());
    index
        .add_session(
            session(1),
            (0..700).map(|n| hook(bits(n), data(1, u32::try_from(n % 9).unwrap()))),
        )
        .unwrap();
    let name = runs(&storage).remove(0);
    (storage, name)
}

fn answers(index: &Index) -> usize {
    (0..700)
        .filter(|n| ask(index, bits(*n), HookKind::Data) == [data(1, u32::try_from(n % 9).unwrap())])
        .count()
}

#[test]
fn flipped_bytes_cost_hooks_and_are_noticed() {
    let (storage, name) = one_run();
    let len = usize::try_from(storage.head(&name).unwrap().len).unwrap();
    for at in (0..len).step_by(13) {
        storage.damage(&name, |bytes| bytes[at] ^= 0x10);
        let index = open(&storage, IndexOptions::default());
        let right = answers(&index);
        for n in 0..700 {
            let got = ask(&index, bits(n), HookKind::Data);
            assert!(
                got.is_empty() || got == [data(1, u32::try_from(n % 9).unwrap())],
                "byte {at}: a lie"
            );
        }
        let warnings = index.take_warnings();
        assert_eq!(
            right == 700,
            warnings.is_empty(),
            "byte {at}: {right} found, {warnings:?}"
        );
        assert_eq!(index.covers(session(1)), warnings.is_empty(), "byte {at}");
        assert!(warnings.len() <= 1, "noted once");
        storage.damage(&name, |bytes| bytes[at] ^= 0x10);
    }
}

#[test]
fn truncated_runs_are_ignored() {
    let (storage, name) = one_run();
    let whole = storage.get(&name).unwrap();
    for len in (0..whole.len()).step_by(101) {
        storage.damage(&name, |bytes| bytes.truncate(len));
        let index = open(&storage, IndexOptions::default());
        assert_eq!(
            (answers(&index), index.covers(session(1))),
            (0, false),
            "cut to {len}"
        );
        assert!(matches!(
            index.take_warnings().as_slice(),
            [Warning::BadRun { .. }]
        ));
        storage.damage(&name, |bytes| bytes.clone_from(&whole));
    }
}

#[test]
fn foreign_and_misnamed_runs_are_ignored() {
    let (storage, name) = one_run();
    let whole = storage.get(&name).unwrap();
    let other = Index::open(Arc::new(storage.clone()), StoreId::from_bytes([9; 16]), SMALL).unwrap();
    assert_eq!(answers(&other), 0);
    assert_eq!(other.take_warnings().len(), 1);

    let moved = ObjectName::new(name.as_str().replace(".0", ".4096")).unwrap();
    storage.put(&moved, &[&whole]).unwrap();
    storage
        .put(&ObjectName::new("index/readme").unwrap(), &[b"hello"])
        .unwrap();
    let index = open(&storage, SMALL);
    assert_eq!((answers(&index), index.take_warnings().len()), (700, 1));
}

#[test]
fn a_run_without_its_end_covers_nothing() {
    let storage = FaultStorage::new();
    open(&storage, SMALL)
        .add_session(session(1), (0..90).map(|n| hook(bits(n), data(1, 0))))
        .unwrap();
    let names = runs(&storage);
    assert!(names.len() > 1, "several parts");
    for lost in &names {
        let bytes = storage.get(lost).unwrap();
        storage.delete(lost).unwrap();
        let index = open(&storage, SMALL);
        assert!(!index.covers(session(1)), "{lost}");
        assert!(
            (0..90).any(|n| !ask(&index, bits(n), HookKind::Data).is_empty()),
            "the rest still serves"
        );
        storage.put(lost, &[&bytes]).unwrap();
    }
    assert!(open(&storage, SMALL).covers(session(1)));
}

#[test]
fn a_damaged_run_is_rebuilt_and_then_deleted() {
    let storage = FaultStorage::new();
    let containers = containers(&storage);
    put(&containers, data(1, 0), &[1, 2, 3]);
    let committed = [SessionContainers {
        session: session(1),
        containers: vec![data(1, 0)],
    }];
    let index = open(&storage, IndexOptions::default());
    assert_eq!(index.catch_up(&containers, &committed).unwrap(), 1);
    let bad = runs(&storage).remove(0);
    storage.damage(&bad, |bytes| bytes.truncate(100));

    let index = open(&storage, IndexOptions::default());
    assert_eq!(index.uncovered([session(1)]), [session(1)]);
    assert_eq!(index.catch_up(&containers, &committed).unwrap(), 1);
    assert_eq!(
        index.catch_up(&containers, &committed).unwrap(),
        0,
        "once is enough"
    );
    let bits = containers.fingerprinter().chunk(&chunk(2)).index_bits();
    assert_eq!(ask(&index, bits, HookKind::Data), [data(1, 0)]);
    let merged = index.merge(&|| true, &|_| true).unwrap();
    assert_eq!((merged.deleted, runs(&storage).contains(&bad)), (1, false));
    let index = open(&storage, IndexOptions::default());
    assert!(index.covers(session(1)) && index.take_warnings().is_empty());
}
