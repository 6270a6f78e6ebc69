use std::collections::BTreeMap;

use env::{Entropy, SeededEntropy};

use super::*;

fn below(entropy: &SeededEntropy, bound: u64) -> u64 {
    let mut bytes = [0; 8];
    entropy.fill(&mut bytes);
    u64::from_le_bytes(bytes) % bound
}

fn lba(number: u64) -> Lba {
    Lba::new(number).expect("a small number")
}

/// All methods beside a plain map from block to age.
#[test]
fn it_is_a_map_from_block_to_age() {
    for seed in 0..10 {
        let entropy = SeededEntropy::new(seed);
        let (dirty, mut plain) = (DirtyBlocks::default(), BTreeMap::<u64, u8>::new());
        // Around the end of a part, where words and parts meet.
        let draw = || PART_BLOCKS - 100 + below(&entropy, 200);
        for _ in 0..300 {
            let (at, count) = (draw(), 1 + below(&entropy, 90));
            match below(&entropy, 6) {
                0 | 1 => {
                    dirty.written(lba(at), count);
                    plain.extend((at..at + count).map(|at| (at, 0)));
                }
                2 => {
                    dirty.add_old(lba(at));
                    plain.entry(at).or_insert(2);
                }
                3 => {
                    dirty.remove(lba(at), count);
                    (at..at + count).for_each(|at| {
                        plain.remove(&at);
                    });
                }
                4 => {
                    dirty.age();
                    plain.values_mut().for_each(|age| *age = (*age + 1).min(2));
                }
                _ => {
                    let quiet = u8::try_from(below(&entropy, 4)).expect("small");
                    let max = usize::try_from(1 + below(&entropy, 60)).expect("small");
                    let found = dirty.quiet(lba(at), quiet, max);
                    let expected = plain.range(at..).filter(|(_, age)| **age >= quiet.min(2));
                    let expected: Vec<Lba> = expected.take(max).map(|(at, _)| lba(*at)).collect();
                    assert_eq!(found, expected);
                }
            }
            assert_eq!(dirty.count(), plain.len() as u64);
        }
    }
}

#[test]
fn memory_is_taken_by_the_gib() {
    let dirty = DirtyBlocks::default();
    assert_eq!(dirty.memory_bytes(), 0);
    dirty.written(lba(5), 1);
    dirty.written(lba(PART_BLOCKS * 1000), 1);
    assert_eq!(dirty.memory_bytes(), (2 * 64) << 10);
}
