//! Foreign bytes: no decoder panics on them, and none accepts bytes that no encoder writes (INV-8).
//!
//! `ONEFOLD_HOSTILE_ROUNDS` makes the runs longer.

use format::probe;
use format::wire::digest;
use proptest::prelude::*;

use crate::{samples, strategies as s};

/// Pseudo-random numbers, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 += 1;
        digest(&self.0.to_le_bytes()) as u64
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

fn rounds() -> u64 {
    std::env::var("ONEFOLD_HOSTILE_ROUNDS").map_or(1500, |v| v.parse().unwrap())
}

fn feed(bytes: &[u8]) {
    for (_, probe) in probe::ALL {
        probe(bytes);
    }
}

fn mutate(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let at = numbers.below(bytes.len());
    match numbers.below(6) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, numbers.next() as u8),
        2 if !bytes.is_empty() => drop(bytes.remove(at)),
        3 if !bytes.is_empty() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][numbers.below(5)],
        4 => {
            let tail = bytes[at..].to_vec();
            bytes.extend(tail);
        }
        _ if !bytes.is_empty() => bytes[at] ^= 1 << numbers.below(8),
        _ => {}
    }
}

#[test]
fn noise() {
    let mut numbers = Numbers(0);
    for _ in 0..rounds() * 10 {
        let len = numbers.below(400);
        let mut bytes: Vec<u8> = (0..len).map(|_| numbers.next() as u8).collect();
        // Half of the inputs get past the version byte.
        if numbers.below(2) == 0 && !bytes.is_empty() {
            bytes[0] = 1;
        }
        feed(&bytes);
    }
}

#[test]
fn mutated_samples() {
    let mut numbers = Numbers(1 << 32);
    for (_, sample) in samples::all() {
        feed(&sample);
        for _ in 0..rounds() {
            let mut bytes = sample.clone();
            for _ in 0..=numbers.below(3) {
                mutate(&mut bytes, &mut numbers);
            }
            feed(&bytes);
        }
    }
}

#[test]
fn every_prefix_of_every_sample() {
    for (_, sample) in samples::all() {
        for len in 0..sample.len() {
            feed(&sample[..len]);
        }
    }
}

proptest! {
    #[test]
    fn mutated_values(
        node in s::node(), catalog in s::catalog(), manifest in s::manifest(), marks in s::marks(),
        entry in s::entry(), config in s::config(), seed: u32,
    ) {
        let mut numbers = Numbers(u64::from(seed) << 20);
        for mut bytes in [
            node.to_bytes(), catalog.to_bytes(), manifest.to_bytes(), marks.to_bytes(), entry.to_bytes(),
            config.to_bytes(),
        ] {
            mutate(&mut bytes, &mut numbers);
            feed(&bytes);
        }
    }
}
