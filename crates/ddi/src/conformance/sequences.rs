//! Cases of sequences: each batch takes effect once, in its turn.

use super::*;

pub(super) fn a_repeated_batch_has_the_same_outcomes(maker: &dyn Maker) {
    let index = maker.create();
    let operations = [
        increment(1, 10, 2),
        increment(1, 11, 1),
        decrement(1, 10, 1),
        decrement(2, 20, 1),
    ];
    let outcomes = apply(&*index, 1, &operations);
    for _ in 0..3 {
        assert_eq!(apply(&*index, 1, &operations), outcomes);
    }
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 2)]);
    let freed = apply(&*index, 2, &[decrement(1, 10, 2)]);
    assert_eq!(freed, [Outcome::Freed]);
    assert_eq!(apply(&*index, 2, &[decrement(1, 10, 2)]), freed);
    assert_rows(&*index, Bucket::FIRST, vec![]);
}

pub(super) fn a_batch_may_be_repeated_after_reopening(maker: &dyn Maker) {
    let mut index = maker.create();
    let operations: Vec<_> = (0..300)
        .flat_map(|n| [increment(n % 50, n, 2), decrement(n % 50, n % 50, 1)])
        .collect();
    let outcomes = apply(&*index, 1, &operations);
    let rows = rows_of(&*index, Bucket::FIRST);
    let statistics = index.statistics().expect("readable").buckets;
    for _ in 0..2 {
        index = maker.reopen(index);
        assert_eq!(
            index.client(Bucket::FIRST, volume(1)).expect("readable"),
            Some(sequence(1))
        );
        assert_eq!(apply(&*index, 1, &operations), outcomes);
        assert_rows(&*index, Bucket::FIRST, rows.clone());
        assert_eq!(index.statistics().expect("readable").buckets, statistics);
    }
    apply(&*index, 2, &operations);
    index = maker.reopen(index);
    assert_eq!(
        index.client(Bucket::FIRST, volume(1)).expect("readable"),
        Some(sequence(2))
    );
}

pub(super) fn a_batch_out_of_turn_is_refused(maker: &dyn Maker) {
    let index = maker.create();
    let send = |number, operations: &[Operation]| {
        index.apply(Bucket::FIRST, volume(1), sequence(number), operations)
    };
    let one = [increment(1, 10, 1)];
    for number in [2, 3, 100] {
        let error = refused(send(number, &one));
        assert!(
            matches!(error, DdiError::SequenceAhead { last: 0, given, .. } if given.get() == number),
            "{error}"
        );
    }
    let error = refused(send(0, &one));
    assert!(
        matches!(error, DdiError::SequenceBehind { last: 0, .. }),
        "{error}"
    );
    for number in 1..=4 {
        apply(&*index, number, &one);
    }
    for number in [0, 1, 3] {
        let error = refused(send(number, &one));
        assert!(
            matches!(error, DdiError::SequenceBehind { last: 4, given, .. } if given.get() == number),
            "{error}"
        );
        assert!(error.to_string().contains("batch 4"), "{error}");
        assert!(error.to_string().contains(&format!("batch {number}:")), "{error}");
    }
    let error = refused(send(6, &one));
    assert!(
        matches!(error, DdiError::SequenceAhead { last: 4, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("batch 6:"), "{error}");
    for other in [
        vec![],
        vec![increment(1, 11, 1)],
        vec![decrement(1, 10, 1)],
        vec![increment(1, 10, 2)],
    ] {
        let error = refused(send(4, &other));
        assert!(matches!(error, DdiError::DifferentBatch { .. }), "{error}");
    }
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 4)]);
}

pub(super) fn clients_share_rows_but_not_sequences(maker: &dyn Maker) {
    let index = maker.create();
    let send = |client, number, operations: &[Operation]| {
        let result = index.apply(Bucket::FIRST, volume(client), sequence(number), operations);
        result.expect("a batch in turn is applied")
    };
    assert_eq!(send(1, 1, &[increment(1, 10, 1)]), [Outcome::Registered]);
    let hit = Outcome::Hit { block: block(10) };
    assert_eq!(send(2, 1, &[increment(1, 90, 1)]), [hit]);
    assert_eq!(send(1, 2, &[decrement(1, 10, 1)]), [Outcome::Remaining(1)]);
    assert_eq!(send(2, 1, &[increment(1, 90, 1)]), [hit]);
    assert_eq!(send(2, 2, &[decrement(1, 10, 1)]), [Outcome::Freed]);
    assert_eq!(send(1, 2, &[decrement(1, 10, 1)]), [Outcome::Remaining(1)]);
    assert_rows(&*index, Bucket::FIRST, vec![]);
    assert_eq!(index.client(Bucket::FIRST, volume(3)).expect("readable"), None);
}

pub(super) fn buckets_share_nothing(maker: &dyn Maker) {
    let index = maker.create();
    let (low, high) = (Bucket::FIRST, Bucket::MAX);
    let send = |to, number, operations: &[Operation]| {
        let result = index.apply(to, volume(1), sequence(number), operations);
        result.expect("a batch in turn is applied")
    };
    send(low, 1, &[increment(1, 10, 1)]);
    assert_eq!(send(high, 1, &[increment(1, 90, 5)]), [Outcome::Registered]);
    send(bucket(1), 1, &[increment(2, 20, 1)]);
    assert_eq!(send(low, 2, &[decrement(1, 90, 1)]), [Outcome::Unknown]);
    assert_rows(&*index, low, vec![row(1, 10, 1)]);
    assert_rows(&*index, bucket(1), vec![row(2, 20, 1)]);
    assert_rows(&*index, high, vec![row(1, 90, 5)]);
    assert_rows(&*index, bucket(2), vec![]);
    let found = index.look_up(high, &[content(1), content(2)]).expect("readable");
    assert_eq!(found, [Some(row(1, 90, 5)), None]);
    assert_eq!(index.client(low, volume(1)).expect("readable"), Some(sequence(2)));
    assert_eq!(
        index.client(high, volume(1)).expect("readable"),
        Some(sequence(1))
    );
    let statistics = index.statistics().expect("readable");
    let buckets: Vec<_> = statistics
        .buckets
        .iter()
        .map(|sums| (sums.bucket, sums.rows, sums.references))
        .collect();
    assert_eq!(buckets, [(low, 1, 1), (bucket(1), 1, 1), (high, 1, 5)]);
}

pub(super) fn a_forgotten_client_begins_again(maker: &dyn Maker) {
    let index = maker.create();
    let send = |to, client, number| {
        let result = index.apply(to, volume(client), sequence(number), &[increment(1, 10, 1)]);
        result.expect("a batch in turn is applied")
    };
    for to in [Bucket::FIRST, bucket(1)] {
        send(to, 1, 1);
        send(to, 2, 1);
    }
    index.forget_client(volume(1)).expect("a client can be forgotten");
    index
        .forget_client(volume(7))
        .expect("an unknown client can be forgotten");
    let index = maker.reopen(index);
    for to in [Bucket::FIRST, bucket(1)] {
        assert_eq!(index.client(to, volume(1)).expect("readable"), None);
        assert_eq!(index.client(to, volume(2)).expect("readable"), Some(sequence(1)));
        assert_rows(&*index, to, vec![row(1, 10, 2)]);
    }
    apply(&*index, 1, &[increment(1, 10, 1)]);
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 3)]);
}

pub(super) fn an_empty_batch_takes_its_turn(maker: &dyn Maker) {
    let index = maker.create();
    assert_eq!(apply(&*index, 1, &[]), []);
    assert_eq!(apply(&*index, 1, &[]), []);
    assert_eq!(apply(&*index, 2, &[increment(1, 10, 1)]), [Outcome::Registered]);
}
