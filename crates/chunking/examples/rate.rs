//! How fast bytes are cut on one core: `cargo run --release -p chunking --example rate`.
#![allow(
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a measurement, by hand, of real time"
)]
#![allow(clippy::cast_precision_loss, reason = "three figures are shown")]

use std::hint::black_box;
use std::time::Instant;

use chunking::{Cdc, CdcSizes, Chunker, is_zero};

fn main() {
    let mut state = 1;
    let mut next = || splitmix(&mut state);
    let gear: [u64; 256] = std::array::from_fn(|_| next());
    let bytes: Vec<u8> = (0..1 << 21).flat_map(|_| next().to_le_bytes()).collect();
    // Written, so that its pages are not all the one page of zeros.
    let zeros: Vec<u8> = bytes.iter().map(|_| black_box(0)).collect();
    for kib in [4, 8, 16, 64] {
        let cdc = Cdc::new(CdcSizes::around(kib << 10), &gear).expect("sizes within the limits");
        let mut lens = Vec::new();
        rate(&format!("cdc {kib} KiB"), bytes.len(), || {
            lens.clear();
            cdc.cut_all(black_box(&bytes), true, &mut lens)
        });
        println!("    mean {:.0} bytes", bytes.len() as f64 / lens.len() as f64);
    }
    rate("is_zero, zeros", zeros.len(), || {
        let found = zeros
            .chunks(8192)
            .filter(|chunk| is_zero(black_box(chunk)))
            .count();
        assert_eq!(found, zeros.len() / 8192);
        found
    });
}

fn rate(what: &str, bytes: usize, mut run: impl FnMut() -> usize) {
    let best = (0..20)
        .map(|_| {
            let begin = Instant::now();
            black_box(run());
            begin.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    println!("{what}: {:.2} GB/s", bytes as f64 / best / 1e9);
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
