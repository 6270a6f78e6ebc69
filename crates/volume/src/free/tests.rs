use std::collections::BTreeSet;

use env::{Entropy, SeededEntropy};

use super::*;

fn below(entropy: &SeededEntropy, bound: u64) -> u64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    u64::from_le_bytes(bytes) % bound
}

fn extent(number: u32) -> ExtentNumber {
    ExtentNumber::new(number).expect("a small number")
}

fn block(number: u64) -> BlockNumber {
    BlockNumber::new(number).expect("a small number")
}

/// All methods beside a plain set of numbers.
#[test]
fn it_is_a_set_of_blocks() {
    for seed in 0..20 {
        let entropy = SeededEntropy::new(seed);
        let (mut free, mut plain) = (FreeBlocks::default(), BTreeSet::new());
        let whole = |plain: &BTreeSet<u64>, number: u64| {
            (number * EXTENT_BLOCKS..(number + 1) * EXTENT_BLOCKS).all(|block| plain.contains(&block))
        };
        for _ in 0..400 {
            let number = below(&entropy, 5);
            let at = number * EXTENT_BLOCKS + below(&entropy, EXTENT_BLOCKS);
            match below(&entropy, 8) {
                0 => assert_eq!(free.add(block(at)), plain.insert(at)),
                1 => assert_eq!(free.remove(block(at)), plain.remove(&at)),
                2 => {
                    let range = number * EXTENT_BLOCKS..(number + 1) * EXTENT_BLOCKS;
                    if plain.range(range.clone()).next().is_none() {
                        free.add_extent(extent(u32::try_from(number).expect("small")));
                        plain.extend(range);
                    }
                }
                3 => {
                    let is_whole = whole(&plain, number);
                    let taken = free.remove_extent(extent(u32::try_from(number).expect("small")));
                    assert_eq!(taken, is_whole);
                    if taken {
                        (number * EXTENT_BLOCKS..(number + 1) * EXTENT_BLOCKS).for_each(|at| {
                            plain.remove(&at);
                        });
                    }
                }
                4 | 5 => {
                    let wanted = u32::try_from(1 + below(&entropy, 300)).expect("small");
                    match free.take_run(wanted) {
                        None => assert!(plain.is_empty()),
                        Some((first, count)) => {
                            assert!((1..=wanted).contains(&count));
                            for at in first.get()..first.get() + u64::from(count) {
                                assert!(plain.remove(&at), "{at} was not free");
                            }
                        }
                    }
                }
                6 => {
                    let max = below(&entropy, 200);
                    let runs = free.take_scattered(max);
                    let taken: Vec<u64> = each_block(&runs).map(BlockNumber::get).collect();
                    assert_eq!(taken.len() as u64, max.min(plain.len() as u64));
                    assert!(taken.iter().all(|at| plain.remove(at)));
                }
                _ => {
                    let (extents, parts) = free.to_lists();
                    free = FreeBlocks::from_lists(&extents, &parts);
                }
            }
            assert_eq!(free.len(), plain.len() as u64);
            let wholes = (0..5).filter(|number| whole(&plain, *number)).count();
            assert!(free.whole_extents() <= wholes);
        }
        let mut found = BTreeSet::new();
        free.each(&mut |block| assert!(found.insert(block.get())));
        assert_eq!(found, plain);
    }
}

#[test]
fn long_runs_follow_each_other_and_short_ones_fill_gaps() {
    let mut free = FreeBlocks::default();
    free.add_extent(extent(3));
    free.add_extent(extent(4));
    assert!(free.add(block(20)));
    assert_eq!(free.take_run(4), Some((block(20), 1)), "a gap");
    let first = free.take_run(256).expect("there is room");
    let second = free.take_run(256).expect("there is room");
    assert_eq!((first.1, second.1), (256, 256));
    assert_eq!(second.0.get(), first.0.get() + 256);
    assert_eq!(free.whole_extents(), 1);
    assert!(!free.add(block(4 * EXTENT_BLOCKS)), "it is free already");
}
