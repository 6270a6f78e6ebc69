//! Four versions of one virtual machine's image [Guo 4, table 4; G3]: an operating system, then its
//! updates installed, then a large program installed, then some small ones installed.
//!
//! For each image the paper gives the number of unique chunks of 4 KiB, and the number of unique
//! chunks in all images so far. From these follows how many chunks of an image are in earlier ones.
//! The paper does not say where they are. Here a disk is a row of files, as installers of operating
//! systems leave them, log-normal with a mean of 128 KiB. An update deletes whole files at random,
//! and writes new ones into the freed places, and then behind all others. One file in twenty is a
//! copy of another. Free blocks between files, all zeros, are an eighth of the disk.
//!
//! Memory: 24 bytes for each file of the last version, and 24 for each file or free stretch of each
//! version. Blocks take none.

use simulate::{BackupHead, Extent, SimulateError};

use super::content::Slice;
use super::files::index;
use super::{Parts, Workload, check_some};
use crate::rng::Rng;

/// Bytes of a chunk.
pub(crate) const BLOCK: u32 = 4096;
/// The number of unique chunks of each version, and of all versions so far: table 4.
const TABLE: [Counts; 4] = [
    Counts::new(518_326, 518_326),
    Counts::new(733_267, 921_522),
    Counts::new(904_579, 1_189_230),
    Counts::new(1_145_029, 1_616_585),
];

/// Blocks of a file on average. The last file takes the remainder.
const FILE_BLOCKS: u64 = 32;
/// Standard deviation of the logarithm of that number.
const FILE_SIGMA: f64 = 1.5;
/// One file in so many is a copy of another.
const COPIED: u64 = 20;
/// One block in so many is free.
const FREE: u64 = 8;

/// The workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vm {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Bytes of unique chunks in the first version; the paper has 2123 MB.
    pub unique_bytes: u64,
    /// The number of versions to back up: at most the paper's four.
    pub versions: u32,
}

impl Default for Vm {
    fn default() -> Self {
        Self {
            seed: 1,
            unique_bytes: TABLE[0].own * u64::from(BLOCK),
            versions: 4,
        }
    }
}

/// Numbers of blocks of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Unique blocks of the image.
    pub(crate) own: u64,
    /// Unique blocks of this image and all earlier ones.
    pub(crate) union: u64,
}

impl Counts {
    const fn new(own: u64, union: u64) -> Self {
        Self { own, union }
    }
}

/// Blocks whose contents are consecutive, as are their places on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stretch {
    /// Files, from this content on.
    Data { first: u64, count: u64 },
    /// Free blocks: zeros.
    Free { count: u64 },
}

/// An image and its stretches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    stretches: Vec<Stretch>,
    /// The seed of its contents.
    pub(crate) seed: u64,
    /// Its numbers of blocks.
    pub(crate) counts: Counts,
}

impl Image {
    /// The length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let counts = self.stretches.iter().map(|stretch| match stretch {
            Stretch::Data { count, .. } | Stretch::Free { count } => *count,
        });
        counts.sum::<u64>() * u64::from(BLOCK)
    }

    /// All blocks in order.
    pub(crate) fn slices(&self) -> impl Iterator<Item = Slice> {
        self.stretches.iter().flat_map(|stretch| {
            let (first, count) = match *stretch {
                Stretch::Data { first, count } => (Some(first), count),
                Stretch::Free { count } => (None, count),
            };
            (0..count).map(move |n| match first {
                Some(first) => Slice::new(first + n, BLOCK, true),
                None => Slice::zeros(BLOCK),
            })
        })
    }
}

impl Vm {
    /// The paper's images, with one in `divisor` of their blocks.
    pub(crate) fn one_in(divisor: u64) -> Self {
        let whole = Self::default();
        Self {
            unique_bytes: whole.unique_bytes / divisor,
            ..whole
        }
    }

    /// Each version's image.
    ///
    /// # Errors
    /// `Settings` if the first image is empty, or if there are more versions than in the paper.
    pub(crate) fn images(&self) -> Result<Vec<Image>, SimulateError> {
        check_some(self.versions.into(), "versions")?;
        check_some(
            self.unique_bytes / u64::from(BLOCK),
            "chunks of the first version",
        )?;
        if self.versions as usize > TABLE.len() {
            return Err(SimulateError::Settings(format!(
                "{} versions are too many: the paper's table has {}",
                self.versions,
                TABLE.len()
            )));
        }
        let scaled = |count: u64| {
            let whole = u128::from(TABLE[0].own) * u128::from(BLOCK);
            u64::try_from(u128::from(count) * u128::from(self.unique_bytes) / whole)
                .map_err(|_| SimulateError::Settings("an image is too large".to_owned()))
        };
        let mut disk = Disk {
            rng: Rng::new(self.seed, 1),
            contents: 0,
            files: Vec::new(),
        };
        let mut before = 0;
        let each = TABLE.iter().take(self.versions as usize).map(|paper| {
            let counts = Counts::new(scaled(paper.own)?, scaled(paper.union)?);
            let new = counts.union - before;
            before = counts.union;
            disk.update(counts.own.saturating_sub(new), new);
            Ok(Image {
                stretches: disk.stretches(),
                seed: self.seed,
                counts,
            })
        });
        each.collect()
    }
}

impl Workload for Vm {
    fn name(&self) -> &'static str {
        "vm"
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn generate(&self, out: &mut dyn Parts) -> Result<(), SimulateError> {
        for (version, image) in self.images()?.iter().enumerate() {
            out.begin(&BackupHead {
                name: format!("{}-{version}", self.name()),
                extent: Extent::Full,
            })?;
            for slice in image.slices() {
                out.chunks(&[slice])?;
            }
            out.end()?;
        }
        Ok(())
    }
}

/// A file. Files are in the order of their places.
#[derive(Debug, Clone, Copy)]
struct File {
    first: u64,
    blocks: u64,
    /// Whether its bytes are a copy of another file's.
    is_copy: bool,
}

struct Disk {
    rng: Rng,
    contents: u64,
    files: Vec<File>,
}

impl Disk {
    /// Keeps `kept` blocks of the existing files, and writes `new` blocks of new ones.
    fn update(&mut self, kept: u64, new: u64) {
        let freed = self.delete(kept);
        let mut new = self.write(new).into_iter();
        let mut files = Vec::with_capacity(self.files.len() + new.len());
        // New files take the freed places. The remaining ones come last.
        for file in freed {
            match file {
                Some(file) => files.push(file),
                None => files.extend(new.next()),
            }
        }
        files.extend(new);
        self.files = files;
        self.copy();
    }

    /// Deletes files at random until `kept` blocks are left. A deleted file leaves a free place.
    /// Copies leave nothing.
    fn delete(&mut self, kept: u64) -> Vec<Option<File>> {
        self.files.retain(|file| !file.is_copy);
        let mut left: Vec<Option<File>> = self.files.drain(..).map(Some).collect();
        let total: u64 = left.iter().flatten().map(|file| file.blocks).sum();
        let mut surplus = total.saturating_sub(kept);
        let mut order: Vec<usize> = (0..left.len()).collect();
        for n in 0..order.len() {
            if surplus == 0 {
                break;
            }
            let rest = (order.len() - n) as u64;
            let drawn = index(self.rng.below(rest));
            order.swap(n, n + drawn);
            let place = &mut left[order[n]];
            let Some(file) = place else { continue };
            if file.blocks > surplus {
                // The last one becomes shorter.
                file.blocks -= surplus;
                surplus = 0;
            } else {
                surplus -= file.blocks;
                *place = None;
            }
        }
        left
    }

    /// New files of `blocks` blocks in all.
    fn write(&mut self, blocks: u64) -> Vec<File> {
        let (mut files, mut left) = (Vec::new(), blocks);
        while left > 0 {
            let blocks = self.rng.log_normal(FILE_BLOCKS, FILE_SIGMA).clamp(1, left);
            left -= blocks;
            files.push(File {
                first: self.contents,
                blocks,
                is_copy: false,
            });
            self.contents += blocks;
        }
        files
    }

    /// Copies some files.
    fn copy(&mut self) {
        let mut files = Vec::with_capacity(self.files.len() + self.files.len() / 16);
        for file in &self.files {
            files.push(*file);
            if self.rng.below(COPIED) == 0 {
                let other = self.files[index(self.rng.below(self.files.len() as u64))];
                files.push(File {
                    is_copy: true,
                    ..other
                });
            }
        }
        self.files = files;
    }

    /// The stretches of the disk: files, and free blocks between some of them.
    fn stretches(&mut self) -> Vec<Stretch> {
        let mut stretches = Vec::with_capacity(self.files.len() * 5 / 4);
        for file in &self.files {
            stretches.push(Stretch::Data {
                first: file.first,
                count: file.blocks,
            });
            // Free blocks follow one file in four. Their mean makes one block in eight of the disk
            // free.
            if self.rng.below(4) == 0 {
                let mean = 4 * FILE_BLOCKS / (FREE - 1);
                let count = 1 + self.rng.exponential(mean);
                stretches.push(Stretch::Free { count });
            }
        }
        stretches
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::generate::tests::Seen;

    #[test]
    fn versions_differ_as_table_four_says() {
        for divisor in [1, 16, 100] {
            let images = Vm::one_in(divisor).images().unwrap();
            let mut union = HashSet::new();
            for (image, paper) in images.iter().zip(TABLE) {
                let each = image.stretches.iter().flat_map(|stretch| match *stretch {
                    Stretch::Data { first, count } => first..first + count,
                    Stretch::Free { .. } => 0..0,
                });
                let own: HashSet<u64> = each.collect();
                union.extend(own.iter().copied());
                let found = Counts::new(own.len() as u64, union.len() as u64);
                assert_eq!(found, image.counts);
                let near = |found: u64, paper: u64| found.abs_diff(paper / divisor) <= 2;
                assert!(
                    near(found.own, paper.own) && near(found.union, paper.union),
                    "{found:?}"
                );
            }
        }
    }

    #[test]
    fn a_trace_is_of_these_images() {
        let mut vm = Vm::one_in(20);
        let (images, seen) = (vm.images().unwrap(), Seen::of(&mut vm).0);
        assert_eq!(images.len(), seen.len());
        let mut known: HashSet<types::Fingerprint> = HashSet::new();
        for (image, (_, chunks)) in images.iter().zip(&seen) {
            assert!(chunks.iter().all(|chunk| chunk.len == BLOCK));
            assert_eq!(chunks.len() as u64 * u64::from(BLOCK), image.bytes());
            let prints: HashSet<_> = chunks.iter().filter_map(|chunk| chunk.fingerprint).collect();
            known.extend(&prints);
            let (own, union) = (prints.len() as u64, known.len() as u64);
            assert_eq!(Counts::new(own, union), image.counts);
            let zeros = chunks.iter().filter(|chunk| chunk.fingerprint.is_none()).count();
            assert!((5..20).contains(&(zeros * 100 / chunks.len())), "{zeros}");
            assert!(
                chunks.len() - zeros > prints.len() + prints.len() / 500,
                "some is there twice"
            );
        }
        assert_ne!(
            Vm {
                seed: 2,
                ..vm.clone()
            }
            .images()
            .unwrap(),
            images
        );
    }

    #[test]
    fn there_are_no_more_versions_than_the_table_has() {
        let five = Vm {
            versions: 5,
            ..Vm::default()
        };
        let replayed = Workload::replay(&five, &mut Seen::default());
        assert!(replayed.unwrap_err().to_string().contains("5 versions"));
    }
}
