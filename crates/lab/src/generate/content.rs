//! Contents of generated data. Each content is random bytes of its own, and has a number as its
//! name.
//!
//! A [`Slice`] is a stretch of one content, or of zeros. Its bytes and its identity follow from it
//! and the seed alone. So a trace and bytes that are made of the same slices have the same
//! duplicates.

use std::ops::Range;

use env::{Entropy, SeededEntropy};
use simulate::Chunk;
use types::Fingerprint;

/// A flag in `len`: the content ends here. A chunk that is long enough ends here too.
const ENDS: u32 = 1 << 31;
/// The number of the content that is zeros.
const ZEROS: u64 = u64::MAX;
/// Random bytes and one repeated byte alternate after so many bytes, in data that compresses to a
/// half.
const TURN_BYTES: usize = 128;
/// Distinguishes the fingerprint of a chunk that is joined from several contents.
const JOINED: u64 = 0x6a09_e667_f3bc_c909;

/// A stretch of one content, or of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    content: u64,
    at: u32,
    /// The length, and the flag [`ENDS`].
    len: u32,
}

impl Slice {
    /// The first `len` bytes of a content. `ends` says whether the content ends there or is cut
    /// off.
    pub(crate) fn new(content: u64, len: u32, ends: bool) -> Self {
        debug_assert!(
            content != ZEROS && len < ENDS,
            "a content has a number and a length"
        );
        Self {
            content,
            at: 0,
            len: len | if ends { ENDS } else { 0 },
        }
    }

    /// A slice of `len` zeros.
    pub(crate) const fn zeros(len: u32) -> Self {
        Self {
            content: ZEROS,
            at: 0,
            len: len & !ENDS,
        }
    }

    /// The length in bytes.
    #[must_use]
    pub const fn len(self) -> u32 {
        self.len & !ENDS
    }

    /// Whether the slice is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Whether the slice is zeros.
    #[must_use]
    pub const fn is_zeros(self) -> bool {
        self.content == ZEROS
    }

    /// Whether the content ends with this slice.
    pub(crate) const fn ends(self) -> bool {
        self.len & ENDS != 0
    }

    /// The part of the slice in this range of its bytes.
    pub(crate) fn part(self, range: Range<u32>) -> Self {
        debug_assert!(
            range.start <= range.end && range.end <= self.len(),
            "within the slice"
        );
        Self {
            content: self.content,
            at: if self.is_zeros() { 0 } else { self.at + range.start },
            len: (range.end - range.start)
                | if range.end == self.len() {
                    self.len & ENDS
                } else {
                    0
                },
        }
    }

    /// Joins both slices, if `next` continues this one.
    fn with(self, next: Self) -> Option<Self> {
        let goes_on = self.is_zeros() || self.at + self.len() == next.at && !self.ends();
        (self.content == next.content && goes_on).then(|| Self {
            len: (self.len() + next.len()) | (next.len & ENDS),
            ..self
        })
    }

    /// This slice as a chunk.
    pub(crate) fn chunk(self, seed: u64) -> Chunk {
        let fingerprint = if self.is_zeros() {
            None
        } else if self.at == 0 && self.ends() {
            Some(fingerprint(seed, self.content))
        } else {
            Some(joined(seed, &[self]))
        };
        Chunk {
            fingerprint,
            len: self.len(),
        }
    }

    /// Appends its bytes.
    pub(crate) fn write(self, seed: u64, compression: Compression, out: &mut Vec<u8>) {
        let (begin, len) = (out.len(), self.len() as usize);
        if self.is_zeros() {
            out.resize(begin + len, 0);
            return;
        }
        let before = self.at as usize;
        out.resize(begin + before + len, 0);
        let word = fingerprint(seed, self.content).as_bytes().as_chunks::<8>().0[0];
        SeededEntropy::new(u64::from_le_bytes(word)).fill(&mut out[begin..]);
        if compression == Compression::Half {
            let byte = word[7];
            for turn in out[begin..].chunks_mut(TURN_BYTES).skip(1).step_by(2) {
                turn.fill(byte);
            }
        }
        out.drain(begin..begin + before);
    }
}

/// How well the bytes compress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// To about a half, as in the load generator of DD Boost (B12).
    Half,
}

/// Joins these slices to one chunk. Equal bytes give the same chunk.
pub(crate) fn chunk(seed: u64, slices: &[Slice], merged: &mut Vec<Slice>) -> Chunk {
    merged.clear();
    for slice in slices.iter().filter(|slice| !slice.is_empty()) {
        match merged.last().and_then(|last| last.with(*slice)) {
            Some(both) => *merged.last_mut().expect("there is a last one") = both,
            None => merged.push(*slice),
        }
    }
    match merged.as_slice() {
        [one] => one.chunk(seed),
        several => Chunk {
            fingerprint: Some(joined(seed, several)),
            len: several.iter().map(|slice| slice.len()).sum(),
        },
    }
}

/// The fingerprint of a whole content.
fn fingerprint(seed: u64, content: u64) -> Fingerprint {
    // The first word is a bijection of the content, so two contents have two fingerprints.
    words(seed ^ content.wrapping_mul(0xd134_2543_de82_ef95))
}

fn joined(seed: u64, slices: &[Slice]) -> Fingerprint {
    let (mut one, mut other) = (seed ^ JOINED, seed.rotate_left(32));
    for slice in slices {
        let place = u64::from(slice.at) << 32 | u64::from(slice.len());
        one = mix(one ^ slice.content).wrapping_add(mix(place ^ JOINED));
        other = mix(other.wrapping_add(slice.content).rotate_left(23) ^ place);
    }
    words(one ^ mix(other))
}

fn words(mut state: u64) -> Fingerprint {
    let mut bytes = [0; Fingerprint::BYTES];
    for word in bytes.as_chunks_mut::<8>().0 {
        // SplitMix64, which never repeats a state within a fingerprint.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        *word = mix(state).to_le_bytes();
    }
    Fingerprint::from_bytes(bytes)
}

const fn mix(state: u64) -> u64 {
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(slices: &[Slice], compression: Compression) -> Vec<u8> {
        let mut out = Vec::new();
        for slice in slices {
            slice.write(7, compression, &mut out);
        }
        out
    }

    fn one(slices: &[Slice]) -> Chunk {
        chunk(7, slices, &mut Vec::new())
    }

    #[test]
    fn a_slice_in_two_is_the_slice() {
        let whole = Slice::new(3, 1000, true);
        for compression in [Compression::None, Compression::Half] {
            for at in [0, 1, 500, 999, 1000] {
                let parts = [whole.part(0..at), whole.part(at..1000)];
                assert_eq!(bytes(&parts, compression), bytes(&[whole], compression));
                assert_eq!(one(&parts), one(&[whole]));
            }
        }
        assert_eq!(one(&[whole]), whole.chunk(7));
    }

    #[test]
    fn other_bytes_are_another_chunk() {
        let (a, b) = (Slice::new(3, 1000, true), Slice::new(4, 1000, true));
        let chunks = [
            one(&[a]),
            one(&[b]),
            one(&[a, b]),
            one(&[b, a]),
            one(&[a.part(0..999)]),
            one(&[a.part(1..1000)]),
            one(&[a, Slice::zeros(1)]),
        ];
        for (n, chunk) in chunks.iter().enumerate() {
            assert!(!chunks[..n].contains(chunk), "{n}");
        }
    }

    #[test]
    fn zeros_are_zeros() {
        let chunk = one(&[Slice::zeros(5), Slice::zeros(7)]);
        assert_eq!((chunk.fingerprint, chunk.len), (None, 12));
        assert_eq!(bytes(&[Slice::zeros(12).part(3..9)], Compression::Half), [0; 6]);
    }

    #[test]
    fn half_compresses_to_a_half() {
        let bytes = bytes(&[Slice::new(3, 4096, true)], Compression::Half);
        let repeats = bytes.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!((2000..2100).contains(&repeats), "{repeats}");
    }
}
