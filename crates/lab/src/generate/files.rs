//! Files that change and are added: those of a snapshot, a machine or an image.
//!
//! A file is a list of whole contents. An overwritten stretch gets new contents between those that
//! stay.

use super::content::Slice;
use super::lengths::Maker;
use crate::rng::Rng;

/// Files of one directory. They are adjacent.
const DIRECTORY: usize = 32;

/// The current state of a file.
#[derive(Debug, Clone, Default)]
pub(crate) struct File {
    /// Its content, with its header.
    pub(crate) slices: Vec<Slice>,
    len: u64,
    /// The day on which it was added or last changed.
    pub(crate) day: u32,
    /// The place of its last change.
    place: Option<u64>,
}

impl File {
    /// The length in bytes, with the header.
    pub(crate) const fn len(&self) -> u64 {
        self.len
    }
}

/// Parameters of files.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    /// Mean bytes of a file.
    pub(crate) mean: u64,
    /// Standard deviation of the logarithm of lengths.
    pub(crate) sigma: f64,
    /// Bytes of the header in front of each file. The header is new after each change.
    pub(crate) header: u64,
    /// Lengths are multiples of this.
    pub(crate) block: u64,
}

impl Shape {
    /// Files in a tar. Lengths are log-normal with a mean of 256 KiB: papers do not say how long
    /// files are.
    pub(crate) const IN_TAR: Self = Self {
        mean: 256 << 10,
        sigma: 1.2,
        header: 512,
        block: 1,
    };
    /// The same files on a disk.
    pub(crate) const ON_DISK: Self = Self {
        header: 0,
        block: 4096,
        ..Self::IN_TAR
    };
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

/// How changed files are picked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pick {
    /// Each file with the same probability.
    Evenly,
    /// Directory by directory. Some directories are visited far more often: the k-th 1/k as often
    /// as the first.
    Walking,
}

/// All files of one place, in the order in which they were added.
#[derive(Debug)]
pub(crate) struct Files {
    /// The current files.
    pub(crate) files: Vec<File>,
    bytes: u64,
    shape: Shape,
    /// The files' numbers in random order. The last drawn ones are in front.
    order: Vec<usize>,
    /// The part of a file's change that earlier days left over, as a [`Share`].
    owed: u64,
    /// A file that changed on this day or later changes in the same place again.
    goes_on_since: u32,
    lengths: Rng,
    changes: Rng,
    maker: Maker,
}

impl Files {
    pub(crate) fn new(shape: Shape, lengths: Rng, changes: Rng, maker: Maker) -> Self {
        Self {
            files: Vec::new(),
            bytes: 0,
            shape,
            order: Vec::new(),
            owed: 0,
            goes_on_since: u32::MAX,
            lengths,
            changes,
            maker,
        }
    }

    /// Begins with a copy of these files.
    pub(crate) fn with(mut self, files: &[File]) -> Self {
        self.files.extend_from_slice(files);
        self.bytes += files.iter().map(|file| file.len).sum::<u64>();
        self
    }

    /// From now on, a file that changed on this day or later changes in the same place again:
    /// people who work on a file for some days work on the same part of it.
    pub(crate) const fn go_on_since(&mut self, day: u32) {
        self.goes_on_since = day;
    }

    /// Bytes of all files, with headers.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds files of `bytes` in all, headers not counted.
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
                place: None,
            });
        }
    }

    /// Overwrites a share of the bytes of a share of the files from `first` on. The files stay
    /// where they are.
    pub(crate) fn change(&mut self, first: usize, files: Share, bytes: Share, pick: Pick, day: u32) {
        // The remainder of a day's share counts for the next day.
        let among = self.files.len() - first;
        self.owed += files.0 * among as u64;
        let count = index(self.owed / Share::WHOLE).min(among);
        self.owed %= Share::WHOLE;
        match pick {
            Pick::Evenly => {
                self.order.extend(first + self.order.len()..self.files.len());
                for n in 0..count {
                    // Draws without replacement: drawn files move to the front.
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
            // Moves on from a directory whose files have all changed. Stops when all files have
            // changed.
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
        let place = match file.place.filter(|_| file.day >= self.goes_on_since) {
            Some(place) => place,
            None => self.changes.below((body - bytes).max(1)),
        };
        let from = header + place;
        let until = from + bytes.max(1);
        let mut slices = Vec::with_capacity(file.slices.len() + 1);
        let (mut begin, mut lost) = (0, 0);
        for slice in &file.slices {
            let end = begin + u64::from(slice.len());
            // The first content includes the header.
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
        file.place = Some(place);
        self.files[at] = file;
    }
}

pub(crate) fn index(n: u64) -> usize {
    usize::try_from(n).expect("there are as many in memory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::lengths::Lengths;

    fn files(count: usize) -> Files {
        let shape = Shape {
            sigma: 0.0,
            ..Shape::IN_TAR
        };
        let maker = Maker::new(Lengths::Content(4096), Rng::new(1, 2), 0);
        let mut files = Files::new(shape, Rng::new(1, 1), Rng::new(1, 3), maker);
        files.add(shape.mean * count as u64, 0);
        files
    }

    fn changed(files: &Files, day: u32) -> Vec<usize> {
        let numbers = files.files.iter().enumerate();
        numbers
            .filter(|(_, file)| file.day == day)
            .map(|(n, _)| n)
            .collect()
    }

    #[test]
    fn a_day_changes_its_share_of_files_and_of_each() {
        for pick in [Pick::Evenly, Pick::Walking] {
            let mut files = files(1050);
            let before = files.files.clone();
            files.change(0, Share::percent(10.0), Share::percent(20.0), pick, 1);
            let numbers = changed(&files, 1);
            assert_eq!(numbers.len(), 105, "{pick:?}");
            for n in numbers {
                let stays = |slice: &&Slice| before[n].slices.contains(slice);
                let kept: u64 = files.files[n]
                    .slices
                    .iter()
                    .filter(stays)
                    .map(|slice| u64::from(slice.len()))
                    .sum();
                let len = files.files[n].len();
                assert_eq!(len, before[n].len());
                assert_eq!(
                    len,
                    files.files[n]
                        .slices
                        .iter()
                        .map(|slice| u64::from(slice.len()))
                        .sum::<u64>()
                );
                // A fifth was overwritten, and its edges and the header are new.
                assert!(
                    (len * 66 / 100..=len * 80 / 100).contains(&kept),
                    "{pick:?}: {kept} of {len}"
                );
                assert!(!stays(&&files.files[n].slices[0]), "the header is new");
            }
            // Two half files are one file.
            let counts = [2, 3].map(|day| {
                files.change(0, Share::percent(0.05), Share::percent(20.0), pick, day);
                changed(&files, day).len()
            });
            assert_eq!(counts, [0, 1], "{pick:?}");
            files.change(0, Share::percent(100.0), Share::percent(100.0), pick, 4);
            assert_eq!(changed(&files, 4).len(), 1050, "{pick:?}");
            files.change(0, Share::percent(100.0), Share::percent(100.0), pick, 4);
        }
    }

    #[test]
    fn repeated_changes_of_a_file_are_in_the_same_place() {
        // Percent of bytes that two days of changes leave unchanged. `since` decides whether the
        // second day changes the same places.
        let kept = |since| {
            let mut files = files(64);
            let before = files.files.clone();
            for day in [1, 2] {
                files.go_on_since(since);
                files.change(0, Share::percent(100.0), Share::percent(10.0), Pick::Walking, day);
            }
            let stay = |(file, before): (&File, &File)| {
                let stays = file.slices.iter().filter(|slice| before.slices.contains(slice));
                stays.map(|slice| u64::from(slice.len())).sum::<u64>()
            };
            100 * files.files.iter().zip(&before).map(stay).sum::<u64>() / files.bytes()
        };
        let (same, other) = (kept(1), kept(2));
        assert!(
            (84..=90).contains(&same) && (74..82).contains(&other),
            "{same}, {other}"
        );
    }

    #[test]
    fn a_walk_keeps_to_directories_and_comes_back_to_some() {
        let directories = |pick| {
            let mut files = files(3200);
            let mut visited = Vec::new();
            for day in 1..=20 {
                files.change(0, Share::percent(3.0), Share::percent(10.0), pick, day);
                visited.extend(changed(&files, day).into_iter().map(|n| n / DIRECTORY));
            }
            let first = visited.iter().filter(|directory| **directory < 5).count();
            visited.dedup();
            (first, visited.len())
        };
        // 96 files a day, in 100 directories.
        let ((even_first, even), (first, walked)) = (directories(Pick::Evenly), directories(Pick::Walking));
        assert!(
            (60..140).contains(&even_first) && even > 1000,
            "{even_first}, {even}"
        );
        assert!(first > 600 && walked < 100, "{first}, {walked}");
    }
}
