use std::collections::BTreeSet;

use proptest::prelude::*;
use types::{ContainerKind, SequenceNumber, SessionId};

use super::*;

fn any_container() -> impl Strategy<Value = ContainerId> {
    (1u64..4, 0u8..3, 0u32..40).prop_map(|(session, kind, sequence)| ContainerId {
        session: SessionId::new(session).unwrap(),
        kind: ContainerKind::from_number(kind + 1).unwrap(),
        sequence: SequenceNumber::new(sequence).unwrap(),
    })
}

fn read_back(spans: &Spans) -> Spans {
    let mut bytes = Vec::new();
    spans.write(&mut bytes);
    let mut rows = Vec::new();
    for number in 0..bytes.len() / crate::block::BLOCK_BYTES {
        let block = Block::check(Block::bytes_at(&bytes, number).unwrap()).unwrap();
        rows.extend(TableBlock::parse(block).unwrap().rows());
    }
    assert_eq!(rows.len(), spans.rows());
    Spans::from_rows(rows, spans.len()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::default())]

    #[test]
    fn ordinals_count_the_containers(
        sets in proptest::collection::vec(proptest::collection::vec(any_container(), 0..90), 1..4),
        lost in 0u32..5,
    ) {
        let keep = |id: ContainerId| id.sequence.get() % 5 != lost;
        let tables: Vec<Spans> = sets.iter().map(|set| Spans::of(set.iter().copied())).collect();
        let union = Spans::union(&tables, &keep);
        let ids: BTreeSet<u64> =
            sets.iter().flatten().filter(|id| keep(**id)).map(|id| id.to_u64()).collect();
        prop_assert_eq!(union.len() as usize, ids.len());
        for (ordinal, id) in (0u32..).zip(&ids) {
            let id = ContainerId::from_u64(*id);
            prop_assert_eq!(union.container(ordinal), id);
            prop_assert_eq!(union.ordinal(id.unwrap()), Some(ordinal));
            prop_assert!(u64::from(ordinal) < 1 << union.ordinal_bits());
        }
        prop_assert_eq!(union.container(union.len()), None);
        for id in sets.iter().flatten().filter(|id| !keep(**id)) {
            prop_assert_eq!(union.ordinal(*id), None);
        }
        prop_assert_eq!(read_back(&union), union);
    }

    #[test]
    fn rows_that_are_no_table_are_refused(rows in proptest::collection::vec((0u64..50, 0u32..50), 0..6), count in 0u32..60) {
        let rows: Vec<Row> = rows.iter().map(|(id, ordinal)| Row { id: *id, ordinal: *ordinal }).collect();
        if let Some(spans) = Spans::from_rows(rows, count) {
            let ids: Vec<u64> = spans.ranges().flatten().collect();
            prop_assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
            prop_assert_eq!(ids.len(), count as usize);
        }
    }
}

#[test]
fn a_session_of_containers_is_one_row() {
    let id = |sequence| ContainerId {
        session: SessionId::new(7).unwrap(),
        kind: ContainerKind::Data,
        sequence: SequenceNumber::new(sequence).unwrap(),
    };
    let spans = Spans::of((0..100_000).rev().map(id));
    assert_eq!(
        (spans.rows(), spans.len(), spans.ordinal_bits()),
        (1, 100_000, 17)
    );
    let apart = Spans::of((0..1000).map(|n| id(n * 2)));
    assert_eq!(apart.rows(), 1000);
    assert_eq!(read_back(&apart), apart);
}
