//! Keyed BLAKE3 of many short inputs at once.
//!
//! BLAKE3 is a tree: leaves of 1 KiB, chained from blocks of 64 bytes, and nodes over pairs. Its
//! own library fills SIMD lanes with the leaves of one input. An input of 8 KiB has 8 leaves for 16
//! lanes, and the last leaf, which is seldom full, is hashed alone, block by block. So chunks,
//! which have any length, cost more than twice as much per byte as one long input. This module
//! fills the lanes with the leaves of all inputs of a batch, and then, level by level, with the
//! nodes of all their trees. Leaves that are not full are hashed together, longest first.
//!
//! Invariant: the lanes give the same results as `blake3::keyed_hash`. The tests compare them with
//! that function. It does the work if there is no SIMD code here (anything but x86-64 with AVX2 or
//! AVX-512), or too little input to fill the lanes. Pure functions, safe from any thread; nothing
//! fails.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod kernel;
#[cfg(target_arch = "x86_64")]
mod node;
#[cfg(target_arch = "x86_64")]
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
