use proptest::prelude::*;
use types::SequenceNumber;

use super::*;

const FULL: u64 = 1000;
const MIN: usize = 4;

fn candidate(series: u8, session: u64, bytes: u64) -> Candidate {
    Candidate {
        id: ContainerId {
            session: SessionId::new(session).unwrap(),
            kind: ContainerKind::Data,
            sequence: SequenceNumber::new(0).unwrap(),
        },
        bytes,
        series: Some(SeriesId::from_bytes([series; 16])),
        has_sources: false,
    }
}

fn sessions(sets: &[Set]) -> Vec<(u64, Vec<u64>)> {
    let each = sets.iter();
    each.map(|set| {
        let sources = set.sources.iter().map(|id| id.session.get());
        (set.target.session.get(), sources.collect())
    })
    .collect()
}

#[test]
fn enough_must_have_gathered() {
    let three: Vec<_> = (1..4).map(|n| candidate(1, n, 100)).collect();
    assert!(sets_of(three.clone(), FULL, MIN).is_empty());
    let mut four = three.clone();
    four.push(candidate(1, 9, 1));
    assert_eq!(sessions(&sets_of(four, FULL, MIN)), [(9, vec![1, 2, 3])]);
    let mut large = three;
    large.push(candidate(1, 8, 240));
    large.truncate(4);
    large.remove(0);
    assert!(sets_of(large.clone(), FULL, MIN).is_empty(), "440 of 1000");
    large[0].bytes = 160;
    assert_eq!(sets_of(large, FULL, MIN).len(), 1, "500 of 1000 are half");
}

#[test]
fn neighbours_of_a_series_come_first_and_what_is_left_over_together() {
    let mut all: Vec<_> = (0..5).map(|n| candidate(1, 2 * n, 10)).collect();
    all.extend((0..3).map(|n| candidate(2, 2 * n + 1, 10)));
    all.extend((10..11).map(|n| candidate(3, n, 10)));
    let sets = sets_of(all, FULL, MIN);
    assert_eq!(sessions(&sets), [(8, vec![0, 2, 4, 6]), (10, vec![1, 3, 5])]);
}

#[test]
fn more_goes_into_one_that_was_merged_when_it_is_worth_the_copy() {
    let merged = |bytes| Candidate {
        has_sources: true,
        ..candidate(1, 3, bytes)
    };
    let four = || (10..14).map(|n| candidate(1, n, 10)).collect::<Vec<_>>();
    for (bytes, target) in [(160, 3), (161, 13)] {
        let mut all = four();
        all.push(merged(bytes));
        assert_eq!(sets_of(all, FULL, MIN)[0].target.session.get(), target, "{bytes}");
    }
    assert!(
        sets_of(vec![merged(10), merged(20)], FULL, 2).is_empty(),
        "no way leads over two"
    );
}

proptest! {
    #[test]
    fn sets_are_apart_bounded_and_worth_it(
        sizes in proptest::collection::vec((0..4u8, 1..250u64, any::<bool>()), 0..80),
    ) {
        let all: Vec<_> = (1..).zip(&sizes).map(|(n, (series, bytes, has_sources))| Candidate {
            has_sources: *has_sources,
            ..candidate(*series, n, *bytes)
        }).collect();
        let sets = sets_of(all.clone(), FULL, MIN);
        let mut seen = BTreeSet::new();
        for set in &sets {
            prop_assert!(set.bytes <= FULL + FULL / 4 && !set.sources.is_empty());
            let mut bytes = 0;
            for member in set.members() {
                prop_assert!(seen.insert(member), "{member} twice");
                let of = all.iter().find(|candidate| candidate.id == member).unwrap();
                prop_assert!(!of.has_sources || member == set.target);
                bytes += of.bytes;
            }
            prop_assert_eq!(bytes, set.bytes);
            prop_assert!(set.sources.len() + 1 >= MIN || set.bytes >= FULL / 2);
        }
    }
}
