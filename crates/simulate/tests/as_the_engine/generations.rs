//! The data that both sides back up.

/// A sequence of numbers that is the same in every run.
struct Draws(u64);

impl Draws {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).unwrap()
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        let words = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes());
        words.take(len).collect()
    }
}

/// Generations of a file: parts overwritten, inserted, moved, repeated and zeroed.
pub(crate) fn generations(bytes: usize) -> Vec<Vec<u8>> {
    let mut draws = Draws(7);
    let mut file = draws.bytes(bytes);
    let mut all = vec![file.clone()];
    for _ in 0..7 {
        for _ in 0..24 {
            let (at, len) = (draws.below(file.len() - 9000), 500 + draws.below(8000));
            match draws.below(5) {
                0 => file[at..at + len].fill(0),
                1 => {
                    let new = draws.bytes(len);
                    file.splice(at..at, new);
                }
                2 => {
                    let part = file[at..at + len].to_vec();
                    file.extend(part);
                }
                3 => {
                    let part: Vec<u8> = file.drain(at..at + len).collect();
                    let to = draws.below(file.len());
                    file.splice(to..to, part);
                }
                _ => {
                    let new = draws.bytes(len);
                    file[at..at + len].copy_from_slice(&new);
                }
            }
        }
        all.push(file.clone());
    }
    all
}
