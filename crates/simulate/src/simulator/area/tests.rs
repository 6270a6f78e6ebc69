//! The area against the paper's examples, and its guarantees.

use std::collections::{BTreeSet, HashMap};
use std::convert::Infallible;

use proptest::prelude::*;

use super::*;
use crate::simulator::test_recipes::{chunk, recipes, zeros};

const ROLLING: bool = true;
const FIXED: bool = false;

fn plan(references: &[Reference], is_rolling: bool, window: u64) -> Vec<Read> {
    let references = references.iter().map(|r| Ok::<_, Infallible>(*r));
    let mut planner = AreaPlanner::new(references, is_rolling, window);
    let mut reads = Vec::new();
    while let Some(read) = planner.next_read().unwrap() {
        reads.push(read);
    }
    reads
}

fn order(reads: &[Read]) -> Vec<u32> {
    reads.iter().map(|read| read.container.sequence.get()).collect()
}

#[test]
fn the_papers_example_reads_each_container_once() {
    // Lillibridge table 1: containers 51, 13, 47, 13, 51, 28.
    let recipe = [(51, 0), (13, 1), (47, 0), (13, 0), (51, 0), (28, 0)].map(|(c, s)| chunk(c, s, 4000));
    let reads = plan(&recipe, ROLLING, 1 << 20);
    assert_eq!(order(&reads), [51, 13, 47, 28]);
    assert_eq!(reads[0].filled, [0, 4]);
}

#[test]
fn a_rolling_area_spans_chunks_that_a_fixed_one_reads_twice() {
    let recipe = [chunk(1, 0, 10), chunk(2, 0, 10), chunk(2, 1, 10), chunk(3, 0, 10)];
    assert_eq!(order(&plan(&recipe, FIXED, 20)), [1, 2, 2, 3]);
    assert_eq!(order(&plan(&recipe, ROLLING, 20)), [1, 2, 3]);
}

#[test]
fn zeros_cost_neither_room_nor_reads() {
    let recipe = [chunk(1, 0, 10), zeros(1 << 40), chunk(1, 1, 10), zeros(7)];
    for is_rolling in [ROLLING, FIXED] {
        let reads = plan(&recipe, is_rolling, 20);
        assert_eq!(order(&reads), [1]);
        assert_eq!(reads[0].filled, [0, 2]);
        assert!(plan(&[zeros(5)], is_rolling, 1).is_empty());
        // More zeros than the area has spots.
        let mut long = vec![zeros(5); 3000];
        long.push(chunk(1, 0, 10));
        assert_eq!(order(&plan(&long, is_rolling, 1)), [1]);
    }
}

proptest! {
    #[test]
    fn every_spot_is_filled_once_within_the_window(
        recipe in recipes(), window in 1..400u64, is_rolling in any::<bool>(),
    ) {
        let reference = |spot: u64| recipe[usize::try_from(spot).unwrap()];
        let mut filled = BTreeSet::new();
        for read in plan(&recipe, is_rolling, window) {
            let lens = read.filled.iter().map(|spot| reference(*spot).len);
            let (bytes, longest) = (lens.clone().sum::<u64>(), lens.max().unwrap());
            prop_assert!(bytes < window + longest, "fills more than the area holds");
            let first = (0..).find(|spot| reference(*spot).chunk.is_some() && !filled.contains(spot));
            prop_assert_eq!(read.filled.first(), first.as_ref(), "the first unfilled spot");
            for spot in read.filled {
                prop_assert!(filled.insert(spot));
                prop_assert_eq!(reference(spot).chunk.unwrap().location.container, read.container);
            }
        }
        prop_assert_eq!(filled.len(), recipe.iter().filter(|r| r.chunk.is_some()).count());
    }

    #[test]
    fn a_window_of_everything_reads_each_container_once(recipe in recipes(), is_rolling in any::<bool>()) {
        let mut reads: HashMap<ContainerId, u32> = HashMap::new();
        for read in plan(&recipe, is_rolling, 1 << 30) {
            *reads.entry(read.container).or_default() += 1;
        }
        prop_assert!(reads.values().all(|count| *count == 1));
    }

    #[test]
    fn rolling_never_reads_more_than_fixed(recipe in recipes(), window in 1..400u64) {
        let [rolling, fixed] = [ROLLING, FIXED].map(|is_rolling| plan(&recipe, is_rolling, window).len());
        prop_assert!(rolling <= fixed);
    }
}
