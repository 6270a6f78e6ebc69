//! Pseudo-random draws from a seed. Each step has its own draws, from the seed and the step's
//! number alone. So no draw of one step depends on another step or on the machine's timing.

/// A stream of draws (SplitMix64). One thread uses it; it never fails.
#[derive(Debug, Clone)]
pub(super) struct Draws(u64);

impl Draws {
    /// The draws of one part of a run.
    pub(super) fn new(seed: u64, part: u64) -> Self {
        let mut draws = Self(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // So neighbouring seeds begin with different draws.
        draws.next();
        draws.next();
        draws
    }

    /// Any number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 if that is 0.
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    /// A number from `least` to `most`.
    pub(super) fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most - least + 1)
    }

    /// As [`Self::within`], but each power of two is as likely as any other.
    pub(super) fn about(&mut self, least: u64, most: u64) -> u64 {
        let bits = self.within(u64::from(least.max(1).ilog2()), u64::from(most.max(1).ilog2()));
        (1_u64 << bits)
            .saturating_add(self.below(1 << bits))
            .clamp(least, most)
    }

    /// True in `percent` of a hundred draws.
    pub(super) fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of the values.
    pub(super) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[pick(self.next(), of.len())]
    }

    /// Bytes that do not compress.
    pub(super) fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

/// The index that a draw means among `among` choices. The draw is made before the step runs, and
/// the number of choices is known only then.
pub(super) fn pick(draw: u64, among: usize) -> usize {
    let among = u64::try_from(among.max(1)).unwrap_or(u64::MAX);
    usize::try_from(draw % among).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_part_give_the_same_draws_each_time_and_others_give_others() {
        let all = |seed, part| {
            let mut draws = Draws::new(seed, part);
            (0..8).map(|_| draws.next()).collect::<Vec<_>>()
        };
        assert_eq!(all(1, 2), all(1, 2));
        assert_ne!(all(1, 2), all(1, 3));
        assert_ne!(all(1, 2), all(2, 2));
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let mut draws = Draws::new(7, 7);
        for _ in 0..1000 {
            assert!((3..=9).contains(&draws.within(3, 9)));
            assert!((5..=5000).contains(&draws.about(5, 5000)));
        }
        assert_eq!(draws.bytes(13).len(), 13);
    }
}
