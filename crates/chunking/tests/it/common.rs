//! Bytes and tables that look random and are the same in every run.

pub(crate) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(crate) fn gear() -> [u64; 256] {
    let mut state = 1;
    std::array::from_fn(|_| splitmix(&mut state))
}

pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut out: Vec<u8> = (0..len.div_ceil(8))
        .flat_map(|_| splitmix(&mut state).to_le_bytes())
        .collect();
    out.truncate(len);
    out
}
