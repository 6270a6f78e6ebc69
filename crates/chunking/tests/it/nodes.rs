//! The ends of nodes.

use crate::common::noise;
use chunking::NodeCutter;
use proptest::prelude::*;
use types::Fingerprint;

fn children(seed: u64, count: usize) -> Vec<Fingerprint> {
    let bytes = noise(seed, count * 32);
    bytes
        .as_chunks::<32>()
        .0
        .iter()
        .map(|b| Fingerprint::from_bytes(*b))
        .collect()
}

fn runs(cutter: &mut NodeCutter, children: &[Fingerprint]) -> Vec<u32> {
    let (mut out, mut run) = (Vec::new(), 0);
    for child in children {
        run += 1;
        if cutter.push(child) {
            out.push(std::mem::take(&mut run));
        }
        assert_eq!(cutter.pending(), run);
    }
    out
}

proptest! {
    #[test]
    fn a_cut_is_a_fresh_start(seed: u64, power in 2..7u32) {
        let all = children(seed, 600);
        let whole = runs(&mut NodeCutter::new(1 << power), &all);
        let first = whole[0] as usize;
        let mut taken_up = NodeCutter::new(1 << power);
        taken_up.push(&all[0]);
        taken_up.reset();
        prop_assert_eq!(&whole[1..], runs(&mut taken_up, &all[first..]));
    }

    #[test]
    fn runs_are_within_bounds(seed: u64, power in 2..7u32) {
        let avg = 1 << power;
        let lens = runs(&mut NodeCutter::new(avg), &children(seed, 1000));
        prop_assert!(lens.iter().all(|len| (avg / 2..=avg * 2).contains(len)));
    }
}

#[test]
fn the_mean_is_near_the_average() {
    let lens = runs(&mut NodeCutter::new(512), &children(3, 400_000));
    let mean = lens.iter().sum::<u32>() / u32::try_from(lens.len()).unwrap();
    assert!((470..530).contains(&mean), "mean {mean}");
}

#[test]
fn children_that_never_end_a_node_are_cut_at_the_most() {
    let mut cutter = NodeCutter::new(8);
    assert_eq!(
        runs(&mut cutter, &[Fingerprint::from_bytes([1; 32]); 40]),
        [16, 16]
    );
    assert_eq!(cutter.pending(), 8);
}

#[test]
#[should_panic(expected = "power of two")]
fn an_average_that_would_not_shrink_levels_is_refused() {
    drop(NodeCutter::new(2));
}
