//! Cases of rebuilds.

use crate::{ClientPosition, RebuildFault};

use super::*;

fn position(to: u16, client: u32, last: u64) -> ClientPosition {
    ClientPosition {
        bucket: bucket(to),
        client: volume(client),
        last: sequence(last),
    }
}

pub(super) fn a_rebuild_replaces_everything(maker: &dyn Maker) {
    let index = maker.create();
    let operations: Vec<_> = (0..300).map(|n| increment(n, n, 1)).collect();
    apply(&*index, 1, &operations);
    let other = index.apply(bucket(5), volume(2), sequence(1), &operations);
    other.expect("a batch in turn is applied");

    let first = sorted((200..9_000).map(|n| row(n, n + 1, 3)).collect());
    let second = sorted((0..10).map(|n| row(n, n, 1)).collect());
    let mut rebuild = index.rebuild().expect("a rebuild begins");
    for part in first.chunks(1_234) {
        rebuild.load(bucket(0), part).expect("rows are loaded");
    }
    rebuild.load(bucket(3), &second).expect("rows are loaded");
    let positions = [position(3, 1, 9), position(0, 1, 77), position(0, 4, 2)];
    rebuild.finish(&positions).expect("the rebuild ends");

    let mut index = index;
    for _ in 0..2 {
        assert_rows(&*index, bucket(0), first.clone());
        assert_rows(&*index, bucket(3), second.clone());
        assert_rows(&*index, bucket(5), vec![]);
        let statistics = index.statistics().expect("readable");
        assert_eq!((statistics.rows(), statistics.references()), (8_810, 26_410));
        let last = |to, client| index.client(bucket(to), volume(client)).expect("readable");
        assert_eq!(last(0, 1), Some(sequence(77)));
        assert_eq!(last(0, 4), Some(sequence(2)));
        assert_eq!(last(3, 1), Some(sequence(9)));
        assert_eq!((last(5, 2), last(0, 2)), (None, None));
        index = maker.reopen(index);
    }

    let send = |number| index.apply(bucket(0), volume(1), sequence(number), &[increment(200, 9, 1)]);
    let error = refused(send(77));
    assert!(matches!(error, DdiError::ForgottenOutcomes { .. }), "{error}");
    assert!(matches!(
        refused(send(76)),
        DdiError::SequenceBehind { last: 77, .. }
    ));
    let outcomes = send(78).expect("a batch in turn is applied");
    assert_eq!(outcomes, [Outcome::Hit { block: block(201) }]);
    let empty = index.rebuild().expect("another rebuild begins");
    empty.finish(&[]).expect("the rebuild ends");
    assert_rows(&*index, bucket(0), vec![]);
    assert_eq!(index.statistics().expect("readable").rows(), 0);
    apply(&*index, 1, &operations);
}

pub(super) fn a_dropped_rebuild_changes_nothing(maker: &dyn Maker) {
    let index = maker.create();
    apply(&*index, 1, &[increment(1, 10, 1)]);
    for _ in 0..2 {
        let mut rebuild = index.rebuild().expect("a rebuild begins");
        rebuild
            .load(Bucket::FIRST, &[row(2, 20, 1)])
            .expect("rows are loaded");
        drop(rebuild);
        assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 1)]);
    }
    apply(&*index, 2, &[increment(1, 10, 1)]);
    let index = maker.reopen(index);
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 2)]);
    let mut rebuild = index.rebuild().expect("a rebuild begins");
    rebuild
        .load(Bucket::FIRST, &[row(3, 30, 1)])
        .expect("rows are loaded");
    rebuild.finish(&[]).expect("the rebuild ends");
    assert_rows(&*index, Bucket::FIRST, vec![row(3, 30, 1)]);
}

pub(super) fn a_rebuild_excludes_batches(maker: &dyn Maker) {
    let index = maker.create();
    apply(&*index, 1, &[increment(1, 10, 1)]);
    let rebuild = index.rebuild().expect("a rebuild begins");
    let send = || index.apply(Bucket::FIRST, volume(1), sequence(2), &[increment(1, 10, 1)]);
    assert!(matches!(refused(send()), DdiError::Rebuilding));
    assert!(matches!(index.rebuild(), Err(DdiError::Rebuilding)));
    assert!(matches!(
        index.forget_client(volume(1)),
        Err(DdiError::Rebuilding)
    ));
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 1)]);
    assert_eq!(
        index.client(Bucket::FIRST, volume(1)).expect("readable"),
        Some(sequence(1))
    );
    drop(rebuild);
    send().expect("a batch in turn is applied");
}

pub(super) fn invalid_rows_are_refused(maker: &dyn Maker) {
    let index = maker.create();
    apply(&*index, 1, &[increment(1, 10, 1)]);
    let ordered = sorted((0..4).map(|n| row(n, n, 1)).collect());
    let load = |parts: &[(u16, &[Row])]| {
        let mut rebuild = index.rebuild().expect("a rebuild begins");
        let mut result = Ok(());
        for (to, rows) in parts {
            result = result.and_then(|()| rebuild.load(bucket(*to), rows));
        }
        match result {
            Err(DdiError::InvalidRebuild { fault }) => fault,
            other => panic!("the rows are not refused: {other:?}"),
        }
    };
    let out_of_order = |to, key| RebuildFault::OutOfOrder {
        bucket: bucket(to),
        key,
    };
    let (low, high) = (ordered[0], ordered[3]);
    assert_eq!(load(&[(0, &[high, low])]), out_of_order(0, low.key));
    assert_eq!(load(&[(0, &[low, low])]), out_of_order(0, low.key));
    assert_eq!(load(&[(0, &[high]), (0, &[low])]), out_of_order(0, low.key));
    assert_eq!(load(&[(1, &[low]), (0, &[high])]), out_of_order(0, high.key));
    let none = Row { references: 0, ..low };
    let no_reference = RebuildFault::NoReference {
        bucket: bucket(2),
        key: low.key,
    };
    assert_eq!(load(&[(2, &[none])]), no_reference);
    let rebuild = index.rebuild().expect("a rebuild begins");
    let twice = [position(0, 1, 3), position(1, 1, 3), position(0, 1, 4)];
    let two = RebuildFault::TwoPositions {
        bucket: bucket(0),
        client: volume(1),
    };
    match rebuild.finish(&twice) {
        Err(DdiError::InvalidRebuild { fault }) => assert_eq!(fault, two),
        other => panic!("the positions are not refused: {other:?}"),
    }
    assert_rows(&*index, Bucket::FIRST, vec![row(1, 10, 1)]);
    apply(&*index, 2, &[increment(1, 10, 1)]);
}

pub(super) fn an_index_is_that_of_one_pool(maker: &dyn Maker) {
    let mut index = maker.create();
    apply(&*index, 1, &[increment(1, 1, 1)]);
    for _ in 0..2 {
        index.check_pool(POOL).expect("the index is that of its pool");
        let mut near = POOL;
        near[15] ^= 1;
        for other in [near, [0; 16]] {
            match index.check_pool(other) {
                Err(error @ DdiError::OtherPool { found, wanted, .. }) => {
                    assert_eq!((found, wanted), (POOL, other), "{error}");
                    assert!(error.is_refusal());
                }
                checked => panic!("the index of another pool is not refused: {checked:?}"),
            }
        }
        let rebuild = index.rebuild().expect("a rebuild begins");
        rebuild.finish(&[]).expect("the rebuild ends");
        index = maker.reopen(index);
    }
}
