//! The gear hash in portable code: loops that a compiler turns into SIMD if it can.

use super::{Gear, WINDOW};

/// Positions computed at once. Those behind the boundary are wasted.
const BLOCK: usize = 256;
const SPAN: usize = BLOCK + WINDOW - 1;

/// Like [`Gear::first`].
pub(super) fn scan(gear: &Gear, bytes: &[u8], from: usize) -> Option<usize> {
    let at_most = gear.at_most();
    let (mut sums, mut doubled) = ([0u16; SPAN], [0u16; SPAN]);
    let mut next = from;
    while next <= bytes.len() {
        let last = bytes.len().min(next + BLOCK - 1);
        let span = &bytes[next - WINDOW..last];
        for (sum, &byte) in sums.iter_mut().zip(span) {
            *sum = gear.high.words[usize::from(byte)];
        }
        for (level, &k) in gear.high.multipliers.iter().enumerate() {
            let n = 1 << level;
            for ((to, &near), &far) in doubled[n..].iter_mut().zip(&sums[n..]).zip(&sums) {
                *to = near.wrapping_add(k.wrapping_mul(far));
            }
            std::mem::swap(&mut sums, &mut doubled);
        }
        let ends = (next..=last).zip(&sums[WINDOW - 1..]);
        for (end, &sum) in ends {
            if sum < at_most || (sum == at_most && gear.decide(bytes, end)) {
                return Some(end);
            }
        }
        next = last + 1;
    }
    None
}
