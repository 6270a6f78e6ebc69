//! Workloads: seeded, deterministic, streaming.
//!
//! Each replays as a chunk trace, and as bytes that would be cut so on average: what a trace draws as one chunk is
//! random bytes of that chunk's own in both.

mod two_year;

use types::Fingerprint;

pub use two_year::TwoYear;

/// What a chunk is made of, by the number of its content.
pub(crate) fn fingerprint(seed: u64, content: u64) -> Fingerprint {
    let mut bytes = [0; Fingerprint::BYTES];
    let mut state = seed ^ content.wrapping_mul(0xd134_2543_de82_ef95);
    for word in bytes.as_chunks_mut::<8>().0 {
        // SplitMix64, which never repeats a state within a fingerprint.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *word = (mixed ^ (mixed >> 31)).to_le_bytes();
    }
    // The first word is a bijection of the content, so two contents have two fingerprints.
    Fingerprint::from_bytes(bytes)
}
