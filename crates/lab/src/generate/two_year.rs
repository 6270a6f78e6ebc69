//! '2year' [Lillibridge 4.2, L10]: a stress test of fragmentation.
//!
//! A snapshot of files; every weekday 2 % of the files have a tenth of their bytes overwritten at a random offset, and new
//! files come, 2 % of the first snapshot's bytes in all; a week has five days, the first a full backup, the others
//! incremental ones: the files that changed or came that day, whole. The paper does not say how long files are:
//! here they are log-normal, 256 KiB on average.
//!
//! A file begins with its tar header, which changes with it. Memory: 16 to 32 bytes a chunk of all files.

use std::io::Write;
use std::ops::RangeInclusive;

use env::{Entropy, SeededEntropy};

use super::fingerprint;
use crate::dice::Dice;
use crate::error::LabError;
use crate::trace::{BackupHead, Chunk, Extent, Sink, Source};

const DAYS_A_WEEK: u32 = 5;
const FILE_BYTES: u64 = 256 << 10;
/// Of the logarithm of files' lengths.
const FILE_SIGMA: f64 = 1.2;
const HEADER_BYTES: u64 = 512;
const GROUP: usize = 512;
const CHUNK_BYTES: RangeInclusive<u32> = 64..=1 << 20;

/// The workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwoYear {
    /// What all is drawn from.
    pub seed: u64,
    /// Bytes of the first snapshot; the paper's is 10 GB.
    pub snapshot_bytes: u64,
    /// Weeks of five backups; the paper has 96.
    pub weeks: u32,
    /// Bytes of a chunk on average; the paper's is 3850.
    pub chunk_bytes: u32,
}

impl Default for TwoYear {
    fn default() -> Self {
        Self {
            seed: 1,
            snapshot_bytes: 10_000_000_000,
            weeks: 96,
            chunk_bytes: 3850,
        }
    }
}

/// A part of a file: the number of its content, and its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    content: u64,
    len: u32,
}

#[derive(Debug, Default)]
struct File {
    parts: Vec<Part>,
    len: u64,
    /// When it came, or changed last.
    day: u32,
}

struct Files<'a> {
    workload: &'a TwoYear,
    /// As they stand in a backup.
    files: Vec<File>,
    /// Their numbers, as they were drawn.
    order: Vec<usize>,
    /// Files that are still to change, in fiftieths.
    owed: usize,
    contents: u64,
    lengths: Dice,
    chunks: Dice,
    changes: Dice,
}

impl TwoYear {
    /// Writes the bytes of each backup to what `open` gives for it. They are cut as content-defined chunking cuts them, and so
    /// elsewhere than in the trace. `wrote` is told of each part of the trace that was written, and may end it.
    ///
    /// # Errors
    /// Of the system.
    pub fn write<W: Write>(
        &self,
        mut open: impl FnMut(&BackupHead) -> Result<W, LabError>,
        mut wrote: impl FnMut(u64) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut bytes = Vec::new();
        self.each_backup(|head, parts| {
            let mut out = open(head)?;
            let failed = |source| LabError::Io {
                what: head.name.clone(),
                source,
            };
            for part in parts {
                bytes.resize(part.len as usize, 0);
                SeededEntropy::new(self.seed ^ part.content.rotate_left(32)).fill(&mut bytes);
                out.write_all(&bytes).map_err(failed)?;
                wrote(u64::from(part.len))?;
            }
            out.flush().map_err(failed)
        })
    }

    fn each_backup(
        &self,
        mut backup: impl FnMut(&BackupHead, &mut dyn Iterator<Item = Part>) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        if self.snapshot_bytes == 0 || !CHUNK_BYTES.contains(&self.chunk_bytes) {
            let (least, most) = (CHUNK_BYTES.start(), CHUNK_BYTES.end());
            return Err(LabError::Settings(format!(
                "a snapshot has at least one byte, and a chunk {least} to {most} on average"
            )));
        }
        let mut files = Files::new(self);
        files.add(self.snapshot_bytes, 0);
        for day in 1..=self.weeks.saturating_mul(DAYS_A_WEEK) {
            files.change(day);
            files.add(self.snapshot_bytes / 50, day);
            let is_full = (day - 1).is_multiple_of(DAYS_A_WEEK);
            let head = BackupHead {
                name: format!("2year-{day:03}"),
                extent: if is_full {
                    Extent::Full
                } else {
                    Extent::Incremental
                },
            };
            let held = files.files.iter().filter(|file| is_full || file.day == day);
            backup(&head, &mut held.flat_map(|file| file.parts.iter().copied()))?;
        }
        Ok(())
    }
}

impl Source for TwoYear {
    fn replay(&mut self, sink: &mut dyn Sink) -> Result<(), LabError> {
        let mut group = Vec::with_capacity(GROUP);
        self.each_backup(|head, parts| {
            sink.begin(head)?;
            for part in parts {
                group.push(Chunk {
                    fingerprint: Some(fingerprint(self.seed, part.content)),
                    len: part.len,
                });
                if group.len() == GROUP {
                    sink.chunks(&group)?;
                    group.clear();
                }
            }
            if !group.is_empty() {
                sink.chunks(&group)?;
                group.clear();
            }
            sink.end()
        })
    }
}

impl<'a> Files<'a> {
    fn new(workload: &'a TwoYear) -> Self {
        let dice = |stream| Dice::new(workload.seed, stream);
        Self {
            workload,
            files: Vec::new(),
            order: Vec::new(),
            owed: 0,
            contents: 0,
            lengths: dice(1),
            chunks: dice(2),
            changes: dice(3),
        }
    }

    /// Files of so many bytes in all come.
    fn add(&mut self, bytes: u64, day: u32) {
        let mut left = bytes;
        while left > 0 {
            let len = self.lengths.log_normal(FILE_BYTES, FILE_SIGMA).clamp(1, left);
            left -= len;
            let mut parts = Vec::new();
            self.cut(HEADER_BYTES + len, &mut parts);
            self.files.push(File {
                parts,
                len: HEADER_BYTES + len,
                day,
            });
        }
    }

    /// 2 % of the files have a tenth of their bytes overwritten. They stay where they are.
    fn change(&mut self, day: u32) {
        self.order.extend(self.order.len()..self.files.len());
        // What is left of a day's 2 % is the next one's.
        self.owed += self.files.len();
        let count = self.owed / 50;
        self.owed %= 50;
        for n in 0..count {
            // Drawn without putting back: those that were drawn stand in front.
            let rest = self.order.len() - n;
            let at = n + index(self.changes.below(rest as u64));
            self.order.swap(n, at);
            self.overwrite(self.order[n], day);
        }
    }

    fn overwrite(&mut self, at: usize, day: u32) {
        let mut file = std::mem::take(&mut self.files[at]);
        let bytes = (file.len - HEADER_BYTES) / 10;
        let from = HEADER_BYTES + self.changes.below(file.len - HEADER_BYTES - bytes);
        let until = from + bytes.max(1);
        let mut parts = Vec::with_capacity(file.parts.len() + 1);
        let (mut begin, mut lost) = (0, 0);
        for part in &file.parts {
            let end = begin + u64::from(part.len);
            // The header is in the first.
            if begin == 0 || begin < until && from < end {
                lost += u64::from(part.len);
            } else {
                self.cut(std::mem::take(&mut lost), &mut parts);
                parts.push(*part);
            }
            begin = end;
        }
        self.cut(lost, &mut parts);
        file.parts = parts;
        file.day = day;
        self.files[at] = file;
    }

    /// Appends new parts of so many bytes in all.
    fn cut(&mut self, bytes: u64, parts: &mut Vec<Part>) {
        let mean = u64::from(self.workload.chunk_bytes);
        let mut left = bytes;
        while left > 0 {
            // As content-defined chunking with a least and a greatest length.
            let drawn = mean / 4 + self.chunks.exponential(mean - mean / 4);
            let len = drawn.min(4 * mean).min(left);
            left -= len;
            parts.push(Part {
                content: self.contents,
                len: u32::try_from(len).expect("at most four times the average"),
            });
            self.contents += 1;
        }
    }
}

fn index(n: u64) -> usize {
    usize::try_from(n).expect("there are as many files in memory")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::written::Written;

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Seen(Vec<(BackupHead, Vec<Chunk>)>);

    impl Sink for Seen {
        fn begin(&mut self, head: &BackupHead) -> Result<(), LabError> {
            self.0.push((head.clone(), Vec::new()));
            Ok(())
        }
        fn chunks(&mut self, chunks: &[Chunk]) -> Result<(), LabError> {
            self.0.last_mut().unwrap().1.extend_from_slice(chunks);
            Ok(())
        }
        fn end(&mut self) -> Result<(), LabError> {
            Ok(())
        }
    }

    fn small(seed: u64) -> TwoYear {
        TwoYear {
            seed,
            snapshot_bytes: 50_000_000,
            weeks: 2,
            ..TwoYear::default()
        }
    }

    fn seen(seed: u64) -> Seen {
        let mut seen = Seen::default();
        small(seed).replay(&mut seen).unwrap();
        seen
    }

    fn bytes(chunks: &[Chunk]) -> u64 {
        chunks.iter().map(|chunk| u64::from(chunk.len)).sum()
    }

    #[test]
    fn a_seed_repeats_itself_and_no_other() {
        assert_eq!(seen(1), seen(1));
        assert_ne!(seen(1), seen(2));
    }

    #[test]
    fn a_day_changes_what_the_paper_says() {
        let seen = seen(3).0;
        let extents: Vec<_> = seen.iter().map(|(head, _)| head.extent).collect();
        let week = [
            Extent::Full,
            Extent::Incremental,
            Extent::Incremental,
            Extent::Incremental,
            Extent::Incremental,
        ];
        assert_eq!(extents, [week, week].concat());
        let (first, second) = (&seen[0].1, &seen[5].1);
        // A day's new files are in the first, five more days' in the second; with headers.
        assert!(
            (51_000_000..51_400_000).contains(&bytes(first)),
            "{}",
            bytes(first)
        );
        assert!(
            (56_000_000..56_400_000).contains(&bytes(second)),
            "{}",
            bytes(second)
        );
        let mean = bytes(first) / first.len() as u64;
        assert!((3300..4000).contains(&mean), "{mean}");
        let known: HashMap<_, _> = first.iter().map(|chunk| (chunk.fingerprint, chunk.len)).collect();
        let new: Vec<Chunk> = second
            .iter()
            .copied()
            .filter(|chunk| !known.contains_key(&chunk.fingerprint))
            .collect();
        // Of five days: a tenth of 2 % of the bytes, the edges of what is overwritten, headers, and new files.
        let share = bytes(&new) * 1000 / bytes(first);
        assert!((105..125).contains(&share), "{share}");
        assert!(
            second
                .iter()
                .all(|chunk| known.get(&chunk.fingerprint).is_none_or(|len| *len == chunk.len))
        );
        let incremental = bytes(&seen[1].1);
        assert!((1_200_000..4_000_000).contains(&incremental), "{incremental}");
    }

    #[test]
    fn files_stay_where_they_are() {
        let seen = seen(5).0;
        let (first, second) = (&seen[0].1, &seen[5].1);
        let places: HashMap<_, _> = first
            .iter()
            .enumerate()
            .map(|(at, chunk)| (chunk.fingerprint, at))
            .collect();
        let again: Vec<usize> = second
            .iter()
            .filter_map(|chunk| places.get(&chunk.fingerprint).copied())
            .collect();
        assert!(again.len() > first.len() / 2 && again.is_sorted());
    }

    #[test]
    fn bytes_are_as_long_as_the_trace_and_repeat_where_it_does() {
        let workload = TwoYear {
            snapshot_bytes: 600_000,
            weeks: 1,
            ..small(4)
        };
        let mut seen = Seen::default();
        workload.clone().replay(&mut seen).unwrap();
        let written = Written::default();
        workload.write(|_| Ok(written.open()), |_| Ok(())).unwrap();
        let mut contents: HashMap<_, Vec<u8>> = HashMap::new();
        for (bytes, (_, chunks)) in written.into_each().iter().zip(&seen.0) {
            let mut at = 0;
            for chunk in chunks {
                let part = &bytes[at..at + chunk.len as usize];
                at += part.len();
                assert_eq!(
                    contents.entry(chunk.fingerprint).or_insert_with(|| part.to_vec()),
                    part
                );
            }
            assert_eq!(at, bytes.len());
        }
    }
}
