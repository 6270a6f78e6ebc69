//! The gear hash: from 64 bytes, it decides whether a boundary may follow them.
//!
//! A table of the domain turns a byte into a word of 16 bits. It has one word for the low half and
//! one for the high half of a byte: `gear[b] = low[b % 16] ^ high[b / 16]`. The hash of the 64
//! bytes that end with byte `i` is `S64[i]`, made by doubling with the domain's odd multipliers:
//!
//! ```text
//! S1[i] = gear[byte i]        S2n[i] = Sn[i] + k(n) * Sn[i - n]   mod 2^16, for n = 1, 2, 4, 8,
//! 16, 32
//! ```
//!
//! So the byte at distance `d` is multiplied by the product of the `k(n)` for the bits of `d`: a
//! word of 16 bits that differs for every distance. This needs only arithmetic on lanes of 16 bits
//! and look-ups in 16 entries. Any SIMD unit does these on 8 to 64 positions at once. A table of
//! 256 words would need gathers, which are slow or missing.
//!
//! Position `i` is a *candidate* if `(high << 16 | low) < threshold`: two such hashes, each with
//! its own table. The second hash is computed only where the first equals the threshold's upper
//! half: one in 65,536 positions.
//!
//! Invariant: [`Gear::first`] gives the same result on every machine, whatever the
//! instructions; tests compare each implementation with the definition. Pure functions, safe from
//! any thread; nothing fails.

mod isa;
mod portable;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod kernel;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "x86_64")]
mod sse41;

pub use isa::Isa;

/// The number of bytes that decide a candidate, the last one included.
pub const GEAR_WINDOW_BYTES: u32 = 64;

pub(crate) const WINDOW: usize = GEAR_WINDOW_BYTES as usize;

/// Doublings from one byte to the window.
const LEVELS: usize = WINDOW.ilog2() as usize;
/// Words of one hash: of low halves, of high halves, multipliers.
const HASH_WORDS: usize = 16 + 16 + LEVELS;

/// Words of a domain's gear table: of the upper hash, then of the lower one; each the 16 words of
/// low halves, the 16 of high halves, and the 6 multipliers, for distances of 1, 2, 4, 8, 16
/// and 32.
pub const GEAR_TABLE_WORDS: usize = 2 * HASH_WORDS;

/// One of the two hashes.
#[derive(Clone)]
struct Hash {
    /// The word of each byte.
    words: [u16; 256],
    multipliers: [u16; LEVELS],
}

impl Hash {
    fn new(table: &[u16; HASH_WORDS]) -> Self {
        // Multipliers of the form 8n + 5. They are odd, so that no bit of a distant byte is lost.
        // They are not near 1 or -1, which would let bytes cancel or change places unnoticed. A
        // multiplier plus one can be halved only once: so a run of one byte keeps ten bits of its
        // own.
        let multipliers = std::array::from_fn(|level| (table[32 + level] & !7) | 5);
        let words = std::array::from_fn(|byte| table[byte % 16] ^ table[16 + byte / 16]);
        Self { words, multipliers }
    }

    /// Computes one position by the definition, slowly.
    fn of(&self, window: &[u8; WINDOW]) -> u16 {
        let mut sums = window.map(|byte| self.words[usize::from(byte)]);
        for (level, k) in self.multipliers.iter().enumerate() {
            let n = 1 << level;
            for i in (n..WINDOW).rev() {
                sums[i] = sums[i].wrapping_add(k.wrapping_mul(sums[i - n]));
            }
        }
        sums[WINDOW - 1]
    }
}

/// A domain's gear and a threshold, for searching candidates. It has secrets, and prints none.
#[derive(Clone)]
pub(crate) struct Gear {
    high: Hash,
    low: Hash,
    /// The words of `high` as bytes, for look-ups: the low and the high bytes of the low halves'
    /// words, then those of the high halves'.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    planes: [[u8; 16]; 4],
    threshold: u32,
    /// The farthest distance from a candidate at which the search for the next one continues, in
    /// bytes. It determines the prefetch.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    ahead: usize,
}

/// Bytes of the searched range that are prefetched before the search begins.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
const AHEAD_BYTES: usize = 256;

impl Gear {
    /// The gear of a table. `skipped`: the number of bytes after a boundary in which no candidate
    /// is searched, for the prefetch.
    pub(crate) fn new(table: &[u16; GEAR_TABLE_WORDS], threshold: u32, skipped: usize) -> Self {
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = skipped;
        let (high, low) = table.split_at(HASH_WORDS);
        let high: &[u16; HASH_WORDS] = high.try_into().expect("half the table");
        let low: &[u16; HASH_WORDS] = low.try_into().expect("half the table");
        Self {
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            planes: [(0, 0), (0, 1), (16, 0), (16, 1)]
                .map(|(from, byte)| std::array::from_fn(|i| high[from + i].to_le_bytes()[byte])),
            high: Hash::new(high),
            low: Hash::new(low),
            threshold,
            #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
            ahead: skipped + AHEAD_BYTES,
        }
    }

    pub(crate) fn threshold(&self) -> u32 {
        self.threshold
    }

    /// The largest upper hash of a candidate.
    fn at_most(&self) -> u16 {
        u16::try_from(self.threshold >> 16).expect("16 bits are left")
    }

    /// The first candidate at or after `from`, as the number of bytes up to it, inclusive.
    ///
    /// # Panics
    /// If `from` is less than the window.
    pub(crate) fn first(&self, isa: Isa, bytes: &[u8], from: usize) -> Option<usize> {
        assert!(from >= WINDOW, "a candidate depends on 64 bytes");
        if from > bytes.len() {
            return None;
        }
        isa.scan(self, bytes, from)
    }

    /// Whether the position is a candidate, given that the upper hash equals the threshold's upper
    /// half.
    #[cold]
    fn decide(&self, bytes: &[u8], end: usize) -> bool {
        let window = bytes[..end].last_chunk().expect("a candidate has 64 bytes");
        u32::from(self.low.of(window)) < self.threshold & 0xffff
    }

    /// The first candidate among adjacent positions whose end is within `from` and the bytes. Bit 0
    /// is the position of the byte at `start`. `possible` has the bits whose upper hash is at most
    /// the threshold's upper half, `certain` those whose upper hash is less.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    fn pick(
        &self,
        bytes: &[u8],
        from: usize,
        start: usize,
        mut possible: u64,
        certain: u64,
    ) -> Option<usize> {
        while possible != 0 {
            let bit = possible.trailing_zeros();
            possible &= possible - 1;
            let end = start + bit as usize + 1;
            let within = end >= from && end <= bytes.len();
            if within && (certain >> bit & 1 == 1 || self.decide(bytes, end)) {
                return Some(end);
            }
        }
        None
    }
}
