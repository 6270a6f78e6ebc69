//! Four images of a virtual machine's disk, each made from the one before by what the paper installed [Guo 4, table 4] (G3).
//!
//! Of each the paper has how many segments of 4 KiB are unique, and of all so far: so it is known how many of an image's are
//! in those before. It does not say how they lie. Here a disk is a row of files, log-normal with a mean of 128 KiB, as the
//! installers of operating systems leave them: an update deletes whole files, drawn at random, and writes new ones, into the
//! places of those that went while they fit and behind all others then. One file in twenty is a copy of another, and between
//! files there are free blocks, zeros, an eighth of the disk.

use ingest::{StreamPiece, StreamSource};

use super::engine::{CHUNK_BYTES, Job, advance};
use crate::dice::{Dice, noise};
use crate::reproduce::Progress;

/// Unique segments of each image, and of it with all before it, as in table 4.
pub(super) const PAPER: [Counts; 4] = [
    Counts::new(518_326, 518_326),
    Counts::new(733_267, 921_522),
    Counts::new(904_579, 1_189_230),
    Counts::new(1_145_029, 1_616_585),
];

/// Blocks of a file on average, before the rest of a whole is given to the last.
const FILE_BLOCKS: u64 = 32;
/// Of the logarithm of their number.
const FILE_SIGMA: f64 = 1.5;
/// One file in so many is a copy.
const COPIED: u64 = 20;
/// One block in so many is free.
const FREE: u64 = 8;
/// Of the noise.
const SEQUENCE: u64 = 0x766d;
const WORDS: u64 = CHUNK_BYTES as u64 / 8;

/// Blocks of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    /// Unique ones.
    pub(super) own: u64,
    /// Those of it and all before it.
    pub(super) union: u64,
}

impl Counts {
    const fn new(own: u64, union: u64) -> Self {
        Self { own, union }
    }
}

/// Blocks that follow each other, in content as on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// From this content on.
    Data { first: u64, blocks: u64 },
    /// Zeros.
    Free { blocks: u64 },
}

/// An image, as what it consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Image {
    extents: Vec<Extent>,
    /// What it should count.
    pub(super) counts: Counts,
}

/// The paper's images, with one in `divisor` of their blocks.
pub(super) fn images(seed: u64, divisor: u64) -> Vec<Image> {
    let mut maker = Maker {
        dice: Dice::new(seed, SEQUENCE),
        contents: 0,
        files: Vec::new(),
    };
    let mut before = 0;
    let each = PAPER.iter().map(|paper| {
        let counts = Counts::new(paper.own / divisor, paper.union / divisor);
        let new = counts.union - before;
        before = counts.union;
        maker.update(counts.own - new, new);
        Image {
            extents: maker.disk(),
            counts,
        }
    });
    each.collect()
}

/// A place on the disk, in the order of places.
#[derive(Debug, Clone, Copy)]
struct File {
    first: u64,
    blocks: u64,
    /// Its bytes stand elsewhere, too.
    is_copy: bool,
}

struct Maker {
    dice: Dice,
    contents: u64,
    files: Vec<File>,
}

impl Maker {
    /// Keeps so many blocks of the files that there are, and writes so many new ones.
    fn update(&mut self, kept: u64, new: u64) {
        let freed = self.delete(kept);
        let mut new = self.write(new).into_iter();
        let mut files = Vec::with_capacity(self.files.len() + new.len());
        // New files take the places of old ones, and the rest comes last.
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

    /// Deletes files, drawn at random, until so many blocks are left: a place is then free. Of copies nothing is left.
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
            let drawn = usize::try_from(self.dice.below(rest)).expect("below what is in memory");
            order.swap(n, n + drawn);
            let place = &mut left[order[n]];
            let Some(file) = place else { continue };
            if file.blocks > surplus {
                // The last one is cut short.
                file.blocks -= surplus;
                surplus = 0;
            } else {
                surplus -= file.blocks;
                *place = None;
            }
        }
        left
    }

    /// New files of so many blocks in all.
    fn write(&mut self, blocks: u64) -> Vec<File> {
        let (mut files, mut left) = (Vec::new(), blocks);
        while left > 0 {
            let blocks = self.dice.log_normal(FILE_BLOCKS, FILE_SIGMA).clamp(1, left);
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

    /// Some files are there twice.
    fn copy(&mut self) {
        let mut files = Vec::with_capacity(self.files.len() + self.files.len() / 16);
        for file in &self.files {
            files.push(*file);
            if self.dice.below(COPIED) == 0 {
                let other = usize::try_from(self.dice.below(self.files.len() as u64));
                let other = self.files[other.expect("below what is in memory")];
                files.push(File {
                    is_copy: true,
                    ..other
                });
            }
        }
        self.files = files;
    }

    /// The disk: files, and free blocks between some of them.
    fn disk(&mut self) -> Vec<Extent> {
        let mut extents = Vec::with_capacity(self.files.len() * 5 / 4);
        for file in &self.files {
            extents.push(Extent::Data {
                first: file.first,
                blocks: file.blocks,
            });
            // One in four is followed by as many free blocks as make one in eight of all.
            if self.dice.below(4) == 0 {
                let mean = 4 * FILE_BLOCKS / (FREE - 1);
                let blocks = 1 + self.dice.exponential(mean);
                extents.push(Extent::Free { blocks });
            }
        }
        extents
    }
}

impl Image {
    /// Its bytes.
    pub(super) fn bytes(&self) -> u64 {
        let blocks = self.extents.iter().map(|extent| match extent {
            Extent::Data { blocks, .. } | Extent::Free { blocks } => *blocks,
        });
        blocks.sum::<u64>() * u64::from(CHUNK_BYTES)
    }

    /// To be backed up under this name.
    pub(super) fn job<'a>(&'a self, name: &str, progress: &'a Progress) -> Job<'a> {
        Job {
            name: name.to_owned(),
            source: Box::new(ImageBytes {
                extents: self.extents.iter(),
                current: Extent::Free { blocks: 0 },
                progress,
            }),
        }
    }
}

/// An image read from its beginning to its end; free blocks are read like others.
struct ImageBytes<'a> {
    extents: std::slice::Iter<'a, Extent>,
    current: Extent,
    progress: &'a Progress,
}

impl StreamSource for ImageBytes<'_> {
    fn next(&mut self, buffer: &mut [u8]) -> std::io::Result<StreamPiece> {
        // Buffers hold several of the longest chunk, so at least one block.
        let mut filled = 0;
        for block in buffer.chunks_exact_mut(CHUNK_BYTES as usize) {
            while let Extent::Data { blocks: 0, .. } | Extent::Free { blocks: 0 } = self.current {
                match self.extents.next() {
                    Some(extent) => self.current = *extent,
                    None => return self.read(filled),
                }
            }
            match &mut self.current {
                Extent::Data { first, blocks } => {
                    noise(SEQUENCE, *first * WORDS, block);
                    *first += 1;
                    *blocks -= 1;
                }
                Extent::Free { blocks } => {
                    block.fill(0);
                    *blocks -= 1;
                }
            }
            filled += block.len();
        }
        self.read(filled)
    }
}

impl ImageBytes<'_> {
    fn read(&self, filled: usize) -> std::io::Result<StreamPiece> {
        advance(self.progress, filled as u64)?;
        Ok(if filled == 0 {
            StreamPiece::End
        } else {
            StreamPiece::Data(filled)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn contents(image: &Image) -> HashSet<u64> {
        let each = image.extents.iter().flat_map(|extent| match extent {
            Extent::Data { first, blocks } => *first..*first + *blocks,
            Extent::Free { .. } => 0..0,
        });
        each.collect()
    }

    #[test]
    fn images_have_as_many_blocks_as_the_papers() {
        for divisor in [1, 16, 100] {
            let mut union = HashSet::new();
            let images = images(1, divisor);
            for (image, paper) in images.iter().zip(PAPER) {
                let own = contents(image);
                union.extend(own.iter().copied());
                let (own, union) = (own.len() as u64, union.len() as u64);
                assert_eq!((own, union), (paper.own / divisor, paper.union / divisor));
                let zeros = image.extents.iter().map(|extent| match extent {
                    Extent::Free { blocks } => *blocks,
                    Extent::Data { .. } => 0,
                });
                let of_all = image.bytes() / u64::from(CHUNK_BYTES);
                let free = zeros.sum::<u64>() * 100 / of_all;
                assert!((5..20).contains(&free), "{free} %");
            }
        }
        assert_eq!(images(1, 50), images(1, 50));
        assert_ne!(images(1, 50), images(2, 50));
    }

    #[test]
    fn bytes_are_equal_where_contents_are() {
        let progress = Progress::new(std::sync::Arc::default());
        let images = images(1, 2000);
        let mut blocks = HashSet::new();
        for image in &images {
            let mut job = image.job("image", &progress);
            let (mut buffer, mut bytes) = (vec![1; 3 * CHUNK_BYTES as usize + 5], 0);
            while let StreamPiece::Data(len) = job.source.next(&mut buffer).unwrap() {
                let (whole, rest) = buffer[..len].as_chunks::<{ CHUNK_BYTES as usize }>();
                assert!(rest.is_empty());
                blocks.extend(whole.iter().map(|block| block.to_vec()));
                bytes += len as u64;
            }
            assert_eq!(bytes, image.bytes());
        }
        // And zeros.
        assert_eq!(blocks.len() as u64, PAPER[3].union / 2000 + 1);
    }
}
