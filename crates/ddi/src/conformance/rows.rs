//! Cases of reading: scans, look-ups and sums; and clients at the same time.

use std::ops::ControlFlow;

use super::*;

pub(super) fn a_scan_is_in_order_and_may_end_early(maker: &dyn Maker) {
    let index = maker.create();
    let operations: Vec<_> = (0..2_000).map(|n| increment(n, n + 7, 1)).collect();
    apply(&*index, 1, &operations);
    let gone: Vec<_> = (0..500).map(|n| decrement(n * 4, n * 4 + 7, 1)).collect();
    apply(&*index, 2, &gone);
    let wanted = (0..2_000).filter(|n| n % 4 != 0).map(|n| row(n, n + 7, 1));
    let wanted = sorted(wanted.collect());
    assert_eq!(rows_of(&*index, Bucket::FIRST), wanted);
    let index = maker.reopen(index);
    let mut visited = Vec::new();
    let mut visit = |row| {
        visited.push(row);
        if visited.len() == 700 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    index
        .scan(Bucket::FIRST, &mut visit)
        .expect("the rows can be read");
    assert_eq!(visited, wanted[..700]);
}

pub(super) fn a_scan_is_of_one_moment(maker: &dyn Maker) {
    let index = maker.create();
    let operations: Vec<_> = (0..1_000).map(|n| increment(n, n, 1)).collect();
    apply(&*index, 1, &operations);
    let wanted = rows_of(&*index, Bucket::FIRST);
    let mut visited = Vec::new();
    let mut visit = |row| {
        if visited.is_empty() {
            let gone: Vec<_> = (0..500).map(|n| decrement(n, n, 1)).collect();
            apply(&*index, 2, &gone);
            let more: Vec<_> = (500..1_500).map(|n| increment(n, n, 1)).collect();
            apply(&*index, 3, &more);
        }
        visited.push(row);
        ControlFlow::Continue(())
    };
    index
        .scan(Bucket::FIRST, &mut visit)
        .expect("the rows can be read");
    assert_eq!(visited, wanted);
    let changed = (500..1_500).map(|n| row(n, n, if n < 1_000 { 2 } else { 1 }));
    assert_rows(&*index, Bucket::FIRST, changed.collect());
}

pub(super) fn a_look_up_changes_nothing(maker: &dyn Maker) {
    let index = maker.create();
    apply(&*index, 1, &[increment(1, 10, 3), increment(2, 20, 1)]);
    let asked = [content(2), content(5), content(1), content(2)];
    let wanted = [
        Some(row(2, 20, 1)),
        None,
        Some(row(1, 10, 3)),
        Some(row(2, 20, 1)),
    ];
    for _ in 0..2 {
        assert_eq!(index.look_up(Bucket::FIRST, &asked).expect("readable"), wanted);
    }
    assert_eq!(index.look_up(Bucket::FIRST, &[]).expect("readable"), []);
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 3), row(2, 20, 1)]);
}

pub(super) fn the_sums_are_those_of_the_rows(maker: &dyn Maker) {
    let index = maker.create();
    let empty = index.statistics().expect("readable");
    assert_eq!((empty.rows(), empty.references()), (0, 0));
    for number in 1..=20 {
        let operations: Vec<_> = (0..200)
            .map(|n| {
                let which = mixed(number * 1_000 + n) % 90;
                let count = u32::try_from(n % 3 + 1).expect("small");
                if n % 5 < 2 {
                    decrement(which, which, count)
                } else {
                    increment(which, which, count)
                }
            })
            .collect();
        apply(&*index, number, &operations);
    }
    let rows = rows_of(&*index, Bucket::FIRST);
    let statistics = index.statistics().expect("readable");
    assert_eq!(statistics.rows(), rows.len() as u64);
    assert_eq!(
        statistics.references(),
        rows.iter().map(|row| row.references).sum::<u64>()
    );
    assert!(statistics.rows() > 10, "{statistics:?}");
    let reopened = maker.reopen(index).statistics().expect("readable");
    assert_eq!(reopened.buckets, statistics.buckets);
}

pub(super) fn clients_count_at_the_same_time(maker: &dyn Maker) {
    const CLIENTS: u32 = 6;
    const BATCHES: u64 = 12;
    const CONTENTS: u64 = 40;
    let index = maker.create();
    let count = |client: u32| {
        let at = |n: u64| u64::from(client) * 1_000 + n;
        let mut blocks: Vec<_> = (0..CONTENTS).map(|_| None).collect();
        let mut registered = 0;
        for number in 1..=BATCHES {
            let operations: Vec<_> = (0..CONTENTS).map(|n| increment(n, at(n), 1)).collect();
            let to = bucket(u16::try_from(client % 2).expect("small"));
            let send = || index.apply(to, volume(client), sequence(number), &operations);
            let outcomes = send().expect("a batch in turn is applied");
            assert_eq!(send().expect("a batch may be repeated"), outcomes);
            for ((n, outcome), known) in (0..CONTENTS).zip(outcomes).zip(&mut blocks) {
                let found = match outcome {
                    Outcome::Registered => {
                        registered += 1;
                        block(at(n))
                    }
                    Outcome::Hit { block } => block,
                    other => panic!("an increment has the outcome {other:?}"),
                };
                assert_eq!(
                    *known.get_or_insert(found),
                    found,
                    "the row's block never changes"
                );
            }
        }
        registered
    };
    let registered: u64 = std::thread::scope(|scope| {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|client| scope.spawn(move || count(client)))
            .collect();
        let counts = clients
            .into_iter()
            .map(|client| client.join().expect("a client ends"));
        counts.sum()
    });
    assert_eq!(registered, CONTENTS * 2);
    for to in [bucket(0), bucket(1)] {
        let rows = rows_of(&*index, to);
        assert_eq!(rows.len() as u64, CONTENTS);
        let each = u64::from(CLIENTS / 2) * BATCHES;
        assert!(rows.iter().all(|row| row.references == each), "{rows:?}");
    }
    let references = index.statistics().expect("readable").references();
    assert_eq!(references, u64::from(CLIENTS) * BATCHES * CONTENTS);
}
