//! '2year' [Lillibridge 4.2, L10]: a stress test of fragmentation.
//!
//! A snapshot of files. Each weekday, 2 % of the files have a tenth of their bytes overwritten at a
//! random offset. New files of 2 % of the first snapshot's bytes are added. A week has five days.
//! The first backup of a week is full. The others are incremental: they have the files that changed
//! or were added that day, as a whole. The paper does not say how long files are. Here lengths are
//! log-normal, with a mean of 256 KiB by default.
//!
//! A file begins with its tar header, which changes with it. Memory: 16 to 32 bytes for each chunk
//! of all files.

use simulate::{BackupHead, Extent, SimulateError};

use super::files::{Files, Pick, Shape, Share};
use super::lengths::{Lengths, Maker};
use super::{Parts, Workload, check_chunk_bytes, check_some};
use crate::rng::Rng;

const DAYS_A_WEEK: u32 = 5;

/// The workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TwoYear {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Bytes of the first snapshot; the paper has 10 GB.
    pub snapshot_bytes: u64,
    /// Number of weeks with five backups; the paper has 96.
    pub weeks: u32,
    /// Bytes of a file on average, without its header: at least [`Self::FILE_BYTES_MIN`], at most
    /// `snapshot_bytes`. The paper does not say.
    pub file_bytes: u64,
    /// Bytes of a chunk on average; the paper has 3850.
    pub chunk_bytes: u32,
}

impl TwoYear {
    /// The least average length. Smaller files are little more than their headers.
    pub const FILE_BYTES_MIN: u64 = 1 << 10;
}

impl Default for TwoYear {
    fn default() -> Self {
        Self {
            seed: 1,
            snapshot_bytes: 10_000_000_000,
            weeks: 96,
            file_bytes: Shape::IN_TAR.mean,
            chunk_bytes: 3850,
        }
    }
}

impl Workload for TwoYear {
    fn name(&self) -> &'static str {
        "2year"
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn generate(&self, out: &mut dyn Parts) -> Result<(), SimulateError> {
        check_some(self.snapshot_bytes, "bytes of the snapshot")?;
        check_some(self.weeks.into(), "weeks")?;
        check_chunk_bytes(self.chunk_bytes)?;
        if self.snapshot_bytes < Self::FILE_BYTES_MIN {
            return Err(SimulateError::Settings(format!(
                "a snapshot of {} bytes is too small: at least {}, the bytes of one file",
                self.snapshot_bytes,
                Self::FILE_BYTES_MIN
            )));
        }
        let lengths = Self::FILE_BYTES_MIN..=self.snapshot_bytes;
        if !lengths.contains(&self.file_bytes) {
            return Err(SimulateError::Settings(format!(
                "files cannot have {} bytes on average: at least {}, and no more than the {} of the snapshot",
                self.file_bytes,
                lengths.start(),
                lengths.end()
            )));
        }
        let shape = Shape {
            mean: self.file_bytes,
            ..Shape::IN_TAR
        };
        let rng = |stream| Rng::new(self.seed, stream);
        let maker = Maker::new(Lengths::Content(self.chunk_bytes), rng(2), 0);
        let mut files = Files::new(shape, rng(1), rng(3), maker);
        files.add(self.snapshot_bytes, 0);
        for day in 1..=self.weeks.saturating_mul(DAYS_A_WEEK) {
            files.change(0, Share::percent(2.0), Share::percent(10.0), Pick::Evenly, day);
            files.add(self.snapshot_bytes / 50, day);
            let is_full = (day - 1).is_multiple_of(DAYS_A_WEEK);
            out.begin(&BackupHead {
                name: format!("{}-{day:03}", self.name()),
                extent: if is_full {
                    Extent::Full
                } else {
                    Extent::Incremental
                },
            })?;
            for file in files.files.iter().filter(|file| is_full || file.day == day) {
                out.chunks(&file.slices)?;
            }
            out.end()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::generate::tests::Seen;
    use simulate::Chunk;

    fn small(seed: u64) -> TwoYear {
        TwoYear {
            seed,
            snapshot_bytes: 50_000_000,
            weeks: 2,
            ..TwoYear::default()
        }
    }

    fn seen(seed: u64) -> Seen {
        Seen::of(&mut small(seed))
    }

    fn bytes(chunks: &[Chunk]) -> u64 {
        chunks.iter().map(|chunk| u64::from(chunk.len)).sum()
    }

    #[test]
    fn a_day_changes_as_much_as_the_paper_says() {
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
        // The first full backup has one day's new files, and the second has five more days'.
        // Headers count.
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
        // Changes of five days: a tenth of 2 % of the bytes, the edges of the overwritten
        // stretches, headers, and new files.
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
    fn files_are_as_long_as_is_asked_for() {
        let seen = |file_bytes| {
            let mut load = TwoYear {
                file_bytes,
                weeks: 1,
                ..small(4)
            };
            Seen::of(&mut load).0
        };
        assert_eq!(seen(Shape::IN_TAR.mean)[0].1, self::seen(4).0[0].1, "the default");
        for file_bytes in [TwoYear::FILE_BYTES_MIN, 16 << 10, 64 << 10] {
            // The rest is headers, one for each file of the snapshot and of one day's new files.
            let bytes = bytes(&seen(file_bytes)[0].1);
            let files = (bytes - 51_000_000) / 512;
            let mean = 51_000_000 / files;
            assert!(
                mean.abs_diff(file_bytes) < file_bytes / 5,
                "{mean} for {file_bytes}"
            );
        }
        for (file_bytes, snapshot_bytes) in [(0, 5000), (1023, 5000), (5001, 5000)] {
            let load = TwoYear {
                snapshot_bytes,
                file_bytes,
                ..small(4)
            };
            let error = Workload::replay(&load, &mut Seen::default());
            let error = error.unwrap_err().to_string();
            let wanted = format!(
                "files cannot have {file_bytes} bytes on average: at least 1024, and no more than the 5000"
            );
            assert!(error.contains(&wanted), "{error}");
        }
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
}
