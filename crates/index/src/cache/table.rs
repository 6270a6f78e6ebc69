//! The table of a fingerprint cache: places in buckets, without a policy.

use types::Fingerprint;

/// Places of a bucket.
pub(super) const WAYS: usize = 16;
/// Words of a fingerprint.
const PRINT_WORDS: usize = Fingerprint::BYTES / 8;

/// Places with tag, fingerprint and entry.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) buckets: u64,
    /// 0 for an empty place.
    pub(super) tags: Vec<u16>,
    /// Fingerprints in words. The memory comes zeroed from the system, and is not touched before it
    /// is used.
    pub(super) prints: Vec<[u64; PRINT_WORDS]>,
    /// Holder and value.
    pub(super) entries: Vec<[u32; 2]>,
    /// Places that are not empty.
    filled: usize,
}

/// The two buckets of a fingerprint, and its tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) buckets: [usize; 2],
    pub(super) tag: u16,
}

/// Spreads index bits over the buckets: two independent choices.
pub(crate) fn home(fingerprint: &Fingerprint, buckets: u64) -> Home {
    let bits = fingerprint.index_bits();
    let spread = bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let scale = |part: u64| usize::try_from((part * buckets) >> 32).expect("less than the buckets");
    let tag = u16::try_from(bits & 0xffff).expect("16 bits").max(1);
    Home {
        buckets: [scale(spread >> 32), scale((spread ^ bits) & 0xffff_ffff)],
        tag,
    }
}

/// The inverse of [`words`].
fn fingerprint(words: [u64; PRINT_WORDS]) -> Fingerprint {
    let mut bytes = [0; Fingerprint::BYTES];
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    Fingerprint::from_bytes(bytes)
}

/// The words of a fingerprint.
pub(super) fn words(fingerprint: &Fingerprint) -> [u64; PRINT_WORDS] {
    let mut words = [0; PRINT_WORDS];
    for (word, bytes) in words.iter_mut().zip(fingerprint.as_bytes().as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

impl Table {
    /// An empty table.
    pub(super) fn new(buckets: u64) -> Self {
        let places = usize::try_from(buckets).expect("checked against u32") * WAYS;
        Self {
            buckets,
            tags: vec![0; places],
            prints: vec![[0; PRINT_WORDS]; places],
            entries: vec![[0; 2]; places],
            filled: 0,
        }
    }

    pub(super) fn clear(&mut self) {
        self.tags.fill(0);
        self.filled = 0;
    }

    /// Whether three quarters of the places are filled.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.filled >= self.tags.len() / 4 * 3
    }

    /// The places of a bucket with this tag.
    pub(super) fn tagged(&self, bucket: usize, tag: u16) -> impl Iterator<Item = usize> + use<> {
        let tags = &self.tags[bucket * WAYS..][..WAYS];
        let bits = (0..).zip(tags).map(|(way, held)| u32::from(*held == tag) << way);
        let mut left: u32 = bits.sum();
        std::iter::from_fn(move || {
            let way = left.trailing_zeros();
            // Clears the lowest bit; ends when no bit is left.
            left &= left.checked_sub(1)?;
            Some(bucket * WAYS + way as usize)
        })
    }

    /// Fills an empty place.
    pub(super) fn set(&mut self, place: usize, tag: u16, words: [u64; PRINT_WORDS], entry: [u32; 2]) {
        self.tags[place] = tag;
        self.prints[place] = words;
        self.entries[place] = entry;
        self.filled += 1;
    }

    /// Empties a place that is filled.
    pub(super) fn vacate(&mut self, place: usize) {
        self.tags[place] = 0;
        self.filled -= 1;
    }

    /// Adds a fingerprint to the emptier of its buckets. Returns false if both are full.
    pub(super) fn add(&mut self, words: [u64; PRINT_WORDS], entry: [u32; 2]) -> bool {
        let home = home(&fingerprint(words), self.buckets);
        let free = home.buckets.map(|bucket| self.tagged(bucket, 0).count());
        let bucket = home.buckets[usize::from(free[1] > free[0])];
        let Some(place) = self.tagged(bucket, 0).next() else {
            return false;
        };
        self.set(place, home.tag, words, entry);
        true
    }
}

impl Home {
    /// Both buckets, or one if they are the same.
    pub(super) fn distinct(self) -> impl Iterator<Item = usize> {
        let [first, second] = self.buckets;
        std::iter::once(first).chain((second != first).then_some(second))
    }
}
