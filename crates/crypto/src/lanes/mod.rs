//! Keyed BLAKE3 of many short inputs at once.
//!
//! BLAKE3 is a tree: leaves of 1 KiB, chained from blocks of 64 bytes, and nodes over pairs. Its
//! own library fills SIMD lanes with the leaves of one input: of 8 KiB it has 8, where there are
//! lanes for 16, and the last leaf, which is seldom full, goes alone, block by block. Chunks have
//! any length, and cost more than twice of what one long input does. Here the lanes are filled with
//! the leaves of all inputs of a batch, and level by level with the nodes of all their trees;
//! leaves that are not full go together, longest first.
//!
//! What must hold: each result is that of `blake3::keyed_hash`, which is the oracle of the tests,
//! and does the work where there is no SIMD for it here (anything but x86-64 with AVX2 or AVX-512)
//! or too little to fill the lanes. Pure functions, safe from any thread; nothing fails.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod kernel;
#[cfg(target_arch = "x86_64")]
mod node;
mod tree;
mod width;

pub(crate) use width::LaneWidth;

use crate::seal::KEY_BYTES;

/// Gives the keyed hash of each input, in order, to `out`.
pub(crate) fn keyed_hashes(
    width: LaneWidth,
    key: &[u8; KEY_BYTES],
    inputs: &[&[u8]],
    mut out: impl FnMut([u8; 32]),
) {
    #[cfg(target_arch = "x86_64")]
    if width.count() > 1 && tree::is_worth_it(width, inputs) {
        return tree::hash(width, key, inputs, out);
    }
    let _ = width;
    for input in inputs {
        out(*blake3::keyed_hash(key, input).as_bytes());
    }
}
