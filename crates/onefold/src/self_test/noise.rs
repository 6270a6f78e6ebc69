//! Pseudo-random bytes, the same on every machine (SplitMix64). No secret is made of them.

/// The next word of the sequence.
pub(super) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Fills the room with the sequence of that seed. Each word is combined with `mask`.
pub(super) fn fill(seed: u64, mask: u64, room: &mut [u8]) {
    let mut state = seed;
    let (words, rest) = room.as_chunks_mut::<8>();
    for word in words {
        *word = (next(&mut state) ^ mask).to_le_bytes();
    }
    let last = (next(&mut state) ^ mask).to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

/// So many bytes of the sequence of that seed.
pub(super) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill(seed, 0, &mut bytes);
    bytes
}
