//! Hooks of running, crashed and committed sessions.

use env::Storage;
use env::fault::FaultStorage;
use index::{HookKind, IndexOptions, SessionContainers, Warning, hooks_of};
use types::ContainerKind;

use crate::store::*;

#[test]
fn chunks_are_found_at_once_and_nodes_once_published() {
    for options in [
        IndexOptions::default(),
        IndexOptions {
            pending_bytes_max: 64,
            bytes_max: 1 << 30,
            part_entries_max: 3,
            memory_bytes_max: None,
        },
    ] {
        let storage = FaultStorage::new();
        let containers = containers(&storage);
        let index = open(&storage, options);
        let print = |n| containers.fingerprinter().chunk(&chunk(n)).index_bits();
        let recipe = id(ContainerKind::Recipe, 1, 50);
        let mut writer = index.session(session(1));
        for n in 0..20 {
            writer
                .add(&put(
                    &containers,
                    data(1, n),
                    &[u64::from(n) * 2, u64::from(n) * 2 + 1],
                ))
                .unwrap();
        }
        writer.add(&put(&containers, recipe, &[777])).unwrap();
        assert_eq!(ask(&index, print(5), HookKind::Data), [data(1, 2)]);
        for index in [&index, &open(&storage, options)] {
            assert!(
                ask(index, print(777), HookKind::Node).is_empty(),
                "not before the manifest"
            );
            assert!(!index.covers(session(1)));
        }
        writer.publish(&[session(1), session(7)]).unwrap();
        for index in [&index, &open(&storage, options)] {
            assert_eq!(ask(index, print(777), HookKind::Node), [recipe]);
            assert!(ask(index, print(777), HookKind::Data).is_empty());
            for n in 0..40 {
                let expected = data(1, u32::try_from(n / 2).unwrap());
                assert_eq!(ask(index, print(n), HookKind::Data), [expected]);
            }
            assert!(index.covers(session(1)) && index.covers(session(7)) && !index.covers(session(2)));
            assert_eq!(index.stats().runs, 1, "what was written early is merged in");
            assert_eq!(index.stats().pending_entries, 0);
        }
    }
}

#[test]
fn a_session_that_was_cut_short_covers_nothing() {
    let storage = FaultStorage::new();
    let containers = containers(&storage);
    let index = open(&storage, SMALL);
    let mut writer = index.session(session(1));
    writer
        .add(&put(&containers, data(1, 0), &(0..300).collect::<Vec<_>>()))
        .unwrap();
    drop(writer);
    let index = open(&storage, SMALL);
    assert_eq!(index.uncovered([session(1)]), [session(1)]);
}

#[test]
fn only_uncovered_sessions_are_read_again() {
    let storage = FaultStorage::new();
    let containers = containers(&storage);
    let mut committed = Vec::new();
    for n in 1..6 {
        let kinds = [
            ContainerKind::Data,
            ContainerKind::Recipe,
            ContainerKind::Archive,
            ContainerKind::Catalog,
        ];
        let ids: Vec<_> = (0u32..).zip(kinds).map(|(at, kind)| id(kind, n, at)).collect();
        ids.iter()
            .for_each(|of| drop(put(&containers, *of, &[n * 10 + u64::from(of.kind.number())])));
        committed.push(SessionContainers {
            session: session(n),
            containers: ids,
        });
    }
    let index = open(&storage, IndexOptions::default());
    for n in [2, 4] {
        let views = committed[n - 1]
            .containers
            .iter()
            .map(|id| containers.catalog(*id).unwrap());
        let hooks: Vec<_> = views
            .flat_map(|view| hooks_of(&view).collect::<Vec<_>>())
            .collect();
        assert_eq!(hooks.len(), 2, "archive and catalog containers are never hooked");
        index.add_session(session(n as u64), hooks).unwrap();
    }
    assert_eq!(
        index.catch_up(&containers, &committed).unwrap(),
        6,
        "three sessions of two containers"
    );
    let index = open(&storage, IndexOptions::default());
    assert!(index.uncovered((1..6).map(session)).is_empty());
    for n in 1..6 {
        let print = |kind: u64| {
            containers
                .fingerprinter()
                .chunk(&chunk(n * 10 + kind))
                .index_bits()
        };
        assert_eq!(ask(&index, print(0), HookKind::Data), [data(n, 0)]);
        assert_eq!(
            ask(&index, print(1), HookKind::Node),
            [id(ContainerKind::Recipe, n, 1)]
        );
        assert!(ask(&index, print(2), HookKind::Data).is_empty());
    }
}

#[test]
fn a_container_that_cannot_be_read_is_a_warning() {
    let storage = FaultStorage::new();
    let containers = containers(&storage);
    put(&containers, data(1, 0), &[1]);
    let committed = [SessionContainers {
        session: session(1),
        containers: vec![data(1, 5), data(1, 0)],
    }];
    let index = open(&storage, IndexOptions::default());
    index.catch_up(&containers, &committed).unwrap();
    let warnings = index.take_warnings();
    assert!(
        matches!(warnings.as_slice(), [Warning::MissingContainer { container }] if *container == data(1, 5))
    );
    let bits = containers.fingerprinter().chunk(&chunk(1)).index_bits();
    assert_eq!(ask(&index, bits, HookKind::Data), [data(1, 0)]);
}

#[test]
fn the_whole_index_is_rebuilt_after_its_loss() {
    let storage = FaultStorage::new();
    let containers = containers(&storage);
    let committed: Vec<_> = (1..30)
        .map(|n| {
            put(
                &containers,
                data(n, 0),
                &(n * 100..n * 100 + 30).collect::<Vec<_>>(),
            );
            SessionContainers {
                session: session(n),
                containers: vec![data(n, 0)],
            }
        })
        .collect();
    open(&storage, SMALL)
        .catch_up(&containers, &committed[..20])
        .unwrap();
    let junk = runs(&storage);
    storage.damage(&junk[1], |bytes| bytes.clear());
    let index = open(&storage, SMALL);
    index.rebuild(&containers, &committed).unwrap();
    assert!(
        junk.iter().all(|name| storage.head(name).is_err()),
        "the old one is gone"
    );
    for index in [&index, &open(&storage, SMALL)] {
        assert!(index.uncovered((1..30).map(session)).is_empty());
        for n in 1..30 {
            let bits = containers.fingerprinter().chunk(&chunk(n * 100 + 7)).index_bits();
            assert_eq!(ask(index, bits, HookKind::Data), [data(n, 0)]);
        }
    }
    assert!(open(&storage, SMALL).take_warnings().is_empty());

    index.rebuild(&containers, &[]).unwrap();
    assert!(runs(&storage).is_empty(), "nothing committed, nothing kept");
}
