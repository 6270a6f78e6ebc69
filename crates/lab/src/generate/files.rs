//! Files that change and come: of a snapshot, of a machine, of an image.
//!
//! A file is a list of whole contents. What is overwritten of it is cut anew between the contents that stay.

use super::content::Slice;
use super::lengths::Maker;
use crate::dice::Dice;

/// Files of one directory, which lie side by side.
const DIRECTORY: usize = 32;

/// A file as it stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    /// What is in it, with its header.
    pub(crate) slices: Vec<Slice>,
    len: u64,
    /// When it came, or changed last.
    pub(crate) day: u32,
}

impl File {
    /// Bytes, with its header.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }
}

/// How files are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Mean bytes of a file.
    pub(crate) mean: u64,
    /// Of the logarithm of lengths.
    pub(crate) sigma: f64,
    /// In front of each file, and new whenever it changes.
    pub(crate) header: u64,
    /// Lengths are multiples of it.
    pub(crate) block: u64,
}

/// A share of files, or of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share(u64);

impl Share {
    const WHOLE: u64 = 1 << 32;

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a percentage, checked before"
    )]
    pub(crate) fn percent(percent: f64) -> Self {
        Self((percent / 100.0 * Self::WHOLE as f64).round() as u64)
    }

    pub(crate) fn of(self, bytes: u64) -> u64 {
        let wide = u128::from(self.0) * u128::from(bytes);
        u64::try_from(wide >> 32).expect("no more than the whole")
    }
}

/// Which files change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// Any, each as likely.
    Evenly,
    /// Those of one directory after another; some directories are come to far more often, the k-th 1/k as often as
    /// the first.
    Walking,
}

/// All files of one place, in the order in which they came.
#[derive(Debug)]
pub(crate) struct Files {
    /// As they stand.
    pub(crate) files: Vec<File>,
    bytes: u64,
    shape: Shape,
    /// Their numbers, as they were drawn.
    order: Vec<usize>,
    /// Files that are still to change, in shares of one.
    owed: u64,
    lengths: Dice,
    changes: Dice,
    maker: Maker,
}

impl Files {
    pub(crate) fn new(shape: Shape, lengths: Dice, changes: Dice, maker: Maker) -> Self {
        Self {
            files: Vec::new(),
            bytes: 0,
            shape,
            order: Vec::new(),
            owed: 0,
            lengths,
            changes,
            maker,
        }
    }

    /// Beginning with the files of others.
    pub(crate) fn with(mut self, files: &[File]) -> Self {
        self.files.extend_from_slice(files);
        self.bytes += files.iter().map(|file| file.len).sum::<u64>();
        self
    }

    /// Bytes of all, with headers.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Files of so many bytes in all come, headers not counted.
    pub(crate) fn add(&mut self, bytes: u64, day: u32) {
        let mut left = bytes;
        while left > 0 {
            let drawn = self.lengths.log_normal(self.shape.mean, self.shape.sigma);
            let len = drawn
                .max(1)
                .next_multiple_of(self.shape.block)
                .min(left.next_multiple_of(self.shape.block));
            left = left.saturating_sub(len);
            let mut slices = Vec::new();
            self.maker.cut(self.shape.header + len, &mut slices);
            self.bytes += self.shape.header + len;
            self.files.push(File {
                slices,
                len: self.shape.header + len,
                day,
            });
        }
    }

    /// A share of the files from `first` on have a share of their bytes overwritten. They stay where they are.
    pub(crate) fn change(&mut self, first: usize, files: Share, bytes: Share, pick: Pick, day: u32) {
        // What is left of a day's share is the next one's.
        let among = self.files.len() - first;
        self.owed += files.0 * among as u64;
        let count = index(self.owed / Share::WHOLE).min(among);
        self.owed %= Share::WHOLE;
        match pick {
            Pick::Evenly => {
                self.order.extend(first + self.order.len()..self.files.len());
                for n in 0..count {
                    // Drawn without putting back: those that were drawn stand in front.
                    let rest = self.order.len() - n;
                    let at = n + index(self.changes.below(rest as u64));
                    self.order.swap(n, at);
                    self.overwrite(self.order[n], bytes, day);
                }
            }
            Pick::Walking => self.walk(first, count, bytes, day),
        }
    }

    fn walk(&mut self, first: usize, count: usize, bytes: Share, day: u32) {
        let among = self.files.len() - first;
        let directories = among.div_ceil(DIRECTORY);
        let mut left = count;
        while left > 0 {
            let mut directory = index(self.changes.skewed_below(directories as u64));
            // On from a directory all of whose files have changed; not round and round where all files have.
            let mut visited = 0;
            loop {
                let begin = first + directory * DIRECTORY;
                let end = (begin + DIRECTORY).min(self.files.len());
                let mut has_changed = false;
                for at in begin..end {
                    if left > 0 && self.files[at].day != day {
                        self.overwrite(at, bytes, day);
                        left -= 1;
                        has_changed = true;
                    }
                }
                if has_changed || left == 0 {
                    break;
                }
                directory = (directory + 1) % directories;
                visited += 1;
                if visited == directories {
                    return;
                }
            }
        }
    }

    fn overwrite(&mut self, at: usize, share: Share, day: u32) {
        let mut file = std::mem::take(&mut self.files[at]);
        let header = self.shape.header;
        let body = file.len - header;
        let bytes = share.of(body);
        let from = header + self.changes.below((body - bytes).max(1));
        let until = from + bytes.max(1);
        let mut slices = Vec::with_capacity(file.slices.len() + 1);
        let (mut begin, mut lost) = (0, 0);
        for slice in &file.slices {
            let end = begin + u64::from(slice.len());
            // The header is in the first.
            if begin < header || begin < until && from < end {
                lost += u64::from(slice.len());
            } else {
                self.maker.cut(std::mem::take(&mut lost), &mut slices);
                slices.push(*slice);
            }
            begin = end;
        }
        self.maker.cut(lost, &mut slices);
        file.slices = slices;
        file.day = day;
        self.files[at] = file;
    }
}

pub(crate) fn index(n: u64) -> usize {
    usize::try_from(n).expect("there are as many in memory")
}
