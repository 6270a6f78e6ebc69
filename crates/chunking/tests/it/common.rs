//! Pseudo-random bytes and tables, the same in every run.

use chunking::GEAR_TABLE_WORDS;

pub(crate) fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(crate) fn gear() -> [u16; GEAR_TABLE_WORDS] {
    let bytes = noise(1, 2 * GEAR_TABLE_WORDS);
    std::array::from_fn(|i| u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]))
}

pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut out: Vec<u8> = (0..len.div_ceil(8))
        .flat_map(|_| splitmix(&mut state).to_le_bytes())
        .collect();
    out.truncate(len);
    out
}

/// The gear hash as the format describes it, term by term: without doubling, and without sharing
/// between positions.
pub(crate) struct Definition {
    words: [[u16; 256]; 2],
    factors: [[u16; 64]; 2],
}

impl Definition {
    pub(crate) fn new(table: &[u16; GEAR_TABLE_WORDS]) -> Self {
        let of = |hash: usize| &table[38 * hash..38 * (hash + 1)];
        let multiplier = |hash: usize, level: usize| of(hash)[32 + level] / 8 * 8 + 5;
        Self {
            words: [0, 1]
                .map(|hash| std::array::from_fn(|byte| of(hash)[byte % 16] ^ of(hash)[16 + byte / 16])),
            factors: [0, 1].map(|hash| {
                std::array::from_fn(|back| {
                    (0..6)
                        .filter(|level| back >> level & 1 == 1)
                        .fold(1, |product: u16, level| {
                            product.wrapping_mul(multiplier(hash, level))
                        })
                })
            }),
        }
    }

    /// Both hashes of a window of 64 bytes.
    pub(crate) fn hash(&self, window: &[u8]) -> u32 {
        let sum = |hash: usize| {
            window
                .iter()
                .rev()
                .zip(self.factors[hash])
                .fold(0, |sum: u16, (&byte, factor)| {
                    sum.wrapping_add(factor.wrapping_mul(self.words[hash][usize::from(byte)]))
                })
        };
        u32::from(sum(0)) << 16 | u32::from(sum(1))
    }
}
