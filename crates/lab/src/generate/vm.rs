//! Four versions of one virtual machine's image [Guo 4, table 4; G3]: an operating system, the same with its updates, with a
//! large program more, with some small ones.
//!
//! Each version has as many unique chunks of 4 KiB as the paper's, and as many of them that the versions before have not. The paper does
//! not say how the changes lie, nor how large the disk is: here data lies in runs of 256 KiB on average, a run changes whole and in
//! place, what is new besides takes space from the zeros, one run in fifty of the first version is there twice, and the disk holds twice what the
//! last version needs.
//!
//! Memory: 16 bytes a chunk of the disk.

use super::content::Slice;
use super::files::index;
use super::{Parts, Workload, check_some};
use crate::dice::Dice;
use crate::error::LabError;
use crate::trace::{BackupHead, Extent};

const BLOCK: u32 = 4096;
const RUN_BLOCKS: u64 = 64;
/// One run of so many is there twice.
const TWICE: u64 = 50;
/// Unique chunks of each version, and those of all versions so far: table 4.
const TABLE: [(u64, u64); 4] = [
    (518_326, 518_326),
    (733_267, 921_522),
    (904_579, 1_189_230),
    (1_145_029, 1_616_585),
];
/// Chunks of the disk.
const DISK: u64 = 2 * 1_145_029;

/// The workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vm {
    /// What all is drawn from.
    pub seed: u64,
    /// Bytes of unique chunks in the first version; the paper's has 2123 MB.
    pub unique_bytes: u64,
    /// Versions that are backed up, at most the paper's four.
    pub versions: u32,
}

impl Default for Vm {
    fn default() -> Self {
        Self {
            seed: 1,
            unique_bytes: TABLE[0].0 * u64::from(BLOCK),
            versions: 4,
        }
    }
}

/// Blocks that were written together.
#[derive(Debug, Clone, Copy)]
struct Run {
    begin: usize,
    len: usize,
    /// Its blocks are on the disk twice, and stay.
    is_twice: bool,
}

struct Disk {
    blocks: Vec<Slice>,
    runs: Vec<Run>,
    /// Where zeros begin.
    used: usize,
    contents: u64,
    dice: Dice,
}

impl Disk {
    fn content(&mut self) -> Slice {
        self.contents += 1;
        Slice::new(self.contents, BLOCK, true)
    }

    fn run(&mut self, most: usize) -> usize {
        index(self.dice.exponential(RUN_BLOCKS)).clamp(1, most)
    }

    /// So many new blocks take space from the zeros.
    fn add(&mut self, count: usize) {
        let mut left = count;
        while left > 0 {
            let (begin, len) = (self.used, self.run(left));
            left -= len;
            for at in begin..begin + len {
                self.blocks[at] = self.content();
            }
            self.used += len;
            self.runs.push(Run {
                begin,
                len,
                is_twice: false,
            });
        }
    }

    fn repeat(&mut self) {
        let count = self.runs.len();
        for n in 0..count {
            if !self.dice.happens(1_000_000 / TWICE) {
                continue;
            }
            let Run { begin, len, .. } = self.runs[n];
            if self.used + len > self.blocks.len() {
                return;
            }
            self.runs[n].is_twice = true;
            self.blocks.copy_within(begin..begin + len, self.used);
            self.used += len;
        }
    }

    /// So many blocks become new ones, in place.
    fn replace(&mut self, count: usize) {
        let mut left = count;
        let mut free: Vec<usize> = (0..self.runs.len()).filter(|n| !self.runs[*n].is_twice).collect();
        while left > 0 && !free.is_empty() {
            let drawn = index(self.dice.below(free.len() as u64));
            let Run { begin, len, .. } = self.runs[free.swap_remove(drawn)];
            let len = len.min(left);
            left -= len;
            for at in begin..begin + len {
                self.blocks[at] = self.content();
            }
        }
    }
}

impl Workload for Vm {
    fn name(&self) -> &'static str {
        "vm"
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn generate(&self, out: &mut dyn Parts) -> Result<(), LabError> {
        check_some(self.versions.into(), "versions")?;
        check_some(
            self.unique_bytes / u64::from(BLOCK),
            "chunks of the first version",
        )?;
        if self.versions as usize > TABLE.len() {
            return Err(LabError::Settings(format!(
                "{} versions: the table that says how they differ has {}",
                self.versions,
                TABLE.len()
            )));
        }
        let scale = |blocks: u64| {
            let wide = u128::from(blocks) * u128::from(self.unique_bytes)
                / (u128::from(TABLE[0].0) * u128::from(BLOCK));
            usize::try_from(wide).map_err(|_| LabError::Settings("an image is too large".to_owned()))
        };
        let mut disk = Disk {
            blocks: vec![Slice::zeros(BLOCK); scale(DISK)?],
            runs: Vec::new(),
            used: 0,
            contents: 0,
            dice: Dice::new(self.seed, 1),
        };
        let (mut unique_before, mut all_before) = (0, 0);
        for (version, (unique, all)) in TABLE.iter().take(self.versions as usize).enumerate() {
            let (unique, all) = (scale(*unique)?, scale(*all)?);
            // Of the version before, so many blocks stay; those that go are written over.
            let new = all - all_before;
            let gone = (unique_before + new).saturating_sub(unique).min(new);
            disk.replace(gone);
            disk.add(new - gone);
            if version == 0 {
                disk.repeat();
            }
            (unique_before, all_before) = (unique, all);
            out.begin(&BackupHead {
                name: format!("{}-{version}", self.name()),
                extent: Extent::Full,
            })?;
            out.chunks(&disk.blocks)?;
            out.end()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::generate::tests::Seen;

    #[test]
    fn versions_differ_as_table_four_says() {
        let scale = 20;
        let seen = Seen::of(&mut Vm {
            unique_bytes: TABLE[0].0 * u64::from(BLOCK) / scale,
            ..Vm::default()
        });
        let mut known: HashSet<types::Fingerprint> = HashSet::new();
        for ((_, chunks), (unique, all)) in seen.0.iter().zip(TABLE) {
            let prints: HashSet<_> = chunks.iter().filter_map(|chunk| chunk.fingerprint).collect();
            known.extend(&prints);
            let near = |found: usize, expected: u64| (found as u64).abs_diff(expected / scale) <= 2;
            assert!(
                near(prints.len(), unique),
                "{}, not {}",
                prints.len(),
                unique / scale
            );
            assert!(near(known.len(), all), "{}, not {}", known.len(), all / scale);
            assert!(chunks.iter().all(|chunk| chunk.len == BLOCK));
            let zeros = chunks.iter().filter(|chunk| chunk.fingerprint.is_none()).count();
            assert!(zeros > chunks.len() / 4, "{zeros}");
            let data = chunks.len() - zeros;
            assert!(data > prints.len() + prints.len() / 500, "some is there twice");
        }
    }

    #[test]
    fn there_are_no_more_versions_than_the_table_has() {
        let mut five = Vm {
            versions: 5,
            ..Vm::default()
        };
        let replayed = crate::Source::replay(&mut five, &mut Seen::default());
        assert!(replayed.unwrap_err().to_string().contains("5 versions"));
    }
}
