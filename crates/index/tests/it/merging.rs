//! Merging keeps every answer, and keeps the number of runs small.

use std::sync::Arc;
use std::time::Duration;

use env::fault::{Counted, CrashPolicy, Fault, FaultStorage, OpKind};
use env::{ManualClock, Storage};
use index::{HookKind, IndexError, IndexOptions, RUNS_MAX};

use crate::store::*;

fn with_sessions(storage: &FaultStorage, count: u64) -> Model {
    let index = open(storage, IndexOptions::default());
    let mut model = Model::default();
    for n in 1..=count {
        let hooks: Vec<_> = (0..40 * n).map(|m| hook(bits(m * 3 + n), data(n, 0))).collect();
        index.add_session(session(n), hooks.iter().copied()).unwrap();
        model.add(&hooks);
    }
    model
}

#[test]
fn runs_stay_few_and_answers_the_same() {
    let storage = FaultStorage::new();
    let model = with_sessions(&storage, 30);
    let index = open(&storage, IndexOptions::default());
    assert_eq!(index.stats().runs, 30);
    let merged = index.merge(&|| true, &|_| true).unwrap();
    assert!(merged.runs > RUNS_MAX);
    assert!(index.stats().runs <= RUNS_MAX as u64);
    assert_eq!(runs(&storage).len() as u64, index.stats().runs);
    for index in [index, open(&storage, IndexOptions::default())] {
        model.check(&index);
        assert!(index.uncovered((1..=30).map(session)).is_empty());
        assert_eq!(index.uncovered([session(31)]), [session(31)]);
        assert_eq!(
            index.merge(&|| true, &|_| true).unwrap().runs,
            0,
            "nothing is left to do"
        );
    }
}

#[test]
fn few_runs_are_left_alone() {
    let storage = FaultStorage::new();
    with_sessions(&storage, RUNS_MAX as u64);
    let before = runs(&storage);
    assert_eq!(open(&storage, SMALL).merge(&|| true, &|_| true).unwrap().runs, 0);
    assert_eq!(runs(&storage), before);
}

#[test]
fn hooks_of_removed_containers_are_dropped() {
    let storage = FaultStorage::new();
    with_sessions(&storage, 20);
    let index = open(&storage, IndexOptions::default());
    index
        .merge(&|| true, &|container| container != data(3, 0))
        .unwrap();
    assert!((0..120).all(|m| !ask(&index, bits(m * 3 + 3), HookKind::Data).contains(&data(3, 0))));
}

#[test]
fn readers_keep_runs_that_a_merge_deletes() {
    let storage = FaultStorage::new();
    let model = with_sessions(&storage, 20);
    let reader = open(&storage, IndexOptions::default());
    open(&storage, IndexOptions::default())
        .merge(&|| true, &|_| true)
        .unwrap();
    model.check(&reader);
    reader.reload().unwrap();
    model.check(&reader);
    assert!(reader.stats().runs <= RUNS_MAX as u64);
}

/// Dies before putting the n-th of a run's many parts. Returns the number of parts put.
fn cut_short(storage: &FaultStorage, number: u64, parts: u64) {
    let writer = storage.handle();
    let hooks: Vec<_> = (0..600).map(|m| hook(bits(m * 5 + 1), data(number, 0))).collect();
    // All hooks in one run: none are written early.
    writer.inject_here(Fault::kill(parts + 1).counting(Counted::Only(OpKind::Put)));
    let options = IndexOptions {
        pending_bytes_max: 1 << 20,
        ..SMALL
    };
    let stopped = open(&writer, options).add_session(session(number), hooks);
    assert!(stopped.is_err());
}

/// A run that another process is writing: its parts stay. Once it has its end, it covers its
/// session.
#[test]
fn a_run_that_is_being_written_is_left_alone() {
    let storage = FaultStorage::new();
    with_sessions(&storage, 20);
    // The parts that the writer will write.
    let other = FaultStorage::new();
    let whole = IndexOptions {
        pending_bytes_max: 1 << 20,
        ..SMALL
    };
    let hooks: Vec<_> = (0..600).map(|m| hook(bits(m * 5 + 1), data(40, 0))).collect();
    open(&other, whole)
        .add_session(session(40), hooks.iter().copied())
        .unwrap();
    let parts = runs(&other);
    assert!(parts.len() > 5);
    let (before, after) = parts.split_at(3);
    let put = |name: &types::ObjectName| {
        let bytes = other.get(name).unwrap();
        storage.put(name, &[&bytes]).unwrap();
    };
    before.iter().for_each(put);

    let index = open(&storage, SMALL);
    assert!(index.wants_merge());
    assert!(index.merge(&|| true, &|_| true).unwrap().runs > RUNS_MAX);
    assert!(!index.wants_merge(), "what is under way does not count");
    assert!(before.iter().all(|name| storage.head(name).is_ok()));
    let containers = containers(&storage);
    index.rebuild(&containers, &[]).unwrap();
    assert!(
        before.iter().all(|name| storage.head(name).is_ok()),
        "nor does it go when all others do"
    );
    assert_eq!(runs(&storage).len(), before.len());
    after.iter().for_each(put);
    let index = open(&storage, SMALL);
    assert!(index.covers(session(40)), "nothing is read again");
    for hook in &hooks {
        assert!(ask(&index, hook.bits, HookKind::Data).contains(&data(40, 0)));
    }
}

/// The writer died: after an hour of the storage's clock, its run is merged away.
#[test]
fn a_run_without_an_end_is_merged_away_later() {
    let clock = ManualClock::default();
    let storage = FaultStorage::with_clock(Arc::new(clock.clone()));
    cut_short(&storage, 40, 3);
    let left = runs(&storage);
    assert_eq!(left.len(), 3);
    for (minutes, is_there) in [(30, true), (40, false)] {
        clock.advance(Duration::from_secs(minutes * 60));
        with_sessions(&storage, 20);
        open(&storage, SMALL).merge(&|| true, &|_| true).unwrap();
        assert!(
            left.iter().all(|name| storage.head(name).is_ok() == is_there),
            "{minutes}"
        );
    }
}

#[test]
fn a_lost_lease_deletes_nothing() {
    let storage = FaultStorage::new();
    let model = with_sessions(&storage, 20);
    let before = runs(&storage);
    let asked = std::sync::atomic::AtomicU32::new(0);
    let lease = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 0;
    let index = open(&storage, IndexOptions::default());
    index.merge(&lease, &|_| true).unwrap();
    assert!(before.iter().all(|name| storage.head(name).is_ok()));
    model.check(&index);
    model.check(&open(&storage, IndexOptions::default()));
}

#[test]
fn a_damaged_run_is_set_aside() {
    let storage = FaultStorage::new();
    let model = with_sessions(&storage, 12);
    let bad = runs(&storage).remove(4);
    storage.damage(&bad, |bytes| {
        let at = bytes.len() - 100;
        bytes[at] ^= 1;
    });
    let index = open(&storage, IndexOptions::default());
    index.merge(&|| true, &|_| true).unwrap();
    assert_eq!(index.uncovered((1..=12).map(session)), [session(5)]);
    assert_eq!(index.take_warnings().len(), 1);
    assert!(storage.head(&bad).is_err(), "and deleted");
    drop(model);
    assert!(ask(&index, bits(4), HookKind::Data).contains(&data(4, 0)));
}

#[test]
fn a_crash_at_any_operation_of_a_merge_loses_no_hook() {
    let build = || {
        let storage = FaultStorage::new();
        let model = with_sessions(&storage, 10);
        storage.barrier().unwrap();
        (storage, model)
    };
    let (quiet, _) = build();
    let before = quiet.counters().mutating();
    open(&quiet, SMALL).merge(&|| true, &|_| true).unwrap();
    let operations = quiet.counters().mutating() - before;
    assert!(operations > 10);
    for n in 1..=operations {
        let (storage, model) = build();
        storage.inject(Fault::stop(n));
        let stopped = open(&storage, SMALL).merge(&|| true, &|_| true);
        assert!(matches!(stopped, Err(IndexError::Storage(_))), "operation {n}");
        let all = [CrashPolicy::KeepAll, CrashPolicy::DropAll, CrashPolicy::TearAll];
        for policy in all
            .into_iter()
            .chain((0..4).map(|seed| CrashPolicy::Seeded(seed * 100 + n)))
        {
            let after = storage.crash(policy);
            let index = open(&after, SMALL);
            model.check(&index);
            assert!(
                index.uncovered((1..=10).map(session)).is_empty(),
                "operation {n}: nothing to rebuild"
            );
            index.merge(&|| true, &|_| true).unwrap();
            model.check(&index);
        }
    }
}
