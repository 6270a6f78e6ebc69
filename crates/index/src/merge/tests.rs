//! The plan of a merge, as a value.

use proptest::prelude::*;

use super::plan;
use crate::run::RUNS_MAX;

#[test]
fn few_runs_are_left_and_small_ones_are_merged_first() {
    assert!(plan(&[5; 8], 8).is_empty());
    assert_eq!(
        plan(&[1000, 1, 1, 1, 1, 1, 1, 1, 1], 8),
        [1, 2, 3, 4, 5, 6, 7, 8],
        "the large one stays"
    );
    assert_eq!(
        plan(&[10, 1, 1, 1, 1, 1, 1, 1, 1], 8).len(),
        9,
        "unless it is not much larger"
    );
}

proptest! {
    #[test]
    fn any_plan_brings_the_count_down(sizes in proptest::collection::vec(0u64..1 << 40, 0..60)) {
        let chosen = plan(&sizes, RUNS_MAX);
        if sizes.len() <= RUNS_MAX {
            prop_assert!(chosen.is_empty());
        } else {
            prop_assert!(sizes.len() + 1 - chosen.len() <= RUNS_MAX / 2);
            let largest = chosen.iter().map(|at| sizes[*at]).max().unwrap();
            prop_assert!((0..sizes.len()).all(|at| chosen.contains(&at) || sizes[at] >= largest));
        }
    }

    /// A store of many sessions of equal size: each entry is rewritten some log(n) times, not n /
    /// 8.
    #[test]
    fn rewriting_is_logarithmic(sessions in 50u64..600) {
        let (mut runs, mut written) = (Vec::new(), 0u64);
        for _ in 0..sessions {
            runs.extend([1u64]);
            let mut chosen = plan(&runs, RUNS_MAX);
            chosen.sort_unstable_by(|a, b| b.cmp(a));
            let merged: u64 = chosen.iter().map(|at| runs.swap_remove(*at)).sum();
            if merged > 0 {
                runs.push(merged);
                written += merged;
            }
        }
        prop_assert!(written <= sessions * u64::from(sessions.ilog2()), "{written} for {sessions}");
    }
}
