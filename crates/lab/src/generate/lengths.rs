//! Lengths of chunks, and new contents of such lengths.

use simulate::SimulateError;

use super::content::Slice;
use super::{GROUP, Parts};
use crate::rng::Rng;

/// Contents of each series have their own numbers: so many bits number those of one series.
const SERIES_BITS: u32 = 40;

/// Lengths of chunks, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lengths {
    /// As of content-defined chunking, with this mean: at least a quarter of it, exponential above,
    /// and at most four times as much.
    Content(u32),
    /// All of this length, as images are cut.
    Fixed(u32),
}

/// Makes new contents.
#[derive(Debug)]
pub(crate) struct Maker {
    lengths: Lengths,
    rng: Rng,
    next: u64,
}

impl Maker {
    /// A maker of contents that no other `series` has.
    pub(crate) fn new(lengths: Lengths, rng: Rng, series: u64) -> Self {
        Self {
            lengths,
            rng,
            next: series << SERIES_BITS,
        }
    }

    /// Appends new contents of `bytes` in all.
    pub(crate) fn cut(&mut self, bytes: u64, slices: &mut Vec<Slice>) {
        self.each(bytes, |content, len, _| {
            slices.push(Slice::new(content, len, true))
        });
    }

    /// Like [`Self::cut`], but a shortened last content does not end a chunk.
    pub(crate) fn insert(&mut self, bytes: u64, slices: &mut Vec<Slice>) {
        self.each(bytes, |content, len, is_whole| {
            slices.push(Slice::new(content, len, is_whole));
        });
    }

    /// Passes new contents of `bytes` in all to `out`, each as a chunk.
    pub(crate) fn say(&mut self, bytes: u64, out: &mut dyn Parts) -> Result<(), SimulateError> {
        let mut group = Vec::with_capacity(GROUP);
        let mut left = bytes;
        while left > 0 {
            let (content, len, _) = self.draw(left);
            left -= u64::from(len);
            group.push(Slice::new(content, len, true));
            if group.len() == GROUP || left == 0 {
                out.chunks(&group)?;
                group.clear();
            }
        }
        Ok(())
    }

    fn each(&mut self, bytes: u64, mut made: impl FnMut(u64, u32, bool)) {
        let mut left = bytes;
        while left > 0 {
            let (content, len, is_whole) = self.draw(left);
            left -= u64::from(len);
            made(content, len, is_whole);
        }
    }

    /// A new content of at most `left` bytes, and whether it has its full drawn length.
    fn draw(&mut self, left: u64) -> (u64, u32, bool) {
        let drawn = match self.lengths {
            Lengths::Content(mean) => {
                let mean = u64::from(mean);
                (mean / 4 + self.rng.exponential(mean - mean / 4)).min(4 * mean)
            }
            Lengths::Fixed(len) => u64::from(len),
        };
        let content = self.next;
        self.next += 1;
        let len = drawn.min(left);
        let short = u32::try_from(len).expect("at most four times the average");
        (content, short, len == drawn)
    }
}
