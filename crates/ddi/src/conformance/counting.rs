//! Cases of counting: what operations do to rows.

use super::*;

pub(super) fn a_new_content_is_registered_and_then_hit(maker: &dyn Maker) {
    let index = maker.create();
    let first = apply(&*index, 1, &[increment(1, 10, 1), increment(2, 20, 5)]);
    assert_eq!(first, [Outcome::Registered, Outcome::Registered]);
    let second = apply(&*index, 2, &[increment(1, 11, 2), increment(2, 20, 1)]);
    let hit = |number| Outcome::Hit { block: block(number) };
    assert_eq!(second, [hit(10), hit(20)]);
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 3), row(2, 20, 6)]);
}

pub(super) fn the_last_reference_frees_the_block(maker: &dyn Maker) {
    let index = maker.create();
    apply(&*index, 1, &[increment(1, 10, 5), increment(2, 20, 1)]);
    let outcomes = apply(&*index, 2, &[decrement(1, 10, 3), decrement(2, 20, 1)]);
    assert_eq!(outcomes, [Outcome::Remaining(2), Outcome::Freed]);
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 2)]);
    let outcomes = apply(&*index, 3, &[decrement(1, 10, 2), increment(2, 30, 1)]);
    assert_eq!(outcomes, [Outcome::Freed, Outcome::Registered]);
    assert_rows(&*index, Bucket::FIRST, vec![row(2, 30, 1)]);
}

pub(super) fn what_was_not_counted_is_not_taken(maker: &dyn Maker) {
    let index = maker.create();
    apply(&*index, 1, &[increment(1, 10, 2)]);
    let operations = [
        decrement(9, 10, 1),
        decrement(1, 11, 1),
        decrement(1, 10, 3),
        decrement(1, 10, 1),
    ];
    let outcomes = apply(&*index, 2, &operations);
    let unknown = Outcome::Unknown;
    assert_eq!(outcomes, [unknown, unknown, unknown, Outcome::Remaining(1)]);
    assert_eq!(apply(&*index, 3, &[decrement(1, 11, 1)]), [unknown]);
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 1)]);
}

pub(super) fn operations_of_a_batch_apply_in_order(maker: &dyn Maker) {
    let index = maker.create();
    let operations = [
        decrement(1, 10, 1),
        increment(1, 10, 1),
        increment(2, 20, 1),
        increment(1, 11, 1),
        decrement(1, 10, 1),
        decrement(1, 10, 1),
        increment(1, 12, 7),
        decrement(2, 20, 1),
        decrement(1, 12, 3),
    ];
    let wanted = [
        Outcome::Unknown,
        Outcome::Registered,
        Outcome::Registered,
        Outcome::Hit { block: block(10) },
        Outcome::Remaining(1),
        Outcome::Freed,
        Outcome::Registered,
        Outcome::Freed,
        Outcome::Remaining(4),
    ];
    assert_eq!(apply(&*index, 1, &operations), wanted);
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 12, 4)]);
    let statistics = index.statistics().expect("the index can be read");
    assert_eq!((statistics.rows(), statistics.references()), (1, 4));
}

pub(super) fn one_content_may_be_the_whole_batch(maker: &dyn Maker) {
    let index = maker.create();
    let operations: Vec<_> = (0..10_000).map(|at| increment(1, at, 1)).collect();
    let outcomes = apply(&*index, 1, &operations);
    assert_eq!(outcomes[0], Outcome::Registered);
    let hit = Outcome::Hit { block: block(0) };
    assert!(outcomes[1..].iter().all(|outcome| *outcome == hit));
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 0, 10_000)]);
    let operations: Vec<_> = (0..10_000).map(|_| decrement(1, 0, 1)).collect();
    let outcomes = apply(&*index, 2, &operations);
    assert_eq!(outcomes[0], Outcome::Remaining(9_999));
    assert_eq!(outcomes[9_998], Outcome::Remaining(1));
    assert_eq!(outcomes[9_999], Outcome::Freed);
    assert_rows(&*index, Bucket::FIRST, vec![]);
}

pub(super) fn a_batch_may_be_large(maker: &dyn Maker) {
    let index = maker.create();
    let operations: Vec<_> = (0..65_536).map(|n| increment(n, n, 1)).collect();
    let outcomes = apply(&*index, 1, &operations);
    assert!(outcomes.iter().all(|outcome| *outcome == Outcome::Registered));
    assert_eq!(apply(&*index, 1, &operations), outcomes);
    let outcomes = apply(&*index, 2, &operations);
    for (outcome, number) in outcomes.iter().zip(0..) {
        assert_eq!(*outcome, Outcome::Hit { block: block(number) });
    }
    assert_eq!(index.statistics().expect("readable").references(), 131_072);
}

pub(super) fn a_refused_batch_changes_nothing(maker: &dyn Maker) {
    let index = maker.create();
    apply(&*index, 1, &[increment(1, 10, 2)]);
    let send = |operations: &[Operation]| index.apply(Bucket::FIRST, volume(1), sequence(2), operations);
    let error = refused(send(&[increment(2, 20, 1), decrement(1, 10, 0)]));
    assert!(matches!(error, DdiError::ZeroCount { position: 1 }), "{error}");
    let many = vec![increment(2, 20, 1); (1 << 18) + 1];
    let error = refused(send(&many));
    assert!(
        matches!(
            error,
            DdiError::TooManyOperations {
                given: 262_145,
                max: 262_144
            }
        ),
        "{error}"
    );
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 2)]);
    assert_eq!(apply(&*index, 2, &[decrement(1, 10, 2)]), [Outcome::Freed]);
}

pub(super) fn references_do_not_wrap(maker: &dyn Maker) {
    let index = maker.create();
    let mut rebuild = index.rebuild().expect("a rebuild begins");
    let full = row(1, 10, u64::MAX - 3);
    rebuild.load(Bucket::FIRST, &[full]).expect("a row is loaded");
    rebuild.finish(&[]).expect("the rebuild ends");
    let operations = [increment(2, 20, 1), increment(1, 10, 2), increment(1, 10, 2)];
    let result = index.apply(Bucket::FIRST, volume(1), sequence(1), &operations);
    let error = refused(result);
    assert!(matches!(error, DdiError::TooManyReferences { key } if key == full.key));
    assert_rows(&*index, Bucket::FIRST, vec![full]);
    assert_eq!(index.client(Bucket::FIRST, volume(1)).expect("readable"), None);
}
