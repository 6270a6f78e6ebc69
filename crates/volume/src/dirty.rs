//! Blocks of a volume that the finder has to examine, and how long nobody has written them (D2,
//! D6).
//!
//! Two bits a block: not to be examined; written in this interval; in the last one; before. Memory
//! is taken for each GiB of the volume that was written: 64 KiB. The set is never stored: after a
//! start, every private block is in it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use types::Lba;

/// Blocks of a part of the set: a GiB.
const PART_BLOCKS: u64 = 1 << 18;
const PART_WORDS: usize = 1 << 12;

/// Ages of a block, as (low, high) bit: (1, 0) written in this interval, (0, 1) in the last one,
/// (1, 1) before.
struct Part {
    low: Box<[AtomicU64]>,
    high: Box<[AtomicU64]>,
    /// A thread holds it while it changes bits.
    change: Mutex<()>,
}

/// The set of a volume. Any number of threads may use it.
#[derive(Default)]
pub(crate) struct DirtyBlocks {
    parts: RwLock<BTreeMap<u64, Arc<Part>>>,
}

impl std::fmt::Debug for DirtyBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "dirty blocks in {} GiB", self.parts().len())
    }
}

impl Part {
    fn new() -> Self {
        let words = || (0..PART_WORDS).map(|_| AtomicU64::new(0)).collect();
        Self {
            low: words(),
            high: words(),
            change: Mutex::default(),
        }
    }
}

impl DirtyBlocks {
    fn parts(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<u64, Arc<Part>>> {
        self.parts.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn part(&self, number: u64) -> Arc<Part> {
        if let Some(part) = self.parts().get(&number) {
            return Arc::clone(part);
        }
        let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(parts.entry(number).or_insert_with(|| Arc::new(Part::new())))
    }

    /// Notes that these blocks are being written.
    pub(crate) fn written(&self, lba: Lba, count: u64) {
        self.each_word(lba, count, |part, word, mask| {
            let (low, high) = (&part.low[word], &part.high[word]);
            if low.load(Ordering::Relaxed) & mask == mask && high.load(Ordering::Relaxed) & mask == 0 {
                return;
            }
            let _change = part.change.lock().unwrap_or_else(PoisonError::into_inner);
            low.fetch_or(mask, Ordering::AcqRel);
            high.fetch_and(!mask, Ordering::AcqRel);
        });
    }

    /// Adds blocks that nobody has written for long.
    pub(crate) fn add_old(&self, lba: Lba) {
        self.each_word(lba, 1, |part, word, mask| {
            let _change = part.change.lock().unwrap_or_else(PoisonError::into_inner);
            if (part.low[word].load(Ordering::Relaxed) | part.high[word].load(Ordering::Relaxed)) & mask == 0
            {
                part.low[word].fetch_or(mask, Ordering::AcqRel);
                part.high[word].fetch_or(mask, Ordering::AcqRel);
            }
        });
    }

    /// Takes blocks out.
    pub(crate) fn remove(&self, lba: Lba, count: u64) {
        self.each_word(lba, count, |part, word, mask| {
            let _change = part.change.lock().unwrap_or_else(PoisonError::into_inner);
            part.low[word].fetch_and(!mask, Ordering::AcqRel);
            part.high[word].fetch_and(!mask, Ordering::AcqRel);
        });
    }

    fn each_word(&self, lba: Lba, count: u64, mut each: impl FnMut(&Part, usize, u64)) {
        let (mut at, end) = (lba.get(), lba.get() + count);
        while at < end {
            let part = self.part(at / PART_BLOCKS);
            let part_end = end.min((at / PART_BLOCKS + 1) * PART_BLOCKS);
            while at < part_end {
                let bit = at % 64;
                let here = (64 - bit).min(part_end - at);
                let mask = if here == 64 {
                    u64::MAX
                } else {
                    ((1 << here) - 1) << bit
                };
                let word = usize::try_from(at % PART_BLOCKS / 64).unwrap_or(0);
                each(&part, word, mask);
                at += here;
            }
        }
    }

    /// Ends an interval: every block is an interval older.
    pub(crate) fn age(&self) {
        let parts: Vec<Arc<Part>> = self.parts().values().cloned().collect();
        for part in parts {
            for word in 0..PART_WORDS {
                let (low, high) = (&part.low[word], &part.high[word]);
                let (l, h) = (low.load(Ordering::Relaxed), high.load(Ordering::Relaxed));
                if l | h == 0 || l & h == l | h {
                    continue;
                }
                let _change = part.change.lock().unwrap_or_else(PoisonError::into_inner);
                let (l, h) = (low.load(Ordering::Relaxed), high.load(Ordering::Relaxed));
                // 1 -> 2, 2 -> 3, 3 -> 3.
                high.store(l | h, Ordering::Release);
                low.store(h, Ordering::Release);
            }
        }
    }

    /// Blocks from `from` on that nobody has written in this interval and in `quiet - 1` before; at
    /// most `max`, in order.
    pub(crate) fn quiet(&self, from: Lba, quiet: u8, max: usize) -> Vec<Lba> {
        let mut found = Vec::new();
        let parts: Vec<(u64, Arc<Part>)> = {
            let parts = self.parts();
            let range = parts.range(from.get() / PART_BLOCKS..);
            range.map(|(number, part)| (*number, Arc::clone(part))).collect()
        };
        for (number, part) in parts {
            for word in 0..PART_WORDS {
                let first = number * PART_BLOCKS + word as u64 * 64;
                if first + 64 <= from.get() {
                    continue;
                }
                let low = part.low[word].load(Ordering::Acquire);
                let high = part.high[word].load(Ordering::Acquire);
                let mut bits = match quiet {
                    0 => low | high,
                    1 => high,
                    _ => low & high,
                };
                while bits != 0 {
                    let at = first + u64::from(bits.trailing_zeros());
                    bits &= bits - 1;
                    if at < from.get() {
                        continue;
                    }
                    if found.len() >= max {
                        return found;
                    }
                    found.extend(Lba::new(at).ok());
                }
            }
        }
        found
    }

    /// Blocks in the set.
    pub(crate) fn count(&self) -> u64 {
        let parts = self.parts();
        let count = |part: &Arc<Part>| -> u64 {
            let both = part.low.iter().zip(&part.high);
            both.map(|(l, h)| u64::from((l.load(Ordering::Relaxed) | h.load(Ordering::Relaxed)).count_ones()))
                .sum()
        };
        parts.values().map(count).sum()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.parts().len() as u64 * 2 * 8 * PART_WORDS as u64
    }
}

#[cfg(test)]
mod tests;
