//! Progressive sampling on disk: the budget is kept, and the rates decide which hooks stay.

use std::collections::BTreeSet;

use container::{Compression, ContainerBuilder, Containers, PendingEntry, compress_region};
use env::fault::FaultStorage;
use index::conformance::{self, Promise, with_anchors};
use index::sampling::{SamplingRate, SamplingRates};
use index::{Hook, HookIndex, HookKind, Index, IndexOptions, SessionContainers};
use types::{ContainerId, ContainerKind, Generation, Level};

use crate::store::*;

/// Bytes of partly filled blocks, which do not count towards the budget.
const PADDING: u64 = 9 * 7 * 4096;

fn with_budget(bytes_max: u64) -> IndexOptions {
    IndexOptions {
        bytes_max,
        part_entries_max: 100_000,
        memory_bytes_max: None,
        pending_bytes_max: 40 * 20_000,
    }
}

/// The hooks of a session: 20 data containers of 500 chunks, and a recipe container of 20 nodes.
fn of_session(n: u64) -> Vec<Hook> {
    let chunks = (0..10_000).map(|m| hook(bits(n << 32 | m), data(n, u32::try_from(m / 500).unwrap())));
    let recipe = id(ContainerKind::Recipe, n, 30);
    let nodes = (0..20).map(|m| conformance::hook(HookKind::Node, bits(n << 32 | 1 << 20 | m), recipe));
    with_anchors(chunks.chain(nodes).collect())
}

fn add(index: &Index, sessions: std::ops::RangeInclusive<u64>) {
    for n in sessions {
        index.add_session(session(n), of_session(n)).unwrap();
        index.merge(&|| true, &|_| true).unwrap();
    }
}

/// Checks that every hook that stays is found, no other is, and one of each kind stays for every
/// container.
fn check_at(index: &Index, rates: SamplingRates, sessions: std::ops::RangeInclusive<u64>) {
    for n in sessions {
        let hooks = of_session(n);
        let mut found: BTreeSet<(HookKind, ContainerId)> = BTreeSet::new();
        for hook in &hooks {
            let answer = ask(index, hook.bits, hook.kind);
            if hook.standing.stays_at(rates.of(hook.kind)) {
                assert_eq!(answer, [hook.container], "{hook:?} at {rates:?}");
                found.insert((hook.kind, hook.container));
            } else {
                assert!(answer.is_empty(), "{hook:?} at {rates:?}");
            }
        }
        let all: BTreeSet<_> = hooks.iter().map(|hook| (hook.kind, hook.container)).collect();
        assert_eq!(found, all);
    }
}

#[test]
fn the_index_conforms_within_a_small_budget() {
    for bytes_max in [0, 60_000, 1 << 30] {
        conformance::check(Promise::Sampled, |hooks| {
            let storage = FaultStorage::new();
            let index = open(&storage, with_budget(bytes_max));
            for (n, some) in (1..).zip(hooks.chunks(1000)) {
                index.add_session(session(n), some.iter().copied()).unwrap();
            }
            index.merge(&|| true, &|_| true).unwrap();
            open(&storage, with_budget(bytes_max))
        });
    }
}

#[test]
fn the_budget_is_kept_and_r_falls() {
    let storage = FaultStorage::new();
    let budget = 300_000;
    let index = open(&storage, with_budget(budget));
    let mut before = SamplingRates::default();
    for n in 1..=40 {
        add(&index, n..=n);
        let stats = index.stats();
        assert!(stats.bytes <= budget + PADDING, "session {n}: {stats:?}");
        assert!(stats.rates.min(before) == stats.rates, "R never rises: {stats:?}");
        before = stats.rates;
    }
    // 400,000 chunks at some 6 bytes each.
    assert_eq!(before.data, SamplingRate::new(4).unwrap());
    assert_eq!(before.node, SamplingRate::ONE);
    let index = open(&storage, with_budget(budget));
    assert_eq!(index.stats().rates, before, "the runs say so");
    // Every run is rewritten from time to time. The last merged ones are at the rate in force.
    index.merge(&|| true, &|_| true).unwrap();
    assert!(index.uncovered((1..=40).map(session)).is_empty());
    for n in 1..=40 {
        let hooks = of_session(n);
        let stay = |hook: &&Hook| hook.standing.stays_at(before.of(hook.kind));
        for hook in hooks.iter().filter(stay) {
            assert_eq!(ask(&index, hook.bits, hook.kind), [hook.container]);
        }
    }
}

#[test]
fn a_session_writes_at_the_rate_in_force_and_others_follow_when_merged() {
    let storage = FaultStorage::new();
    let roomy = open(&storage, with_budget(1 << 30));
    add(&roomy, 1..=3);
    assert_eq!(roomy.stats().rates, SamplingRates::default());
    // Another process has less room: it writes fewer hooks, and merges all runs.
    let tight = open(&storage, with_budget(100_000));
    let rates = tight.stats().rates;
    assert!(rates.data < SamplingRate::ONE && rates.node == SamplingRate::ONE);
    tight.add_session(session(4), of_session(4)).unwrap();
    check_at(&tight, rates, 4..=4);
    check_at(&tight, SamplingRates::default(), 1..=3);
    assert!(tight.wants_merge());
    let merged = tight.merge(&|| true, &|_| true).unwrap();
    assert!(!tight.wants_merge());
    let rates = merged.rates;
    for index in [&tight, &open(&storage, with_budget(100_000))] {
        check_at(index, rates, 1..=4);
        assert!(index.stats().bytes <= 100_000 + PADDING);
    }
    // Dropped hooks stay lost, even with a larger budget.
    let roomy = open(&storage, with_budget(1 << 30));
    assert_eq!(roomy.stats().rates, rates);
}

#[test]
fn a_lost_lease_leaves_a_full_index_in_use() {
    let storage = FaultStorage::new();
    add(&open(&storage, with_budget(1 << 30)), 1..=3);
    let index = open(&storage, with_budget(50_000));
    assert_eq!(index.merge(&|| false, &|_| true).unwrap().runs, 0);
    check_at(&index, SamplingRates::default(), 1..=3);
    assert!(index.wants_merge());
}

/// Stores a container whose catalog has the hooks of [`stored`].
fn put_container(containers: &Containers, of: ContainerId, first: u64) {
    let mut builder = ContainerBuilder::new(of, Generation::FIRST);
    let (mut plain, mut entries) = (Vec::new(), Vec::new());
    for n in first..first + 200 {
        let bytes = chunk(n);
        let fingerprint = containers.fingerprinter().chunk(&bytes);
        let mut entry = PendingEntry::chunk(fingerprint, u32::try_from(bytes.len()).unwrap());
        if of.kind == ContainerKind::Recipe {
            entry.level = Level::new(1).unwrap();
        }
        entries.push(entry);
        plain.extend_from_slice(&bytes);
    }
    builder.append(compress_region(plain, Compression::Off), &entries);
    containers.put(&builder.seal(containers).unwrap()).unwrap();
}

/// Catching up and rebuilding use the same rates as the sessions themselves.
#[test]
fn a_rebuilt_index_ends_at_the_same_rule() {
    let storage = FaultStorage::new();
    let containers = containers(&storage);
    let committed: Vec<SessionContainers> = (1..=60)
        .map(|n| {
            put_container(&containers, data(n, 0), n * 1000);
            SessionContainers {
                session: session(n),
                containers: vec![data(n, 0)],
            }
        })
        .collect();
    let all: Vec<Hook> = committed
        .iter()
        .flat_map(|of| index::hooks_of(&containers.catalog(of.containers[0]).unwrap()).collect::<Vec<_>>())
        .collect();
    let print = |hook: &Hook| conformance::fingerprint(hook.bits);
    let answers = |index: &Index| -> Vec<Vec<ContainerId>> {
        let mut out = Vec::new();
        let ask = |hook: &Hook| {
            index.candidates(&print(hook), hook.kind, &mut out);
            out.clone()
        };
        all.iter().map(ask).collect()
    };
    let budget = 45_000;
    let index = open(&storage, with_budget(budget));
    for some in committed.chunks(7) {
        index.catch_up(&containers, some).unwrap();
        index.merge(&|| true, &|_| true).unwrap();
    }
    let of_sessions = index.stats();
    assert!(
        of_sessions.rates.data < SamplingRate::ONE && of_sessions.bytes <= budget + PADDING,
        "{of_sessions:?}"
    );
    index.rebuild(&containers, &committed).unwrap();
    index.merge(&|| true, &|_| true).unwrap();
    let rebuilt = index.stats();
    assert!(rebuilt.bytes <= budget + PADDING && index.uncovered((1..=60).map(session)).is_empty());
    let expected: Vec<Vec<ContainerId>> = all
        .iter()
        .map(|hook| {
            let stays = hook.standing.stays_at(rebuilt.rates.data);
            stays.then_some(hook.container).into_iter().collect()
        })
        .collect();
    assert!(
        answers(&index) == expected,
        "what stays at {}",
        rebuilt.rates.data
    );
    // With room for all hooks, a rebuild sets R back to 1. Nothing else does.
    let roomy = open(&storage, IndexOptions::default());
    roomy.rebuild(&containers, &committed).unwrap();
    assert_eq!(roomy.stats().rates, SamplingRates::default());
    assert_eq!(roomy.stats().entries, 60 * 200);
}

/// One session of any size stays within the memory for pending hooks, and within the budget on
/// disk.
#[test]
fn one_large_session_lowers_r_while_it_runs() {
    let storage = FaultStorage::new();
    let budget = 120_000;
    let options = IndexOptions {
        pending_bytes_max: 40 * 5000,
        part_entries_max: 3000,
        memory_bytes_max: None,
        ..with_budget(budget)
    };
    let index = open(&storage, options);
    let hooks: Vec<Hook> = (1..=20).flat_map(of_session).collect();
    index.add_session(session(1), hooks.iter().copied()).unwrap();
    let stats = index.stats();
    assert_eq!(stats.runs, 1);
    // Its only run has the rates of its last addition. A merge settles the rest.
    assert!(stats.rates.data < SamplingRate::new(2).unwrap(), "{stats:?}");
    index.merge(&|| true, &|_| true).unwrap();
    assert!(index.stats().bytes <= budget + PADDING, "{:?}", index.stats());
    check_at(&index, index.stats().rates, 1..=20);
}
