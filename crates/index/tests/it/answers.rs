//! Every hook is found, and nothing else.

use env::fault::FaultStorage;
use index::conformance::{self, Promise};
use index::{CandidateLists, Hook, HookIndex, HookKind, Index, IndexOptions};
use proptest::prelude::*;
use types::ContainerKind;

use crate::store::*;

#[test]
fn the_index_conforms_in_one_run() {
    conformance::check(Promise::Exact, |hooks| {
        let storage = FaultStorage::new();
        open(&storage, IndexOptions::default())
            .add_session(session(1), hooks.iter().copied())
            .unwrap();
        open(&storage, IndexOptions::default())
    });
}

#[test]
fn the_index_conforms_in_many_parts_and_early_runs() {
    conformance::check(Promise::Exact, |hooks| {
        let storage = FaultStorage::new();
        open(&storage, SMALL)
            .add_session(session(1), hooks.iter().copied())
            .unwrap();
        open(&storage, SMALL)
    });
}

fn any_hook() -> impl Strategy<Value = Hook> {
    (any::<bool>(), 0u64..600, 1u64..5, 0u32..6).prop_map(|(node, n, session, sequence)| {
        let kind = if node { HookKind::Node } else { HookKind::Data };
        let of = if node {
            ContainerKind::Recipe
        } else {
            ContainerKind::Data
        };
        conformance::hook(kind, bits(n), id(of, session, sequence))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.div_ceil(6)))]

    #[test]
    fn the_index_answers_as_a_map_would(
        sessions in proptest::collection::vec(proptest::collection::vec(any_hook(), 0..500), 1..14),
        part_entries_max in 1usize..200,
        merge in any::<bool>(),
    ) {
        let storage = FaultStorage::new();
        let options = IndexOptions { part_entries_max, ..SMALL };
        let index: Index = open(&storage, options);
        let mut model = Model::default();
        for (n, hooks) in (1u64..).zip(&sessions) {
            index.add_session(session(n), hooks.iter().copied()).unwrap();
            model.add(hooks);
        }
        if merge {
            index.merge(&|| true, &|_| true).unwrap();
        }
        model.check(&index);
        let again = open(&storage, options);
        model.check(&again);
        prop_assert!(again.take_warnings().is_empty());
        for n in 1..=sessions.len() as u64 {
            prop_assert!(again.covers(session(n)));
        }
        for n in 600..700 {
            prop_assert!(ask(&again, bits(n), HookKind::Data).is_empty());
            prop_assert!(ask(&again, bits(n), HookKind::Node).is_empty());
        }
    }
}

/// A look-up reads one leaf for a hook in the run, whatever other hooks there are, and hardly ever
/// one for an absent hook.
#[test]
fn a_look_up_reads_one_leaf_of_a_run_and_none_for_new_data() {
    let storage = FaultStorage::new();
    let index = open(&storage, IndexOptions::default());
    let hooks = (0..200_000).map(|n| hook(bits(n), data(1, u32::try_from(n % 100).unwrap())));
    // Some fingerprints have as many candidates as a look-up returns.
    let crowds = (0..100).flat_map(|n| (200..208).map(move |of| hook(bits(n * 2000), data(1, of))));
    index.add_session(session(1), hooks.chain(crowds)).unwrap();
    let index = open(&storage, IndexOptions::default());
    assert_eq!(index.stats().blocks_read, 0, "opening reads the fronts alone");
    for n in 0..10_000 {
        assert_eq!(
            ask(&index, bits(n * 20), HookKind::Data).len(),
            if n % 100 == 0 { 8 } else { 1 }
        );
    }
    assert_eq!(index.stats().blocks_read, 10_000);
    for n in 200_000..300_000 {
        ask(&index, bits(n), HookKind::Data);
    }
    let for_absent = index.stats().blocks_read - 10_000;
    assert!(for_absent < 500, "{for_absent} leaves for 100,000 that are new");
}

/// All bytes of a hook on disk: the summary, its leaf, the table, digests.
#[test]
fn a_hook_takes_less_than_six_and_a_half_bytes() {
    let storage = FaultStorage::new();
    let options = IndexOptions {
        pending_bytes_max: 1 << 30,
        ..IndexOptions::default()
    };
    let index = open(&storage, options);
    // 5,000 containers of 100 hooks each: ordinals of 13 bits.
    let hooks = (0..500_000).map(|n| hook(bits(n), data(1, u32::try_from(n % 5000).unwrap())));
    index.add_session(session(1), hooks).unwrap();
    let stats = index.stats();
    assert_eq!(stats.entries, 500_000);
    assert!(stats.bytes < 500_000 * 13 / 2, "{} bytes", stats.bytes);
    assert!(stats.resident_bytes < stats.bytes / 4, "{stats:?}");
    // Ten GiB of new chunks of 8 KiB are looked up. None leads to a catalog without it.
    let mut out = Vec::new();
    let found = (500_000..500_000 + 10 * 131_072).filter(|n| {
        index.candidates(&conformance::fingerprint(bits(*n)), HookKind::Data, &mut out);
        !out.is_empty()
    });
    assert_eq!(found.count(), 0);
}

/// Look-ups made together also find a hook from the moment when it was added: before, during and
/// after publishing.
#[test]
fn batched_look_ups_find_hooks_that_are_being_published() {
    const EACH: u64 = 100;
    const SESSIONS: u64 = 1000;
    let options = IndexOptions {
        memory_bytes_max: Some(8 << 20),
        pending_bytes_max: 1 << 20,
        ..IndexOptions::default()
    };
    let index = open(&FaultStorage::new(), options);
    let added = std::sync::atomic::AtomicU64::new(0);
    let order = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 1..=SESSIONS {
                let mut writer = index.session(session(n));
                for m in 0..EACH {
                    writer.add_hook(hook(bits(n * EACH + m), data(n, 0))).unwrap();
                }
                added.store(n, order);
                writer.publish(&[session(n)]).unwrap();
            }
        });
        let mut lists = CandidateLists::default();
        loop {
            let n = added.load(order);
            let prints: Vec<_> = (0..EACH)
                .map(|m| conformance::fingerprint(bits(n * EACH + m)))
                .collect();
            index.candidates_together(None, &prints, HookKind::Data, &mut lists);
            assert!(
                n == 0 || (0..lists.len()).all(|m| lists.of(m) == [data(n, 0)]),
                "session {n}"
            );
            if n == SESSIONS {
                break;
            }
        }
    });
}

#[test]
fn many_threads_ask_add_and_merge() {
    let storage = FaultStorage::new();
    let index = open(&storage, SMALL);
    index
        .add_session(session(1), (0..500).map(|n| hook(bits(n), data(1, 0))))
        .unwrap();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for n in 0..3000 {
                    assert!(ask(&index, bits(n % 500), HookKind::Data).contains(&data(1, 0)));
                }
            });
        }
        scope.spawn(|| {
            for n in 2..14 {
                index
                    .add_session(session(n), (0..150).map(|m| hook(bits(n * 1000 + m), data(n, 0))))
                    .unwrap();
            }
        });
        scope.spawn(|| {
            for _ in 0..6 {
                index.merge(&|| true, &|_| true).unwrap();
            }
        });
    });
    assert!(index.take_warnings().is_empty());
}
